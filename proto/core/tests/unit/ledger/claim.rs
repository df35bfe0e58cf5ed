use super::*;
use proptest::array::uniform6;
use proptest::prelude::*;

/// A claim is kept for each key of each session.
#[test]
fn a_claim_is_small() {
    assert!(size_of::<Claim>() <= 96, "{}", size_of::<Claim>());
}

#[test]
fn boxes_that_come_and_go_are_smaller_than_a_claim() {
    assert_eq!((size_of::<Rare>(), size_of::<Passing>()), (80, 80));
}

proptest! {
    /// Within a period, the given amounts only grow. So their sum tells if a line has more than the one before.
    #[test]
    fn a_sum_tells_if_more_was_given(
        before in uniform6(0..=Vector::EXHAUSTED / 8),
        more in uniform6(0_u64..3),
    ) {
        let after = Vector::from_array(std::array::from_fn(|at| before[at] + more[at]));
        let before = Vector::from_array(before);
        prop_assert_eq!(sum(before) == sum(after), before == after);
    }
}
