//! Keys that evict each other from a table, in every interleaving that loom finds.

use super::explore;
use crate::clock::ManualClock;
use crate::keyed::Keyed;
use crate::limit::Limit;
use crate::sync::{AtomicU64, Bug, Ordering};
use aliquot_core::unit::{Span, Tick};
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

const START: Tick = Tick::from_nanos(1_000_000_000_000);

/// Returns a store of keys with this burst. With more than one token, some may be charged later.
fn store_of(burst: u64) -> (Keyed, ManualClock) {
    let clock = ManualClock::new();
    clock.set(START);
    let builder = Keyed::builder(Limit::per_sec(1), burst, 1).deferring();
    let store = builder.clock(Arc::new(clock.clone())).seed(7).build();
    (store.expect("a store"), clock)
}

/// Returns a table without free slots: one key is full at the returned tick, and the others owe something
/// then.
fn crowded(burst: u64) -> (Arc<Keyed>, Tick) {
    let (store, _) = store_of(burst);
    let now = START.after(Span::from_secs(burst));
    assert!(store.try_acquire_at("old", 1, START).is_ok());
    for which in 0..100 {
        let just = START.after(Span::from_millis(1));
        let _ = store.try_acquire_at(&format!("busy/{which}"), burst, just);
    }
    (Arc::new(store), now)
}

#[test]
fn a_key_that_is_charged_while_it_is_pushed_out_is_charged_once_and_for_all() {
    explore(
        || {
            let (store, now) = crowded(1);
            let charges = {
                let store = Arc::clone(&store);
                thread::spawn(move || u64::from(store.try_acquire_at("old", 1, now).is_ok()))
            };
            let newcomer = store.try_acquire_at("new", 1, now).is_ok();
            let first = charges.join().expect("no panic");
            // A key that is forgotten has its whole burst again.
            assert!(first + store.tokens_at("old", now) <= 1, "its burst is one");
            let again = store.try_acquire_at("new", 1, now).is_ok();
            assert!(!(newcomer && again), "its burst is one");
        },
        &[Bug::DebtUnseen, Bug::OwnerUnseen],
    );
}

#[test]
fn a_key_that_is_charged_later_while_it_is_pushed_out_is_charged_once_and_for_all() {
    explore(
        || {
            let (store, now) = crowded(2);
            let charges = {
                let store = Arc::clone(&store);
                thread::spawn(move || u64::from(store.try_later("old", 1, now, || now).is_some()))
            };
            let newcomer = store.try_acquire_at("new", 2, now).is_ok();
            let first = charges.join().expect("no panic");
            assert!(first + store.tokens_at("old", now) <= 2, "its burst is two");
            let again = store.try_acquire_at("new", 1, now).is_ok();
            assert!(!(newcomer && again), "its burst is two");
        },
        &[Bug::DebtUnseen, Bug::OwnerUnseen],
    );
}

#[test]
fn a_key_that_is_charged_later_is_not_forgotten_as_if_it_were_full() {
    explore(
        || {
            let (floor, now) = (
                START.after(Span::from_secs(1)),
                START.after(Span::from_secs(3)),
            );
            let (store, clock) = store_of(2);
            let store = Arc::new(store);
            assert!(store.try_acquire_at("old", 1, START).is_ok());
            clock.set(now);
            let charges = {
                let store = Arc::clone(&store);
                thread::spawn(move || u64::from(store.try_later("old", 1, floor, || now).is_some()))
            };
            store.forget_idle(Duration::ZERO, now);
            let took = charges.join().expect("no panic");
            assert!(took + store.tokens_at("old", now) <= 2, "its burst is two");
        },
        &[Bug::FullByDebt],
    );
}

/// One thread takes by what was available at the start, another asks as `reads` does, by a clock that
/// advances. Returns how many of their requests were admitted once everything was replenished, plus what was
/// left then, of a burst of eight.
fn together(reads: impl Fn(&Keyed, &dyn Fn() -> Tick) -> bool + Send + 'static) -> u64 {
    let store = Arc::new(store_of(BURST).0);
    let later = START.after(Span::from_secs(100));
    assert!(store.try_acquire_at("a", 1, START).is_ok());
    let clock = Arc::new(AtomicU64::new(START.nanos()));
    let asks = |ask: Decision| {
        let (store, clock) = (Arc::clone(&store), Arc::clone(&clock));
        thread::spawn(move || {
            let read = || Tick::from_nanos(clock.load(Ordering::Acquire));
            let began = read();
            u64::from(ask(&store, &read) && began == later)
        })
    };
    let goes_on = asks(Box::new(|store, read| {
        store.try_later("a", 1, START, read).is_some()
    }));
    let reads = asks(Box::new(reads));
    clock.store(later.nanos(), Ordering::Release);
    let took = goes_on.join().expect("no panic") + reads.join().expect("no panic");
    let some = |&n: &u64| store.try_acquire_at("a", n, later).is_ok();
    let rest = [8, 4, 2, 1].iter().filter(|n| some(n)).sum::<u64>();
    took + rest
}

type Decision = Box<dyn FnOnce(&Keyed, &dyn Fn() -> Tick) -> bool + Send>;

const BURST: u64 = 8;

#[test]
fn deferred_tokens_of_a_key_are_charged_when_taken_or_later() {
    explore(
        || {
            // The tokens available then do not count, so it reads the clock.
            let never = Tick::from_nanos(0);
            let all = together(move |store, read| store.try_later("a", 1, never, read).is_some());
            assert!(all <= BURST, "{all}");
        },
        &[Bug::Forgotten, Bug::ReadBefore],
    );
}

#[test]
fn decisions_at_a_given_time_leave_deferred_tokens_uncharged() {
    explore(
        || {
            let all = together(|store, read| store.try_acquire_at("a", 1, read()).is_ok());
            assert!(all <= BURST, "{all}");
        },
        &[Bug::Forgotten, Bug::ChargedEarly],
    );
}
