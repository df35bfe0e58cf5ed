//! Concurrent refunds, in every interleaving that loom finds.

use super::thread_caches::{Shared, dealt, part};
use super::{NOW, PERIOD, explore};
use crate::bucket::Need;
use crate::bucket::limit::Limit;
use crate::bucket::reserve::BucketCharge;
use crate::clock::ManualClock;
use crate::limiter::combined::combine::Combine;
use crate::local::keyed::Keyed;
use crate::sync::Bug;
use aliquot_core::client::{Decider, Right};
use aliquot_core::unit::{Span, Tick};
use loom::thread;
use std::sync::Arc;

/// Takes four of ten tokens twice; one token is replenished per second.
fn two_of_four() -> (Shared, impl Decider, [BucketCharge; 2]) {
    let (shared, decider) = dealt(1, 10);
    let four = || {
        let taken = shared
            .key_state
            .bucket
            .reserve(4, NOW, Span::ZERO, &shared.lease);
        taken.expect("there are ten")
    };
    let both = [four(), four()];
    (shared, decider, both)
}

fn grains(tokens: u64) -> u64 {
    part(0, tokens, 0).burst.grains()
}

/// A decision in between does not use up the room for the refund.
#[test]
fn a_refund_uses_all_room_despite_concurrent_decisions() {
    const LATER: Tick = NOW.after(Span::from_secs(5));
    explore(
        || {
            let (shared, _decider, [_, second]) = two_of_four();
            let decides = {
                let Shared { key_state, lease } = shared.clone();
                thread::spawn(move || {
                    key_state
                        .bucket
                        .decide(Need::Tokens(1), LATER, &lease)
                        .is_ok()
                })
            };
            // Eight were missing, and five were replenished since.
            let back = shared.key_state.bucket.put_back_of(&second, 4, || LATER);
            assert_eq!(back, grains(3));
            assert!(decides.join().expect("no panic"));
        },
        &[Bug::SaidAgain],
    );
}

/// The same for a key of a store.
#[test]
fn a_refund_of_a_key_uses_all_room_despite_concurrent_charges() {
    const START: Tick = Tick::from_nanos(1_000_000_000_000);
    const LATER: Tick = START.after(Span::from_secs(5));
    explore(
        || {
            let clock = ManualClock::new();
            clock.set(START);
            let builder = Keyed::builder(Limit::per_sec(1), 10, 1);
            let store = builder.clock(Arc::new(clock)).seed(7).build();
            let store = Arc::new(store.expect("a store"));
            let four = || store.bucket("a").take_at(4, START).expect("there are ten");
            let [_, second] = [four(), four()];
            let charges = {
                let store = Arc::clone(&store);
                thread::spawn(move || store.try_acquire_at("a", 1, LATER).is_ok())
            };
            assert_eq!(store.bucket("a").put_back_at(&second, 4, LATER), 3);
            assert!(charges.join().expect("no panic"));
        },
        &[Bug::SaidAgain],
    );
}

/// Each refund counts the other one before it.
#[test]
fn concurrent_refunds_return_no_more_than_sequential_ones() {
    const SOON: Tick = NOW.after(Span::from_secs(2));
    const LATER: Tick = NOW.after(Span::from_millis(6_500));
    explore(
        || {
            let (shared, mut decider, [first, second]) = two_of_four();
            // In another epoch, only the refunds of others tell how much is missing.
            decider.admit_by(Right::Leased, PERIOD, NOW);
            let used = shared
                .key_state
                .bucket
                .decide(Need::Tokens(2), NOW, &shared.lease);
            assert!(
                used.is_ok(),
                "so that there is room for all that they put back"
            );
            let puts_back = {
                let key_state = shared.key_state.clone();
                thread::spawn(move || key_state.bucket.put_back_of(&first, 4, || SOON))
            };
            let mine = shared.key_state.bucket.put_back_of(&second, 4, || LATER);
            let theirs = puts_back.join().expect("no panic");
            // In turn it is two and nothing, or one and a half and a half.
            assert!(mine + theirs <= grains(2), "{mine} and {theirs}");
        },
        &[Bug::OthersUnseen],
    );
}
