//! The envelope when only an interval is known for the time of some decisions.
//!
//! A central request is decided at the key's home node, at some time between the request and the
//! answer. A window `[from, to]` is therefore charged only with admissions that were certainly decided
//! within it: requested at `from` or later, and answered at `to` or earlier. If the exact time of every
//! decision is known, this is the exact envelope.

use super::decisions::{Decisions, Elsewhere};
use aliquot_core::check::Limit;
use aliquot_core::unit::{Drift, Tick};

/// Returns the least slack of all windows, in grains, and the window that has it.
pub(super) fn worst(
    decisions: &Decisions,
    grains_per_token: i128,
    limit: Limit,
    drift: Drift,
) -> (i128, Option<(Tick, Tick)>) {
    let all = intervals(decisions);
    let mut starts: Vec<Tick> = all.iter().map(|of| of.asked).collect();
    starts.sort_unstable();
    starts.dedup();
    let burst = i128::from(limit.burst.grains());
    let mut worst = (burst, None);
    let mut first = 0;
    for from in starts {
        // Decisions answered before `from` were requested before it.
        while all.get(first).is_some_and(|of| of.heard < from) {
            first += 1;
        }
        let mut spent = 0;
        for of in all.iter().skip(first).filter(|of| of.asked >= from) {
            spent += i128::from(of.cost) * grains_per_token;
            let bound = burst + made(limit, drift, from, of.heard);
            // Keep the window with the least slack.
            if bound - spent < worst.0 {
                worst = (bound - spent, Some((from, of.heard)));
            }
        }
    }
    worst
}

/// Returns the grains that `(1 + ρ)·R` generates between two instants.
fn made(limit: Limit, drift: Drift, from: Tick, to: Tick) -> i128 {
    const BILLION: i128 = 1_000_000_000;
    const MILLION: i128 = 1_000_000;
    let rate = i128::from(limit.rate.grains()) * (MILLION + i128::from(drift.ppm()));
    rate * i128::from(to.since(from).nanos()) / (BILLION * MILLION)
}

/// Returns all admissions, ordered by the time of their answers. Local decisions have intervals of
/// length 0.
fn intervals(decisions: &Decisions) -> Vec<Elsewhere> {
    let mut elsewhere = decisions.elsewhere.clone();
    elsewhere.sort_unstable();
    let mut rest = elsewhere.iter().peekable();
    let mut all = Vec::with_capacity(decisions.admitted.len());
    for &(heard, cost) in &decisions.admitted {
        // Both lists are in the same order, so the next one with the same time and cost is the same
        // admission.
        let next = rest.next_if(|of| of.heard == heard && of.cost == cost);
        all.push(next.copied().unwrap_or(Elsewhere {
            heard,
            asked: heard,
            cost,
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use aliquot_core::unit::{Rate, Tokens};

    fn at(ms: u64) -> Tick {
        Tick::from_nanos(ms * 1_000_000)
    }

    /// Slack under 10 tokens a second and a burst of 2, with one grain per token. Admissions are
    /// `(asked, heard)` in ms.
    fn slack(admissions: &[(u64, u64)]) -> i128 {
        let mut decisions = Decisions::default();
        for &(asked, heard) in admissions {
            decisions.admitted.push((at(heard), 1));
            if asked < heard {
                decisions.elsewhere.push(Elsewhere {
                    heard: at(heard),
                    asked: at(asked),
                    cost: 1,
                });
            }
        }
        decisions.admitted.sort_unstable();
        let limit = Limit::new(Rate::from_grains(10), Tokens::from_grains(2));
        worst(&decisions, 1, limit, Drift::default()).0
    }

    #[test]
    fn points_are_judged_exactly() {
        assert_eq!(slack(&[(0, 0), (0, 0)]), 0);
        assert_eq!(slack(&[(0, 0), (0, 0), (100, 100)]), 0);
        assert_eq!(slack(&[(0, 0), (0, 0), (90, 90)]), -1);
    }

    #[test]
    fn an_answer_that_came_late_is_charged_to_no_window_that_it_may_have_missed() {
        // It may have been decided at 0, and is answered together with two later ones.
        assert_eq!(slack(&[(0, 200), (200, 200), (200, 200)]), 0);
        assert_eq!(slack(&[(199, 200), (200, 200), (200, 200)]), -1);
    }
}
