use super::*;

#[test]
fn a_clock_is_compared_with_the_median() {
    const HOUR: i64 = 3_600_000;
    let check = |ahead: &[i64], expect: i64| assert_eq!(offset_ms(ahead.to_vec()), expect);
    check(&[], 0);
    // This node is an hour behind the others, or ahead of them.
    check(&[HOUR, HOUR + 3], -HOUR);
    check(&[-HOUR, -HOUR - 3], HOUR);
    // Another one is.
    check(&[HOUR, 3], -3);
    check(&[-HOUR, 0, 0, 0], 0);
    check(&[HOUR, 0, 0], 0);
    // One of the two is wrong, and nothing shows which.
    check(&[HOUR], -HOUR);
    check(&[-HOUR], HOUR);
}
