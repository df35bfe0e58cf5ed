//! Capacities and claimants for the laws.

use super::{band, curve};
use aliquot_core::allocate::{Claimant, Headroom, Policy, Terms};
use aliquot_core::demand::{DemandCurve, Segment};
use aliquot_core::unit::Band;
use proptest::prelude::*;

fn small_curve() -> impl Strategy<Value = DemandCurve> {
    let one = (prop_oneof![Just(0), 1..2_000_u64], 1..6_u32);
    prop::collection::vec(one, 1..4).prop_map(|all| {
        let curves = all.iter().map(|&(demand, weight)| curve(demand, weight));
        curves.fold(DemandCurve::EMPTY, |sum, curve| sum.plus(&curve).unwrap())
    })
}

pub(crate) fn small_claimant() -> impl Strategy<Value = Claimant> {
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

pub(crate) fn small_world() -> impl Strategy<Value = (u64, Vec<Claimant>)> {
    (
        0..12_000_u64,
        prop::collection::vec(small_claimant(), 0..12),
    )
}

/// Generates anything that the types admit.
pub(crate) fn hostile() -> impl Strategy<Value = Claimant> {
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
            demand: demand.into(),
            weight,
            floor,
            ceiling,
            fixed,
        })
}

pub(crate) fn terms() -> impl Strategy<Value = Terms> {
    let policy = prop_oneof![
        Just(Policy::MaxMin),
        Just(Policy::Static),
        Just(Policy::Equal),
        Just(Policy::Proportional),
    ];
    let headroom = prop_oneof![Just(Headroom::ByWeight), Just(Headroom::Kept)];
    (policy, headroom).prop_map(|(policy, headroom)| Terms { policy, headroom })
}

/// A capacity, with demands and weights in two columns.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    pub(crate) capacity: u64,
    pub(crate) claimants: Vec<(u64, u64)>,
}

/// Generates few and many claimants with numbers of the usual sizes, with ties.
pub(crate) fn side_by_side() -> impl Strategy<Value = Side> {
    let demand = prop_oneof![0..50_u64, 0..5_000_u64, any::<u32>().prop_map(u64::from)];
    let weight = prop_oneof![Just(6), 1..9_u64, 1..1_000_u64, 1..=1_000_000_u64];
    let shift = prop_oneof![Just(0_u32), Just(20)];
    let claimants = prop_oneof![
        prop::collection::vec((demand.clone(), weight.clone()), 0..12),
        prop::collection::vec((demand, weight), 0..200),
    ];
    (claimants, shift, 0..1_100_u64).prop_map(|(mut claimants, shift, per_mille)| {
        claimants.iter_mut().for_each(|one| one.1 <<= shift);
        let wanted: u64 = claimants.iter().map(|one| one.0).sum();
        let capacity = wanted * per_mille / 1_000;
        Side {
            capacity,
            claimants,
        }
    })
}
