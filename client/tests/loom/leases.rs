//! Leases that end and begin during decisions, in every interleaving that loom finds.

use super::thread_caches::{dealt, part};
use super::{NOW, PERIOD, explore, joined, key_state, tokens};
use crate::bucket::Need;
use crate::limiter::key_state::KeyState;
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::client::{Decider, Right};
use aliquot_core::unit::{Rate, Span, Tick, Tokens};
use loom::thread;
use std::cell::Cell;
use std::sync::Arc;

/// The end of a lease under which `NOW` is the last valid reading.
const END: Tick = NOW.after(Span::from_nanos(1));

/// Returns a thread that asks for one token at a reading and returns how many it got.
fn one_at(key_state: &Arc<KeyState>, lease: &Arc<AtomicU64>, now: Tick) -> thread::JoinHandle<u64> {
    let (key_state, lease) = (Arc::clone(key_state), Arc::clone(lease));
    thread::spawn(move || {
        u64::from(
            key_state
                .bucket
                .decide(Need::Tokens(1), now, &lease)
                .is_ok(),
        )
    })
}

/// The session switches edges: first the lease ends, and then another edge grants something.
#[test]
fn a_lease_that_was_taken_away_admits_nothing_of_the_next_edge() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 2);
            lease.store(END.nanos(), Ordering::Release);
            let threads = [one_at(&key_state, &lease, NOW)];
            lease.store(0, Ordering::Release);
            let cut = decider.withdraw(Rate::ZERO, Tokens::from_grains(2), NOW);
            decider.deposit(tokens(2), NOW);
            assert_eq!(joined(threads) + cut.tokens.grains(), 2);
            let left = decider.share_at(NOW).tokens.grains();
            assert_eq!(left, 2, "of what no lease is for");
        },
        &[Bug::LeaseBeforeEpoch],
    );
}

/// The same for a rate.
#[test]
fn a_lease_that_was_taken_away_admits_nothing_of_the_next_rate() {
    explore(
        || {
            let (shared, mut decider) = dealt(0, 2);
            let (key_state, lease) = (shared.key_state, shared.lease);
            lease.store(END.nanos(), Ordering::Release);
            let decides = {
                let (key_state, lease) = (Arc::clone(&key_state), Arc::clone(&lease));
                thread::spawn(move || {
                    let decided = key_state.bucket.decide(Need::Tokens(1), NOW, &lease);
                    u64::from(decided.is_ok())
                })
            };
            lease.store(0, Ordering::Release);
            let two = part(0, 2, 2);
            let cut = decider.withdraw(Rate::ZERO, two.burst, NOW);
            decider.deposit(two, NOW);
            let admitted = part(0, 2, joined([decides])).tokens;
            assert_eq!(admitted.plus(cut.tokens), Some(two.tokens));
            assert_eq!(decider.share_at(NOW).tokens, two.tokens);
        },
        &[Bug::LeaseUnseen],
    );
}

/// The lease lapses, its capacity goes back, and another lease begins for which nothing is granted yet.
#[test]
fn a_reading_at_the_end_of_a_lease_is_refused_though_the_next_lease_begins_beside_it() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(false, 2);
            lease.store(END.nanos(), Ordering::Release);
            let threads = [one_at(&key_state, &lease, END)];
            let cut = decider.withdraw(Rate::ZERO, Tokens::from_grains(2), END);
            lease.store(u64::MAX, Ordering::Release);
            decider.admit_by(Right::Leased, PERIOD, END);
            assert_eq!(joined(threads), 0, "the lease was over");
            assert_eq!(cut.tokens.grains(), 2);
        },
        &[Bug::LeaseUnseen],
    );
}

/// The lease ends while a thread has tokens in its cache, and another edge grants something under the next
/// lease.
#[test]
fn cached_tokens_of_one_edge_are_not_spent_under_the_next() {
    const NEXT: u64 = u64::MAX;
    explore(
        || {
            let (shared, mut decider) = dealt(0, 4);
            shared.lease.store(END.nanos(), Ordering::Release);
            // One is admitted, and two are in the cache.
            assert_eq!(shared.asks(1, 1, NOW), 1);
            let spends = {
                let shared = shared.clone();
                thread::spawn(move || {
                    sync::set_thread_id(1);
                    let seen = Cell::new(0);
                    let over = || {
                        seen.set(shared.lease.load(Ordering::Acquire));
                        NOW.nanos() >= seen.get()
                    };
                    let spent = shared.key_state.bucket.spend(1, over);
                    spent.map(|_| seen.get())
                })
            };
            shared.lease.store(0, Ordering::Release);
            decider.replace(part(0, 4, 4), NOW);
            shared.lease.store(NEXT, Ordering::Release);
            let under = spends.join().expect("no panic");
            assert_ne!(under, Some(NEXT), "it was of the lease before");
        },
        &[Bug::LeaseAfterCache, Bug::NotRevoked],
    );
}
