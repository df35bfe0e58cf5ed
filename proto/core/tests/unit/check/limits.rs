use super::*;

#[test]
fn a_lowered_limit_binds_one_lag_later_and_a_raise_at_once() {
    let limit = |burst| Limit::new(Rate::ZERO, Tokens::from_grains(burst));
    let mut limits = Limits::new(Tick::ZERO, limit(9), Span::from_nanos(10));
    limits.change(Tick::from_nanos(100), limit(5));
    limits.change(Tick::from_nanos(105), limit(7));
    for (now, burst) in [(100, 9), (110, 9), (111, 7), (500, 7)] {
        assert_eq!(limits.greatest_at(Tick::from_nanos(now)), limit(burst));
    }
}
