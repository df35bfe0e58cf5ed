//! The laws of allocation.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use aliquot_core::allocate::{
    Change, Claimant, HELD_BACK_TICKS, Headroom, Policy, Terms, Warm, allocate, damp, held_back,
    water_fill,
};
use aliquot_core::demand::{DemandCurve, Level, Segment, WEIGHT_ONE};
use aliquot_core::planted::{self, Bug};
use aliquot_core::share::apportion;
use aliquot_core::unit::{Band, Weight};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

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

/// Water-filling as the textbook has it: by rising `d/w`, each gets the lesser
/// of its demand and its part of what is left.
fn naive_plain(capacity: u64, claimants: &[(u64, u64)]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..claimants.len()).collect();
    let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
    order.sort_by(|&i, &j| {
        wide(claimants[i].0, claimants[j].1).cmp(&wide(claimants[j].0, claimants[i].1))
    });
    let mut parts = vec![0; claimants.len()];
    let mut left = capacity;
    let mut open: u64 = claimants.iter().map(|&(_, weight)| weight).sum();
    for (met, &i) in order.iter().enumerate() {
        let (demand, weight) = claimants[i];
        if wide(demand, open) > wide(left, weight) {
            let mut rest = order[met..].to_vec();
            rest.sort();
            let weights: Vec<u64> = rest.iter().map(|&i| claimants[i].1).collect();
            for (&i, part) in rest.iter().zip(apportion(left, &weights)) {
                parts[i] = part;
            }
            return parts;
        }
        parts[i] = demand;
        left -= demand;
        open -= weight;
    }
    parts
}

/// One claimant of the naive rule with floors, ceilings and several segments.
struct Naive {
    segments: Vec<(i128, i128)>,
    floor: i128,
    ceiling: i128,
}

impl Naive {
    /// What it takes beyond its floor at level `num/den`, times `den`.
    fn beyond(&self, (num, den): (i128, i128)) -> i128 {
        let takes: i128 = self
            .segments
            .iter()
            .map(|&(d, w)| (d * den).min(w * num))
            .sum();
        (takes.min(self.ceiling * den) - self.floor * den).max(0)
    }
}

/// The level of the module's formula by trying every line between two bends.
fn naive_level(capacity: i128, all: &[Naive]) -> Option<(i128, i128)> {
    let sum = |level| all.iter().map(|one| one.beyond(level)).sum::<i128>();
    let far = 1 << 60;
    if sum((far, 1)) <= capacity {
        return None;
    }
    let mut bends = vec![(0, 1), (far, 1)];
    for one in all {
        let mut ends = one.segments.clone();
        ends.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
        bends.extend(&ends);
        let (mut met, mut open) = (0, ends.iter().map(|end| end.1).sum::<i128>());
        for (demand, weight) in ends {
            bends.extend([one.floor, one.ceiling].map(|amount| ((amount - met).max(0), open)));
            met += demand;
            open -= weight;
        }
    }
    bends.retain(|bend| bend.1 > 0);
    bends.sort_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)));
    let upper = bends
        .iter()
        .position(|&bend| sum(bend) > capacity * bend.1)
        .unwrap();
    let ((n0, d0), (n1, d1)) = (bends[upper - 1], bends[upper]);
    // Straight from (λ₀, s₀) to (λ₁, s₁): λ = λ₀ + (C − s₀)·(λ₁ − λ₀)/(s₁ − s₀).
    let (s0, s1) = (sum((n0, d0)), sum((n1, d1)));
    let (rise, run) = (s1 * d0 - s0 * d1, n1 * d0 - n0 * d1);
    let num = n0 * rise + (capacity * d0 - s0) * run;
    let common = gcd(num, rise * d0);
    Some((num / common, rise * d0 / common))
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The whole rule, naively, without headroom.
fn naive(capacity: u64, claimants: &[Claimant]) -> Vec<u64> {
    let most = |claimant: &Claimant| claimant.ceiling.unwrap_or(1 << 40);
    let floors: Vec<u64> = claimants.iter().map(|c| c.floor.min(most(c))).collect();
    let mut parts = match floors.iter().sum::<u64>() <= capacity {
        true => floors.clone(),
        false => apportion(capacity, &floors),
    };
    let mut rooms: Vec<(u64, u64)> = floors.into_iter().zip(claimants.iter().map(most)).collect();
    for band in [2, 1, 0].map(band) {
        let left = capacity - parts.iter().sum::<u64>();
        if left == 0 {
            break;
        }
        let mut members = Vec::new();
        for (index, claimant) in claimants.iter().enumerate() {
            if let Some((_, curve)) = claimant.demand.iter().find(|(of, _)| *of == band) {
                members.push((index, curve));
            }
        }
        let scale = i128::from(WEIGHT_ONE);
        let mut all: Vec<Naive> = members
            .iter()
            .map(|&(index, curve)| Naive {
                segments: curve
                    .segments()
                    .iter()
                    .map(|s| (s.demand.into(), i128::from(s.weight) / scale))
                    .collect(),
                floor: rooms[index].0.into(),
                ceiling: rooms[index].1.min(curve.total()).into(),
            })
            .collect();
        let more = naive_units(left, &mut all, |member| parts[members[member].0] == 0);
        for (&(index, curve), more) in members.iter().zip(more) {
            parts[index] += more;
            let used = curve.total().min(rooms[index].1);
            rooms[index].0 = rooms[index].0.saturating_sub(used);
            rooms[index].1 -= used;
        }
    }
    parts
}

/// One band in whole units, the first for everybody who has nothing.
fn naive_units(capacity: u64, all: &mut [Naive], empty: impl Fn(usize) -> bool) -> Vec<u64> {
    let capacity = i128::from(capacity);
    let needy: Vec<bool> = all
        .iter()
        .enumerate()
        .map(|(i, one)| empty(i) && one.ceiling > one.floor)
        .collect();
    let count = needy.iter().filter(|&&needy| needy).count() as i128;
    let mut parts = vec![0_i128; all.len()];
    let mut left = capacity;
    if count > capacity {
        let mut order: Vec<usize> = (0..all.len()).filter(|&i| needy[i]).collect();
        let weight = |i: &usize| all[*i].segments.iter().map(|s| s.1).sum::<i128>();
        order.sort_by_key(|i| -weight(i));
        for &i in order.iter().take(capacity as usize) {
            parts[i] = 1;
        }
        return parts.into_iter().map(|part| part as u64).collect();
    }
    for (i, one) in all.iter_mut().enumerate() {
        if needy[i] {
            one.floor += 1;
            parts[i] = 1;
            left -= 1;
        }
    }
    match naive_level(left, all) {
        None => {
            for (part, one) in parts.iter_mut().zip(all.iter()) {
                *part += (one.ceiling - one.floor).max(0);
            }
        }
        Some((num, den)) => {
            let beyond: Vec<i128> = all.iter().map(|one| one.beyond((num, den))).collect();
            left -= beyond.iter().map(|beyond| beyond / den).sum::<i128>();
            let mut order: Vec<usize> = (0..all.len()).collect();
            order.sort_by_key(|&i| -(beyond[i] % den));
            for (rank, &i) in order.iter().enumerate() {
                parts[i] += beyond[i] / den + i128::from((rank as i128) < left);
            }
        }
    }
    parts.into_iter().map(|part| part as u64).collect()
}

fn small_curve() -> impl Strategy<Value = DemandCurve> {
    let one = (prop_oneof![Just(0), 1..2_000_u64], 1..6_u32);
    prop::collection::vec(one, 1..4).prop_map(|all| {
        let curves = all.iter().map(|&(demand, weight)| curve(demand, weight));
        curves.fold(DemandCurve::EMPTY, |sum, curve| sum.plus(&curve).unwrap())
    })
}

fn small_claimant() -> impl Strategy<Value = Claimant> {
    let demand = prop::collection::btree_map((0..3_u8).prop_map(band), small_curve(), 0..3);
    let floor = prop_oneof![Just(0), 0..400_u64];
    (demand, floor, prop::option::of(0..1_500_u64)).prop_map(|(demand, floor, ceiling)| Claimant {
        weight: demand.values().map(DemandCurve::weight).sum(),
        demand: demand.into_iter().collect(),
        floor,
        ceiling,
        fixed: floor / 2,
    })
}

fn small_world() -> impl Strategy<Value = (u64, Vec<Claimant>)> {
    (
        0..12_000_u64,
        prop::collection::vec(small_claimant(), 0..12),
    )
}

/// Anything at all that the types admit.
fn hostile() -> impl Strategy<Value = Claimant> {
    let number = || {
        prop_oneof![
            Just(0),
            Just(1),
            Just(u64::MAX),
            any::<u64>(),
            0..1_u64 << 40
        ]
    };
    let segments = prop::collection::vec((number(), number()), 0..4);
    let curve = segments.prop_map(|all| {
        let mut segments: Vec<Segment> = all
            .into_iter()
            .map(|(demand, weight)| Segment {
                demand,
                weight: weight.max(1),
            })
            .collect();
        segments.sort_by_key(Segment::breakpoint);
        DemandCurve::from_segments(segments).unwrap_or_default()
    });
    let demand = prop::collection::vec(((0..=Band::MAX).prop_map(band), curve), 0..3);
    (
        demand,
        number(),
        number(),
        prop::option::of(number()),
        number(),
    )
        .prop_map(|(demand, weight, floor, ceiling, fixed)| Claimant {
            demand,
            weight,
            floor,
            ceiling,
            fixed,
        })
}

fn terms() -> impl Strategy<Value = Terms> {
    let policy = prop_oneof![
        Just(Policy::MaxMin),
        Just(Policy::Static),
        Just(Policy::Equal),
        Just(Policy::Proportional),
    ];
    let headroom = prop_oneof![Just(Headroom::ByWeight), Just(Headroom::Kept)];
    (policy, headroom).prop_map(|(policy, headroom)| Terms { policy, headroom })
}

/// Invariant 10: shares are weighted max-min, by the formula, to the unit.
fn it_is_naive_water_filling((capacity, claimants): (u64, Vec<Claimant>)) -> Law {
    prop_assert_eq!(
        divide(capacity, &claimants, KEPT),
        naive(capacity, &claimants)
    );
    Ok(())
}

/// Invariants 10 and 14: what was allocated before changes nothing.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_allocation_is_naive_water_filling_to_the_unit(world in small_world()) {
        it_is_naive_water_filling(world)?;
    }

    /// Invariant 10, for the bare rule and the whole range of numbers.
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
    fn an_allocation_does_not_depend_on_a_warm_start(before in small_world(), now in small_world()) {
        warmth_changes_nothing((before, now))?;
    }

    /// Invariant 10: a newcomer takes, it does not give.
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

    /// Invariants 2 and 13: whatever anybody claims, no unit is dealt twice.
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

    /// Invariant 10: the tree is as fair as one book: each level rounds once, so
    /// a client is less than two units from its exact share.
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

    /// Invariants 2 and 8: damped parts fit the capacity, and old differences are put right.
    #[test]
    fn damping_fits_the_capacity_and_holds_nothing_back_for_long(
        changes in prop::collection::vec((0..1_000_u64, 0..1_000_u64, 0..9_u32), 0..12),
    ) {
        let changes: Vec<Change> = changes.into_iter().map(|(held, target, ticks)| Change { held, target, ticks }).collect();
        let capacity = changes.iter().map(|change| change.target).sum::<u64>();
        let parts = damp(capacity, &changes);
        prop_assert!(parts.iter().sum::<u64>() <= capacity);
        for (change, part) in changes.iter().zip(parts) {
            prop_assert!(part == change.held || part == change.target);
            let edge = (change.held == 0) != (change.target == 0);
            if edge || change.ticks > HELD_BACK_TICKS {
                prop_assert_eq!(part, change.target);
            }
        }
    }
}

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
                ticks: 1,
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
fn a_wobble_is_held_back_while_nobody_needs_it() {
    let change = |held, target, ticks| Change {
        held,
        target,
        ticks,
    };
    assert_eq!(
        damp(1_000, &[change(500, 480, 1), change(300, 310, 1)]),
        [500, 300]
    );
    assert_eq!(
        damp(1_000, &[change(500, 480, 5), change(300, 310, 5)]),
        [480, 310]
    );
    assert_eq!(
        damp(1_000, &[change(500, 474, 1), change(0, 1, 0)]),
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

/// Whether the law fails for some case of a fixed sequence while the bug is on.
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
