use super::*;
use proptest::prelude::*;

proptest! {
    /// The one-word product equals the full product, for round numbers too.
    #[test]
    fn supply_by_one_word_equals_supply_by_the_full_product(
        nanos in prop_oneof![0..1_000_u64, any::<u64>(), (0..64_u32).prop_map(|by| 1 << by)],
        mult in prop_oneof![any::<u64>(), (0..64_u32).prop_map(|by| 1 << by), Just(0)],
        places in 0..=Slot::PLACES_MAX,
    ) {
        let made = made_in_a_word(nanos, mult, places);
        let all = made_of(u128::from(nanos) * u128::from(mult), places);
        prop_assert!(made.is_none_or(|made| made == all), "{made:?}, {all:?}");
        prop_assert!(made.is_some() || places < u64::BITS);
    }

    /// Invariant 12: the fast arithmetic returns what the exact one does, to the unit, and never more.
    #[test]
    fn supply_is_exact_for_every_rate_and_burst(
        rate in prop_oneof![0_u64..4, 0..1_u64 << 20, 0..=u64::MAX],
        burst in prop_oneof![0_u64..4, 0..=u64::MAX],
        nanos in prop_oneof![0_u64..4, 0..1_u64 << 36, 0..=u64::MAX],
    ) {
        let (rate, burst) = (Rate::from_grains(rate), Tokens::from_grains(burst));
        let slot = Slot::new(rate, burst, Tick::ZERO, AdmissionMode::Leased, Kind::Rate);
        let product = u128::from(nanos) * u128::from(slot.mult);
        prop_assert_eq!(slot.made(Tick::from_nanos(nanos)), made_of(product, slot.places));
    }
}
