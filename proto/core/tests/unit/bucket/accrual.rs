use super::*;

fn check(rate: u64, dt: u64, phase: u32) {
    let exact = u128::from(rate) * u128::from(dt) + u128::from(phase);
    let billion = u128::from(BILLION);
    let made = Accrual::of(Rate::from_grains(rate)).made(Span::from_nanos(dt), phase);
    if let Ok(whole) = u64::try_from(exact / billion)
        && whole < u64::MAX
    {
        assert_eq!(made.whole, whole, "{rate} for {dt} on {phase}");
        assert_eq!(u128::from(made.fraction), exact % billion);
    } else {
        assert_eq!((made.whole, made.fraction), (u64::MAX, 0));
    }
}

#[test]
fn supply_is_the_exact_quotient_over_the_whole_range() {
    for rate_bits in 0..64 {
        for dt_bits in 0..64 {
            let (rate, dt) = (1_u64 << rate_bits, 1_u64 << dt_bits);
            for phase in [0, 1, 999_999_999] {
                check(rate, dt, phase);
                check(rate - 1, dt - 1, phase);
                check(u64::MAX >> rate_bits, dt, phase);
                check(rate | 1, dt - 1, phase);
            }
        }
    }
}

/// Just below a whole grain, where a product that is too great would show first.
#[test]
fn supply_is_exact_next_to_whole_grains_at_the_longest_spans() {
    for rate in [1, 3, 7, 999_999_937, (1 << 32) + 1, (1 << 36) - 1] {
        let accrual = Accrual::of(Rate::from_grains(rate));
        let most = accrual.supply(Accrual::SPAN_MAX);
        for whole in most - 1_000..=most {
            let Some(dt) = accrual.time_until(whole, 0) else {
                continue;
            };
            check(rate, dt.nanos(), 0);
            check(rate, dt.nanos() - 1, 0);
        }
    }
}

#[test]
fn what_does_not_fit_is_cut_off() {
    let fastest = Accrual::of(Rate::MAX);
    assert_eq!(fastest.supply(Span::MAX), u64::MAX);
    assert_eq!(fastest.made(Span::MAX, 999_999_999).whole, u64::MAX);
    let slowest = Accrual::of(Rate::from_grains(1));
    assert_eq!(slowest.supply(Span::MAX), (1 << 63) / BILLION);
    assert_eq!(slowest.time_until(u64::MAX, 0), None);
    let never = Accrual::of(Rate::ZERO);
    assert_eq!(never.supply(Span::MAX), 0);
    assert_eq!(never.time_until(1, 0), None);
    assert_eq!(never.made(Span::MAX, 7).fraction, 7);
}
