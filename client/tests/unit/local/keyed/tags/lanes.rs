use super::{alike, portable};
use proptest::prelude::*;

proptest! {
    /// Uses few different tags, so that many lanes are equal.
    #[test]
    fn lanes_that_are_alike_are_found_and_no_others(
        tags in prop::array::uniform16(prop_oneof![0..3_u16, Just(0x8000), Just(u16::MAX)]),
        other: u16, known in prop::option::of(0..16_usize),
    ) {
        let tag = known.map_or(other, |at| tags[at]);
        let words: [u64; 4] = std::array::from_fn(|word| {
            let lane = |lane: usize| u64::from(tags[4 * word + lane]) << (16 * lane);
            (0..4).map(lane).sum()
        });
        let naive = (0..16).filter(|&at| tags[at] == tag).map(|at| 1 << at).sum::<u64>();
        prop_assert_eq!(alike(words, tag.into()), naive);
        prop_assert_eq!(portable(words, tag.into()), naive);
    }
}
