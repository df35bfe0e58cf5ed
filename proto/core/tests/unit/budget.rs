//! Rows of drafts and their results.

use super::*;
use crate::unit::{Frequency, Rate, Tokens};
use alloc::string::String;
use expect_test::{Expect, expect};

fn read(json: &str) -> Result<Budget, Vec<FieldError>> {
    let draft: BudgetDraft = serde_json::from_str(json).unwrap();
    draft.validate()
}

/// The errors of a draft, one per line.
#[track_caller]
fn check(json: &str, errors: &Expect) {
    let lines = |errors: Vec<FieldError>| -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    };
    let reported = read(json).map_or_else(lines, |_| Vec::from(["(a budget)".into()]));
    errors.assert_eq(&reported.join("\n"));
}

#[test]
fn a_wrong_field_is_reported_with_what_was_written_and_what_may_be() {
    check(
        r#"{"key": "a//b", "rate": "fast", "burst": -3, "band": 12, "dry_run": "maybe"}"#,
        &expect![[r#"
            key = "a//b": must be a key of segments such as checkout/charge or tenant/*/reads: it must have no empty segment (segment 2 is)
            burst = "-3": must be a whole number from 0 to 72057594037927936
            rate = "fast": must be a rate of 0/s, or from 1 per 10 days to 1T/s, such as "1000/s", "1.5k/s" or "1 per 10 days"
            band = "12": must be a whole number from 0 to 9 (the higher is served first)
            dry_run = "maybe": must be one of "no", "yes""#]],
    );
    check(
        r#"{"key": "a", "rate": "5/s", "on_lease_expiry": "denny", "allocation": "maxmin"}"#,
        &expect![[r#"
            allocation = "maxmin": must be one of "max_min", "static", "equal", "proportional"; did you mean "max_min"?
            on_lease_expiry = "denny": must be { local = … } or one of "deny", "floor", "keep", "open"; did you mean "deny"?"#]],
    );
    check(
        r#"{"key": "a"}"#,
        &expect![[
            r#"rate = "": must be given, unless quota or concurrency is: it says what is limited"#
        ]],
    );
    check(
        r#"{"key": "a", "rate": "5/s", "quota": "5 per day", "concurrency": 3}"#,
        &expect![[r#"
            quota = "5 per day": must be left out: it belongs to a key without a rate
            concurrency = "3": must be left out: it belongs to a key without a rate or a quota"#]],
    );
}

/// A client counts in units of several grains there, and rounds a cost up and a whole down.
#[test]
fn a_limit_whose_whole_cannot_be_taken_at_once_is_refused() {
    for fits in ["70368744177664", "70368744177666", "100000000000000"] {
        let quota = format!(r#"{{"key": "a", "quota": "{fits} per day"}}"#);
        check(&quota, &expect!["(a budget)"]);
    }
    check(
        r#"{"key": "a", "quota": "70368744177665 per day"}"#,
        &expect![[
            r#"quota = "70368744177665": must be at most 70368744177664, or a multiple of 2, such as 70368744177664"#
        ]],
    );
    check(
        r#"{"key": "a", "concurrency": 281474976710657}"#,
        &expect![[
            r#"concurrency = "281474976710657": must be at most 70368744177664, or a multiple of 8, such as 281474976710656"#
        ]],
    );
    check(
        r#"{"key": "a", "rate": "1000/s", "burst": 140737488355329}"#,
        &expect![[
            r#"burst = "140737488355329": must be at most 70368744177664, or a multiple of 4, such as 140737488355328"#
        ]],
    );
    check(
        r#"{"key": "a", "rate": "1/s", "burst": 50000000001}"#,
        &expect![[
            r#"burst = "50000000001": must be a multiple of 4 at this rate, such as 50000000000"#
        ]],
    );
}

#[test]
fn an_alignment_that_was_not_said_is_not_told() {
    let align = |json| read(json).unwrap().to_draft().align;
    assert_eq!(align(r#"{"key": "a", "quota": "10 per day"}"#), None);
    let align_text = align(r#"{"key": "a", "quota": "10 per day", "align": "3h"}"#);
    assert_eq!(align_text, Some("3h".into()));
}

#[test]
fn named_limits_need_a_rate_and_a_key_that_ends_in_a_star() {
    check(
        r#"{"key": "api/*/*", "rate": "100/s", "named_limits": true}"#,
        &expect!["(a budget)"],
    );
    check(
        r#"{"key": "api/*/limits", "quota": "5 per day", "named_limits": "yes"}"#,
        &expect![[r#"
            named_limits = "yes": must be left out: it belongs to a rate
            named_limits = "yes": must be left out: it belongs to a key whose last segment is *, which names the limit, such as api/*/*"#]],
    );
    check(
        r#"{"key": "api/*", "rate": "5/s", "named_limits": "yes", "floor": {"rate": "1/s"}, "ceiling": {"rate": "1/s"},
            "on_lease_expiry": {"local": {"rate": "1/s"}}}"#,
        &expect![[r#"
            floor = "": must be left out: it belongs to a budget without named_limits
            ceiling = "": must be left out: it belongs to a budget without named_limits
            on_lease_expiry.local = "": must be left out: it belongs to a budget without named_limits"#]],
    );
    check(
        r#"{"key": "api/*", "rate": "5/s", "named_limits": "maybe"}"#,
        &expect![[r#"named_limits = "maybe": must be one of "no", "yes""#]],
    );
}

#[test]
fn a_field_of_another_kind_is_told_where_it_belongs() {
    check(
        r#"{"key": "a", "concurrency": 5, "max_hold": "2d", "burst": 3, "offset": "Z", "align": "1h"}"#,
        &expect![[r#"
            burst = "3": must be left out: it belongs to a rate
            offset = "Z": must be left out: it belongs to a quota
            align = "1h": must be left out: it belongs to a quota
            max_hold = "2d": must be a span from 1s to 1d, such as "90s" or "1h30m""#]],
    );
    check(
        r#"{"key": "a", "quota": "5 per 36h", "offset": "+01:00", "align": "36h"}"#,
        &expect![[r#"
        offset = "+01:00": must be left out: it belongs to a calendar's period, such as "per day"
        align = "36h": must be a span in whole milliseconds, shorter than 36h"#]],
    );
    check(
        r#"{"key": "a", "quota": "5 per 36h", "zone": "Europe/Berlin"}"#,
        &expect![[
            r#"zone = "Europe/Berlin": must be left out: it belongs to a calendar's period, such as "per day""#
        ]],
    );
    check(
        r#"{"key": "a", "quota": "5 per day", "zone": "Europe/Berlin", "offset": "+01:00"}"#,
        &expect![[r#"offset = "+01:00": must be left out: it belongs to a quota without a zone"#]],
    );
    check(
        r#"{"key": "a", "quota": "5 per day", "zone": "+02:00", "align": "23h"}"#,
        &expect![[
            r#"zone = "+02:00": must be a name of the IANA time zone database, such as "Europe/Berlin""#
        ]],
    );
    check(
        r#"{"key": "a", "quota": "5 per day", "zone": "Europe/Berlin", "align": "22h"}"#,
        &expect![[r#"align = "22h": must be a span in whole milliseconds, shorter than 22h"#]],
    );
    check(
        r#"{"key": "a", "quota": "5 per month", "floor": {"rate": "1/s"}}"#,
        &expect![[r#"floor = "": must be left out: a quota has no parts of its own for clients"#]],
    );
    check(
        r#"{"key": "a", "rate": "5/s", "on_lease_expiry": "floor"}"#,
        &expect![[
            r#"on_lease_expiry = "floor": must be another policy, or be used together with a floor"#
        ]],
    );
}

#[test]
fn fields_that_do_not_fit_each_other_are_told() {
    check(
        r#"{"key": "a", "rate": "5/s", "floor": {"rate": "6/s"}, "ceiling": {"permits": 2}}"#,
        &expect![[r#"
            ceiling.permits = "2": must be left out: it belongs to concurrency
            ceiling.rate = "": must be given, such as "5/s"
            floor = "6/s with a burst of 5": must be at most the limit, in rate and burst"#]],
    );
    check(
        r#"{"key": "a", "rate": "5/s", "floor": {"rate": "2/s"}, "ceiling": {"rate": "1/s"}}"#,
        &expect![[
            r#"floor = "2/s with a burst of 2": must be at most the ceiling, in rate and burst"#
        ]],
    );
    check(
        r#"{"key": "a", "rate": "1T/s", "on_lease_expiry": {"local": {"rate": "1 per 10d"}}}"#,
        &expect![[
            r#"on_lease_expiry.local = "1/10d with a burst of 1": must be neither more than a share can count nor so little that it rounds to nothing beside the limit"#
        ]],
    );
    check(
        r#"{"key": "a", "rate": "1/s", "burst": "0.5T"}"#,
        &expect!["(a budget)"],
    );
    check(
        r#"{"key": "a", "rate": "1/s", "burst": "2T"}"#,
        &expect![[r#"burst = "2000000000000": must be at most 2^39 seconds' worth of the rate"#]],
    );
    check(
        r#"{"key": "a", "rate": "1/s", "weights": [{}, {"weight": 0, "band": "x"}]}"#,
        &expect![[r#"
            weights[1].weight = "0": must be a whole number from 1 to 1000000
            weights[1].band = "x": must be a whole number from 0 to 9 (the higher is served first)"#]],
    );
}

#[test]
fn what_is_left_out_has_its_default() {
    let budget = read(r#"{"key": "tenant/*/reads", "rate": "90/min"}"#).unwrap();
    let rate = Frequency::new(90, Span::from_secs(60)).unwrap();
    assert_eq!(budget.limit(), Limit::Rate { rate, burst: 2 });
    assert_eq!(budget.scale(), Scale::fit(rate, 2).unwrap());
    assert_eq!(budget.whole().burst, budget.scale().tokens(2).unwrap());
    assert_eq!(budget.whole().rate, budget.scale().rate(rate).unwrap());
    assert_eq!(budget.on_lease_expiry(), OnLeaseExpiry::Deny);
    assert_eq!(budget.forget_after(), Span::from_secs(600));
    assert_eq!((budget.floor(), budget.ceiling()), (Share::EMPTY, None));
    assert_eq!(budget.claim(&Labels::new()), Claim::default());
    assert_eq!(budget.max_hold(), Span::ZERO);
    let permits = read(r#"{"key": "a", "concurrency": 50}"#).unwrap();
    assert_eq!(permits.max_hold(), Span::from_secs(60));
    assert_eq!(permits.whole().burst, Tokens::from_grains(50));
    let quota = read(r#"{"key": "a", "quota": "50000 per day"}"#).unwrap();
    assert_eq!(quota.whole().tokens, Tokens::from_grains(50_000));
    assert_eq!(quota.whole().rate, Rate::ZERO);
}

#[test]
fn the_first_weight_rule_that_matches_says_what_a_client_counts_for() {
    let budget = read(
        r#"{"key": "a", "rate": "1/s", "band": 3, "weights": [
            {"match": {"service": "batch-*"}, "band": 0},
            {"match": {"service": "checkout*"}, "weight": 10, "band": 9},
            {"weight": 2}
        ]}"#,
    );
    let budget = budget.unwrap();
    let claim = |service: &str| {
        let labels = Labels::from([("service".into(), service.into())]);
        let claim = budget.claim(&labels);
        (claim.weight.get(), claim.band.get())
    };
    assert_eq!(claim("batch-7"), (1, 0));
    assert_eq!(claim("checkout-eu"), (10, 9));
    assert_eq!(claim("search"), (2, 3));
}

#[test]
fn a_change_that_a_living_budget_cannot_take_is_told() {
    let check = |from: &str, to: &str, errors: &Expect| {
        let (from, to) = (read(from).unwrap(), read(to).unwrap());
        let reported = from.change_to(&to).map_or_else(
            |errors| errors.iter().map(ToString::to_string).collect(),
            |changed| Vec::from([format!("{:?} at {:?}", changed.limit(), changed.scale())]),
        );
        errors.assert_eq(&reported.join("\n"));
    };
    let slow = r#"{"key": "a", "rate": "10/s"}"#;
    check(
        slow,
        r#"{"key": "a", "rate": "20/s", "burst": 5}"#,
        &expect![
            "Rate { rate: Frequency { tokens: 20, per: 1s, denominator: 1 }, burst: 5 } at Scale(221184000)"
        ],
    );
    check(
        slow,
        r#"{"key": "a", "rate": "0/s"}"#,
        &expect![
            "Rate { rate: Frequency { tokens: 0, per: 1s, denominator: 1 }, burst: 0 } at Scale(221184000)"
        ],
    );
    check(
        slow,
        r#"{"key": "a", "rate": "1G/s"}"#,
        &expect![[
            r#"rate = "1000000000/s": must be a rate of 0/s, or from about 1 per 3375s to 325781223/s, which this generation can count; for another, make another key"#
        ]],
    );
    check(
        slow,
        r#"{"key": "a", "rate": "1 per 10d"}"#,
        &expect![[
            r#"rate = "1/10d": must be a rate of 0/s, or from about 1 per 3375s to 325781223/s, which this generation can count; for another, make another key"#
        ]],
    );
    check(
        slow,
        r#"{"key": "a", "rate": "10/s", "burst": "1G"}"#,
        &expect![[
            r#"burst = "1000000000": must be at most 325781223 in this generation; for more, make another key"#
        ]],
    );
    check(
        slow,
        r#"{"key": "b", "concurrency": 3}"#,
        &expect![[r#"
        key = "b": must be a: another key is another budget
        kind = "concurrency": must be rate, as it is: a budget's kind never changes; make another key"#]],
    );
    let quota = r#"{"key": "a", "quota": "10 per day"}"#;
    check(
        quota,
        r#"{"key": "a", "quota": "20 per day"}"#,
        &expect![
            "Quota { tokens: 20, period: Period { length: Calendar(Day), clock: Offset(Offset(0)), align: 0ns } } at Scale(1)"
        ],
    );
    check(
        quota,
        r#"{"key": "a", "quota": "10 per day", "offset": "+01:00"}"#,
        &expect![[
            r#"quota = "per day at +01:00, 0ns later": must be per day at +00:00, 0ns later: a quota's periods never change; make another key"#
        ]],
    );
}

#[test]
fn an_unknown_field_is_refused() {
    let draft = serde_json::from_str::<BudgetDraft>(r#"{"key": "a", "ratee": "5/s"}"#);
    assert!(
        draft
            .unwrap_err()
            .to_string()
            .contains("unknown field `ratee`")
    );
    let part = r#"{"key": "a", "on_lease_expiry": {"local": {"rat": 1}}}"#;
    assert!(serde_json::from_str::<BudgetDraft>(part).is_err());
}
