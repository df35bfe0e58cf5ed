//! Taking tokens of a budget, and the answers that tell it.

use super::held::HeldKey;
use super::{Answer, Outcome};
use aliquot_client::combined::Combine;
use aliquot_client::{Limiter, Reason, Refused, Reservation};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Returns the time from which the deadlines of faces count.
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Takes tokens that can be put back, and waits for a node at most until the deadline. A limit that is known to have
/// too little then refuses: more of it might have come in time, but a face must not call that a failure, which some
/// callers take for an admission.
pub(super) async fn take(
    held: &HeldKey,
    n: u64,
    deadline: Instant,
) -> Result<Reservation, Refused> {
    let taken = timeout_at(deadline, held.limiter.check_to_settle(n)).await;
    taken.unwrap_or_else(|_| {
        let known = held.limiter.would_admit(n);
        Err(known.err().unwrap_or_else(|| Reason::Undecided.into()))
    })
}

impl HeldKey {
    /// Takes tokens as [`take`] does. A refusal is answered.
    pub(super) async fn take(&self, n: u64, deadline: Instant) -> Result<Reservation, Answer> {
        match take(self, n, deadline).await {
            Ok(reservation) => {
                self.decided();
                Ok(reservation)
            }
            Err(refused) => Err(self.refuse(refused)),
        }
    }

    /// Answers a refusal. A key without a budget, or without an answer, stays on trial.
    pub(super) fn refuse(&self, refused: Refused) -> Answer {
        let answer = Answer::refused(&self.limiter, refused);
        if matches!(answer.outcome, Outcome::OverLimit | Outcome::Never) {
            self.decided();
        }
        answer
    }

    /// Answers a question that was allowed.
    pub(super) fn allow(&self) -> Answer {
        Answer::of(&self.limiter, Outcome::Allowed)
    }

    /// Answers as a question for `n` tokens would be answered now, without asking a node.
    pub(super) fn would(&self, n: u64) -> Answer {
        match self.limiter.would_admit(n) {
            Ok(()) => self.allow(),
            Err(refused) => Answer::refused(&self.limiter, refused),
        }
    }

    /// Tells the state of the key. Waits for its first use to be answered by a node.
    pub(super) async fn peek(&self, deadline: Instant) -> Answer {
        // Nothing is taken, but the budget is known afterwards.
        match self.take(0, deadline).await {
            Ok(_) => self.would(1),
            Err(answer) => answer,
        }
    }
}

impl Answer {
    /// Returns the answer to a request that was refused.
    fn refused(limiter: &Limiter, refused: Refused) -> Self {
        Self {
            reason: Some(refused.reason),
            retry_after: refused.retry_after,
            ..Self::of(limiter, Outcome::of(&refused))
        }
    }

    /// Returns the answer for a key that has no limiter.
    #[must_use]
    pub const fn without(outcome: Outcome, reason: Reason) -> Self {
        Self {
            outcome,
            reason: Some(reason),
            limit: None,
            window: None,
            remaining: 0,
            reset_after: Duration::ZERO,
            retry_after: None,
        }
    }

    fn of(limiter: &Limiter, outcome: Outcome) -> Self {
        let info = limiter.info_at(Combine::now(limiter));
        Self {
            outcome,
            reason: None,
            limit: info.map(|info| info.limit),
            window: info.and_then(|info| info.window).map(Duration::from_secs),
            remaining: info.map_or(0, |info| info.remaining),
            reset_after: info.and_then(|info| info.reset).unwrap_or_default(),
            retry_after: None,
        }
    }
}
