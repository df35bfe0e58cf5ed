//! The theorem of `docs/invariants.md`, on the smallest world that has one.

use aliquot_core::check::{Envelope, Limit, Limits, TokenAccount, Verdict};
use aliquot_core::unit::{Drift, Rate, Tick, Tokens};
use proptest::collection::vec;
use proptest::prelude::*;

/// Parts of a grain: nanoseconds per second × parts per million.
const PARTS: i128 = 1_000_000_000_000_000;

/// State in which moved capacity arrives.
#[derive(Clone, Copy, PartialEq)]
enum Arrives {
    WithItsTokens,
    Full,
}

/// Runs five parts of one whole (R = 4 grains per nanosecond, B = 40), in parts of a grain. Returns the
/// checkers' verdicts.
fn world(ops: &[(usize, usize, u64, u64)], arrives: Arrives) -> [Verdict; 2] {
    let whole = Limit::new(Rate::from_grains(4_000_000_000), Tokens::from_grains(40));
    let rho = Drift::default();
    let mut envelope = Envelope::new(whole, rho);
    let mut account = TokenAccount::new(Limits::constant(whole), rho);
    // (grains per nanosecond, burst, level)
    let mut parts = [
        (4_i128, 40 * PARTS, 40 * PARTS),
        (0, 0, 0),
        (0, 0, 0),
        (0, 0, 0),
        (0, 0, 0),
    ];
    let mut now = 0;
    for &(from, to, amount, elapsed) in ops {
        now += elapsed;
        for (rate, burst, level) in &mut parts {
            let made = *rate * i128::from(elapsed) * 1_001_000_000_000_000;
            *level = (*level + made).min(*burst);
        }
        let amount = i128::from(amount);
        if from == to {
            if parts[from].2 >= amount * PARTS {
                parts[from].2 -= amount * PARTS;
                let cost = Tokens::from_grains(u64::try_from(amount).expect("in range"));
                envelope.admit(Tick::from_nanos(now), cost);
                account.spend(Tick::from_nanos(now), cost);
            }
        } else {
            let rate = amount.min(parts[from].0).min(1);
            let burst = (amount * PARTS).min(parts[from].1);
            parts[from].0 -= rate;
            parts[from].1 -= burst;
            let kept = parts[from].2.min(parts[from].1);
            let carried = match arrives {
                Arrives::WithItsTokens => parts[from].2 - kept,
                Arrives::Full => burst,
            };
            parts[from].2 = kept;
            parts[to].0 += rate;
            parts[to].1 += burst;
            parts[to].2 += carried;
        }
        let levels: i128 = parts.iter().map(|part| part.2).sum();
        account.observe(
            Tick::from_nanos(now),
            u128::try_from(levels.div_euclid(PARTS)).expect("in range"),
        );
    }
    [envelope.verdict(), account.verdict()]
}

/// Invariants 1 and 2.
#[test]
fn capacity_that_arrives_full_is_caught() {
    // 35 of 40 are spent; a burst of 7 moves, and its new holder spends 7.
    let mut ops = vec![(0, 0, 7, 0); 5];
    ops.extend([(0, 1, 7, 0), (1, 1, 7, 0)]);
    let excess =
        |arrives| world(&ops, arrives).map(|verdict| verdict.violation().map(|found| found.excess));
    assert_eq!(excess(Arrives::WithItsTokens), [None, None]);
    assert_eq!(excess(Arrives::Full), [Some(2), Some(7)]);
}

proptest! {
    /// Invariants 1 and 2: the theorem, on parts whose owners split, merge, spend and move in any order under
    /// clocks as fast as ρ allows.
    #[test]
    fn parts_that_only_move_tokens_keep_the_envelope_of_the_whole(
        ops in vec((0..5_usize, 0..5_usize, 0..8_u64, 0..4_u64), 1..80)
    ) {
        for verdict in world(&ops, Arrives::WithItsTokens) {
            prop_assert!(verdict.is_pass(), "{verdict}");
        }
    }
}
