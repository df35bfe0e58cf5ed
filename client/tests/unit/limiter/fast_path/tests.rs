//! Decisions under a lease that the test sets, and decisions that may make no system call.
//!
//! They stand here because they hand a share to a limiter without a session, which is not public.

mod live;

use super::{ClockPolicy, Limiter};
use crate::bucket::BucketDecider;
use crate::bucket::limit::Limit;
use crate::clock::{Clock, HostClock, Source};
use crate::limiter::key_state::KeyState;
use crate::limiter::shared::Handle;
use crate::local::keyed::Keyed;
use crate::observe::switch::Mode;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tokens};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
const BURST: u64 = 200;
const POLICIES: [ClockPolicy; 2] = [ClockPolicy::Single, ClockPolicy::Strict];

/// Makes a leased key with [`BURST`] tokens and one more per hour. Returns its limiter, the decider that
/// keeps it, and the grains of a token.
fn leased(policy: ClockPolicy) -> (Limiter, BucketDecider, u64) {
    leased_for(policy, "1/hour", BURST, Span::from_secs(3_600))
}

/// Does the same with a budget of this rate and burst, for a lease of this length.
fn leased_for(
    policy: ClockPolicy,
    rate: &str,
    burst: u64,
    lease: Span,
) -> (Limiter, BucketDecider, u64) {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some(rate.into()),
        burst: Some(burst.to_string().as_str().into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    HostClock::align();
    let now = HostClock.now();
    let grains = terms.scale.grains_per_token();
    let burst = Tokens::from_grains(burst * grains);
    let share = Share {
        rate: Rate::from_grains(grains / 3_600),
        burst,
        tokens: burst,
    };
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    decider.deposit(share, now);
    let handle = Handle::with(Source::Host, policy);
    handle.shared.set_lease(now.after(lease));
    (Limiter::new(key_state, handle), decider, grains)
}

/// Each refusal of a leased key is counted as demand, where the session reads it.
#[test]
fn each_repeated_refusal_of_a_leased_key_is_counted() {
    for policy in POLICIES {
        let (limiter, mut decider, grains) = leased(policy);
        while limiter.try_acquire(1).is_ok() {}
        let threads = [(); 3].map(|()| {
            let limiter = limiter.clone();
            thread::spawn(move || (0..1_000).all(|_| limiter.try_acquire(1).is_err()))
        });
        assert!(
            threads
                .into_iter()
                .all(|thread| thread.join().expect("no panic"))
        );
        let counted = decider.observed().expect("it was asked for").denied / grains;
        assert_eq!(counted, 3_001, "{policy:?}");
        limiter.set_mode(Mode::DryRun);
        assert!(limiter.try_acquire(1).is_ok(), "{policy:?}");
    }
}

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
    let local = || Limiter::local(Limit::per(1, HOUR), BURST).expect("a limit");
    let mut all = vec![local(), local().unbatched()];
    // Keep the deciders alive.
    let leased = POLICIES.map(leased);
    all.extend(leased.iter().map(|(limiter, ..)| limiter.clone()));
    for limiter in all {
        let other = limiter.clone();
        let admitted = silently(move || {
            let mut admitted = 0;
            let made = allocation_counter::measure(|| {
                admitted = (0..BURST)
                    .filter(|_| limiter.try_acquire(1).is_ok())
                    .count();
                while limiter.try_acquire(1).is_ok() {}
                assert!((0..1_000).all(|_| limiter.try_acquire(1).is_err()));
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
    for policy in [ClockPolicy::Exact].into_iter().chain(POLICIES) {
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
    let limit = Limit::per(1, HOUR);
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
