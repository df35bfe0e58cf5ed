//! Keys of stores within layers: each is a bucket of its own, and is refunded its own tokens.

use aliquot_client::clock::{Span, Tick};
use aliquot_client::combined::Combine;
use aliquot_client::keyed::KeyedBucket;
use aliquot_client::{Combined, Keyed, Limit, Limiter, ManualClock, Reason};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const START: Tick = Tick::from_nanos(1_000_000_000_000);

fn clock() -> Arc<ManualClock> {
    let clock = ManualClock::new();
    clock.set(START);
    Arc::new(clock)
}

fn store(per_sec: u64, burst: u64, keys: usize) -> Keyed {
    let builder = Keyed::builder(Limit::per_sec(per_sec), burst, keys);
    let builder = builder.class(Limit::UNLIMITED, 0);
    builder.clock(clock()).seed(7).build().expect("a store")
}

fn at(ms: u64) -> Tick {
    START.after(Span::from_millis(ms))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// For any sequence of charges, refunds and extra costs a key behaves like a limiter.
    #[test]
    fn a_key_takes_puts_back_and_owes_as_a_limiter_does(
        steps in prop::collection::vec((0..300_u64, 0..5_u64, 0..4_u64), 1..80),
        per_sec in 1..8_u64, burst in 1..6_u64,
    ) {
        let store = store(per_sec, burst, 100);
        let limiter = Limiter::local_with(Limit::per_sec(per_sec), burst, clock()).expect("a limit");
        let key = store.bucket("a");
        let (mut now, mut held) = (0, None);
        for (gap, n, verb) in steps {
            now += gap;
            prop_assert_eq!(key.peek_at(n, at(now)), limiter.peek_at(n, at(now)));
            match (verb, held.take()) {
                // A limiter that owes treats the rest as promised to reservations, and refunds nothing of
                // that.
                (0, Some((mine, theirs))) if limiter.tokens_at(at(now)) >= 0.0 => {
                    let n = n.min(3);
                    let back = key.put_back_at(&mine, n, at(now));
                    prop_assert_eq!(back, limiter.put_back_at(&theirs, n, at(now)));
                }
                (1, Some((mine, theirs))) => {
                    let owed = key.owe_at(&mine, n, at(now));
                    prop_assert_eq!(owed, limiter.owe_at(&theirs, n, at(now)));
                }
                _ => {
                    let (mine, theirs) = (key.take_at(n, at(now)), limiter.take_at(n, at(now)));
                    prop_assert_eq!(mine.as_ref().err(), theirs.as_ref().err());
                    held = mine.ok().zip(theirs.ok());
                }
            }
            let left = limiter.tokens_at(at(now)).floor().max(0.0) as u64;
            prop_assert_eq!(store.tokens_at("a", at(now)), left);
        }
    }
}

#[test]
fn a_late_refund_never_reaches_the_next_key_of_its_slot() {
    let store = store(1, 4, 8);
    let old = store.bucket("old");
    let receipt = old.take_at(4, at(0)).expect("it is full");
    // A second before the key is full, all others owe something; then all but those are evicted.
    let keys: Vec<String> = (0..200).map(|which| format!("new/{which}")).collect();
    let taken = keys
        .iter()
        .filter(|key| store.try_acquire_at(key, 4, at(4_000)).is_ok());
    assert_eq!(taken.count(), 32, "all slots");
    assert_eq!(old.put_back_at(&receipt, 4, at(4_000)), 0);
    for key in &keys {
        assert!(store.try_acquire_at(key, 1, at(4_000)).is_err(), "{key}");
    }
    // Nor to the key itself, once it is met again: it began with a full bucket.
    assert_eq!(
        old.peek_at(1, at(4_000)).expect_err("no room").reason,
        Reason::NoRoom
    );
    assert!(store.try_acquire_at("old", 4, at(8_000)).is_ok());
    assert_eq!(old.put_back_at(&receipt, 4, at(4_000)), 0);
    assert_eq!(store.tokens_at("old", at(8_000)), 0);
}

/// Nor to the same key, met again since, at an earlier reading that cannot know of that.
#[test]
fn a_late_refund_never_reaches_the_same_key_met_again() {
    let store = store(1, 4, 8);
    let key = store.bucket("a");
    let receipt = key.take_at(4, at(0)).expect("it is full");
    assert_eq!(store.forget_idle_at(Duration::ZERO, at(5_000)), 1);
    key.take_at(4, at(5_000)).expect("it is full again");
    assert_eq!(key.put_back_at(&receipt, 4, at(1_000)), 0);
    assert!(key.take_at(1, at(5_000)).is_err(), "it has had its burst");
}

#[test]
fn a_key_that_owes_is_not_forgotten_and_one_that_was_owes_anew() {
    let store = store(1, 2, 8);
    let key = store.bucket("a");
    let receipt = key.take_at(2, at(0)).expect("it is full");
    assert_eq!(key.owe_at(&receipt, 10, at(0)), 10);
    assert_eq!(store.forget_idle_at(Duration::ZERO, at(9_999)), 0);
    assert!(key.peek_at(1, at(10_999)).is_err());
    assert!(key.peek_at(1, at(11_000)).is_ok());
    assert_eq!(store.forget_idle_at(Duration::ZERO, at(12_000)), 1);
    assert_eq!(key.owe_at(&receipt, 5, at(12_000)), 5);
    assert_eq!(
        key.peek_at(1, at(12_000))
            .expect_err("it owes three")
            .retry_after,
        Some(Duration::from_secs(4))
    );
    // Half an hour beyond its burst, and no more.
    assert_eq!(key.owe_at(&receipt, 2_000, at(12_000)), 1_797);
    assert_eq!(key.owe_at(&receipt, 1, at(12_000)), 0);
}

#[test]
fn a_class_without_a_limit_takes_nothing_and_one_that_is_not_refuses() {
    let store = store(1, 2, 8);
    let free = store.bucket_of(1, "a");
    let receipt = free.take_at(1_000, at(0)).expect("no limit");
    let moved = (
        free.put_back_at(&receipt, 7, at(0)),
        free.owe_at(&receipt, 7, at(0)),
    );
    assert_eq!(moved, (7, 7));
    let none = store.bucket_of(2, "a");
    assert_eq!(
        none.take_at(1, at(0)).expect_err("no such class").reason,
        Reason::NoBudget
    );
}

/// Tenant, user and address, each in a store of its own; a refusal by one costs the others nothing.
#[test]
fn layers_of_three_stores_take_all_or_nothing_whatever_threads_ask() {
    let [addresses, users, tenants] = [2, 10, 50].map(|burst| store(0, burst, 1_000));
    let [by_address, by_user] = [(); 2].map(|()| [(); 40].map(|()| AtomicU64::new(0)));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (addresses, users, tenants) = (&addresses, &users, &tenants);
            let (by_address, by_user) = (&by_address, &by_user);
            scope.spawn(move || {
                for step in 0..2_000 {
                    let (address, user) = ((step * 7 + thread) % 40, (step * 3 + thread) % 7);
                    let (ip, name) = (format!("ip/{address}"), format!("user/{user}"));
                    // The address refuses most often and is asked last: the others are refunded.
                    let tiers: [(&str, KeyedBucket<'_>); 3] = [
                        ("tenant", tenants.bucket("tenant")),
                        ("user", users.bucket(&name)),
                        ("address", addresses.bucket(&ip)),
                    ];
                    let layers = Combined::of(
                        [0, 1, 2].map(|which: usize| (tiers[which].0, &tiers[which].1)),
                    );
                    if let Ok(charge) = layers.try_acquire_at(1, at(0)) {
                        by_address[address].fetch_add(charge.tokens(), Ordering::SeqCst);
                        by_user[user].fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    let taken = |all: &[AtomicU64], which: usize| all[which].load(Ordering::SeqCst);
    let mut all = 0;
    for which in 0..40 {
        all += taken(&by_user, which);
        let address = addresses.tokens_at(&format!("ip/{which}"), at(0));
        assert_eq!(address, 2 - taken(&by_address, which));
        let user = users.tokens_at(&format!("user/{which}"), at(0));
        assert_eq!(user, 10 - taken(&by_user, which));
    }
    assert_eq!(tenants.tokens_at("tenant", at(0)), 50 - all);
    assert_eq!(all, 50, "no token is lost");
}
