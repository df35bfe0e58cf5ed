use super::*;

#[test]
fn numbers_out_of_range_are_told() {
    let range = Range::of(&[3, 4], &[12, 8]).unwrap();
    assert_eq!((range.total, range.weight), (7, 20));
    assert_eq!((range.bits, range.zeros), (4, 2));
    assert!(Range::of(&[0, 1 << 60], &[1, 1]).is_none());
    assert!(Range::of(&[0, 1], &[1, 1 << 60]).is_none());
    assert!(Range::of(&[1, 1], &[1, 0]).is_none());
    assert!(Range::of(&[1, 1], &[1]).is_none());
    assert!(Range::of(&[], &[]).is_some());
}
