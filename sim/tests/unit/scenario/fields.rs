use super::{rate, seeds};

#[test]
fn a_range_has_at_least_one_seed() {
    assert_eq!(seeds("3..4", 0), Some((3, 4)));
    assert_eq!(seeds("3..3", 0), None);
    assert_eq!(seeds("3..3", 1), Some((3, 4)));
}

#[test]
fn ten_million_requests_a_second_are_the_most() {
    assert_eq!(rate("10000000/s"), Some(1e7));
    assert_eq!(rate("10000001/s"), None);
}
