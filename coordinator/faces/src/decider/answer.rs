//! The answer to a question.

use aliquot_client::limiter::Excess;
use aliquot_client::{Reason, Refused};
use std::time::Duration;

/// The decision, and the state of the limit at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The decision.
    pub outcome: Outcome,
    /// Reason of a decision against the request, for people and logs.
    pub reason: Option<Reason>,
    /// The cost and the largest cost that is ever admitted, if the outcome is [`Outcome::Never`].
    pub excess: Option<Excess>,
    /// Tokens per window of the whole budget; `None` if it is not known.
    pub limit: Option<u64>,
    /// The window, in whole seconds; `None` if no time makes the tokens, or if it is not known.
    pub window: Option<Duration>,
    /// Tokens that this decider can take now: what is left of its share, and not of the budget. `None` if it is not
    /// known here: only its home knows what is left of a budget in central mode.
    pub remaining: Option<u64>,
    /// Time until nothing is used any more.
    pub reset_after: Duration,
    /// Shortest wait after which a retry may succeed; `None` if the request was allowed, if waiting does not help,
    /// or if the wait is not known.
    pub retry_after: Option<Duration>,
}

/// Decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The tokens were taken, or would be.
    Allowed,
    /// The tokens are not there.
    OverLimit,
    /// The cost is above what the limit can ever give.
    Never,
    /// No budget applies to the key, or one of another kind. The operator has to mend that: the caller has exceeded
    /// nothing.
    NoBudget,
    /// There is no decision: no lease, or no node answered in time. Nothing was taken here.
    Unavailable,
}

impl Outcome {
    /// All outcomes, in order.
    pub const ALL: [Self; 5] = [
        Self::Allowed,
        Self::OverLimit,
        Self::Never,
        Self::NoBudget,
        Self::Unavailable,
    ];

    /// Returns the name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::OverLimit => "over_limit",
            Self::Never => "never",
            Self::NoBudget => "no_budget",
            Self::Unavailable => "unavailable",
        }
    }

    /// Classifies a refusal. A template that has reached its maximum of keys is over the limit: its operator has
    /// bounded it, and a face that lets callers pass when nothing is decided must not let those pass.
    pub(super) const fn of(refused: &Refused) -> Self {
        if refused.is_never() {
            return Self::Never;
        }
        match refused.reason {
            Reason::Throttled
            | Reason::Quota
            | Reason::Permits
            | Reason::ExceedsBurst
            | Reason::Frozen
            | Reason::MaxKeys
            | Reason::Shed => Self::OverLimit,
            Reason::NoBudget | Reason::WrongKind => Self::NoBudget,
            _ => Self::Unavailable,
        }
    }
}
