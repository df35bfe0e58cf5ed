use super::*;

#[test]
fn a_start_that_is_full_or_too_high_or_too_low_is_as_good_as_none() {
    let (demands, weights) = ([10, 50, 90, 400], [1, 1, 2, 2]);
    let range = Range::of(&demands, &weights).unwrap();
    let look = |from| {
        let near = &mut Vec::new();
        search(300, (&demands, &weights), &range, from, near)
    };
    assert_eq!(look(None), Some(Level::new(150, 2)));
    for from in [
        Level::FULL,
        Level::ZERO,
        Level::new(300, 1),
        Level::new(1, 7),
    ] {
        assert_eq!(look(Some(from)), look(None), "from {from:?}");
    }
}
