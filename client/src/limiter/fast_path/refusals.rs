//! Repeated refusals: they are cheap, and end as soon as they are no longer true.

use super::{ClockPolicy, Limiter};
use crate::cell::CellDecider;
use crate::clock::{Clock, HostClock, Source};
use crate::key_state::KeyState;
use crate::limit::Limit;
use crate::refused::Reason;
use crate::shared::Handle;
use crate::switch::Mode;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tokens};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const BURST: u64 = 200;

/// Limiters that cache refusals: with and without thread caches.
pub(super) fn limiters() -> [Limiter; 2] {
    let local = || Limiter::local(Limit::per(1, HOUR), BURST).expect("a limit");
    [local(), local().unbatched()]
}

/// Asks until refusals are repeated from the cache, and returns how many there were.
pub(super) fn refused_in_numbers(limiter: &Limiter) -> u64 {
    while limiter.try_acquire(1).is_ok() {}
    let began = HostClock.now();
    let mut refused = 1;
    loop {
        for _ in 0..1_000 {
            assert!(limiter.try_acquire(1).is_err());
        }
        refused += 1_000;
        let took = HostClock.now().since(began);
        if took > Span::from_millis(20) && HostClock::noted_word() != 0 {
            return refused;
        }
        assert!(took < Span::from_secs(30), "no thread writes the time down");
    }
}

#[test]
fn new_tokens_end_cached_refusals_at_once() {
    for limiter in limiters() {
        let taken = limiter.reserve_within(BURST, Duration::ZERO);
        let taken = taken.expect("it is full");
        refused_in_numbers(&limiter);
        assert_eq!(taken.settle(1).restored, BURST - 1);
        for _ in 1..BURST {
            assert!(limiter.try_acquire(1).is_ok());
        }
        refused_in_numbers(&limiter);
        limiter.set_limit(Limit::UNLIMITED).expect("a limit");
        assert!(limiter.try_acquire(1).is_ok());
    }
}

#[test]
fn a_changed_mode_ends_cached_refusals_at_once() {
    for limiter in limiters() {
        refused_in_numbers(&limiter);
        limiter.set_mode(Mode::DryRun);
        assert!(limiter.try_acquire(1).is_ok());
        limiter.set_mode(Mode::Enforce);
        refused_in_numbers(&limiter);
        limiter.set_mode(Mode::Freeze);
        let refused = limiter.try_acquire(1).expect_err("frozen");
        assert_eq!(refused.reason, Reason::Frozen);
        limiter.set_mode(Mode::Enforce);
        refused_in_numbers(&limiter);
        // A higher cost than the refused one is decided anew.
        let refused = limiter.try_acquire(BURST + 1).expect_err("beyond it");
        assert_eq!(refused.reason, Reason::ExceedsBurst);
        assert!(limiter.try_acquire(0).is_ok());
    }
}

/// Uses more keys than a thread remembers, each drained from full.
#[test]
fn one_key_is_not_refused_for_another() {
    let empty = limiters();
    for limiter in &empty {
        refused_in_numbers(limiter);
    }
    for _ in 0..20 {
        for full in limiters() {
            for _ in 0..BURST {
                assert!(empty.iter().all(|limiter| limiter.try_acquire(1).is_err()));
                assert!(full.try_acquire(1).is_ok());
            }
            assert!(full.try_acquire(1).is_err());
        }
    }
}

/// A handle without thread caches is refused while this thread holds tokens by another handle.
#[test]
fn a_thread_with_cached_tokens_is_not_refused_for_another_handle() {
    let [fast, _] = limiters();
    // Makes the clock thread write the time down.
    refused_in_numbers(&fast);
    let [holds, _] = limiters();
    for _ in 0..30 {
        assert!(holds.try_acquire(1).is_ok());
    }
    while holds.key_state.cell.cached_tokens() < 2 {
        assert!(holds.try_acquire(1).is_ok());
    }
    let other = holds.clone().unbatched();
    let drain = other.clone();
    let drained = thread::spawn(move || {
        while drain.try_acquire(1).is_ok() {}
        drain.try_acquire(1).is_err()
    });
    assert!(drained.join().expect("no panic"));
    let refused = (0..3).all(|_| other.try_acquire(1).is_err());
    assert!(refused && holds.key_state.cell.cached_tokens() > 0);
    assert!(holds.try_acquire(1).is_ok());
}

/// A cached refusal does not prevent a later thread cache.
#[test]
fn refusals_do_not_prevent_a_thread_cache() {
    let [limiter, _] = limiters();
    refused_in_numbers(&limiter);
    let fast = Limit::per_sec(1_000_000_000);
    limiter.set_limit(fast).expect("a limit");
    let at = |_| limiter.try_acquire(1).map(|admission| admission.decided_at);
    let admitted: Vec<_> = (0..1_000).filter_map(|ask| at(ask).ok()).collect();
    let held = admitted.windows(2).filter(|two| two[0] == two[1]).count();
    assert!(held > admitted.len() / 2, "{held} of {}", admitted.len());
}

#[test]
fn cached_refusals_end_after_their_wait() {
    for limiter in limiters() {
        refused_in_numbers(&limiter);
        limiter.set_limit(Limit::per_sec(20)).expect("a limit");
        while limiter.try_acquire(1).is_err() {}
        let began = HostClock.now();
        for _ in 0..10 {
            let refused = limiter.try_acquire(1).map(|_| Duration::ZERO);
            let said = refused.unwrap_or_else(|refused| refused.retry_after.expect("it is made"));
            assert!(said <= Duration::from_millis(70), "{said:?}");
        }
        // A request after the wait is admitted at once, and not refused a few times first.
        while HostClock.now().since(began) < Span::from_millis(150) {
            std::hint::spin_loop();
        }
        assert!(limiter.try_acquire(1).is_ok());
    }
}

/// Each refusal of a leased key is counted as demand, where the session reads it.
#[test]
fn each_cached_refusal_of_a_leased_key_is_counted() {
    for policy in [
        ClockPolicy::Single,
        ClockPolicy::Strict,
        ClockPolicy::Relaxed,
    ] {
        let (limiter, mut decider, grains) = leased(policy);
        let threads = [(); 3].map(|()| {
            let limiter = limiter.clone();
            thread::spawn(move || refused_in_numbers(&limiter))
        });
        let refused = threads.map(|thread| thread.join().expect("no panic"));
        let refused = refused.iter().sum::<u64>();
        let counted = decider.observed().expect("it was asked for").denied / grains;
        assert_eq!(counted, refused, "{policy:?}");
        // Before the session has looked.
        refused_in_numbers(&limiter);
        limiter.set_mode(Mode::DryRun);
        assert!(limiter.try_acquire(1).is_ok(), "{policy:?}");
    }
}

/// Makes a leased key with [`BURST`] tokens and one more per hour. Returns its limiter, the decider that
/// keeps it, and the grains of a token.
pub(super) fn leased(policy: ClockPolicy) -> (Limiter, CellDecider, u64) {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("1/hour".into()),
        burst: Some(BURST.to_string().as_str().into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = CellDecider::new(Arc::clone(&key_state));
    let now = HostClock.now();
    let grains = terms.scale.grains_per_token();
    let burst = Tokens::from_grains(BURST * grains);
    let share = Share {
        rate: Rate::from_grains(grains / 3_600),
        burst,
        tokens: burst,
    };
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    decider.deposit(share, now);
    let handle = Handle::with(Source::Host, policy);
    let lease = Span::from_secs(3_600);
    handle.shared.set_lease(now.after(lease));
    (Limiter::new(key_state, handle), decider, grains)
}
