//! What modes change, and what they leave alone.

use aliquot_client::{
    Admission, Client, FixedWindow, Layers, Limit, Limiter, ManualClock, Mode, Reason, Refused,
    Standing, Switched, Tier,
};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn limiter(clock: &ManualClock, burst: u64) -> Limiter {
    Limiter::local_with(Limit::per_sec(1), burst, Arc::new(clock.clone())).expect("a limit")
}

fn reason<T>(answer: Result<T, Refused>) -> Option<Reason> {
    answer.err().map(|refused| refused.reason)
}

#[test]
fn a_dry_run_refuses_nothing_and_counts_what_it_would_have() {
    let limiter = limiter(&ManualClock::new(), 3);
    limiter.set_mode(Mode::DryRun);
    for _ in 0..5 {
        assert!(limiter.try_acquire(1).is_ok());
    }
    // More than there can ever be, for later, and for nothing but a look.
    assert!(limiter.try_acquire(100).is_ok());
    assert!(limiter.would_admit(100).is_ok());
    let overruled = limiter.overruled();
    assert_eq!(
        (overruled.let_through, overruled.tokens, overruled.frozen),
        (3, 102, 0)
    );
    // The tokens that were there were taken: the limit is where it would have been.
    limiter.set_mode(Mode::Enforce);
    assert_eq!(reason(limiter.try_acquire(1)), Some(Reason::Throttled));
    assert_eq!(limiter.overruled().let_through, 3);
}

#[test]
fn what_was_let_through_cannot_be_put_back() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, 3);
    limiter.set_mode(Mode::Bypass);
    assert!(limiter.try_acquire(3).is_ok());
    let free = limiter
        .reserve_within(2, Duration::ZERO)
        .expect("let through");
    assert_eq!(free.delay(), Duration::ZERO);
    assert_eq!(free.cancel(), 0);
    let free = limiter
        .reserve_within(2, Duration::ZERO)
        .expect("let through");
    let settled = free.settle(9);
    assert_eq!((settled.restored, settled.taken), (0, 0));
    limiter.set_mode(Mode::Enforce);
    assert_eq!(limiter.tokens(), 0.0);
}

#[test]
fn permits_beyond_the_limit_are_nobodys() {
    let limiter = Limiter::local_permits(1).expect("permits");
    limiter.set_mode(Mode::Bypass);
    let held: Vec<_> = (0..3)
        .map(|_| limiter.try_permit().expect("let through"))
        .collect();
    assert!(held.iter().all(aliquot_client::Permit::is_valid));
    limiter.set_mode(Mode::Enforce);
    let mut held = held.into_iter();
    let first = held.next().expect("three");
    drop(held);
    assert_eq!(reason(limiter.try_permit()), Some(Reason::Permits));
    drop(first);
    assert!(limiter.try_permit().is_ok());
}

#[test]
fn frozen_is_frozen_whatever_is_there() {
    let clock = ManualClock::new();
    let unlimited =
        Limiter::local_with(Limit::UNLIMITED, 0, Arc::new(clock.clone())).expect("a limit");
    let permits = Limiter::local_permits(5).expect("permits");
    let limiter = limiter(&clock, 5);
    for limiter in [&unlimited, &limiter] {
        limiter.set_mode(Mode::Freeze);
        assert_eq!(reason(limiter.try_acquire(0)), Some(Reason::Frozen));
        assert_eq!(reason(limiter.try_acquire(1)), Some(Reason::Frozen));
        assert_eq!(reason(limiter.reserve(1)), Some(Reason::Frozen));
        assert_eq!(reason(limiter.would_admit(1)), Some(Reason::Frozen));
        assert_eq!(limiter.peek().right, Standing::Frozen);
        assert_eq!(limiter.overruled().frozen, 3);
        limiter.set_mode(Mode::Enforce);
        assert!(limiter.try_acquire(1).is_ok());
    }
    permits.set_mode(Mode::Freeze);
    assert_eq!(reason(permits.try_permit()), Some(Reason::Frozen));
}

#[test]
fn time_goes_on_while_frozen_and_a_limit_may_change() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, 4);
    assert!(limiter.try_acquire(4).is_ok());
    limiter.set_mode(Mode::Freeze);
    clock.advance(2 * SECOND);
    limiter.set_limit(Limit::per_sec(2)).expect("a limit");
    assert_eq!(reason(limiter.try_acquire(0)), Some(Reason::Frozen));
    clock.advance(SECOND);
    limiter.set_mode(Mode::Enforce);
    assert_eq!(limiter.tokens(), 4.0);
}

#[tokio::test]
async fn who_waits_is_let_through_or_turned_away_when_the_mode_changes() {
    let wait = |mode| async move {
        let limiter = limiter(&ManualClock::new(), 1);
        assert!(limiter.try_acquire(1).is_ok());
        let waiter = limiter.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(1).await });
        // There is one thread: it waits once it has run.
        while limiter.tokens() > -1.0 {
            tokio::task::yield_now().await;
        }
        limiter.set_mode(mode);
        let answer = waiting.await.expect("it does not panic");
        // Its place in line went with it.
        assert_eq!(limiter.tokens(), 0.0);
        answer
    };
    assert!(matches!(
        wait(Mode::Bypass).await,
        Ok(Admission { tokens: 1, .. })
    ));
    assert_eq!(reason(wait(Mode::Freeze).await), Some(Reason::Frozen));
}

#[tokio::test]
async fn a_clients_mode_overrules_its_limiters_own_and_those_to_come() {
    // Nobody is there: the budget of a key stays unknown.
    let client = Client::connect(["127.0.0.1:9"]).expect("a client");
    let before = client.limiter("a").expect("a key");
    before.set_mode(Mode::Freeze);
    client.set_mode(Mode::Bypass);
    let after = client.limiter("b").expect("a key");
    for limiter in [&before, &after] {
        assert_eq!(limiter.mode(), Mode::Bypass);
        assert!(limiter.try_acquire(1).is_ok());
        assert!(limiter.acquire(1).await.is_ok());
        assert!(limiter.check(1).await.is_ok());
        assert!(limiter.try_permit().is_ok());
        assert_eq!(limiter.overruled().let_through, 4);
    }
    client.set_mode(Mode::Enforce);
    assert_eq!(before.mode(), Mode::Freeze);
    assert_eq!(reason(after.try_acquire(1)), Some(Reason::Cold));
    // What is closed stays so.
    client.set_mode(Mode::Bypass);
    client.close().await;
    assert_eq!(reason(after.try_acquire(1)), Some(Reason::Closed));
}

#[test]
fn a_shadow_is_charged_as_if_it_were_enforced() {
    let clock = ManualClock::new();
    let limit = limiter(&clock, 100);
    let shadow = Switched::shadow(
        FixedWindow::with_clock(3, SECOND, Arc::new(clock.clone())).expect("a window"),
    );
    let layers = Layers::of_any([("shadow", &shadow), ("limit", &limit)]);
    for _ in 0..5 {
        assert!(layers.try_acquire(1).is_ok());
    }
    assert_eq!(shadow.overruled().let_through, 2);
    // What another layer refuses is put back, and what was let through is not.
    assert!(layers.try_acquire(100).is_err());
    clock.advance(SECOND);
    assert!(layers.try_acquire(3).expect("three").tokens() == 3);
    assert_eq!(shadow.overruled().let_through, 3);
    shadow.set_mode(Mode::Enforce);
    assert_eq!(
        reason(shadow.take_at(1, shadow.now())),
        Some(Reason::Throttled)
    );
    shadow.set_mode(Mode::Freeze);
    clock.advance(SECOND);
    assert_eq!(
        reason(shadow.take_at(1, shadow.now())),
        Some(Reason::Frozen)
    );
    assert_eq!(shadow.overruled().frozen, 1);
}

/// A thread that holds tokens of its own obeys as well.
#[test]
fn a_mode_holds_for_what_a_thread_took_beforehand() {
    let limiter = Limiter::local(Limit::per_sec(1_000), 1_000).expect("a limit");
    for _ in 0..10 {
        assert!(limiter.try_acquire(1).is_ok(), "the batch is taken");
    }
    limiter.set_mode(Mode::Freeze);
    for _ in 0..100 {
        let refused = limiter.try_acquire(1).map_err(|refused| refused.reason);
        assert_eq!(refused, Err(Reason::Frozen));
    }
    limiter.set_mode(Mode::Enforce);
    while limiter.try_acquire(1).is_ok() {}
    assert!(limiter.try_acquire(1).is_err() || limiter.try_acquire(1).is_err());
    limiter.set_mode(Mode::Bypass);
    for _ in 0..2_000 {
        assert!(limiter.try_acquire(1).is_ok(), "all are let through");
    }
    assert!(limiter.overruled().let_through > 0);
}
