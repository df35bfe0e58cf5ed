//! Laws of budgets: drafts of an operator, and the rule that applies to a key.
//!
//! Budgets have the limits of invariants 1 and 2 of `docs/invariants.md`, so a limit must be exactly what was
//! written.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_core::budget::{
    Budget, BudgetDraft, Calendar, Catalog, ExpiryDraft, FieldError, Key, KeyPattern, Length,
    Limit, LocalClock, NamedLimit, Offset, PartDraft, Period, WeightDraft, Written, Zone, grammar,
};
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{Frequency, RuleId, Scale, Span};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

/// Generates text that is similar enough to valid text to reach every branch.
fn noise() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[-+0-9._kMGTsmhdw/ :*a-c]{0,24}",
        "[0-9]{1,40}(\\.[0-9]{1,40})?[kMGT]?( per |/)[0-9]{0,20} ?(ns|s|min|h|days|month|year)",
        "(deny|floor|keep|open|yes|no|max_min|static|day|\u{b5}s|Z|\\+05:30|-14:00|1h30m)",
    ]
}

fn written() -> impl Strategy<Value = Option<Written>> {
    prop_oneof![
        3 => Just(None),
        2 => noise().prop_map(|text| Some(Written::Text(text))),
        1 => any::<u64>().prop_map(|number| Some(Written::Whole(number))),
        1 => any::<i64>().prop_map(|number| Some(Written::Signed(number))),
        1 => any::<bool>().prop_map(|flag| Some(Written::Flag(flag))),
    ]
}

fn noisy_part() -> impl Strategy<Value = Option<PartDraft>> {
    let part = (written(), written(), written());
    proptest::option::of(part.prop_map(|(rate, burst, permits)| PartDraft {
        rate,
        burst,
        permits,
    }))
}

prop_compose! {
    fn noisy_draft()(
        (key, rate, burst, quota) in (noise(), written(), written(), written()),
        (offset, align, concurrency, max_hold) in (written(), written(), written(), written()),
        (zone, band, allocation, forget_after) in (written(), written(), written(), written()),
        (headroom, max_keys, dry_run, named_limits) in (written(), written(), written(), written()),
        (floor, ceiling, local) in (noisy_part(), noisy_part(), noisy_part()),
        weights in proptest::collection::vec((noise(), noise(), written(), written()), 0..3),
        word in noise(),
    ) -> BudgetDraft {
        let weights = weights.into_iter().map(|(name, glob, weight, band)| {
            WeightDraft { labels: [(name, glob)].into(), weight, band }
        });
        BudgetDraft {
            key, rate, burst, quota, offset, zone, align, concurrency, max_hold, band, floor, ceiling,
            allocation, forget_after, headroom, max_keys, dry_run, named_limits,
            weights: weights.collect(),
            on_lease_expiry: Some(match local {
                Some(local) => ExpiryDraft::Local { local },
                None => ExpiryDraft::Word(word),
            }),
        }
    }
}

fn frequency() -> impl Strategy<Value = Frequency> {
    let span = prop_oneof![
        Just(Span::from_secs(1)),
        Just(Span::from_secs(60)),
        Just(Span::from_secs(86_400)),
        (1_u64..864_000_000_000_000).prop_map(Span::from_nanos),
    ];
    let tokens = prop_oneof![1_u64..100, 1_u64..1_000_000_000_000];
    (tokens, span).prop_filter_map("in range", |(tokens, per)| Frequency::new(tokens, per).ok())
}

fn period() -> impl Strategy<Value = Period> {
    let calendar = prop_oneof![Just(Calendar::Day), Just(Calendar::Month)];
    let calendar = (calendar, -840_i16..=840).prop_map(|(unit, minutes)| {
        let clock = match minutes % 3 {
            0 => Zone::named("Europe/Berlin").unwrap().into(),
            _ => LocalClock::Offset(Offset::from_minutes(minutes).unwrap()),
        };
        (Length::Calendar(unit), clock)
    });
    let fixed = (1_000_u64..100_000_000_000).prop_map(|millis| {
        (
            Length::Fixed(Span::from_millis(millis)),
            LocalClock::default(),
        )
    });
    (prop_oneof![calendar, fixed], 0_u64..1_000).prop_map(|((length, clock), align)| {
        Period::new(length, clock, Span::from_millis(align)).unwrap()
    })
}

fn rate_draft(rate: Frequency, burst: u64) -> BudgetDraft {
    let part = PartDraft {
        rate: Some(rate.to_string().into()),
        ..PartDraft::default()
    };
    BudgetDraft {
        rate: part.rate.clone(),
        burst: Some(burst.into()),
        ceiling: Some(part.clone()),
        on_lease_expiry: Some(ExpiryDraft::Local { local: part }),
        ..BudgetDraft::default()
    }
}

fn quota_draft(tokens: u64, period: Period) -> BudgetDraft {
    let calendar = matches!(period.length(), Length::Calendar(_));
    let text = |given: bool| (given && calendar).then(|| period.clock().to_string().into());
    BudgetDraft {
        quota: Some(format!("{tokens} per {}", period.length()).into()),
        offset: text(matches!(period.clock(), LocalClock::Offset(_))),
        zone: text(matches!(period.clock(), LocalClock::Zone(_))),
        align: Some(period.align().to_string().into()),
        on_lease_expiry: Some(ExpiryDraft::Word("keep".into())),
        ..BudgetDraft::default()
    }
}

fn concurrency_draft(permits: u64, secs: u64) -> BudgetDraft {
    BudgetDraft {
        concurrency: Some(permits.into()),
        max_hold: Some(Span::from_secs(secs).to_string().into()),
        floor: Some(PartDraft {
            permits: Some(1.into()),
            ..PartDraft::default()
        }),
        on_lease_expiry: Some(ExpiryDraft::Word("floor".into())),
        ..BudgetDraft::default()
    }
}

/// Generates a valid budget with most fields given.
fn budget() -> impl Strategy<Value = Budget> {
    let limit = prop_oneof![
        2 => (frequency(), 1_u64..1_000_000).prop_map(|(rate, burst)| rate_draft(rate, burst)),
        1 => (0_u64..1 << 46, period()).prop_map(|(tokens, period)| quota_draft(tokens, period)),
        1 => (1_u64..1 << 46, 1_u64..86_400).prop_map(|(permits, secs)| {
            concurrency_draft(permits, secs)
        }),
    ];
    let rule = ("[a-z]{1,8}", "[a-z*]{0,8}", 1_u64..=1_000_000, 0_u64..=9);
    let rules = proptest::collection::vec(rule, 0..4);
    (limit, rules, 0_u64..=9).prop_map(|(draft, rules, band)| {
        let rule = |(name, glob, weight, band): (String, String, u64, u64)| WeightDraft {
            labels: [(name, glob)].into(),
            weight: Some(weight.into()),
            band: Some(band.into()),
        };
        let draft = BudgetDraft {
            key: "tenant/*/reads".into(),
            weights: rules.into_iter().map(rule).collect(),
            band: Some(band.into()),
            ..draft
        };
        draft.validate().unwrap()
    })
}

/// Runs the same cases every time, so that a planted bug is caught every time.
fn law<S: Strategy>(cases: u32, inputs: S, test: impl Fn(S::Value) -> TestCaseResult) -> bool {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let outcome = TestRunner::new_with_rng(config, rng).run(&inputs, test);
    outcome.is_ok()
}

/// The rule of a key is the least of all that match, with `*` after any literal.
fn precedence_is_the_naive_one() -> bool {
    let rules = proptest::collection::vec("[ab*](/[ab*]){0,3}", 0..20);
    law(1_000, (rules, "[ab](/[ab]){0,3}"), |(rules, key)| {
        let mut catalog = Catalog::default();
        let mut patterns: Vec<KeyPattern> = Vec::new();
        for rule in rules {
            let pattern = KeyPattern::try_from(rule).unwrap();
            let id = RuleId::new(patterns.len() as u64);
            let is_new = !patterns.contains(&pattern);
            prop_assert_eq!(catalog.insert(&pattern, id).is_ok(), is_new);
            if is_new {
                patterns.push(pattern);
            }
        }
        let key = Key::try_from(key).unwrap();
        let stars = |index: &usize| -> Vec<bool> {
            let segments = patterns[*index].segments();
            segments.map(|segment| segment == "*").collect()
        };
        let matching = (0..patterns.len()).filter(|&index| patterns[index].matches(&key));
        let naive = matching.min_by_key(stars);
        let naive = naive.map(|index| RuleId::new(index as u64));
        prop_assert_eq!(catalog.resolve(&key), naive);
        for (index, pattern) in patterns.iter().enumerate().rev() {
            let removed = catalog.remove(pattern);
            prop_assert_eq!(removed, Some(RuleId::new(index as u64)));
        }
        prop_assert_eq!(catalog, Catalog::default());
        Ok(())
    })
}

#[test]
fn the_rule_of_a_key_is_the_naive_choice_among_all_that_match() {
    assert!(precedence_is_the_naive_one());
}

#[test]
fn the_planted_bug_of_precedence_is_caught() {
    let holds = planted::with(Some(Bug::TemplateFirst), precedence_is_the_naive_one);
    assert!(!holds);
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_text_gives_a_value_or_nothing(text in noise()) {
        let _ = (grammar::whole(&text), grammar::span(&text), grammar::frequency(&text));
        let _ = (grammar::quota(&text), grammar::offset(&text));
        if let Ok(key) = Key::try_from(text.as_str()) {
            prop_assert!(KeyPattern::try_from(text.as_str()).unwrap().matches(&key));
        }
    }

    #[test]
    fn any_draft_gives_a_budget_or_errors_that_name_field_value_and_what_is_allowed(
        draft in noisy_draft()
    ) {
        match draft.validate() {
            Ok(budget) => prop_assert_eq!(budget.to_draft().validate(), Ok(budget)),
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                for FieldError { field, value, allowed } in errors {
                    prop_assert!(!field.is_empty() && !allowed.is_empty());
                    prop_assert!(value.chars().count() <= 81);
                }
            }
        }
    }

    #[test]
    fn one_wrong_field_is_the_one_that_is_named(
        budget in budget(), which in 0..10_usize, text in noise()
    ) {
        const FIELDS: [&str; 10] = [
            "key", "band", "allocation", "forget_after", "headroom", "dry_run", "offset", "max_keys",
            "max_hold", "zone",
        ];
        let mut draft = budget.to_draft();
        let written = Some(Written::Text(text.clone()));
        match which {
            // A field for templates is wrong with another key.
            0 => (draft.key, draft.max_keys) = (text, None),
            1 => draft.band = written,
            2 => draft.allocation = written,
            3 => draft.forget_after = written,
            4 => draft.headroom = written,
            5 => draft.dry_run = written,
            // One of the two is given.
            6 => (draft.offset, draft.zone) = (written, None),
            7 => draft.max_keys = written,
            8 => draft.max_hold = written,
            _ => (draft.offset, draft.zone) = (None, written),
        }
        match draft.validate() {
            Ok(other) => prop_assert_eq!(other.whole(), budget.whole()),
            Err(errors) => prop_assert!(errors.iter().all(|error| error.field == FIELDS[which])),
        }
    }

    #[test]
    fn any_json_gives_a_draft_or_an_error(draft in noisy_draft(), cut in any::<prop::sample::Index>()) {
        let json = serde_json::to_string(&draft).unwrap();
        prop_assert!(serde_json::from_str::<BudgetDraft>(&json).is_ok());
        let bytes = &json.as_bytes()[..cut.index(json.len())];
        prop_assert!(serde_json::from_slice::<BudgetDraft>(bytes).is_err());
        prop_assert!(serde_json::from_str::<Budget>(&json).is_err());
    }

    #[test]
    fn a_span_reads_as_it_is_shown(nanos in any::<u64>(), zeros in 0_u32..19) {
        let span = Span::from_nanos(nanos / 10_u64.pow(zeros) * 10_u64.pow(zeros));
        prop_assert_eq!(grammar::span(&span.to_string()), Some(span));
    }

    #[test]
    fn a_rate_reads_as_it_is_shown(rate in frequency()) {
        prop_assert_eq!(grammar::frequency(&rate.to_string()), Some(rate));
    }

    #[test]
    fn an_offset_reads_as_it_is_shown(minutes in -840_i16..=840) {
        let offset = Offset::from_minutes(minutes).unwrap();
        prop_assert_eq!(grammar::offset(&offset.to_string()), Some(offset));
    }

    #[test]
    fn a_decimal_rate_is_kept_exactly(tokens in 1_u64..1_000_000, thousandths in 0_u64..1_000) {
        let rate = grammar::frequency(&format!("{tokens}.{thousandths:03}/s")).unwrap();
        let wanted = u128::from(tokens * 1_000 + thousandths);
        let second = u128::from(Span::from_secs(1).nanos());
        let read = u128::from(rate.tokens()) * 1_000 * second;
        prop_assert_eq!(read, wanted * u128::from(rate.per().nanos()));
    }

    #[test]
    fn a_decimal_rate_is_shown_as_it_was_written(
        tokens in 0_u64..1_000_000, thousandths in 1_u64..1_000, span in prop_oneof![
            Just("s"), Just("m"), Just("h"), Just("d"), Just("2s"), Just("500ms"), Just("90m"),
        ],
    ) {
        let number = format!("{tokens}.{thousandths:03}");
        let text = format!("{}/{span}", number.trim_end_matches('0'));
        if let Some(rate) = grammar::frequency(&text) {
            prop_assert_eq!(rate.to_string(), text.clone());
            let written = serde_json::json!({ "key": "a", "rate": text }).to_string();
            let draft: BudgetDraft = serde_json::from_str(&written).unwrap();
            let budget = draft.clone().validate().unwrap();
            prop_assert_eq!(budget.to_draft().rate, draft.rate);
            let json = serde_json::to_string(&budget).unwrap();
            prop_assert_eq!(serde_json::from_str::<Budget>(&json).unwrap(), budget);
        }
    }

    #[test]
    fn a_budget_reads_as_it_is_written(budget in budget()) {
        prop_assert_eq!(budget.to_draft().validate(), Ok(budget.clone()));
        let json = serde_json::to_string(&budget.to_draft()).unwrap();
        let draft: BudgetDraft = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(draft.validate(), Ok(budget.clone()));
        let json = serde_json::to_string(&budget).unwrap();
        prop_assert_eq!(serde_json::from_str::<Budget>(&json).unwrap(), budget);
    }

    #[test]
    fn a_named_limit_reads_as_it_is_shown(rate in frequency(), burst in 1_u64..1_000_000) {
        if let Ok(limit) = NamedLimit::new(rate, burst) {
            prop_assert_eq!(NamedLimit::try_from(limit.to_string().as_str()), Ok(limit));
        }
    }

    #[test]
    fn any_segment_names_a_limit_in_one_spelling_or_an_error(
        text in "[0-9]{1,3}-per-[0-9]{1,3}(ns|s|m|h|d)-burst-[0-9]{1,3}"
    ) {
        match NamedLimit::try_from(text.as_str()) {
            Ok(limit) => prop_assert_eq!(limit.to_string(), text),
            Err(error) => prop_assert_eq!((error.field.as_str(), error.value), ("limit", text)),
        }
    }

    /// Invariant 1 of a key with a named limit is that of the named limit or of the rule, the stricter one in
    /// rate and in burst.
    #[test]
    fn a_named_limit_never_exceeds_the_rule(
        (rate, burst) in (frequency(), 1_u64..1_000_000),
        (named, depth) in (frequency(), 1_u64..1_000_000),
    ) {
        let rule = BudgetDraft {
            key: "api/*/*".into(),
            rate: Some(rate.to_string().into()),
            burst: Some(burst.into()),
            named_limits: Some("yes".into()),
            ..BudgetDraft::default()
        };
        let (Ok(rule), Ok(named)) = (rule.validate(), NamedLimit::new(named, depth)) else {
            return Ok(());
        };
        let key = Key::try_from(format!("api/user:1/{named}")).unwrap();
        let budget = rule.named_by(&key).unwrap();
        let Limit::Rate { rate: granted, burst: most } = budget.limit() else {
            return Err(TestCaseError::fail("a rate"));
        };
        let per_sec = |rate: Frequency| {
            (u128::from(rate.tokens()), u128::from(rate.per().nanos()))
        };
        let at_most = |one: Frequency, other: Frequency| {
            let ((tokens, per), (others, time)) = (per_sec(one), per_sec(other));
            tokens * time <= others * per
        };
        prop_assert!(at_most(granted, rate) && at_most(granted, named.rate()));
        prop_assert!(at_most(rate, granted) || at_most(named.rate(), granted));
        prop_assert_eq!(most, burst.min(depth));
        let scale = budget.scale();
        prop_assert_eq!(Budget::restore(&budget.to_draft(), scale), Ok(budget));
    }

    /// Invariant 2 counts in grains: a change must not change the size of a grain.
    #[test]
    fn a_change_keeps_the_scale_or_is_refused(one in budget(), other in budget()) {
        prop_assert_eq!(one.change_to(&one), Ok(one.clone()));
        if let Ok(changed) = one.change_to(&other) {
            prop_assert_eq!(changed.scale(), one.scale());
            prop_assert_eq!(changed.limit(), other.limit());
            prop_assert_eq!(changed.period(), one.period());
            prop_assert!(changed.whole().burst.grains() <= Scale::GRAINS_MAX);
            if let Limit::Rate { rate, .. } = other.limit() {
                let grains = u128::from(one.scale().grains_per_token());
                let exact = u128::from(rate.tokens()) * grains * 1_000_000_000;
                let kept = u128::from(changed.whole().rate.grains());
                let per = u128::from(rate.per().nanos());
                prop_assert!(kept * per <= exact && exact < (kept + 1) * per);
                prop_assert!(changed.whole().rate >= Limit::RATE_GRAINS_MIN);
            }
        }
    }
}
