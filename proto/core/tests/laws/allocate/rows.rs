//! Single cases with their numbers.

use super::{KEPT, band, curve, divide, plain};
use aliquot_core::allocate::{Change, Claimant, Headroom, Policy, Terms, damp, held_back};
use aliquot_core::demand::{DemandCurve, Segment};
use aliquot_core::leader::{Leader, Pace};
use aliquot_core::node::Node;
use aliquot_core::planted::{self, Bug};
use aliquot_core::state::State;
use aliquot_core::unit::Band;

#[test]
fn a_newcomer_that_wants_one_percent_is_not_held_back() {
    let run = || {
        // Two hold all of 1,000; a third wants 10. Their cuts are half a percent each.
        let claimants = [plain(9_999, 1), plain(9_999, 1), plain(10, 1)];
        let targets = divide(1_000, &claimants, KEPT);
        let changes = [500, 500, 0].into_iter().zip(targets);
        let changes: Vec<Change> = changes
            .map(|(held, target)| Change {
                held,
                target,
                young: true,
            })
            .collect();
        assert!(held_back(changes[0]), "by itself, a wobble");
        damp(1_000, &changes)
    };
    assert_eq!(run(), [495, 495, 10]);
    assert_eq!(
        planted::with(Some(Bug::NewcomerHeldBack), run),
        [500, 500, 0]
    );
}

#[test]
fn a_wobble_is_held_back_while_no_claimant_needs_it() {
    let change = |held, target, young| Change {
        held,
        target,
        young,
    };
    assert_eq!(
        damp(1_000, &[change(500, 480, true), change(300, 310, true)]),
        [500, 300]
    );
    assert_eq!(
        damp(1_000, &[change(500, 480, false), change(300, 310, false)]),
        [480, 310]
    );
    assert_eq!(
        damp(1_000, &[change(500, 474, true), change(0, 1, true)]),
        [474, 1]
    );
}

#[test]
fn floors_come_first_then_bands_then_headroom() {
    let claimant = |band, wants, floor| Claimant {
        floor,
        ..Claimant::new(self::band(band), curve(wants, 1))
    };
    let world = |wants| {
        [
            claimant(0, wants, 30),
            claimant(1, 50, 0),
            claimant(1, 80, 20),
        ]
    };
    assert_eq!(
        divide(20, &world(90), KEPT),
        [12, 0, 8],
        "floors that do not fit"
    );
    assert_eq!(
        divide(120, &world(90), KEPT),
        [30, 45, 45],
        "the floor counts toward the part"
    );
    assert_eq!(divide(200, &world(90), KEPT), [70, 50, 80]);
    assert_eq!(divide(200, &world(10), KEPT), [30, 50, 80]);
    assert_eq!(divide(200, &world(10), Terms::default()), [44, 63, 93]);
}

#[test]
fn doormans_proportional_share_is_doormans() {
    let terms = Terms {
        policy: Policy::Proportional,
        headroom: Headroom::Kept,
    };
    let check = |capacity, wants: &[u64], parts: &[u64]| {
        let claimants: Vec<Claimant> = wants.iter().map(|&wants| plain(wants, 1)).collect();
        assert_eq!(divide(capacity, &claimants, terms), parts);
    };
    // 40 + 960 · 30/970 = 69.69, 40 + 10 · 30/970 = 40.31, 10.
    check(120, &[1_000, 50, 10], &[70, 40, 10]);
    check(120, &[1_000, 60, 10], &[69, 41, 10]);
    check(120, &[50, 60, 10], &[50, 60, 10]);
    let weighted = [plain(1_000, 1), plain(1_000, 2), plain(10, 3)];
    // Rights of 20, 40 and 60; the 50 that the last one leaves go by 980 : 960.
    assert_eq!(divide(120, &weighted, terms), [45, 65, 10]);
}

#[test]
fn weights_that_pass_64_bits_together_are_made_coarser_and_keep_their_ratios() {
    let heavy = |power: u32| {
        let segment = Segment {
            demand: 1_000,
            weight: 1 << power,
        };
        let curve = DemandCurve::from_segments([segment].into()).unwrap();
        Claimant::new(Band::default(), curve)
    };
    let world = [heavy(63), heavy(62), heavy(63), heavy(62)];
    assert_eq!(divide(600, &world, KEPT), [200, 100, 200, 100]);
    assert_eq!(divide(3, &world, KEPT), [1, 1, 1, 0]);
    assert_eq!(divide(4_000, &world, KEPT), [1_000; 4]);
}

#[test]
fn a_demand_that_is_met_to_the_unit_gets_no_other() {
    // Level 11/3: the first is met by 3, and the two units left over go to others.
    let claimants = [3, 9, 9, 9].map(|wants| plain(wants, 1));
    assert_eq!(divide(14, &claimants, KEPT), [3, 4, 4, 3]);
}

#[test]
fn fixed_and_equal_parts_do_not_ask_who_wants() {
    let claimant = |wants, fixed, ceiling| Claimant {
        fixed,
        ceiling,
        ..plain(wants, 3)
    };
    let world = [
        claimant(0, 20, None),
        claimant(900, 30, None),
        claimant(900, 50, Some(10)),
    ];
    let fixed = Terms {
        policy: Policy::Static,
        ..KEPT
    };
    let equal = Terms {
        policy: Policy::Equal,
        ..KEPT
    };
    assert_eq!(divide(100, &world, fixed), [20, 30, 10]);
    assert_eq!(divide(30, &world, fixed), [10, 15, 5]);
    assert_eq!(divide(100, &world, equal), [45, 45, 10]);
}

/// Invariant 8: no difference waits longer than a lease.
#[test]
fn what_is_held_back_is_put_right_before_a_lease_ends() {
    let report = Pace::default().report;
    for held_back in [Leader::HELD_BACK, Node::HELD_BACK] {
        let seen_and_waited = report.plus_or_max(held_back);
        assert!(seen_and_waited.times_or_max(2) < State::LEASE_DEFAULT);
    }
}
