use super::*;

#[test]
fn who_wants_and_would_get_less_than_a_unit_starves() {
    let starves = |level, demand, weight| starves(level, (&[9, demand], &[9, weight]));
    let third = Level::new(1, 3);
    assert!(starves(third, 5, 2));
    assert!(!starves(third, 5, 3), "exactly one unit");
    assert!(!starves(third, 0, 2), "who wants nothing");
    assert!(starves(Level::new(2, 5), 5, 2));
    assert!(!starves(Level::new(1, 1), 5, 0), "who has no weight");
    assert!(!starves(Level::FULL, 5, 1));
}

#[test]
fn at_level_zero_all_starve_who_want() {
    assert!(starves(Level::ZERO, (&[0, 1], &[1, 1])));
    assert!(!starves(Level::ZERO, (&[0, 0], &[1, 1])));
}
