//! Central mode: a client without a share sends each request to a node, which decides it from the ungranted
//! part.
//!
//! A budget of three tokens cannot be divided into forty parts. For such a budget the parent of the clients
//! grants nothing, and its claimants send a request for each decision. The leader grants all of it to one
//! node, its **home**, which every replica derives from the log ([`crate::state::State::home_of`]). That node
//! keeps its part ungranted and decides from it, in memory.
//!
//! ```text
//!  client ── DecisionRequest ──► node ── ungranted ──► DecisionReply ──► client
//!                                 │ holds less than the cost, and another node is home
//!                                 └── DecisionRequest, forwarded once ──► home ──► DecisionReply (or Moved)
//!
//!  one request:  asked ──► admitted ─(permits)─► booked ──► released, or lease + hold over
//!                  │└────► refused
//!                  └─────► moved: nothing was decided, ask again
//! ```
//!
//! Invariants:
//!
//! 1. The cost of a central decision is taken from the home's ungranted part at the instant of the decision: `Σ
//!    granted + ungranted + booked ≤ holding`, so the envelope holds with the home's decisions as decision times.
//! 2. A request is decided once at a node. A repeat gets the same reply, and nothing more is taken. Replies
//!    are remembered for one patience. A request that is older than the memory is void, never new
//!    ([`Memory`]).
//! 3. A node decides only for sessions to which it gave a lease, and a client accepts no reply after the end
//!    of the lease that it had when it sent the request ([`crate::decision_requests`]).
//! 4. A forwarded request is never forwarded again.
//! 5. A permit is booked under (edge, request) until it is released, or until a lease and the maximum hold
//!    have passed since the decision. The client counts the hold from its sending, which came first.

mod memory;

pub use memory::{Booked, Memory};

use crate::share::Kind;
use crate::unit::{BudgetId, Edge, Incarnation, PeriodId, RequestId, Span};
use core::num::NonZeroU64;

/// Number of whole tokens of burst below which a client's part of a rate is small.
///
/// A caller that may wait for a round trip asks the node if such a part has no token for it. At half as much
/// again as the part makes, a bucket of eight tokens loses less than a thousandth, and at a tenth more than
/// it makes, two hundredths.
pub const SMALL_BURST: u64 = 8;

/// A request for a central decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecisionRequest {
    /// The session of the request.
    pub edge: Edge,
    /// Number of the request at the client, from 1.
    pub request: RequestId,
    /// The budget.
    pub budget: BudgetId,
    /// Kind of the budget, as the client knows it.
    pub kind: Kind,
    /// Whole tokens, or permits: a client that never held a share does not know the grains.
    pub cost: NonZeroU64,
    /// Set to [`RetryPolicy::Waits`] if the request is repeated until it is admitted.
    pub retry_policy: RetryPolicy,
    /// Sender of the message.
    pub route: Route,
}

/// Behaviour of a caller whose request is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RetryPolicy {
    /// It does not repeat the request.
    #[default]
    Once,
    /// It repeats the request after the retry delay. Sessions with more debt leave its cost.
    Waits,
}

/// Number of times that a message was forwarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Route {
    /// It comes from the client itself.
    #[default]
    Direct,
    /// It comes from the client's node, and is not forwarded again.
    Forwarded,
}

/// The reply to a [`DecisionRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecisionReply {
    /// The session of the request.
    pub edge: Edge,
    /// Number of the request.
    pub request: RequestId,
    /// The decision.
    pub outcome: Outcome,
    /// Whole tokens, or permits, that the deciding node has left of the budget after this decision. `None` if
    /// nothing was decided just now, or if others hold what was asked for and it is recalled from them. It is told to
    /// callers, and no admission depends on it. With [`Reason::ExceedsBurst`] it answers a look: what is ungranted at the
    /// leader counts as well.
    pub left: Option<u64>,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The cost was taken, at the instant of the decision.
    Admitted {
        /// The incarnation that took it, and has booked it if it is a permit.
        by: Incarnation,
        /// The period of a quota's tokens.
        period: PeriodId,
        /// Maximum time for which permits may be held, from the sending of the request; zero for other kinds.
        hold: Span,
    },
    /// Nothing was taken.
    Refused {
        /// The reason.
        reason: Reason,
        /// Time after which to send another request; `None` if waiting does not help.
        retry_after: Option<Span>,
    },
    /// Nothing was decided: the home of the key is elsewhere. Send the request again.
    Moved {
        /// The home, if it is known.
        home: Option<Incarnation>,
    },
}

/// Reason why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// There are not enough tokens or permits now.
    Spent,
    /// The cost is more than can ever be admitted at once: this many whole tokens, or permits.
    ExceedsBurst(u64),
    /// The budget is not known.
    NoBudget,
    /// The budget is of another kind.
    OtherKind,
    /// The node has no lease, or has given none to the session.
    NoLease,
    /// There are more requests than can be remembered. Nothing was decided.
    Busy,
    /// The request was given up, or is older than the memory.
    Void,
}

/// Release of permits, or of a request that is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Release {
    /// The session of the request.
    pub edge: Edge,
    /// Number of the request.
    pub request: RequestId,
    /// The incarnation that booked the permits.
    pub by: Incarnation,
    /// Sender of the message.
    pub route: Route,
}

impl DecisionRequest {
    /// Returns the reply to this request.
    #[must_use]
    pub const fn reply(&self, outcome: Outcome) -> DecisionReply {
        DecisionReply {
            edge: self.edge,
            request: self.request,
            outcome,
            left: None,
        }
    }
}

impl Outcome {
    /// Returns a refusal.
    #[must_use]
    pub const fn refused(reason: Reason, retry_after: Option<Span>) -> Self {
        Self::Refused {
            reason,
            retry_after,
        }
    }

    /// Returns true if it must be remembered, because something was decided.
    #[must_use]
    pub const fn is_decided(&self) -> bool {
        match self {
            Self::Admitted { .. } => true,
            Self::Refused { reason, .. } => !matches!(reason, Reason::Busy | Reason::NoLease),
            Self::Moved { .. } => false,
        }
    }
}
