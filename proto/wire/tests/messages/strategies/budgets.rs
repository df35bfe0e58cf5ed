//! Keys and budgets, as they are written and as they are kept.

use super::number;
use aliquot_core::budget::{
    Budget, BudgetDraft, ExpiryDraft, FieldError, Key, KeyPattern, Labels, PartDraft, WeightDraft,
    Written,
};
use aliquot_core::unit::{Scale, Weight};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

pub(crate) fn key() -> impl Strategy<Value = Key> {
    "[a-z0-9]{1,6}(/[a-z0-9]{1,6}){0,3}".prop_map(|text| Key::try_from(text).unwrap())
}

pub(crate) fn pattern() -> impl Strategy<Value = KeyPattern> {
    "[a-z]{1,6}(/([a-z]{1,6}|\\*)){0,4}".prop_map(|text| KeyPattern::try_from(text).unwrap())
}

pub(crate) fn labels() -> impl Strategy<Value = Labels> {
    btree_map("[a-z]{0,8}", "\\PC{0,12}", 0..4)
}

fn written() -> BoxedStrategy<Written> {
    prop_oneof![
        any::<bool>().prop_map(Written::Flag),
        number().prop_map(Written::Whole),
        any::<i64>().prop_map(Written::Signed),
        "\\PC{0,20}".prop_map(Written::Text),
    ]
    .boxed()
}

fn part_draft() -> BoxedStrategy<PartDraft> {
    let written = || option::of(written());
    (written(), written(), written())
        .prop_map(|(rate, burst, permits)| PartDraft {
            rate,
            burst,
            permits,
        })
        .boxed()
}

fn weight_draft() -> BoxedStrategy<WeightDraft> {
    let rule = (labels(), option::of(written()), option::of(written()));
    rule.prop_map(|(labels, weight, band)| WeightDraft {
        labels,
        weight,
        band,
    })
    .boxed()
}

prop_compose! {
    /// Anything that may be written, right or wrong.
    pub(crate) fn draft()(
        key in "\\PC{0,20}",
        one in prop::array::uniform7(option::of(written())),
        two in prop::array::uniform8(option::of(written())),
        weights in vec(weight_draft(), 0..3),
        floor in option::of(part_draft()), ceiling in option::of(part_draft()),
        on_lease_expiry in option::of(prop_oneof![
            "\\PC{0,20}".prop_map(ExpiryDraft::Word),
            part_draft().prop_map(|local| ExpiryDraft::Local { local }),
        ]),
    ) -> BudgetDraft {
        let [rate, burst, quota, offset, align, concurrency, max_hold] = one;
        let [band, allocation, forget_after, headroom, max_keys, dry_run, zone, named_limits] = two;
        BudgetDraft {
            key, rate, burst, quota, offset, zone, align, concurrency, max_hold, weights, band, floor,
            ceiling, on_lease_expiry, allocation, forget_after, headroom, max_keys, dry_run,
            named_limits,
        }
    }
}

fn limited() -> BoxedStrategy<BudgetDraft> {
    let text = |text: String| Some(Written::Text(text));
    let span = prop::sample::select(vec!["minute", "day", "month", "36h"]);
    prop_oneof![
        (1..1_000_000_u64, option::of(1..1_000_000_u64)).prop_map(move |(rate, burst)| {
            BudgetDraft {
                rate: text(format!("{rate}/s")),
                burst: burst.map(Written::Whole),
                floor: Some(PartDraft {
                    rate: text("1/s".into()),
                    burst: Some(Written::Whole(1)),
                    permits: None,
                }),
                on_lease_expiry: Some(ExpiryDraft::Word("floor".into())),
                ..BudgetDraft::default()
            }
        }),
        (1..1_000_000_u64, 1..1_000_000_u64).prop_map(move |(rate, burst)| BudgetDraft {
            rate: text(format!("{rate}/s")),
            burst: Some(Written::Whole(burst)),
            named_limits: Some(Written::Flag(true)),
            ..BudgetDraft::default()
        }),
        (1..1_u64 << 46, span, any::<bool>()).prop_map(move |(tokens, span, zoned)| BudgetDraft {
            quota: text(format!("{tokens} per {span}")),
            zone: text("Europe/Berlin".into()).filter(|_| zoned && span != "36h"),
            ..BudgetDraft::default()
        }),
        (1..1_000_000_u64, 1..86_400_u64).prop_map(move |(permits, hold)| BudgetDraft {
            concurrency: Some(Written::Whole(permits)),
            max_hold: text(format!("{hold}s")),
            ..BudgetDraft::default()
        }),
    ]
    .boxed()
}

/// A budget, in its own scale or in that of an earlier form of it.
pub(crate) fn budget() -> BoxedStrategy<Budget> {
    let rest = (
        pattern(),
        labels(),
        1..=Weight::MAX,
        0..=9_u64,
        1..1_000_u64,
    );
    let budget = (limited(), rest).prop_map(|(draft, (key, labels, weight, band, forget))| {
        let key = match draft.named_limits {
            Some(_) => format!("{}/*", key.as_str().replace('*', "a")),
            None => key.to_string(),
        };
        let draft = BudgetDraft {
            key,
            weights: vec![WeightDraft {
                labels,
                weight: Some(Written::Whole(weight.into())),
                band: None,
            }],
            band: Some(Written::Whole(band)),
            forget_after: Some(Written::Text(format!("{forget}s"))),
            ..draft
        };
        draft.validate().unwrap()
    });
    (budget, 1..8_u64)
        .prop_map(|(budget, coarser)| {
            let grains = budget.scale().grains_per_token() / coarser;
            let scale = Scale::try_from(grains.max(1)).unwrap();
            Budget::restore(&budget.to_draft(), scale).unwrap_or(budget)
        })
        .boxed()
}

pub(crate) fn field_error() -> impl Strategy<Value = FieldError> {
    let error = ("[a-z]{1,9}", "\\PC{0,9}", "\\PC{0,9}");
    error.prop_map(|(field, value, allowed)| FieldError {
        field,
        value,
        allowed,
    })
}
