//! A thousand million admissions: the count is the exact rational, rounded down.

use super::*;
use aliquot_core::unit::{Frequency, Scale};

/// Admits all there is, step by step, until `admissions` were made or the clock's range ends, and compares
/// with `tokens · elapsed ÷ per + burst`.
///
/// Steps are irregular and never let the bucket fill up, so no token is lost by overflow.
fn check(tokens: u64, per: Span, burst: u64, admissions: u64) {
    let frequency = Frequency::new(tokens, per).expect("in range");
    let scale = Scale::fit(frequency, burst).expect("in range");
    let whole = |n: u64| scale.tokens(n).expect("in range");
    let start = Share {
        rate: scale.rate(frequency).expect("in range"),
        burst: whole(burst),
        tokens: whole(burst),
    };
    let mut bucket = Bucket::new(start, START);
    // At most one token is left over from the step before.
    let fills_in = u128::from(per.nanos()) * u128::from(burst - 1) / u128::from(tokens);
    let longest = u64::try_from(fills_in).expect("a short burst");
    let (mut now, mut admitted, mut step) = (START, 0_u64, 0_u64);
    while admitted < admissions {
        let there = scale.whole(bucket.level_at(now));
        assert_eq!(bucket.try_acquire_at(whole(there), now), Ok(()));
        assert!(bucket.try_acquire_at(whole(1), now).is_err());
        admitted += there;
        step += 1;
        let dt = longest - step * 7_919 % (longest / 3).max(1);
        match now.nanos().checked_add(dt) {
            Some(_) => now = now.after(Span::from_nanos(dt)),
            None => break,
        }
    }
    admitted += scale.whole(bucket.level_at(now));
    let elapsed = u128::from(now.since(START).nanos());
    let exact = u128::from(tokens) * elapsed / u128::from(per.nanos()) + u128::from(burst);
    let admitted = u128::from(admitted);
    assert!(
        admitted <= exact,
        "{tokens} per {per}: {admitted} > {exact}"
    );
    assert!(
        admitted + 1 >= exact,
        "{tokens} per {per}: {admitted} < {exact}"
    );
}

#[test]
fn a_thousand_million_admissions_are_exact_at_any_rate() {
    let second = Span::from_secs(1);
    let million = 1_000_000;
    check(30 * million, second, 50_000, 1_000 * million);
    check(300 * million, second, 50_000, 1_000 * million);
    check(million * million, second, million, 1_000 * million);
    check(7, Span::from_secs(3), 50_000, 1_000 * million);
    check(3, Span::from_secs(7), 50_000, 1_000 * million);
    check(
        1_234_567,
        Span::from_nanos(987_654_321),
        50_000,
        1_000 * million,
    );
    // As long as a 64-bit clock of nanoseconds runs: 584 years, 21,000 tokens.
    check(1, Frequency::SPAN_PER_TOKEN_MAX, 2, u64::MAX);
}

#[test]
#[ignore = "ten seconds of single steps, for the sim profile"]
fn a_thousand_million_single_steps_are_exact() {
    let frequency = Frequency::per_sec(30_000_000).expect("in range");
    let scale = Scale::fit(frequency, 100).expect("in range");
    let token = scale.tokens(1).expect("in range");
    let start = Share {
        rate: scale.rate(frequency).expect("in range"),
        burst: scale.tokens(100).expect("in range"),
        tokens: Tokens::ZERO,
    };
    let mut bucket = Bucket::new(start, START);
    let mut admitted = 0_u64;
    let mut now = START;
    while admitted < 1_000_000_000 {
        now = now.after(Span::from_nanos(31));
        admitted += u64::from(bucket.try_acquire_at(token, now).is_ok());
    }
    let exact = now.since(START).nanos() * 30 / 1_000;
    assert!(
        admitted <= exact && admitted + 1 >= exact,
        "{admitted}, {exact}"
    );
}
