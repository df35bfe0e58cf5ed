//! The laws of allocation.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod model;
mod rows;
mod worlds;

use aliquot_core::allocate::{
    Change, Claimant, Headroom, Policy, Scratch, Terms, Warm, allocate, damp, water_fill,
    water_fill_into,
};
use aliquot_core::budget::Claim;
use aliquot_core::demand::{DemandCurve, Level};
use aliquot_core::message::BandDemand;
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{Band, Weight};
use model::{naive, naive_plain};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use worlds::{Side, hostile, side_by_side, small_claimant, small_world, terms};

type Law = Result<(), TestCaseError>;

const KEPT: Terms = Terms {
    policy: Policy::MaxMin,
    headroom: Headroom::Kept,
};

fn curve(demand: u64, weight: u32) -> DemandCurve {
    DemandCurve::of(demand, Weight::new(weight).unwrap())
}

fn band(band: u8) -> Band {
    Band::new(band).unwrap()
}

fn plain(demand: u64, weight: u32) -> Claimant {
    Claimant::new(Band::default(), curve(demand, weight))
}

fn divide(capacity: u64, claimants: &[Claimant], terms: Terms) -> Vec<u64> {
    allocate(capacity, claimants, terms, &mut Warm::default())
}

/// Invariant 10: shares are weighted max-min, by the formula, to the unit.
fn it_is_naive_water_filling((capacity, claimants): (u64, Vec<Claimant>)) -> Law {
    prop_assert_eq!(
        divide(capacity, &claimants, KEPT),
        naive(capacity, &claimants)
    );
    Ok(())
}

/// Invariants 10 and 14: an earlier allocation changes nothing.
fn warmth_changes_nothing(
    (before, (capacity, claimants)): ((u64, Vec<Claimant>), (u64, Vec<Claimant>)),
) -> Law {
    let mut warm = Warm::default();
    let _ = allocate(before.0, &before.1, KEPT, &mut warm);
    let parts = allocate(capacity, &claimants, KEPT, &mut warm);
    prop_assert_eq!(&parts, &divide(capacity, &claimants, KEPT));
    prop_assert_eq!(&parts, &allocate(capacity, &claimants, KEPT, &mut warm));
    Ok(())
}

/// Invariants 10 and 14: the plain rule, with or without an earlier level, in new or used buffers.
fn side_by_side_it_is_naive_water_filling((before, now): (Side, Side)) -> Law {
    let (mut scratch, mut parts) = (Scratch::default(), Vec::new());
    let mut fill = |side: &Side, from| {
        let (demands, weights): (Vec<u64>, Vec<u64>) = side.claimants.iter().copied().unzip();
        let (capacity, room) = (side.capacity, &mut scratch);
        let level = water_fill_into(capacity, &demands, &weights, from, room, &mut parts);
        (parts.clone(), level)
    };
    let (_, level) = fill(&before, None);
    let (warm, found) = fill(&now, Some(level));
    prop_assert_eq!(&warm, &naive_plain(now.capacity, &now.claimants));
    prop_assert_eq!((warm, found), fill(&now, None));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_allocation_is_naive_water_filling_to_the_unit(world in small_world()) {
        it_is_naive_water_filling(world)?;
    }

    /// Invariant 10, for the plain rule and the whole range of numbers.
    #[test]
    fn the_fast_path_is_naive_water_filling_to_the_unit(
        capacity in prop_oneof![0..1_000_u64, any::<u64>()],
        claimants in prop::collection::vec(
            (prop_oneof![0..100_u64, any::<u64>()], prop_oneof![1..4_u64, 1..1_u64 << 57]), 0..60),
        from in prop::option::of((any::<u64>(), any::<u64>())),
    ) {
        let (demands, weights): (Vec<u64>, Vec<u64>) = claimants.iter().copied().unzip();
        let from = from.map(|(units, weight)| Level::new(units, weight));
        let (parts, _) = water_fill(capacity, &demands, &weights, from);
        prop_assert_eq!(parts, naive_plain(capacity, &claimants));
    }

    #[test]
    fn many_claimants_side_by_side_are_naive_water_filling_to_the_unit(
        before in side_by_side(), now in side_by_side(),
    ) {
        side_by_side_it_is_naive_water_filling((before, now))?;
    }

    #[test]
    fn an_allocation_does_not_depend_on_a_warm_start(before in small_world(), now in small_world()) {
        warmth_changes_nothing((before, now))?;
    }

    /// Invariant 10: a newcomer only takes from others.
    #[test]
    fn adding_a_claimant_never_raises_another_share_by_more_than_one_unit(
        world in small_world(), newcomer in small_claimant(), headroom in any::<bool>(),
    ) {
        let (capacity, mut claimants) = world;
        let headroom = if headroom { Headroom::ByWeight } else { Headroom::Kept };
        let terms = Terms { headroom, ..KEPT };
        let before = divide(capacity, &claimants, terms);
        claimants.push(newcomer);
        let after = divide(capacity, &claimants, terms);
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(*after <= before + 1, "{before} became {after}");
        }
    }

    /// Invariants 2 and 13: no claims make a unit be granted twice.
    #[test]
    fn no_claims_make_the_parts_exceed_the_capacity_or_a_ceiling(
        capacity in prop_oneof![0..100_u64, Just(u64::MAX), any::<u64>()],
        claimants in prop::collection::vec(hostile(), 0..9), terms in terms(),
    ) {
        let parts = divide(capacity, &claimants, terms);
        prop_assert_eq!(parts.len(), claimants.len());
        let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
        prop_assert!(sum <= capacity.into());
        let floors: u128 = claimants.iter().map(|c| u128::from(c.floor.min(c.ceiling.unwrap_or(u64::MAX)))).sum();
        for (claimant, part) in claimants.iter().zip(&parts) {
            let most = claimant.ceiling.unwrap_or(u64::MAX);
            prop_assert!(*part <= most);
            if floors <= capacity.into() {
                prop_assert!(*part >= claimant.floor.min(most), "the floors fit");
            }
        }
        let open = |c: &Claimant| c.ceiling.is_none() && c.weight > 0;
        let fills = matches!(terms.policy, Policy::MaxMin | Policy::Proportional);
        if fills && terms.headroom == Headroom::ByWeight && claimants.iter().any(open) {
            prop_assert_eq!(sum, u128::from(capacity), "headroom takes the rest");
        }
    }

    /// Invariant 10: demand > 0 means share > 0.
    #[test]
    fn who_wants_gets_something_while_there_is_a_unit_for_each(
        claimants in prop::collection::vec((1..1_u64 << 40, 1..=Weight::MAX), 1..30), more in 0..100_u64,
    ) {
        let capacity = claimants.len() as u64 + more;
        let claimants: Vec<Claimant> = claimants.iter().map(|&(d, w)| plain(d, w)).collect();
        prop_assert!(!divide(capacity, &claimants, KEPT).contains(&0));
        let few = divide(claimants.len() as u64 / 2, &claimants, KEPT);
        prop_assert!(few.iter().all(|&part| part <= 1));
    }

    /// Invariant 10: the tree is as fair as one book: each level rounds once, so a client is less than two
    /// units from its exact share.
    #[test]
    fn shares_by_node_and_then_by_client_are_those_of_one_book(
        nodes in prop::collection::vec(prop::collection::vec((1_000..100_000_u64, 1..4_u32), 1..8), 1..5),
        capacity in 10_000..1_000_000_u64,
    ) {
        let claims = |clients: &[(u64, u32)]| clients.iter().map(|&(d, w)| plain(d, w)).collect::<Vec<_>>();
        let sum = |clients: &[(u64, u32)]| clients.iter().fold(DemandCurve::EMPTY, |sum, &(d, w)| sum.plus(&curve(d, w)).unwrap());
        let all: Vec<(u64, u32)> = nodes.concat();
        let level = sum(&all).level_for(capacity, None);
        let tops: Vec<Claimant> = nodes.iter().map(|clients| Claimant::new(Band::default(), sum(clients))).collect();
        let shares = divide(capacity, &tops, KEPT);
        let direct = divide(capacity, &claims(&all), KEPT);
        let split = nodes.iter().zip(shares).flat_map(|(clients, share)| divide(share, &claims(clients), KEPT));
        for ((client, split), direct) in all.iter().zip(split).zip(direct) {
            let exact = curve(client.0, client.1).at(level);
            prop_assert!((exact.saturating_sub(1)..=exact + 2).contains(&split), "{split} for {exact}");
            prop_assert!(split.abs_diff(direct) <= 1, "{split} beside {direct}");
        }
    }

    /// Invariant 10: nor does it matter to callers which client decides for them, at which node: each level rounds
    /// once more. What a client reports of its callers is cut at what it measured, which is at least what is divided.
    #[test]
    fn callers_behind_clients_at_nodes_get_the_parts_of_one_book(
        nodes in prop::collection::vec(prop::collection::vec((prop::collection::vec(1_000..100_000_u64, 1..6), 1..4_u32), 1..4), 1..5),
        capacity in 10_000..1_000_000_u64, measured in 0..500_000_u64,
    ) {
        let reported = |callers: &[u64]| {
            let curve = DemandCurve::of_callers(callers);
            let total = curve.total().min(capacity + measured);
            [BandDemand { band: Band::default(), curve: curve.with_total(total) }]
        };
        let weight = |weight| Weight::new(weight).unwrap();
        let claimed = |(callers, times): &(Vec<u64>, u32)| {
            let claim = Claim { weight: weight(*times), band: Band::default() };
            BandDemand::claimed(&reported(callers), Weight::ONE, claim).unwrap().curve
        };
        let one = |curve| Claimant::new(Band::default(), curve);
        let tops: Vec<Claimant> = nodes.iter().map(|clients| {
            one(clients.iter().map(claimed).fold(DemandCurve::EMPTY, |sum, curve| sum.plus(&curve).unwrap()))
        }).collect();
        let mut split = Vec::new();
        for (clients, share) in nodes.iter().zip(divide(capacity, &tops, KEPT)) {
            let claims: Vec<Claimant> = clients.iter().map(|client| one(claimed(client))).collect();
            for ((callers, _), share) in clients.iter().zip(divide(share, &claims, KEPT)) {
                let callers: Vec<Claimant> = callers.iter().map(|&demand| plain(demand, 1)).collect();
                split.extend(divide(share, &callers, KEPT));
            }
        }
        let all = nodes.iter().flatten();
        let all: Vec<Claimant> = all.flat_map(|(callers, times)| callers.iter().map(|&demand| plain(demand, *times))).collect();
        for (split, direct) in split.iter().zip(divide(capacity, &all, KEPT)) {
            prop_assert!(split.abs_diff(direct) <= 3, "{split} beside {direct}");
        }
        // A rule that changes later counts as one that was there before.
        for (callers, times) in nodes.iter().flatten() {
            let heavy = Claim { weight: weight(7), band: Band::default() };
            let before = BandDemand::claimed(&reported(callers), Weight::ONE, heavy);
            let after = BandDemand::claimed(before.as_slice(), heavy.weight, Claim { weight: weight(*times), ..heavy });
            prop_assert_eq!(after.unwrap().curve, claimed(&(callers.clone(), *times)));
        }
    }

    /// Invariants 2 and 8: damped parts fit the capacity, and old differences are removed.
    #[test]
    fn damping_fits_the_capacity_and_holds_nothing_back_for_long(
        changes in prop::collection::vec((0..1_000_u64, 0..1_000_u64, any::<bool>()), 0..12),
    ) {
        let changes: Vec<Change> = changes.into_iter().map(|(held, target, young)| Change { held, target, young }).collect();
        let capacity = changes.iter().map(|change| change.target).sum::<u64>();
        let parts = damp(capacity, &changes);
        prop_assert!(parts.iter().sum::<u64>() <= capacity);
        for (change, part) in changes.iter().zip(parts) {
            prop_assert!(part == change.held || part == change.target);
            let edge = (change.held == 0) != (change.target == 0);
            if edge || !change.young {
                prop_assert_eq!(part, change.target);
            }
        }
    }
}

/// Returns true if the law fails for some case of a fixed sequence while the bug is on.
fn catches<S: Strategy>(bug: Bug, cases: &S, law: impl Fn(S::Value) -> Law) -> bool {
    planted::with(Some(bug), || {
        TestRunner::deterministic().run(cases, law).is_err()
    })
}

#[test]
fn naive_water_filling_catches_bands_reversed_and_floors_on_top() {
    assert!(catches(
        Bug::BandsReversed,
        &small_world(),
        it_is_naive_water_filling
    ));
    assert!(catches(
        Bug::FloorOnTop,
        &small_world(),
        it_is_naive_water_filling
    ));
}

#[test]
fn the_law_of_warmth_catches_an_old_level_kept_too_long() {
    let world = || {
        (
            0..12_000_u64,
            prop::collection::vec((1..2_000_u64, 1..6_u32), 1..12),
        )
            .prop_map(|(capacity, all)| {
                (
                    capacity,
                    all.into_iter()
                        .map(|(d, w)| plain(d, w))
                        .collect::<Vec<_>>(),
                )
            })
    };
    assert!(catches(
        Bug::OldLevelTrusted,
        &(world(), world()),
        warmth_changes_nothing
    ));
}

#[test]
fn naive_water_filling_catches_errors_of_the_multiplication() {
    for bug in [Bug::TiesByRounding, Bug::FarRootTrusted] {
        let cases = (side_by_side(), side_by_side());
        assert!(catches(bug, &cases, side_by_side_it_is_naive_water_filling));
    }
}
