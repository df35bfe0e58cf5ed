//! Entries of the replicated log.
//!
//! The leader that proposes a command decides everything in it that concerns time. Applying it reads no
//! clock.

use crate::budget::Budget;
use crate::edge::Vector;
use crate::message::FloorRelease;
use crate::unit::{BudgetId, Drift, Incarnation, NodeId, PeriodId, RequestId, Round, RuleId, Span};
use alloc::string::String;
use alloc::vec::Vec;

/// One entry of the log, other than the empty one that begins a term.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Command {
    /// A node begins an incarnation.
    Join {
        /// The node.
        node: NodeId,
        /// Distinguishes the effect of this request from that of an earlier one.
        request: RequestId,
    },
    /// A node is removed: its incarnations are granted nothing more. They end when everything is returned, or
    /// after the leader's patience.
    Remove {
        /// The node.
        node: NodeId,
    },
    /// The cluster's settings change.
    Configure {
        /// Bound on the drift of every clock.
        drift: Drift,
        /// The nodes' lease: the time that a parent waits for a silent node.
        lease: Span,
    },
    /// A rule is written: an exact key or a template, new or changed.
    PutRule {
        /// The operator's request.
        request: RequestId,
        /// The rule.
        budget: Budget,
        /// The incarnation that receives the full burst of a budget that did not exist before.
        creator: Option<Incarnation>,
    },
    /// A rule is withdrawn. Its budgets are wound up.
    DeleteRule {
        /// The operator's request.
        request: RequestId,
        /// The rule.
        rule: RuleId,
    },
    /// Rules are withdrawn and written, all or none of them.
    Apply {
        /// The operator's request, one for the whole set.
        request: RequestId,
        /// The rules that are withdrawn first. A rule that does not exist is ignored.
        deletes: Vec<RuleId>,
        /// The rules that are written, each key once.
        puts: Vec<Budget>,
        /// The incarnation that receives the full burst of budgets that did not exist before.
        creator: Option<Incarnation>,
    },
    /// Keys of templates are used for the first time.
    Instantiate {
        /// The concrete keys. A string that is no key, or a key to which no rule applies, is ignored.
        keys: Vec<String>,
        /// The incarnation that receives the full burst, unless the template's instances begin empty.
        creator: Option<Incarnation>,
    },
    /// Changes of the nodes' holdings since the last round.
    Round(Changes),
}

/// A round: releases, then reclaims, then grants, so that returned parts can be granted again in the same
/// entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Changes {
    /// Number of the round in the proposing leader's term.
    pub round: Round,
    /// The last entry that its proposer had applied: its grants were drawn from the state after it.
    pub seen: u64,
    /// Periods that begin.
    pub stamps: Vec<(BudgetId, PeriodId)>,
    /// Returned parts.
    pub releases: Vec<Movement>,
    /// Floors that their owners no longer use.
    pub floors: Vec<FloorRelease>,
    /// Silences that begin or end.
    pub silences: Vec<Silence>,
    /// Incarnations that are over.
    pub reclaims: Vec<Incarnation>,
    /// Rests of closed incarnations whose wait is over.
    pub forgets: Vec<(BudgetId, Incarnation)>,
    /// Granted parts.
    pub grants: Vec<Movement>,
    /// Budgets that were wound up, and instances that are provably full again.
    pub endings: Vec<Ending>,
    /// Templates whose instances may begin full again: no instance that was forgotten too early can still
    /// lack tokens.
    pub thaws: Vec<RuleId>,
}

/// The begin or the end of an incarnation's silence. While it lasts, no leader confirms a report of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Silence {
    /// The incarnation.
    pub child: Incarnation,
    /// The time for which no report of it had been confirmed when the entry was proposed. `None` if the silence
    /// ends.
    pub lasted: Option<Span>,
}

/// Changed counters of one incarnation. They are absolute, so a repeat moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Movement {
    /// The incarnation.
    pub child: Incarnation,
    /// The budget.
    pub budget: BudgetId,
    /// The period of its tokens.
    pub period: PeriodId,
    /// The total that was given, or returned, so far.
    pub total: Vector,
}

/// The end of a budget's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ending {
    /// The budget.
    pub budget: BudgetId,
    /// Set if it was full and unbooked for long enough, so that its next generation may begin full.
    pub full: bool,
}

impl Changes {
    /// Number of kinds of changes, each a list.
    pub const KINDS: usize = 9;

    /// Maximum number of changes in one round, all kinds together. The grants of one budget stay together, so
    /// a round may have as many more as a budget has holders.
    ///
    /// Planning, encoding, applying and following one takes ten microseconds of a leader, and renewals of leases wait
    /// meanwhile. At 104 bytes for a full movement a round is a tenth of a megabyte.
    pub const ITEMS_MAX: usize = 1_024;

    /// Returns the number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        let lists: [usize; Self::KINDS] = [
            self.stamps.len(),
            self.releases.len(),
            self.floors.len(),
            self.silences.len(),
            self.reclaims.len(),
            self.forgets.len(),
            self.grants.len(),
            self.endings.len(),
            self.thaws.len(),
        ];
        lists.into_iter().fold(0, usize::saturating_add)
    }

    /// Returns true if the round changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
