use super::is_within;

#[test]
fn a_figure_beyond_one_of_its_bounds_is_out_of_them() {
    let (least, most) = (Some(1.0), Some(2.0));
    let within = |figure| is_within(figure, least, most);
    assert_eq!([0.9, 1.0, 2.0, 2.1].map(within), [false, true, true, false]);
    assert!(!is_within(0.9, least, None) && !is_within(2.1, None, most));
    assert!(is_within(2.1, least, None) && is_within(0.9, None, most));
}
