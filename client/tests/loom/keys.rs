//! Keys that evict each other from a table, in every interleaving that loom finds.

use super::explore;
use crate::bucket::limit::Limit;
use crate::clock::ManualClock;
use crate::local::keyed::Keyed;
use crate::sync::Bug;
use aliquot_core::unit::{Span, Tick};
use loom::thread;
use std::sync::Arc;

const START: Tick = Tick::from_nanos(1_000_000_000_000);

/// Returns a table without free slots: one key is full at the returned tick, and the others owe something
/// then.
fn crowded(burst: u64) -> (Arc<Keyed>, Tick) {
    let clock = ManualClock::new();
    clock.set(START);
    let builder = Keyed::builder(Limit::per_sec(1), burst, 1);
    let store = builder.clock(Arc::new(clock)).seed(7).build();
    let store = store.expect("a store");
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
