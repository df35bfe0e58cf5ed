//! Refunds to a sliding log during admissions, in every interleaving that loom finds.

use super::explore;
use super::ring::Ring;
use crate::sync::Bug;
use loom::thread;
use std::sync::Arc;

const LIMIT: u64 = 2;

fn takes(ring: &Ring, now: u64) -> Option<u64> {
    let taken = ring.take(1, now, |_| Ok::<_, ()>(LIMIT));
    taken.ok().map(|(at, _)| at)
}

/// Returns for how many admissions there is room at `now`.
fn rest(ring: &Ring, now: u64) -> u64 {
    (0..=LIMIT).filter(|_| takes(ring, now).is_some()).count() as u64
}

/// One admission is refunded; another one made meanwhile stays.
#[test]
fn an_entry_put_back_leaves_no_trace() {
    explore(
        || {
            let ring = Arc::new(Ring::new(LIMIT, 10));
            let other = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || takes(&ring, 3).is_some())
            };
            let mine = takes(&ring, 3).expect("two fit");
            assert_eq!(ring.take_back(mine, 1), 1);
            let other = other.join().expect("no panic");
            assert!(other, "two fit");
            assert_eq!(rest(&ring, 3), 1);
        },
        &[],
    );
}

/// One admission is refunded while it leaves the window, and another takes its place.
#[test]
fn a_put_back_of_an_expiring_entry_frees_no_other_place() {
    explore(
        || {
            let ring = Arc::new(Ring::new(LIMIT, 10));
            let old = takes(&ring, 1).expect("two fit");
            takes(&ring, 5).expect("two fit");
            let other = {
                let ring = Arc::clone(&ring);
                thread::spawn(move || takes(&ring, 11).is_some())
            };
            ring.take_back(old, 1);
            let other = other.join().expect("no panic");
            // The admission at 5 stays, and the other one if it was made.
            assert_eq!(rest(&ring, 11), 1 - u64::from(other));
        },
        &[Bug::TurnUnchanged],
    );
}
