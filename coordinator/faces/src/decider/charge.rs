//! Takes tokens of a budget, and makes the answers.

use super::answer::{Answer, Outcome};
use super::held::HeldKey;
use aliquot_client::clock::Tick;
use aliquot_client::combined::{Combine, Receipt};
use aliquot_client::limiter::{Decision, Kind, LimitInfo};
use aliquot_client::{Limiter, Reason, Refused, Reservation};
use std::time::Duration;
use tokio::time::Instant;

/// Returns the time from which the deadlines of faces count.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the time that is left until a deadline.
pub(super) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(now())
}

impl HeldKey {
    /// Takes tokens that can be put back, and waits for a node no longer than `within`. Returns the answer as well.
    pub(super) async fn take(
        &self,
        n: u64,
        within: Duration,
    ) -> Result<(Reservation, Answer), Answer> {
        self.answer(self.limiter.decide_to_settle_within(n, within).await)
    }

    /// Takes tokens that are there now. Returns the charge and the answer, or `None`, and takes nothing, if a node may
    /// have to be asked. `now` is a reading of the limiter's clock.
    pub(super) fn take_here(&self, n: u64, now: Tick) -> Option<(Receipt, Answer)> {
        let (charge, info) = self.limiter.take_here_at(n, now)?;
        self.decided();
        Some((charge, Answer::of(&self.limiter, None, info)))
    }

    /// Takes tokens that were spent already. A charge of nothing is made first, which then costs more.
    pub(super) async fn take_spent(&self, n: u64, within: Duration) -> Answer {
        match self.take(0, within).await {
            Ok((reservation, _)) => {
                reservation.settle(n);
                self.would(0)
            }
            Err(answer) => answer,
        }
    }

    /// Puts back up to `n` of the tokens that requests took lately.
    pub(super) fn refund(&self, n: u64) {
        self.recent.refund(&self.limiter, n);
    }

    /// Answers a decision. A key without a budget, or without an answer, stays on trial.
    pub(super) fn answer<T>(&self, decision: Decision<T>) -> Result<(T, Answer), Answer> {
        let Decision { outcome, info } = decision;
        let answer = Answer::of(&self.limiter, outcome.as_ref().err(), info);
        if !matches!(answer.outcome, Outcome::NoBudget | Outcome::Unavailable) {
            self.decided();
        }
        match outcome {
            Ok(taken) => Ok((taken, answer)),
            Err(_) => Err(answer),
        }
    }

    /// Answers as a question for `n` tokens would be answered now, without asking a node.
    pub(super) fn would(&self, n: u64) -> Answer {
        let would = match n {
            0 => Ok(()),
            n => self.limiter.would_admit(n),
        };
        let info = self.limiter.info_at(Combine::now(&self.limiter));
        Answer::of(&self.limiter, would.err().as_ref(), info)
    }

    /// Tells the state of the key. Waits for its first use to be answered by a node.
    pub(super) async fn peek(&self, within: Duration) -> Answer {
        // Nothing is taken, but the budget is known afterwards.
        match self.take(0, within).await {
            Ok((_, state)) => merge_look(self.would(1), state, self.limiter.peek().kind),
            Err(answer) => answer,
        }
    }
}

/// Returns the answer to a look, which is that of a request for one token. `would` is the answer of this process alone,
/// and `state` that of a charge of nothing, which a node may have given.
///
/// A node may have tokens that this process lacks. If a node answered that it has none either, the budget is spent. All
/// tokens of a quota are granted then, so a retry can succeed only in the next period.
fn merge_look(would: Answer, state: Answer, kind: Kind) -> Answer {
    let is_known_here = would.outcome == Outcome::OverLimit && would.remaining.is_some();
    match (would.outcome, state.remaining) {
        (Outcome::OverLimit | Outcome::Unavailable, None | Some(1..)) => state,
        (Outcome::OverLimit | Outcome::Unavailable, Some(0)) if !is_known_here => {
            let (reason, retry_after) = match kind {
                Kind::Quota => (Reason::Quota, Some(state.reset_after)),
                Kind::Rate => (Reason::Throttled, would.retry_after),
                Kind::Concurrency => (Reason::Permits, would.retry_after),
            };
            Answer {
                outcome: Outcome::OverLimit,
                reason: Some(reason),
                retry_after: retry_after.filter(|wait| !wait.is_zero()),
                ..state
            }
        }
        _ => would,
    }
}

impl Answer {
    /// Returns the answer of a decision, refused or allowed, that left the limit in this state.
    fn of(limiter: &Limiter, refused: Option<&Refused>, info: Option<LimitInfo>) -> Self {
        let whole = info.map(|info| (info.limit, info.window));
        let (limit, window) = whole.or_else(|| limiter.whole_limit()).unzip();
        Self {
            outcome: refused.map_or(Outcome::Allowed, Outcome::of),
            reason: refused.map(|refused| refused.reason),
            excess: refused.and_then(|refused| refused.excess),
            limit,
            window: window.flatten().map(Duration::from_secs),
            remaining: info.map(|info| info.remaining),
            reset_after: info.and_then(|info| info.reset).unwrap_or_default(),
            retry_after: refused.and_then(|refused| refused.retry_after),
        }
    }

    /// Returns the answer for a key that has no limiter.
    #[must_use]
    pub const fn without(outcome: Outcome, reason: Reason) -> Self {
        Self {
            outcome,
            reason: Some(reason),
            excess: None,
            limit: None,
            window: None,
            remaining: None,
            reset_after: Duration::ZERO,
            retry_after: None,
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/decider/charge.rs"]
mod tests;
