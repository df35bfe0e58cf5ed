//! Charges made while the edge is being changed, in every interleaving that loom finds.

use super::thread_caches::{dealt, part};
use super::{NOW, PERIOD, explore, joined, key_state};
use crate::bucket::Need;
use crate::sync::Bug;
use aliquot_core::client::{Decider, Right};
use aliquot_core::unit::{Span, Tick, Tokens};
use loom::thread;
use std::sync::Arc;

/// Time at which every permit that was taken at `NOW` has been held for too long.
const LATE: Tick = NOW.after(Span::from_secs(11));

/// The client goes back from a bucket of its own to its share: it takes from the one, and puts back when the
/// other is in place but the change is not over.
#[test]
fn a_refund_of_a_charge_amid_a_change_is_void() {
    explore(
        || {
            let (shared, mut decider) = dealt(0, 1);
            decider.admit_by(Right::Forever, PERIOD, NOW);
            let changes_its_mind = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let bucket = &shared.key_state.bucket;
                    if let Ok(taken) = bucket.reserve(1, NOW, Span::ZERO, &shared.lease) {
                        bucket.put_back_of(&taken, 1, || NOW);
                    }
                    0
                })
            };
            // One of two is missing.
            decider.replace(part(0, 2, 1), NOW);
            assert_eq!(joined([changes_its_mind]), 0);
            let left = decider.share_at(NOW).tokens;
            assert!(left <= part(0, 2, 1).tokens, "{left:?}");
        },
        &[Bug::MidChangeRefunded, Bug::EraIgnored],
    );
}

/// The wheel is late for a permit of the former edge, which is then released.
#[test]
fn a_permit_taken_as_the_edge_ends_frees_none_of_the_next() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(true, 1);
            let releases = {
                let (key_state, lease) = (Arc::clone(&key_state), Arc::clone(&lease));
                thread::spawn(move || {
                    let era = key_state.bucket.era();
                    if key_state.bucket.decide(Need::Permit, NOW, &lease).is_ok() {
                        key_state.bucket.put_back(1, era);
                    }
                    0
                })
            };
            decider.orphan_permits(NOW);
            decider.gain(Tokens::from_grains(1), NOW);
            let permit = || u64::from(key_state.bucket.decide(Need::Permit, NOW, &lease).is_ok());
            let admitted = permit() + joined([releases]) + permit();
            assert!(admitted <= 1);
        },
        &[Bug::EraEndsEarly],
    );
}

/// The permit is held for too long, and so it is cancelled.
#[test]
fn a_permit_taken_as_the_edge_ends_is_not_cancelled_in_the_next() {
    explore(
        || {
            let (key_state, mut decider, lease) = key_state(true, 1);
            let takes = {
                let (key_state, lease) = (Arc::clone(&key_state), Arc::clone(&lease));
                thread::spawn(move || {
                    let era = key_state.bucket.era();
                    if key_state.bucket.decide(Need::Permit, NOW, &lease).is_ok() {
                        let _overheld = key_state.bucket.count_permit(NOW, era);
                    }
                    0
                })
            };
            decider.orphan_permits(NOW);
            decider.gain(Tokens::from_grains(1), NOW);
            let permit =
                |now| u64::from(key_state.bucket.decide(Need::Permit, now, &lease).is_ok());
            let admitted = permit(NOW) + joined([takes]);
            decider.cancel_overheld(LATE);
            assert!(admitted + permit(LATE) <= 1);
        },
        &[Bug::EraEndsEarly],
    );
}
