use super::*;

#[test]
fn the_busiest_span_has_the_most_requests() {
    assert_eq!(busiest(&[0, 10, 11, 12, 30], 3), (10, 13));
    assert_eq!(busiest(&[0, 10, 20], 3), (0, 3));
    assert_eq!(busiest(&[], 3), (0, 3));
}
#[test]
fn a_request_at_the_end_of_a_span_is_not_in_it() {
    assert_eq!(busiest(&[0, 10, 20, 25], 10), (20, 30));
}
