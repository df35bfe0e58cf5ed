//! What the replicated log carries.
//!
//! Everything a command says about time was decided by the leader that
//! proposed it; applying it reads no clock.

use crate::budget::Budget;
use crate::edge::Vector;
use crate::message::FloorRelease;
use crate::unit::{BudgetId, Drift, Incarnation, NodeId, PeriodId, RequestId, Round, RuleId, Span};
use alloc::string::String;
use alloc::vec::Vec;

/// One entry of the log, besides the empty one that begins a term.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Command {
    /// A node begins a life.
    Join {
        /// The node.
        node: NodeId,
        /// Tells the answer to this request from that to an earlier one.
        request: RequestId,
    },
    /// A node is removed: its lives get nothing more and end by return or patience.
    Remove {
        /// The node.
        node: NodeId,
    },
    /// The cluster's settings change.
    Configure {
        /// How far any clock may drift.
        drift: Drift,
        /// How long a parent waits for a silent node.
        lease: Span,
    },
    /// A rule is written: an exact key or a template, new or changed.
    PutRule {
        /// The operator's request.
        request: RequestId,
        /// The rule.
        budget: Budget,
        /// Who receives the full burst of a budget that did not exist before.
        creator: Option<Incarnation>,
    },
    /// A rule is withdrawn; its budgets are wound up.
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
        /// The rules that are withdrawn, first; one that is not there is none.
        deletes: Vec<RuleId>,
        /// The rules that are written, each key once.
        puts: Vec<Budget>,
        /// Who receives the full burst of budgets that did not exist before.
        creator: Option<Incarnation>,
    },
    /// Keys of templates are used for the first time.
    Instantiate {
        /// The concrete keys; one that is none, or that no rule applies to, makes nothing.
        keys: Vec<String>,
        /// Who receives the full burst, unless the template's instances are born empty.
        creator: Option<Incarnation>,
    },
    /// What the nodes' holdings changed by since the last round.
    Round(Changes),
    /// An operator begins a quota's period over, whatever the clocks say. What was spent stays spent.
    ResetPeriod {
        /// The operator's request.
        request: RequestId,
        /// The quota.
        budget: BudgetId,
        /// The period.
        period: PeriodId,
    },
}

/// A round: releases, then reclaims, then grants, so that what comes back can
/// go out again in the same entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Changes {
    /// Counts the rounds of the proposing leader's term.
    pub round: Round,
    /// The last entry that its proposer had applied: what its grants were drawn for.
    pub seen: u64,
    /// Periods that begin.
    pub stamps: Vec<(BudgetId, PeriodId)>,
    /// How long running periods have lasted so far, at least, by boot clocks.
    pub ages: Vec<(BudgetId, PeriodId, Span)>,
    /// What came back.
    pub releases: Vec<Movement>,
    /// Floors that their owners no longer use.
    pub floors: Vec<FloorRelease>,
    /// Lives that are over.
    pub reclaims: Vec<Incarnation>,
    /// What was kept of a closed life and has outlived its wait.
    pub forgets: Vec<(BudgetId, Incarnation)>,
    /// What is given.
    pub grants: Vec<Movement>,
    /// Budgets that are wound up, and instances that are provably full again.
    pub endings: Vec<Ending>,
    /// Templates of which no instance that was forgotten too early can still
    /// be missing tokens: their instances are born full again.
    pub thaws: Vec<RuleId>,
}

/// Counters of one life that moved: absolute, so that a repeat moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Movement {
    /// The life.
    pub child: Incarnation,
    /// The budget.
    pub budget: BudgetId,
    /// The period of its tokens.
    pub period: PeriodId,
    /// All that was given, or returned, so far.
    pub total: Vector,
}

/// The end of a budget's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ending {
    /// The budget.
    pub budget: BudgetId,
    /// Whether it had long been full and unbooked, so that its rebirth may be full.
    pub full: bool,
}

impl Changes {
    /// Kinds of changes, each a list.
    pub const KINDS: usize = 9;

    /// Changes that a leader puts into one round, all kinds together. The grants of one
    /// budget stay together, so that there may be as many more as a budget has holders.
    ///
    /// At 104 bytes for a full movement it is half a megabyte, which disks and replicas take
    /// in a few milliseconds.
    pub const ITEMS_MAX: usize = 4_096;

    /// Returns the number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        let lists: [usize; Self::KINDS] = [
            self.stamps.len(),
            self.ages.len(),
            self.releases.len(),
            self.floors.len(),
            self.reclaims.len(),
            self.forgets.len(),
            self.grants.len(),
            self.endings.len(),
            self.thaws.len(),
        ];
        lists.into_iter().fold(0, usize::saturating_add)
    }

    /// Whether the round changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
