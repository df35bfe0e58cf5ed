//! Repeated refusals: they are cheap, and end as soon as they are no longer true.

use aliquot_client::clock::{HostClock, Span};
use aliquot_client::observe::Mode;
use aliquot_client::{Clock, Limit, Limiter, Reason};
use std::thread;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
const BURST: u64 = 200;

/// Limiters that repeat refusals: with and without thread caches.
fn limiters() -> [Limiter; 2] {
    let local = || Limiter::local(Limit::per(1, HOUR), BURST).expect("a limit");
    [local(), local().unbatched()]
}

/// Takes all tokens, and is refused a few times.
fn refuse(limiter: &Limiter) {
    while limiter.try_acquire(1).is_ok() {}
    for _ in 0..10 {
        assert!(limiter.try_acquire(1).is_err());
    }
}

#[test]
fn new_tokens_end_cached_refusals_at_once() {
    for limiter in limiters() {
        let taken = limiter.reserve_within(BURST, Duration::ZERO);
        let taken = taken.expect("it is full");
        refuse(&limiter);
        assert_eq!(taken.settle(1).restored, BURST - 1);
        for _ in 1..BURST {
            assert!(limiter.try_acquire(1).is_ok());
        }
        refuse(&limiter);
        limiter.set_limit(Limit::UNLIMITED).expect("a limit");
        assert!(limiter.try_acquire(1).is_ok());
    }
}

#[test]
fn a_changed_mode_ends_cached_refusals_at_once() {
    for limiter in limiters() {
        refuse(&limiter);
        limiter.set_mode(Mode::DryRun);
        assert!(limiter.try_acquire(1).is_ok());
        limiter.set_mode(Mode::Enforce);
        refuse(&limiter);
        limiter.set_mode(Mode::Freeze);
        let refused = limiter.try_acquire(1).expect_err("frozen");
        assert_eq!(refused.reason, Reason::Frozen);
        limiter.set_mode(Mode::Enforce);
        refuse(&limiter);
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
        refuse(limiter);
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
    let [holds, _] = limiters();
    for _ in 0..30 {
        assert!(holds.try_acquire(1).is_ok());
    }
    let other = holds.clone().unbatched();
    let drain = other.clone();
    let drained = thread::spawn(move || {
        while drain.try_acquire(1).is_ok() {}
        drain.try_acquire(1).is_err()
    });
    assert!(drained.join().expect("no panic"));
    for _ in 0..3 {
        let _refused_unless_idle = other.try_acquire(1);
    }
    // If the system let this thread wait for a millisecond, the others were given its tokens.
    let has = holds.tokens() >= 1.0;
    assert_eq!(holds.try_acquire(1).is_ok(), has);
}

/// A cached refusal does not prevent a later thread cache.
#[test]
fn refusals_do_not_prevent_a_thread_cache() {
    let [limiter, _] = limiters();
    refuse(&limiter);
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
        refuse(&limiter);
        limiter.set_limit(Limit::per_sec(20)).expect("a limit");
        while limiter.try_acquire(1).is_err() {}
        let began = HostClock.now();
        for _ in 0..10 {
            let refused = limiter.try_acquire(1).map(|_| Duration::ZERO);
            let retry_wait =
                refused.unwrap_or_else(|refused| refused.retry_after.expect("it is made"));
            assert!(retry_wait <= Duration::from_millis(70), "{retry_wait:?}");
        }
        // A request after the wait is admitted at once, and not refused a few times first.
        while HostClock.now().since(began) < Span::from_millis(150) {
            std::hint::spin_loop();
        }
        assert!(limiter.try_acquire(1).is_ok());
    }
}
