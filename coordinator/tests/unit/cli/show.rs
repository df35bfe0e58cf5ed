use super::*;
use aliquot_core::unit::{BudgetId, PeriodId, RuleId};

#[test]
fn numbers_are_shown_as_people_write_them() {
    assert_eq!(decimal(1_500), "1.5");
    assert_eq!(decimal(200_000), "200");
    assert_eq!(decimal(7), "0.007");
    assert_eq!(number(1_500), json!(1.5));
    assert_eq!(number(500), json!(0.5));
    assert_eq!(number(2_000), json!(2));
    assert_eq!(number(200_000), json!(200));
    assert_eq!(age(Span::from_millis(90_500)), "1m30s");
    assert_eq!(age(Span::from_millis(320)), "320ms");
    assert_eq!(age(Span::from_secs(90_000)), "1d01h");
}

/// The largest limit, and numbers around those that programs keep.
#[test]
fn large_numbers_are_exact_and_a_text_where_a_program_would_round_them() {
    let budget = |text: &str| {
        let draft = aliquot_budgets::draft_of("a test", json!({ "key": "a", "quota": text }));
        draft.unwrap().validate().unwrap()
    };
    let largest = budget("72057594037927936 per day");
    for (tokens, expect) in [
        (1, json!(1)),
        ((1 << 53) - 1, json!(9_007_199_254_740_991_u64)),
        (1 << 53, json!(9_007_199_254_740_992_u64)),
        ((1 << 53) + 1, json!("9007199254740993")),
        ((1 << 56) - 1, json!("72057594037927935")),
        (1 << 56, json!("72057594037927936")),
    ] {
        let milli = milli(tokens, &largest);
        assert_eq!(decimal(milli), tokens.to_string());
        assert_eq!(number(milli), expect, "{tokens}");
        assert_eq!(whole(tokens), expect, "{tokens}");
    }
    // A fraction that no floating point of 53 bits holds.
    assert_eq!(number((1 << 60) + 1), json!("1152921504606846.977"));
    let mut draft = largest.to_draft();
    draft.burst = Some((1_u64 << 56).into());
    assert_eq!(super::draft(&draft)["burst"], json!("72057594037927936"));
    draft.burst = Some(200_u64.into());
    assert_eq!(super::draft(&draft)["burst"], json!(200));
}

/// A key with a budget of its own has a place in the book before its first use.
#[test]
fn a_key_is_in_use_while_it_is_asked_for_held_or_spent() {
    let draft = json!({ "key": "a", "quota": "9 per day" });
    let draft = aliquot_budgets::draft_of("a test", draft).unwrap();
    let unused = Usage {
        key: "a".try_into().unwrap(),
        rule: RuleId::new(1),
        budget: Some(BudgetId::new(1)),
        limit: draft.validate().unwrap(),
        held: Share::EMPTY,
        spent: Tokens::ZERO,
        period: PeriodId::new(1),
        demand: 0,
        winding: false,
    };
    assert_eq!(usage_json(&unused)["in_use"], json!(false));
    let one = Tokens::from_grains(1);
    let mut held = Share::EMPTY;
    held.tokens = one;
    for used in [
        Usage {
            demand: 1,
            ..unused.clone()
        },
        Usage {
            spent: one,
            ..unused.clone()
        },
        Usage {
            held,
            ..unused.clone()
        },
    ] {
        assert_eq!(usage_json(&used)["in_use"], json!(true));
    }
}
