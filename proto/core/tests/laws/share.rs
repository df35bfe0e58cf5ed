//! Laws of shares and units. Numbers are those of `docs/invariants.md`.

use aliquot_core::planted::{self, Bug};
use aliquot_core::share::{Share, apportion, distribute_whole};
use aliquot_core::unit::{Band, Drift, Frequency, Rate, Scale, Span, Tokens, UnitError, Weight};
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence, TestCaseResult};

fn config() -> Config {
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..Config::default()
    }
}

fn grains(grains: u64) -> Tokens {
    Tokens::from_grains(grains)
}

/// Generates a number of any length in bits, so that small and great ones meet.
fn any_amount() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift)
}

fn any_share() -> impl Strategy<Value = Share> {
    (any_amount(), any_amount(), any_amount()).prop_map(|(rate, burst, tokens)| Share {
        rate: Rate::from_grains(rate),
        burst: grains(burst),
        tokens: grains(tokens),
    })
}

fn any_weights() -> impl Strategy<Value = Vec<Weight>> {
    let weight = prop_oneof![1..4_u32, 1..=Weight::MAX];
    let weight = weight.prop_map(|weight| Weight::new(weight).expect("in range"));
    prop::collection::vec(weight, 1..40)
}

fn merged(parts: &[Share]) -> Option<Share> {
    parts.iter().copied().try_fold(Share::EMPTY, Share::merge)
}

/// Invariant 2: the parts of a split add up to the whole.
fn a_split_merges_to_the_whole(share: Share, weights: &[Weight]) -> TestCaseResult {
    let parts = share.split(weights);
    prop_assert_eq!(parts.len(), weights.len());
    prop_assert_eq!(merged(&parts), Some(share));
    Ok(())
}

/// Each part is its quotient rounded down or up, and equal weights differ by one.
fn a_part_is_its_quotient_rounded(amount: u64, weights: &[u64]) -> TestCaseResult {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let parts = apportion(amount, weights);
    if sum == 0 {
        prop_assert!(parts.iter().all(|&part| part == 0));
        return Ok(());
    }
    prop_assert_eq!(
        parts.iter().map(|&part| u128::from(part)).sum::<u128>(),
        amount.into()
    );
    for (&part, &weight) in parts.iter().zip(weights) {
        let product = u128::from(amount) * u128::from(weight);
        prop_assert!(u128::from(part) >= product / sum);
        prop_assert!(u128::from(part) <= product.div_ceil(sum));
    }
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_is_split_merges_to_what_it_was(share in any_share(), weights in any_weights()) {
        a_split_merges_to_the_whole(share, &weights)?;
    }

    #[test]
    fn an_apportioned_part_is_its_quotient_rounded_down_or_up(
        amount in any_amount(), weights in prop::collection::vec(0..=1_u64 << 40, 0..30),
    ) {
        a_part_is_its_quotient_rounded(amount, &weights)?;
    }

    /// Invariant 2: no part of a clipped share is above its burst.
    #[test]
    fn a_split_keeps_every_level_within_its_burst(share in any_share(), weights in any_weights()) {
        let (share, _) = share.clip();
        for part in share.split(&weights) {
            prop_assert!(share.burst.is_zero() || part.tokens <= part.burst, "{part} of {share}");
        }
    }

    #[test]
    fn merging_is_commutative_and_associative_and_nothing_is_its_identity(
        a in any_share(), b in any_share(), c in any_share(),
    ) {
        prop_assert_eq!(a.merge(b), b.merge(a));
        let left = a.merge(b).and_then(|ab| ab.merge(c));
        let right = b.merge(c).and_then(|bc| a.merge(bc));
        prop_assert_eq!(left, right);
        prop_assert_eq!(a.merge(Share::EMPTY), Some(a));
        prop_assert!(Share::EMPTY.is_empty());
    }

    #[test]
    fn what_is_merged_can_be_taken_out_and_what_is_not_there_cannot(
        a in any_share(), b in any_share(),
    ) {
        if let Some(both) = a.merge(b) {
            prop_assert_eq!(both.without(b), Some(a));
            prop_assert!(both.covers(&a) && both.covers(&b));
        }
        prop_assert_eq!(a.without(b).is_some(), a.covers(&b));
    }

    /// Invariant 2: a level changes by what was spent or refunded, and never rises above the burst.
    #[test]
    fn spending_and_refunding_move_only_the_level(share in any_share(), n in any_amount()) {
        let n = grains(n);
        match share.spend(n) {
            None => prop_assert!(n > share.tokens),
            Some(spent) => {
                prop_assert_eq!(spent.tokens.plus(n), Some(share.tokens));
                prop_assert_eq!((spent.rate, spent.burst), (share.rate, share.burst));
                if share.tokens <= share.burst {
                    prop_assert_eq!(spent.refund(n), share);
                }
            }
        }
        let refunded = share.refund(n);
        prop_assert_eq!((refunded.rate, refunded.burst), (share.rate, share.burst));
        prop_assert!(refunded.tokens >= share.tokens);
        prop_assert!(refunded.tokens <= share.burst.max(share.tokens));
        let added = refunded.tokens.minus_or_zero(share.tokens);
        prop_assert_eq!(added, n.min(share.burst.minus_or_zero(share.tokens)));
    }

    #[test]
    fn clipping_cuts_to_the_burst_and_says_what_it_cut(share in any_share()) {
        let (clipped, cut) = share.clip();
        prop_assert_eq!(clipped.tokens, share.tokens.min(share.burst));
        prop_assert_eq!(clipped.tokens.plus(cut), Some(share.tokens));
        prop_assert_eq!(clipped.clip(), (clipped, Tokens::ZERO));
    }

    #[test]
    fn a_burst_is_dealt_in_whole_tokens(
        burst in 0..=Scale::GRAINS_MAX, power in 0..=56_u32, weights in any_weights(),
    ) {
        let scale = Scale::try_from(1 << power).expect("in range");
        let parts = distribute_whole(grains(burst), scale, &weights);
        prop_assert_eq!(parts.iter().copied().sum::<Option<Tokens>>(), Some(grains(burst)));
        let fraction = burst % scale.grains_per_token();
        for (index, part) in parts.iter().enumerate() {
            let rest = if index == 0 { fraction } else { 0 };
            prop_assert_eq!(part.grains() % scale.grains_per_token(), rest);
        }
    }

    #[test]
    fn amounts_answer_exactly_or_not_at_all(
        a in any_amount(), b in any_amount(), c in any_amount(),
    ) {
        let (wide_a, wide_b) = (u128::from(a), u128::from(b));
        let fits = |exact: u128| u64::try_from(exact).ok().map(grains);
        prop_assert_eq!(grains(a).plus(grains(b)), fits(wide_a + wide_b));
        prop_assert_eq!(grains(a).minus(grains(b)), wide_a.checked_sub(wide_b).and_then(fits));
        prop_assert_eq!(grains(a).minus_or_zero(grains(b)).grains(), a.saturating_sub(b));
        let scaled = (wide_a * wide_b).checked_div(c.into()).and_then(fits);
        prop_assert_eq!(grains(a).scaled_down(b, c), scaled);
    }
}

/// Generates a rate in the allowed range: from one token in ten days to 10¹² per second.
fn any_frequency() -> impl Strategy<Value = Frequency> {
    let per = prop_oneof![
        prop::sample::select(vec![1_u64, 60, 3_600, 86_400, 864_000])
            .prop_map(|secs| secs * 1_000_000_000),
        1..1_u64 << 60,
    ];
    (any_amount(), per).prop_filter_map("outside the range of rates", |(tokens, per)| {
        Frequency::new(tokens, Span::from_nanos(per)).ok()
    })
}

proptest! {
    #![proptest_config(Config { max_global_rejects: 100_000, ..config() })]

    /// For every allowed rate and every burst up to 2²⁰ tokens there is a scale. Its rate is at most the
    /// given one, and less by under one grain per second.
    #[test]
    fn a_scale_fits_any_rate_and_a_burst_within_its_range(
        frequency in any_frequency(), burst in 0..=1_u64 << 20,
    ) {
        let scale = Scale::fit(frequency, burst);
        prop_assert!(scale.is_ok(), "{frequency:?} with {burst}: {scale:?}");
        let scale = scale.expect("just seen");
        let rate = scale.rate(frequency).expect("the scale was fitted to it");
        let grains_per_span = u128::from(frequency.tokens()) * u128::from(scale.grains_per_token());
        let grains_per_span = grains_per_span * 1_000_000_000;
        let per = u128::from(frequency.per().nanos());
        prop_assert!(u128::from(rate.grains()) * per <= grains_per_span);
        prop_assert!((u128::from(rate.grains()) + 1) * per > grains_per_span);
        let capacity = scale.tokens(burst).expect("the scale was fitted to it");
        prop_assert_eq!((scale.whole(capacity), scale.whole_up(capacity)), (burst, burst));
    }

    /// Greater in tokens is greater in grains, and back.
    #[test]
    fn a_scale_keeps_order_and_whole_tokens_come_back(
        power in 0..=56_u32, a in any_amount(), b in any_amount(),
    ) {
        let scale = Scale::try_from(1 << power).expect("in range");
        prop_assert_eq!(Scale::try_from(u64::from(scale)), Ok(scale));
        if let (Ok(in_grains), Ok(other)) = (scale.tokens(a), scale.tokens(b)) {
            prop_assert_eq!(scale.whole(in_grains), a);
            prop_assert_eq!(in_grains.cmp(&other), a.cmp(&b));
        }
        let (down, up) = (scale.whole(grains(a)), scale.whole_up(grains(a)));
        prop_assert!(down <= up && up - down <= 1);
        prop_assert_eq!(down == up, a % scale.grains_per_token() == 0);
        let (less, more) = (grains(a.min(b)), grains(a.max(b)));
        prop_assert!(scale.whole(less) <= scale.whole(more));
    }
}

#[test]
fn rates_said_in_the_usual_units_are_exact() {
    let check = |tokens: u64, per_secs: u64| {
        let frequency = Frequency::new(tokens, Span::from_secs(per_secs)).expect("in range");
        let scale = Scale::fit(frequency, 1_000).expect("in range");
        let rate = scale.rate(frequency).expect("fitted").grains();
        assert_eq!(
            rate * per_secs,
            tokens * scale.grains_per_token(),
            "{tokens}/{per_secs}"
        );
    };
    for per_secs in [1, 60, 3_600, 86_400, 864_000] {
        for tokens in [1, 3, 7, 60, 1_000, 4_000] {
            check(tokens, per_secs);
        }
    }
    check(1_000_000_000_000, 1);
}

#[test]
fn what_is_out_of_range_is_said_to_be() {
    let ten_days = Frequency::SPAN_PER_TOKEN_MAX;
    assert!(Frequency::new(1, ten_days).is_ok());
    assert!(Frequency::new(1, ten_days.plus_or_max(Span::from_nanos(1))).is_err());
    assert!(Frequency::per_sec(Frequency::PER_SEC_MAX).is_ok());
    assert!(Frequency::per_sec(Frequency::PER_SEC_MAX + 1).is_err());
    assert_eq!(
        Frequency::new(1, Span::ZERO),
        Err(UnitError::Zero { what: "span" })
    );
    let slow = Frequency::new(1, ten_days).expect("in range");
    assert!(Scale::fit(slow, Scale::GRAINS_MAX + 1).is_err());
    assert_eq!(Scale::fit(Frequency::ZERO, 9), Ok(Scale::WHOLE));
    assert_eq!(Scale::try_from(0), Err(UnitError::Zero { what: "scale" }));
    assert!(Weight::new(0).is_err() && Weight::new(Weight::MAX + 1).is_err());
}

#[test]
fn a_remainder_dealt_twice_is_caught() {
    let share = Share {
        rate: Rate::from_grains(10),
        burst: grains(10),
        tokens: grains(10),
    };
    let weights = [Weight::ONE; 6];
    let bug = Some(Bug::RemainderTwice);
    assert!(planted::with(bug, || a_split_merges_to_the_whole(share, &weights)).is_err());
    assert!(planted::with(bug, || a_part_is_its_quotient_rounded(10, &[1, 1, 1, 1])).is_err());
    assert!(a_split_merges_to_the_whole(share, &weights).is_ok());
}

#[test]
fn a_share_with_anything_in_it_is_not_empty() {
    let one = Tokens::from_grains(1);
    let rate = Share {
        rate: Rate::from_grains(1),
        ..Share::EMPTY
    };
    let burst = Share {
        burst: one,
        ..Share::EMPTY
    };
    let tokens = Share {
        tokens: one,
        ..Share::EMPTY
    };
    for share in [rate, burst, tokens] {
        assert!(!share.is_empty(), "{share}");
    }
}

#[test]
fn a_band_is_a_digit() {
    for band in 0..=9 {
        assert_eq!(Band::try_from(band).map(u8::from), Ok(band));
    }
    let refused = UnitError::OutOfRange { what: "band" };
    assert_eq!(Band::try_from(10), Err(refused));
}

#[test]
fn a_burst_fits_up_to_the_greatest_limit_and_no_further() {
    let rate = Frequency::per_sec(1).unwrap();
    assert!(Scale::fit(rate, Scale::GRAINS_MAX).is_ok());
    let refused = UnitError::OutOfRange { what: "burst" };
    assert_eq!(Scale::fit(rate, Scale::GRAINS_MAX + 1), Err(refused));
}

#[test]
fn drifts_and_weights_are_the_numbers_they_were_made_of() {
    for ppm in [0, 2, 1_000, Drift::PPM_MAX] {
        let drift = Drift::try_from(ppm).unwrap();
        assert_eq!((drift.ppm(), u32::from(drift)), (ppm, ppm));
    }
    let refused = UnitError::OutOfRange { what: "drift" };
    assert_eq!(Drift::try_from(Drift::PPM_MAX + 1), Err(refused));
    for weight in [1, 2, Weight::MAX] {
        assert_eq!(Weight::try_from(weight).map(u32::from), Ok(weight));
    }
    let zero = UnitError::Zero { what: "weight" };
    assert_eq!(Weight::try_from(0), Err(zero));
    let refused = UnitError::OutOfRange { what: "weight" };
    assert_eq!(Weight::try_from(Weight::MAX + 1), Err(refused));
}
