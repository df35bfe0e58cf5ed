use super::*;

#[track_caller]
fn check(tokens: u64, per: Span, burst: u64, grains_per_token: u64, grains_per_sec: u64) {
    let rate = Frequency::new(tokens, per).unwrap();
    let scale = Scale::fit(rate, burst).unwrap();
    assert_eq!(scale.grains_per_token(), grains_per_token);
    assert_eq!(scale.rate(rate).unwrap().grains(), grains_per_sec);
    scale.tokens(burst).unwrap();
}

#[test]
fn the_scale_serves_the_whole_range_of_rates() {
    let (second, days) = (Span::from_secs(1), Span::from_secs(864_000));
    check(1_000, second, 200, 864_000 * 4, 864_000 * 4 * 1_000);
    check(1, days, 1, 864_000 * (1 << 32), 1 << 32);
    check(1_000_000_000_000, second, 1_000_000, 1, 1_000_000_000_000);
    check(30_000_000, second, 30_000_000, 128, 128 * 30_000_000);
    check(1, second, 1 << 40, 1 << 16, 1 << 16);
}

#[test]
fn rates_outside_the_range_are_refused() {
    let refused = UnitError::OutOfRange { what: "rate" };
    assert_eq!(Frequency::per_sec(1_000_000_000_001), Err(refused));
    assert_eq!(Frequency::new(1, Span::from_secs(864_001)), Err(refused));
    assert_eq!(
        Frequency::new(1, Span::ZERO),
        Err(UnitError::Zero { what: "span" })
    );
    assert!(Frequency::new(0, Span::from_secs(864_001)).is_ok());
}

#[test]
fn the_time_to_make_tokens_is_rounded_up() {
    let time = |tokens, rate| time_to_make(Tokens::from_grains(tokens), Rate::from_grains(rate));
    assert_eq!(time(0, 0), Some(Span::ZERO));
    assert_eq!(time(1, 0), None);
    assert_eq!(time(1, 3), Some(Span::from_nanos(333_333_334)));
    assert_eq!(time(6, 3), Some(Span::from_secs(2)));
    assert_eq!(time(u64::MAX, 1), None);
}
