//! No decision makes a system call or allocates: a thread that may not make system calls can still decide.

use super::ClockPolicy;
use super::refusals::{BURST, leased, limiters, refused_in_numbers};
use crate::keyed::Keyed;
use crate::limit::Limit;
use crate::switch::Mode;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Runs `work` on a thread that is killed at its first system call. Returns its answer, or `None` if it was
/// killed before.
fn silently<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let arch = std::env::consts::ARCH.try_into().expect("a known one");
    let (none, end) = (BTreeMap::new(), SeccompAction::KillThread);
    let filter = SeccompFilter::new(none, end, SeccompAction::Allow, arch);
    let filter: BpfProgram = filter.expect("a filter").try_into().expect("a program");
    let answer = Arc::new(Mutex::new(None));
    let there = Arc::clone(&answer);
    let worker = thread::spawn(move || {
        apply_filter(&filter).expect("the system can");
        let answered = work();
        *there.lock().expect("no panic") = Some(answered);
    });
    // The thread ends with a system call in any case, and joining a killed thread panics.
    drop(thread::spawn(move || worker.join()).join());
    answer.lock().expect("no panic").take()
}

#[test]
fn a_system_call_ends_the_silent_thread() {
    assert_eq!(silently(|| 1), Some(1));
    let asks = || thread::park_timeout(Duration::from_nanos(1));
    assert_eq!(silently(asks), None);
}

/// Covers admissions, a refusal by the clock, and repeated refusals, of a thread that has decided before.
#[test]
fn limiters_decide_without_system_calls_or_allocation() {
    let mut all = Vec::from(limiters());
    // Keep the deciders alive.
    let leased: Vec<_> = [
        ClockPolicy::Single,
        ClockPolicy::Strict,
        ClockPolicy::Relaxed,
    ]
    .map(leased)
    .into();
    all.extend(leased.iter().map(|(limiter, ..)| limiter.clone()));
    for limiter in all {
        let other = limiter.clone();
        let admitted = silently(move || {
            let mut admitted = 0;
            let made = allocation_counter::measure(|| {
                admitted = (0..BURST)
                    .filter(|_| limiter.try_acquire(1).is_ok())
                    .count();
                refused_in_numbers(&limiter);
            });
            (admitted as u64, made.count_total)
        });
        assert_eq!(admitted, Some((BURST, 0)), "{:?}", other.clock_policy);
    }
}

/// Makes a system call, as waking a thread does.
struct Call;

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        thread::yield_now();
    }
}

/// The session sees demand at its next look and is not woken. Only a caller that waits wakes it.
#[test]
fn a_refusal_wakes_no_session() {
    for policy in [
        ClockPolicy::Exact,
        ClockPolicy::Single,
        ClockPolicy::Strict,
        ClockPolicy::Relaxed,
    ] {
        let (limiter, ..) = leased(policy);
        let shared = Arc::clone(&limiter.handle.shared);
        while limiter.try_acquire(1).is_ok() {}
        for mode in [Mode::Enforce, Mode::DryRun] {
            limiter.set_mode(mode);
            shared.unwant();
            let mut woken = pin!(shared.wake.notified());
            let waker = Waker::from(Arc::new(Call));
            let mut session = Context::from_waker(&waker);
            while woken.as_mut().poll(&mut session).is_ready() {
                woken.set(shared.wake.notified());
            }
            let asks = limiter.clone();
            let admitted = silently(move || [1, 1, BURST, 1].map(|n| asks.try_acquire(n).is_ok()));
            assert_eq!(admitted, Some([mode == Mode::DryRun; 4]), "{policy:?}");
            assert!(shared.is_wanted(), "{policy:?}");
            assert!(woken.as_mut().poll(&mut session).is_pending());
            let waits = Arc::clone(&shared);
            assert_eq!(silently(move || waits.want_and_wait()), None);
            assert!(woken.as_mut().poll(&mut session).is_ready());
        }
    }
}

#[test]
fn known_keys_decide_without_system_calls() {
    let limit = Limit::per(1, Duration::from_secs(3_600));
    let store = Keyed::new(limit, 3, 1_000).expect("a store");
    let names: Vec<String> = (0..100).map(|which| format!("user/{which}")).collect();
    for name in &names {
        assert!(store.try_acquire(name, 1).is_ok());
    }
    let answered = silently(move || {
        let admitted = names
            .iter()
            .filter(|name| store.try_acquire(name, 1).is_ok());
        let admitted = admitted.count();
        let mut answers = [Ok(()); 16];
        let batch: [(&str, u64); 16] = std::array::from_fn(|at| (names[at].as_str(), 1));
        store.try_each(&batch, &mut answers);
        let together = answers.iter().filter(|answer| answer.is_ok()).count();
        let refused = names[..16]
            .iter()
            .filter(|name| store.try_acquire(name, 1).is_err());
        let refused = refused.count();
        // Freeing memory may make a system call.
        std::mem::forget((store, names));
        (admitted, together, refused)
    });
    assert_eq!(answered, Some((100, 16, 16)));
}
