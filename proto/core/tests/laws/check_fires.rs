//! Each checker fires on a history made to break its invariant, reports the excess, and passes one grain
//! before. Numbers are those of `docs/invariants.md`.

use aliquot_core::check::{
    ConcurrencyCheck, Disjointness, Dominance, Doubt, Envelope, Holdings, Invariant,
    LaggedEnvelope, Limit, Limits, Minting, Monotone, QuotaCheck, TokenAccount, Verdict,
};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Drift, PeriodId, Rate, Span, Tick, Tokens};

fn limit(rate: u64, burst: u64) -> Limit {
    Limit::new(Rate::from_grains(rate), Tokens::from_grains(burst))
}

fn drift(ppm: u32) -> Drift {
    Drift::from_ppm(ppm).expect("a drift in range")
}

const fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

const fn grains(grains: u64) -> Tokens {
    Tokens::from_grains(grains)
}

#[track_caller]
fn fires(verdict: Verdict, invariant: Invariant, excess: u128) {
    match verdict {
        Verdict::Fail(found) => assert_eq!((found.invariant, found.excess), (invariant, excess)),
        verdict => panic!("expected {invariant} to fail, got {verdict}"),
    }
}

/// Invariant 1.
#[test]
fn a_burst_and_a_grain_at_one_instant_break_the_envelope() {
    let mut envelope = Envelope::new(limit(1_000, 5), Drift::default());
    for cost in [2, 2, 2] {
        envelope.admit(at(7), grains(cost));
    }
    fires(envelope.verdict(), Invariant::Envelope, 1);
    assert_eq!(
        envelope.verdict().to_string(),
        "fail: invariant 1 (envelope) broken within [@7ns, @7ns]: 1 grains admitted over the envelope"
    );
}

/// Invariant 1.
#[test]
fn a_debt_beyond_128_bits_stays_a_failure() {
    let mut envelope = Envelope::new(limit(0, 0), Drift::default());
    for _ in 0..20_000 {
        envelope.admit(at(0), Tokens::MAX);
    }
    assert!(envelope.verdict().violation().is_some());
    assert!(envelope.report().events < 20_000, "the rest is not judged");
}

/// Invariant 1.
#[test]
fn an_event_out_of_order_leaves_the_verdict_unknown_and_a_breach_before_it_stands() {
    let doubt = Verdict::Unknown(Doubt::OutOfOrder { at: at(4) });
    for (costs, expect) in [([1, 1], Some(doubt)), ([6, 0], None)] {
        let mut envelope = Envelope::new(limit(0, 5), Drift::default());
        for cost in costs {
            envelope.admit(at(5), grains(cost));
        }
        envelope.admit(at(4), grains(100));
        match expect {
            Some(expect) => assert_eq!(envelope.verdict(), expect),
            None => fires(envelope.verdict(), Invariant::Envelope, 1),
        }
    }
}

/// Invariant 1.
#[test]
fn a_raise_arrives_empty_and_a_cut_binds_one_lag_later() {
    let start = || {
        LaggedEnvelope::new(
            Limits::new(at(0), limit(0, 5), Span::from_nanos(10)),
            drift(0),
        )
    };
    let mut raised = start();
    raised.change(at(100), limit(0, 50));
    raised.admit(at(100), grains(6));
    fires(raised.verdict(), Invariant::Envelope, 1);

    for (time, passes) in [(110, true), (111, false)] {
        let mut lowered = start();
        lowered.change(at(100), limit(0, 3));
        lowered.admit(at(time), grains(5));
        assert_eq!(lowered.verdict().is_pass(), passes);
    }
}

/// Invariant 1.
#[test]
fn the_reported_window_is_the_first_of_the_worst_and_starts_where_the_bucket_was_full() {
    let full = Limits::new(at(0), limit(1_000_000_000, 5), Span::ZERO);
    let mut envelope = LaggedEnvelope::new(full, drift(0));
    envelope.admit(at(10), grains(2));
    envelope.admit(at(30), grains(2));
    assert_eq!(envelope.report().window, Some((at(10), at(10))));
    // Raised when full, it is no longer full, and the window reaches back to the raise.
    envelope.change(at(40), limit(0, 9));
    envelope.admit(at(50), grains(4));
    assert_eq!(envelope.report().window, Some((at(40), at(50))));
}

/// Invariant 1.
#[test]
fn a_quota_fires_over_its_limit_and_after_its_end() {
    let period = PeriodId::new(1);
    let mut over = QuotaCheck::new(grains(10));
    over.admit(at(1), period, grains(7));
    over.change(period, grains(12));
    over.change(period, grains(9));
    over.admit(at(2), period, grains(5));
    assert!(
        over.verdict().is_pass(),
        "the greatest limit of the period binds"
    );
    over.admit(at(3), period, grains(2));
    fires(over.verdict(), Invariant::Envelope, 2);

    let mut late = QuotaCheck::new(grains(10));
    late.end(at(5), period);
    late.admit(at(5), period, grains(1));
    assert!(late.verdict().is_pass());
    late.admit(at(6), period, grains(1));
    fires(late.verdict(), Invariant::Envelope, 1);
}

/// Invariant 1.
#[test]
fn permits_of_dead_incarnations_do_not_count_and_a_lowered_limit_waits_for_its_lag() {
    let mut check = ConcurrencyCheck::new(at(0), grains(2), Span::from_nanos(10));
    check.acquire(at(1), (1, 1), grains(1));
    check.acquire(at(1), (2, 1), grains(1));
    check.close(at(2), |&(incarnation, _)| incarnation == 1);
    check.acquire(at(2), (2, 2), grains(1));
    check.change(at(3), grains(1));
    check.advance(at(13));
    assert!(check.verdict().is_pass());
    check.advance(at(14));
    fires(check.verdict(), Invariant::Envelope, 1);

    let mut unmatched = ConcurrencyCheck::new(at(0), grains(2), Span::ZERO);
    unmatched.release(at(1), &7);
    assert_eq!(
        unmatched.verdict(),
        Verdict::Unknown(Doubt::Unmatched { at: at(1) })
    );
}

/// Invariant 2.
#[test]
fn holdings_over_the_limit_are_caught_in_every_component_of_every_kind() {
    let part = |rate, burst, tokens| Share {
        rate: Rate::from_grains(rate),
        burst: grains(burst),
        tokens: grains(tokens),
    };
    let judge = |kind, parts: &[Share], spent| {
        Holdings::of(parts.iter().copied()).judge(kind, at(1), limit(10, 20), grains(spent))
    };
    let half = part(5, 10, 10);
    assert!(judge(Kind::Rate, &[half, half], 0).is_pass());
    for (kind, parts, spent, excess) in [
        (Kind::Rate, vec![half, half, part(1, 0, 0)], 0, 1),
        (Kind::Rate, vec![half, half, part(0, 2, 0)], 0, 2),
        (Kind::Rate, vec![part(5, 10, 13), part(0, 10, 0)], 0, 3),
        (Kind::Quota, vec![part(0, 0, 10), part(0, 0, 9)], 5, 4),
        (Kind::Quota, vec![part(0, 1, 0)], 0, 1),
        (
            Kind::Concurrency,
            vec![part(0, 15, 0), part(0, 10, 0)],
            0,
            5,
        ),
        (Kind::Concurrency, vec![part(0, 15, 1)], 0, 1),
        (
            Kind::Rate,
            vec![part(u64::MAX, 0, 0); 3],
            0,
            3 * u128::from(u64::MAX) - 10,
        ),
    ] {
        fires(judge(kind, &parts, spent), Invariant::Conservation, excess);
    }
}

/// Invariant 2.
#[test]
fn tokens_that_appear_are_caught_and_a_refund_is_not_one() {
    let mut account = TokenAccount::new(Limits::constant(limit(0, 10)), drift(0));
    account.observe(at(1), 10);
    account.spend(at(2), grains(4));
    account.observe(at(3), 6);
    account.refund(at(3), grains(1));
    account.observe(at(4), 7);
    assert_eq!(account.slack(), Some(0));
    assert!(account.verdict().is_pass());
    let mut over = account.clone();
    over.observe(at(5), 9);
    fires(over.verdict(), Invariant::Conservation, 2);
    // A refund beyond the burst is lost.
    account.refund(at(5), grains(4));
    account.observe(at(5), 11);
    fires(account.verdict(), Invariant::Conservation, 1);
}

/// Invariant 3.
#[test]
fn an_admission_after_the_reclaim_is_caught_unless_the_floor_covers_it() {
    let mut check = Disjointness::new(drift(0));
    check.admitted(at(1), &"a", grains(100));
    check.reclaimed(at(2), "a", Some(limit(1_000_000_000, 3)));
    check.admitted(at(2), &"a", grains(3));
    check.admitted(at(4), &"a", grains(2));
    check.admitted(at(4), &"b", grains(100));
    assert!(check.verdict().is_pass());
    let mut over = check.clone();
    over.admitted(at(4), &"a", grains(1));
    fires(over.verdict(), Invariant::Disjointness, 1);
    check.released(at(900), "a");
    check.admitted(at(901), &"a", grains(2));
    fires(check.verdict(), Invariant::Disjointness, 2);
}

/// Invariant 6.
#[test]
fn a_counter_that_goes_back_is_caught_and_another_name_is_another_counter() {
    let mut seen = Monotone::new(["given that went back", "seq that went back"]);
    for (time, name, values, passes) in [
        (1, "a", [5, 5], true),
        (2, "b", [1, 1], true),
        (3, "a", [5, 6], true),
        (4, "a", [9, 4], false),
        (5, "a", [8, 6], false),
        (5, "a", [8, 6], false),
        (6, "a", [9, 6], true),
    ] {
        assert_eq!(seen.observe(at(time), name, values).is_ok(), passes);
    }
    fires(seen.verdict(), Invariant::MonotoneEdges, 2);
}

/// Invariant 11.
#[test]
fn an_admission_that_one_bucket_would_have_refused_is_caught() {
    let mut check = Dominance::new(Limits::constant(limit(0, 2)), drift(0));
    check.refused(at(1), grains(1));
    check.admitted(at(2), grains(1));
    check.admitted(at(3), grains(1));
    assert_eq!((check.counts(), check.slack()), ((2, 2), Some(0)));
    assert!(check.verdict().is_pass());
    let mut weighted = check.clone();
    weighted.admitted(at(4), grains(2));
    assert_eq!(weighted.verdict(), Verdict::Unknown(Doubt::WeightedCosts));
    check.admitted(at(4), grains(1));
    fires(check.verdict(), Invariant::Dominance, 1);
}

/// Invariant 12.
#[test]
fn a_clock_that_strobes_makes_nothing() {
    let second = 1_000_000_000;
    let mut check = Minting::new(at(second), Rate::from_grains(10), grains(1));
    for now in [2, 1, 2, 1, 2] {
        check.read(at(now * second));
    }
    check.retune(at(3 * second), Rate::from_grains(1));
    check.credit(at(5 * second), grains(4));
    check.spend(at(second), grains(1 + 20 + 2 + 4));
    check.refund(at(second), grains(3));
    check.spend(at(second), grains(3));
    assert!(check.verdict().is_pass());
    check.spend(at(second), grains(1));
    fires(check.verdict(), Invariant::NoMinting, 1);
}
