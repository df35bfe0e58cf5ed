use super::*;

#[test]
fn levels_are_ordered_by_their_ratio() {
    assert_eq!(Level::new(1, 2), Level::new(2, 4));
    assert!(Level::ZERO < Level::new(1, u64::MAX));
    assert!(Level::new(u64::MAX, 1) < Level::FULL);
    assert_eq!(Level::new(7, 0), Level::FULL);
    assert_eq!(Level::new(7, 2).part(3), Some((10, 1)));
    assert_eq!(Level::new(u64::MAX, 1).part(2), None);
}
