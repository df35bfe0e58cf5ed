use super::*;
use proptest::prelude::*;

proptest! {
    /// A search of one part finds the slots that a search of all tags finds there, and none of the other
    /// part.
    #[test]
    fn the_likely_slot_is_the_first_of_its_part(
        all in prop::collection::vec(1..4_u64, Tags::GROUP), place in 0..Tags::GROUP, tag in 1..5_u64,
    ) {
        if !sync::STD_ATOMICS {
            // A model's atomics do not work outside the model.
            return Ok(());
        }
        let tags = Tags::new();
        for (at, &one) in all.iter().enumerate() {
            tags.set(at, one);
        }
        let alike: Vec<_> = (0..Tags::GROUP).filter(|&at| all[at] == tag).collect();
        prop_assert_eq!(tags.candidates(tag).collect::<Vec<_>>(), alike.clone());
        let first = place / Tags::PART * Tags::PART;
        let there = |&at: &usize| (first..first + Tags::PART).contains(&at);
        let naive = alike.into_iter().find(there).unwrap_or(first);
        prop_assert_eq!(tags.likely(place, tag), naive);
    }
}
