//! Refunds while the share moves: a refund never leaves more than if its tokens had not been taken.

use super::KeyState;
use super::bucket::{BucketDecider, reserve::BucketCharge};
use super::sync::AtomicU64;
use super::{budget, unit_of};
use aliquot_core::bucket::Bucket;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Taken for good.
    Use(u64),
    /// Taken, to be refunded.
    Take(u64),
    /// Refunds the oldest of these, or another.
    PutBack(usize),
    Deposit {
        rate: u64,
        burst: u64,
        tokens: u64,
    },
    Withdraw {
        rate: u64,
        burst: u64,
    },
    /// The same share and right with a later base.
    Rebase,
}

fn op() -> impl Strategy<Value = Op> {
    let amount = || 0..30_u64;
    prop_oneof![
        3 => amount().prop_map(Op::Use),
        4 => amount().prop_map(Op::Take),
        4 => (0..3_usize).prop_map(Op::PutBack),
        1 => (amount(), amount(), amount()).prop_map(|(rate, burst, tokens)| {
            let tokens = tokens.min(burst);
            Op::Deposit { rate, burst, tokens }
        }),
        2 => (amount(), amount()).prop_map(|(rate, burst)| Op::Withdraw { rate, burst }),
        1 => Just(Op::Rebase),
    ]
}

/// Runs a bucket with refunds beside one of the core from which those tokens were never taken. Returns an error if
/// the former ever has more.
fn follow(ops: &[(u64, Op)]) -> Result<(), String> {
    let terms = Terms::from(&budget());
    let grains = terms.scale.grains_per_token();
    let share = |rate: u64, burst: u64, tokens: u64| Share {
        rate: Rate::from_grains(rate * grains),
        burst: Tokens::from_grains(burst * grains),
        tokens: Tokens::from_grains(tokens * grains),
    };
    let mut now = Tick::from_nanos(1 << 40);
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    decider.deposit(share(10, 60, 60), now);
    let mut never = Bucket::new(share(10, 60, 60), now);
    let lease = AtomicU64::new(u64::MAX);
    let mut taken: Vec<(u64, BucketCharge)> = Vec::new();
    for (step, &(gap, op)) in ops.iter().enumerate() {
        now = now.after(Span::from_millis(gap));
        match op {
            Op::Use(n) => {
                let used = key_state.bucket.reserve(n, now, Span::ZERO, &lease).is_ok();
                let cost = Tokens::from_grains(n * grains);
                if used && never.try_acquire_at(cost, now).is_err() {
                    return Err(format!("step {step}: {n} used that would not be there"));
                }
            }
            Op::Take(n) => {
                let took = key_state.bucket.reserve(n, now, Span::ZERO, &lease);
                taken.extend(took.ok().map(|took| (n, took)));
            }
            Op::PutBack(which) if which < taken.len() => {
                let (n, took) = taken.remove(which);
                let _restored = key_state.bucket.put_back_of(&took, n, || now);
            }
            Op::PutBack(_) => {}
            Op::Deposit {
                rate,
                burst,
                tokens,
            } => {
                decider.deposit(share(rate, burst, tokens), now);
                let deposited = never.deposit(share(rate, burst, tokens), now);
                deposited.map_err(|error| format!("step {step}: {error}"))?;
            }
            Op::Withdraw { rate, burst } => {
                let cut = share(rate, burst, 0);
                decider.withdraw(cut.rate, cut.burst, now);
                never.withdraw(cut.rate, cut.burst, now);
            }
            Op::Rebase => decider.admit_by(Right::Leased, PeriodId::new(0), now),
        }
        let (mine, theirs) = (decider.share_at(now).tokens, never.level_at(now));
        // Allow for the unit that a slot rounds to.
        let unit = Tokens::from_grains(unit_of(never.rate(), never.burst()));
        if mine > theirs.plus(unit).unwrap_or(theirs) {
            return Err(format!("step {step}: {mine} where {theirs} would be"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8 * ProptestConfig::default().cases))]

    #[test]
    fn a_refund_never_offers_more_than_without_the_charge(
        ops in prop::collection::vec((prop_oneof![2 => Just(0), 3 => 0..3_000_u64], op()), 1..40),
    ) {
        prop_assert_eq!(follow(&ops), Ok(()));
    }
}

/// Half the burst is out when half of the rest is recalled, which takes the missing part with it.
#[test]
fn debt_that_left_with_a_recall_is_not_refunded() {
    let ops = [
        Op::Take(30),
        Op::Withdraw {
            rate: 10,
            burst: 15,
        },
        Op::Use(15),
        Op::PutBack(0),
    ];
    assert_eq!(follow(&ops.map(|op| (0, op))), Ok(()));
    let later = [(0, ops[0]), (0, ops[1]), (2_000, ops[2]), (0, ops[3])];
    assert_eq!(follow(&later), Ok(()));
}

/// Its tokens belong to a quota that is over, and the present one must not gain them.
#[test]
fn a_charge_of_a_former_period_is_not_put_back() {
    let draft = aliquot_core::budget::BudgetDraft {
        key: "a".into(),
        quota: Some("10/minute".into()),
        ..aliquot_core::budget::BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let ten = Tokens::from_grains(10 * terms.scale.grains_per_token());
    let now = Tick::from_nanos(1 << 40);
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, PeriodId::new(7), now);
    let share = Share {
        rate: Rate::ZERO,
        burst: ten,
        tokens: ten,
    };
    decider.deposit(share, now);
    let lease = AtomicU64::new(u64::MAX);
    let take = |n| key_state.bucket.reserve(n, now, Span::ZERO, &lease);
    let former = take(4).expect("ten are left");
    let again = take(1).expect("six are left");
    assert_eq!(former.period, PeriodId::new(7));
    assert_eq!(key_state.bucket.put_back_of(&again, 1, || now), 1);
    decider.admit_by(Right::Leased, PeriodId::new(8), now);
    let present = take(2).expect("six are left");
    assert_eq!(present.period, PeriodId::new(8));
    assert_eq!(key_state.bucket.put_back_of(&former, 4, || now), 0);
    assert_eq!(key_state.bucket.put_back_of(&present, 2, || now), 2);
}
