//! The laws of dividing and collecting burst.

use aliquot_core::allocate::{Burst, Holder, distribute_burst, distribute_burst_above, gather};
use proptest::prelude::*;

proptest! {
    /// Invariants 2 and 10: bursts add up to no more than the budget's, and rate never comes without burst
    /// while whole tokens suffice.
    #[test]
    fn bursts_fit_and_no_rate_is_left_without_while_tokens_suffice(
        burst in prop_oneof![0..200_u64, any::<u64>()],
        per_token in prop_oneof![Just(1_u64), 1..50_u64, any::<u64>()],
        rates in prop::collection::vec(prop_oneof![Just(0), 1..9_u64, any::<u64>()], 0..20),
    ) {
        let parts = distribute_burst(burst, per_token, &rates);
        prop_assert_eq!(parts.len(), rates.len());
        let sum: u128 = parts.iter().map(|part| u128::from(part.units())).sum();
        prop_assert!(sum <= burst.into());
        let holders = rates.iter().filter(|&&rate| rate > 0).count() as u64;
        let whole = burst.checked_div(per_token).unwrap_or(0);
        let central = parts.iter().filter(|&&part| part == Burst::Central).count() as u64;
        prop_assert_eq!(central, holders.saturating_sub(whole));
        if holders > 0 && whole > 0 {
            prop_assert_eq!(sum, u128::from(burst), "all of it is dealt");
        }
        for (part, rate) in parts.iter().zip(rates) {
            if rate == 0 {
                prop_assert_eq!(*part, Burst::Part(0));
            } else if *part != Burst::Central {
                prop_assert!(part.units() >= per_token);
            }
        }
    }

    /// Invariant 2, and the order of allocation: floors come first, and what is dealt fits.
    #[test]
    fn no_burst_is_below_its_floor_while_the_floors_fit(
        burst in 0..500_u64,
        per_token in 1..20_u64,
        holders in prop::collection::vec((0..50_u64, 0..40_u64), 0..12),
    ) {
        let (rates, floors): (Vec<u64>, Vec<u64>) = holders.iter().copied().unzip();
        let parts = distribute_burst_above(&floors, burst, per_token, &rates);
        prop_assert_eq!(parts.len(), rates.len());
        prop_assert!(parts.iter().sum::<u64>() <= burst);
        let fit = floors.iter().sum::<u64>() <= burst;
        for ((&part, &floor), &rate) in parts.iter().zip(&floors).zip(&rates) {
            prop_assert!(!fit || rate == 0 || part >= floor, "{parts:?} of {holders:?}");
        }
    }

    /// Invariants 2 and 8: the collected burst fits, serves the cost, and takes no floor.
    #[test]
    fn a_gathering_serves_its_cost_from_what_no_floor_pins(
        burst in 0..5_000_u64,
        holders in prop::collection::vec((0..900_u64, 0..300_u64, 0..6_000_u64, 0..9_u64), 0..8),
    ) {
        let holders: Vec<Holder> = holders
            .into_iter()
            .map(|(part, pinned, waiting, age)| Holder { part, pinned, waiting, age })
            .collect();
        let gathering = gather(burst, &holders);
        let pinned: u64 = holders.iter().map(|holder| holder.pinned).sum();
        let stuck = |holder: &Holder| holder.waiting > holder.part;
        let Some((to, parts)) = gathering.plan else {
            let refused = holders.iter().filter(|holder| stuck(holder)).count();
            prop_assert_eq!(gathering.refused.len(), refused);
            return Ok(());
        };
        prop_assert!(parts.iter().sum::<u64>() <= burst);
        prop_assert!(stuck(&holders[to]) && holders[to].waiting <= burst - pinned);
        prop_assert!(parts[to] >= holders[to].waiting + holders[to].pinned);
        for (index, holder) in holders.iter().enumerate() {
            let servable = stuck(holder) && holder.waiting <= burst - pinned;
            prop_assert!(!servable || holder.age <= holders[to].age, "the oldest first");
            prop_assert_eq!(gathering.refused.contains(&index), stuck(holder) && !servable);
            prop_assert!(index == to || parts[index] == holder.pinned);
        }
    }
}

#[test]
fn a_small_burst_is_dealt_in_whole_tokens() {
    use Burst::{Central, Part};
    assert_eq!(
        distribute_burst(35, 10, &[1, 0, 5, 1]),
        [Part(15), Part(0), Part(10), Part(10)]
    );
    assert_eq!(
        distribute_burst(25, 10, &[1, 0, 5, 1]),
        [Part(15), Part(0), Part(10), Central]
    );
    assert_eq!(distribute_burst(9, 10, &[1, 2]), [Central, Central]);
    assert_eq!(
        distribute_burst(u64::MAX, 1, &[1, u64::MAX - 1]),
        [Part(1), Part(u64::MAX - 1)],
        "rates that just add up to 64 bits are not made coarser"
    );
    assert_eq!(
        distribute_burst_above(&[50, 0, 50], 1_000, 10, &[1, 1_000, 0]),
        [50, 950, 0],
        "a floor of five tokens"
    );
    assert_eq!(
        distribute_burst(1_000, 10, &[1, 1_000, 0]),
        [Part(10), Part(990), Part(0)]
    );
}

#[test]
fn burst_for_a_cost_of_4000_is_collected_from_parts_of_3333() {
    let holder = |waiting, age| Holder {
        part: 3_333,
        pinned: 100,
        waiting,
        age,
    };
    let holders = [holder(3_333, 9), holder(4_000, 1), holder(5_000, 2)];
    let gathering = gather(10_000, &holders);
    assert_eq!(gathering.plan, Some((2, vec![100, 100, 9_800])));
    let gathering = gather(10_000, &[holder(9_701, 5), holder(0, 0), holder(9_700, 1)]);
    assert_eq!(gathering.refused, [0]);
    assert_eq!(gathering.plan, Some((2, vec![100, 100, 9_800])));
}
