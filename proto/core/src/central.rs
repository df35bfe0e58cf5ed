//! Central answers: who has no share asks, and is answered out of what is not dealt.
//!
//! A budget of three tokens cannot be cut into forty parts. Such a budget is
//! *kept*: its parent deals nothing of it, and its claimants ask for each
//! request. A leader gathers it on one node, its **home**, which every replica
//! derives from the log ([`crate::state::State::home_of`]); a node keeps its
//! holding undealt and decides out of it, in memory.
//!
//! ```text
//!  client ── Ask ──► node ── undealt ──► Told ──► client
//!                     │ holds less than the cost, and another node is home
//!                     └── Ask, forwarded once ──► home ──► Told (or Moved)
//!
//!  one request:  asked ──► admitted ─(permits)─► booked ──► released, or lease + hold over
//!                  │└────► refused
//!                  └─────► moved: nothing was decided, ask again
//! ```
//!
//! Invariants:
//!
//! 1. What is decided centrally is taken from the home's undealt part at the
//!    instant of the decision: `Σ dealt + undealt + booked ≤ holding`, so the
//!    envelope holds with the home's decisions as decision times.
//! 2. A request is decided once at a node: what was taken, or was not there, is
//!    told the same to a repeat, and nothing more is taken. Verdicts are remembered for one patience; what is older than
//!    the memory is void, never new ([`Memory`]).
//! 3. A node decides only for sessions whose lease it promised, and a client
//!    heeds no verdict after the lease that it had when it asked
//!    ([`crate::asking`]).
//! 4. What was forwarded is never forwarded again.
//! 5. A permit is booked under (edge, request) until it is released, or until a
//!    lease and the maximum hold have passed since the decision. The client
//!    counts the hold from its sending, which came first.

mod memory;

pub use memory::{Booked, Memory};

use crate::share::Kind;
use crate::unit::{BudgetId, Edge, Incarnation, PeriodId, RequestId, Span};
use core::num::NonZeroU64;

/// A question: may so much be had now?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// The session that asks.
    pub edge: Edge,
    /// Counts the questions of the client, from 1.
    pub request: RequestId,
    /// The budget.
    pub budget: BudgetId,
    /// What the asker takes the budget to limit.
    pub kind: Kind,
    /// Whole tokens, or permits: who never held a share knows no grains.
    pub cost: NonZeroU64,
    /// Whether the asker goes on asking until it is admitted.
    pub manner: Manner,
    /// Where the question comes from.
    pub hops: Hops,
}

/// Whether a caller waits for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Manner {
    /// It takes no for an answer.
    #[default]
    Once,
    /// It asks again when told to: its cost is saved up for it, one waiter at a time.
    Waits,
}

/// How often something was passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hops {
    /// It comes from the client itself.
    #[default]
    Direct,
    /// It comes from the client's node; nothing is passed on twice.
    Forwarded,
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Told {
    /// The session that asked.
    pub edge: Edge,
    /// Its question.
    pub request: RequestId,
    /// What was decided.
    pub outcome: Outcome,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was taken, at the instant of the decision.
    Admitted {
        /// The life that took it, and has booked it if it is a permit.
        by: Incarnation,
        /// The period that a quota's tokens are of.
        period: PeriodId,
        /// How long permits may be held, from the sending of the question; zero for other kinds.
        hold: Span,
    },
    /// Nothing was taken.
    Refused {
        /// Why.
        reason: Reason,
        /// When to ask again, as another question; `None` where no wait helps.
        retry_after: Option<Span>,
    },
    /// Nothing was decided: the key lives elsewhere. Ask again.
    Moved {
        /// Where, as far as is known.
        home: Option<Incarnation>,
    },
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It is not there now.
    Spent,
    /// It is more than can ever be had at once: so many whole tokens, or permits.
    ExceedsBurst(u64),
    /// No such budget is known.
    NoBudget,
    /// The budget limits something else.
    OtherKind,
    /// The node, or the session as the node knows it, has no lease.
    NoLease,
    /// More questions than can be remembered: nothing was decided.
    Busy,
    /// The question was given up, or is older than the memory.
    Void,
}

/// Permits come back, or a question is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// The session that asked.
    pub edge: Edge,
    /// Its question.
    pub request: RequestId,
    /// The life that booked the permits.
    pub by: Incarnation,
    /// Where the message comes from.
    pub hops: Hops,
}

impl Ask {
    /// The answer to this question.
    #[must_use]
    pub const fn told(&self, outcome: Outcome) -> Told {
        Told {
            edge: self.edge,
            request: self.request,
            outcome,
        }
    }
}

impl Outcome {
    /// A refusal.
    #[must_use]
    pub const fn refused(reason: Reason, retry_after: Option<Span>) -> Self {
        Self::Refused {
            reason,
            retry_after,
        }
    }

    /// Whether it must be remembered: something was decided.
    #[must_use]
    pub const fn is_decided(&self) -> bool {
        match self {
            Self::Admitted { .. } => true,
            Self::Refused { reason, .. } => !matches!(reason, Reason::Busy | Reason::NoLease),
            Self::Moved { .. } => false,
        }
    }
}
