//! The effects of modes.

use aliquot_client::adaptive::{Adaptive, Aimd, Bounds};
use aliquot_client::combined::Combine;
use aliquot_client::limiter::LimiterState;
use aliquot_client::observe::{Mode, Switched};
use aliquot_client::shape::{FixedWindow, Pacer};
use aliquot_client::{
    Admission, Client, Clock, Combined, Keyed, Limit, Limiter, ManualClock, Reason, Refused,
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
fn a_dry_run_counts_and_refuses_nothing() {
    let limiter = limiter(&ManualClock::new(), 3);
    limiter.set_mode(Mode::DryRun);
    for _ in 0..5 {
        assert!(limiter.try_acquire(1).is_ok());
    }
    // More than there can ever be, for later, and a look that takes nothing.
    assert!(limiter.try_acquire(100).is_ok());
    assert!(limiter.would_admit(100).is_ok());
    let mode_stats = limiter.mode_stats();
    assert_eq!(
        (mode_stats.let_through, mode_stats.tokens, mode_stats.frozen),
        (3, 102, 0)
    );
    // The available tokens were taken: the limit is where it would have been.
    limiter.set_mode(Mode::Enforce);
    assert_eq!(reason(limiter.try_acquire(1)), Some(Reason::Throttled));
    assert_eq!(limiter.mode_stats().let_through, 3);
}

#[test]
fn requests_that_a_mode_let_through_are_not_refunded() {
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

/// A reservation would make its caller wait. In a mode without waiting it is let through, and delays no other
/// caller.
#[test]
fn a_reservation_that_would_have_to_wait_is_let_through_at_once() {
    for mode in [Mode::DryRun, Mode::Bypass] {
        let limiter = limiter(&ManualClock::new(), 3);
        limiter.set_mode(mode);
        let taken = limiter.reserve(3).expect("three are there");
        assert_eq!(taken.delay(), Duration::ZERO);
        for late in [limiter.reserve(2), limiter.reserve_within(2, 9 * SECOND)] {
            let late = late.expect("let through");
            assert_eq!((late.tokens(), late.delay()), (2, Duration::ZERO));
            assert_eq!(late.cancel(), 0, "nothing was taken for it");
        }
        let mode_stats = limiter.mode_stats();
        assert_eq!((mode_stats.let_through, mode_stats.tokens), (2, 4));
        assert_eq!(taken.cancel(), 3);
        assert_eq!(limiter.tokens(), 3.0);
    }
}

#[test]
fn permits_let_through_free_none_of_the_limit() {
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
        assert_eq!(limiter.peek().state, LimiterState::Frozen);
        assert_eq!(limiter.mode_stats().frozen, 3);
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
async fn a_changed_mode_admits_or_refuses_the_waiting() {
    let wait = |mode| async move {
        let limiter = limiter(&ManualClock::new(), 1);
        assert!(limiter.try_acquire(1).is_ok());
        let waiter = limiter.clone();
        let waiting = tokio::spawn(async move { waiter.acquire(1).await });
        // There is a single thread: the task waits once it has run.
        while limiter.tokens() > -1.0 {
            tokio::task::yield_now().await;
        }
        limiter.set_mode(mode);
        let answer = waiting.await.expect("it does not panic");
        // Its place in line was given up.
        assert_eq!(limiter.tokens(), 0.0);
        // The effect of the mode is counted.
        let mode_stats = limiter.mode_stats();
        let frozen = u64::from(mode == Mode::Freeze);
        assert_eq!(
            (mode_stats.let_through, mode_stats.frozen),
            (1 - frozen, frozen)
        );
        answer
    };
    assert!(matches!(
        wait(Mode::Bypass).await,
        Ok(Admission { tokens: 1, .. })
    ));
    assert_eq!(reason(wait(Mode::Freeze).await), Some(Reason::Frozen));
}

#[tokio::test]
async fn a_clients_mode_overrides_that_of_its_limiters() {
    // No node is there: the budget of the key stays unknown.
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
        assert_eq!(limiter.mode_stats().let_through, 4);
    }
    client.set_mode(Mode::Enforce);
    assert_eq!(before.mode(), Mode::Freeze);
    assert_eq!(reason(after.try_acquire(1)), Some(Reason::Cold));
    // A closed client stays closed.
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
    let layers = Combined::of_any([("shadow", &shadow), ("limit", &limit)]);
    for _ in 0..5 {
        assert!(layers.try_acquire(1).is_ok());
    }
    assert_eq!(shadow.mode_stats().let_through, 2);
    // A refusal by another layer refunds what was taken; what was let through is not refunded.
    assert!(layers.try_acquire(100).is_err());
    clock.advance(SECOND);
    assert!(layers.try_acquire(3).expect("three").tokens() == 3);
    assert_eq!(shadow.mode_stats().let_through, 3);
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
    assert_eq!(shadow.mode_stats().frozen, 1);
}

/// A mode also applies to tokens in a thread cache.
#[test]
fn a_mode_holds_for_cached_tokens() {
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
    assert!(limiter.mode_stats().let_through > 0);
}

#[test]
fn a_store_of_keys_has_one_mode() {
    let clock = ManualClock::new();
    let store = Keyed::builder(Limit::per_sec(1), 2, 100)
        .clock(Arc::new(clock.clone()))
        .build()
        .expect("a store");
    let store = Switched::shadow(Arc::new(store));
    let now = store.inner().now();
    let asked = [("a", 1), ("b", 3), ("a", 1), ("a", 1)];
    let each = |store: &Switched<Arc<Keyed>>| {
        let mut answers = [Ok(()); 4];
        store.try_each_at(&asked, &mut answers, now);
        answers.map(reason)
    };
    assert_eq!(each(&store), [None; 4]);
    let mode_stats = store.mode_stats();
    assert_eq!((mode_stats.let_through, mode_stats.tokens), (2, 4));
    // The keys owe what they would have owed.
    store.set_mode(Mode::Enforce);
    assert_eq!(reason(store.try_acquire("a", 1)), Some(Reason::Throttled));
    assert!(store.try_acquire("b", 2).is_ok());
    store.set_mode(Mode::Bypass);
    assert!(store.try_acquire_at("b", 9, now).is_ok());
    assert!(store.try_acquire_class_at(0, "b", 9, now).is_ok());
    store.set_mode(Mode::Freeze);
    assert_eq!(each(&store), [Some(Reason::Frozen); 4]);
    assert_eq!(reason(store.try_acquire("new", 1)), Some(Reason::Frozen));
    assert_eq!(store.mode_stats().frozen, 5);
    assert_eq!(store.mode_stats().let_through, 4);
    assert_eq!(store.inner().tokens_at("new", now), 2);
}

#[tokio::test]
async fn a_pacer_in_dry_run_books_no_turn_for_what_it_lets_through() {
    let clock = ManualClock::new();
    let pacer = Pacer::with_clock(SECOND, 1, Arc::new(clock.clone())).expect("a pacer");
    pacer.set_mode(Mode::DryRun);
    let now = clock.now();
    let turns: Vec<_> = (0..3)
        .map(|_| pacer.book_at(now).expect("a turn"))
        .collect();
    assert!(turns.iter().all(|turn| turn.at() == now));
    assert_eq!(
        (pacer.mode(), pacer.mode_stats().let_through),
        (Mode::DryRun, 2)
    );
    let mut turns = turns.into_iter();
    let booked = turns.next().expect("three");
    // A turn that was let through has nothing to give up, and does not block the booked turn.
    assert!(turns.all(|turn| !turn.cancel()));
    assert!(booked.cancel());
    pacer.set_mode(Mode::Enforce);
    let turns: Vec<_> = (0..3).map(|_| pacer.book_at(now)).collect();
    assert_eq!(turns.iter().filter(|turn| turn.is_ok()).count(), 2);
    pacer.set_mode(Mode::Freeze);
    assert_eq!(reason(pacer.book_at(now)), Some(Reason::Frozen));
    assert_eq!(reason(pacer.turn().await), Some(Reason::Frozen));
    assert_eq!(pacer.mode_stats().frozen, 2);
}

#[tokio::test]
async fn a_changed_mode_holds_for_callers_that_wait_for_a_turn() {
    let wait = |mode| async move {
        let clock = ManualClock::new();
        let pacer = Pacer::with_clock(SECOND, 1, Arc::new(clock.clone())).expect("a pacer");
        let now = clock.now();
        let _first = pacer.book_at(now).expect("the first");
        let waiter = pacer.clone();
        let waiting = tokio::spawn(async move { waiter.turn().await });
        while pacer.waiting_at(now) < 1 {
            tokio::task::yield_now().await;
        }
        pacer.set_mode(mode);
        let answer = tokio::time::timeout(10 * SECOND, waiting).await;
        let answer = answer.expect("it obeys").expect("it does not panic");
        pacer.set_mode(Mode::Enforce);
        // Its turn was given up.
        let next = pacer.book_at(now).expect("there is room");
        assert_eq!(next.delay_at(now), SECOND);
        answer
    };
    assert_eq!(reason(wait(Mode::Bypass).await), None);
    assert_eq!(reason(wait(Mode::Freeze).await), Some(Reason::Frozen));
}

#[test]
fn calls_beyond_an_adaptive_limit_are_let_through_or_frozen() {
    let bounds = Bounds::new(1, 10).expect("bounds");
    let clock = Arc::new(ManualClock::new());
    let adaptive = Adaptive::with_clock(Aimd::new(bounds), clock).expect("permits");
    adaptive.set_mode(Mode::DryRun);
    let calls: Vec<_> = (0..3)
        .map(|_| adaptive.try_call().expect("a call"))
        .collect();
    assert_eq!(
        (adaptive.mode(), adaptive.mode_stats().let_through),
        (Mode::DryRun, 2)
    );
    drop(calls);
    adaptive.set_mode(Mode::Freeze);
    assert_eq!(reason(adaptive.try_call()), Some(Reason::Frozen));
    assert_eq!((adaptive.mode_stats().frozen, adaptive.limit()), (1, 1));
}
