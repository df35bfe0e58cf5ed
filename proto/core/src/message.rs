//! Messages between a parent and a child.
//!
//! One pair of messages serves both levels: a client and its node, a node and the leader. Every message is a
//! snapshot of counters that only grow. So any message may be lost, duplicated, late, or overtaken.

use crate::allocate;
use crate::budget::{Budget, Claim, Enforcement, Limit, OnLeaseExpiry};
use crate::demand::{CALLER_SEGMENTS_MAX, CALLERS_MAX, DemandCurve, WEIGHT_ONE};
use crate::edge::Vector;
use crate::share::{Kind, Share};
use crate::unit::{
    Band, BudgetId, Edge, Number, PeriodId, Rate, Scale, Seq, Span, Term, Tokens, Weight,
};
use crate::window::Window;
use alloc::vec::Vec;

/// Message of a child to its parent.
///
/// A report builds on a **basis**: an earlier report of its edge that the parent acknowledged, or none. It
/// has a line for every budget that was reported since the basis, so it does not matter which of the reports
/// since then the parent took. A budget without a line is unchanged, or its line waits for room in a later
/// report. The end of a claim is reported by a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// The edge of the report.
    pub edge: Edge,
    /// Number of the report on this edge.
    pub seq: Seq,
    /// The report that this one builds on, which the parent must have taken; zero for none.
    pub basis: Seq,
    /// The greatest answer whose lines the child took. It takes lines only while it has a lease.
    pub heard: Heard,
    /// The greatest answer that arrived, with or without a lease. A child that can send and not receive is
    /// not alive. A child whose parent has no lease to give receives all the same.
    pub seen: Heard,
    /// The sender's wall clock in milliseconds since the Unix epoch, used only to begin periods.
    pub wall_ms: i64,
    /// Set to [`Intent::Leave`] if the child is leaving and wants nothing any more.
    pub intent: Intent,
    /// One line for each budget of which the parent may not know it. At most [`ReportLine::LINES_MAX`].
    pub lines: Vec<ReportLine>,
    /// Released floors of ended edges that a child of this child had held.
    pub floors: Vec<FloorRelease>,
}

/// The greatest answer received, by the term of its sender and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Heard {
    /// The leader's term; zero on a client's edge.
    pub term: Term,
    /// The answer's number.
    pub number: Number,
}

impl Report {
    /// Returns true if the parent should acknowledge it at once: it is long, so that more lines may wait.
    #[must_use]
    pub const fn is_long(&self) -> bool {
        self.lines.len() >= ReportLine::LINES_MAX / 4
    }
}

/// Intent of a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Intent {
    /// It stays.
    #[default]
    Stay,
    /// It returns everything and leaves.
    Leave,
}

/// One budget in a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReportLine {
    /// The budget.
    pub budget: BudgetId,
    /// The period that `returned.tokens` and `returned.spent` belong to.
    pub period: PeriodId,
    /// Total returned on this edge so far.
    pub returned: Vector,
    /// Demand of all callers below, per band, highest band first.
    pub demand: Vec<BandDemand>,
    /// Sum of the floors that the sessions below request.
    pub floor: Share,
    /// The largest cost of a waiting request; zero if none waits.
    pub largest_wait: Tokens,
    /// Counts of requests on this edge so far, for display. Nothing is decided by them.
    pub tally: Tally,
}

impl ReportLine {
    /// Maximum number of lines of a report. A child with more lines continues in the next report.
    pub const LINES_MAX: usize = 4_096;

    /// Maximum sum of [`ReportLine::bytes_max`] of a report's lines.
    pub const BYTES_MAX: usize = 5 << 18;

    /// Returns a line without demand and returns.
    #[must_use]
    pub const fn empty(budget: BudgetId) -> Self {
        Self {
            budget,
            period: PeriodId::new(0),
            returned: Vector::ZERO,
            demand: Vec::new(),
            floor: Share::EMPTY,
            largest_wait: Tokens::ZERO,
            tally: Tally {
                admitted: Tokens::ZERO,
                denied: Tokens::ZERO,
            },
        }
    }

    /// Returns an upper bound of its bytes in a message: 162 for its counters, 10 for each band and 24 for
    /// each of its segments.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.demand.iter().fold(162_usize, |sum, band| {
            let segments = band.curve.segments().len();
            sum.saturating_add(segments.saturating_mul(24))
                .saturating_add(10)
        })
    }

    /// Returns true if nothing is wanted, not even a claim kept.
    #[must_use]
    pub fn asks_nothing(&self) -> bool {
        self.demand.is_empty() && self.floor.is_empty() && self.largest_wait.is_zero()
    }
}

/// Tokens admitted and denied since the edge began. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Admitted tokens.
    pub admitted: Tokens,
    /// Denied tokens.
    pub denied: Tokens,
}

impl Tally {
    /// Returns the sum, which saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |one: Tokens, other: Tokens| one.plus(other).unwrap_or(Tokens::MAX);
        Self {
            admitted: sum(self.admitted, other.admitted),
            denied: sum(self.denied, other.denied),
        }
    }

    /// Returns the later of two tallies of one edge.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            admitted: self.admitted.max(other.admitted),
            denied: self.denied.max(other.denied),
        }
    }
}

/// Demand of one band.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BandDemand {
    /// The band. Higher bands are served first.
    pub band: Band,
    /// Amount of demand by water level.
    pub curve: DemandCurve,
}

impl BandDemand {
    /// Returns all demand of a client in the band of its claim, whatever it reports. Each caller behind it has the
    /// weight of the claim instead of `former`, which is one in a report. Returns `None` if there is no demand.
    ///
    /// A client that is one caller has a weight of one in its report. One that reports less than that, more than
    /// [`CALLERS_MAX`], or more than [`CALLER_SEGMENTS_MAX`] segments counts as one caller.
    #[must_use]
    pub fn claimed(demand: &[Self], former: Weight, claim: Claim) -> Option<Self> {
        let first = demand.first()?;
        let sum = |part: fn(&DemandCurve) -> u64| {
            demand
                .iter()
                .fold(0_u64, |sum, of| sum.saturating_add(part(&of.curve)))
        };
        let one = WEIGHT_ONE.saturating_mul(u64::from(former.get()));
        let most = one.saturating_mul(u64::try_from(CALLERS_MAX).unwrap_or(u64::MAX));
        let weight = sum(DemandCurve::weight);
        let callers = (one < weight && weight <= most)
            .then(|| {
                let mut others = demand.iter().skip(1);
                let curve = others.try_fold(first.curve.clone(), |all, of| all.plus(&of.curve))?;
                (curve.segments().len() <= CALLER_SEGMENTS_MAX).then_some(curve)
            })
            .flatten()
            .and_then(|curve| curve.reweighed(claim.weight.get(), former.get()));
        let alone = || DemandCurve::of(sum(DemandCurve::total), claim.weight);
        Some(Self {
            band: claim.band,
            curve: callers.unwrap_or_else(alone),
        })
    }
}

/// Release of a floor of an ended edge. Its owner has a new edge and no longer uses the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FloorRelease {
    /// The budget.
    pub budget: BudgetId,
    /// The ended edge: the incarnations of the node and of its client.
    pub former: Edge,
    /// The floor that the client held on it.
    pub floor: Share,
}

/// Message of a parent to its child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The edge of the answer.
    pub edge: Edge,
    /// The sender's term and the number of the answer within it.
    pub number: Heard,
    /// The report from whose sending the lease counts.
    pub answers: Seq,
    /// The greatest report of the edge that the sender has taken, on which later ones may build; zero if it
    /// has taken none and must be sent everything.
    pub taken: Seq,
    /// The lease, counted from the child's sending of that report; zero for no lease.
    pub lease: Span,
    /// State of the edge.
    pub verdict: Verdict,
    /// One line for each budget of which the child may not know it, those with targets first. At most
    /// [`AnswerLine::LINES_MAX`].
    pub lines: Vec<AnswerLine>,
}

impl Answer {
    /// Returns true if the child should echo it at once: it has about as many lines as an answer to a node may have, so
    /// that more lines may wait for room.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.lines.len() >= Window::usual(AnswerLine::LINES_MAX / 2)
    }
}

/// State of an edge, as its parent reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The edge is open.
    #[default]
    Open,
    /// The edge is closed: nothing sent on it counts, and the child must open another.
    Closed,
}

/// One budget in an [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerLine {
    /// The budget.
    pub budget: BudgetId,
    /// The period that `given.tokens` belongs to.
    pub period: PeriodId,
    /// Total given on this edge so far.
    pub given: Vector,
    /// The value that `returned` must reach.
    pub target: Vector,
    /// The terms of the grant.
    pub terms: Terms,
    /// The rest of a quota's running period, if it is known.
    pub rest: Option<PeriodRest>,
}

/// The rest of a quota's running period, as a parent sends it. Nothing is decided by it: it is for the answers to
/// callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeriodRest {
    /// Time that the child counts from the arrival of the answer: the rest of the period, made longer by
    /// [`longest_reading`](crate::lease::longest_reading), so that a fast clock does not reach the end early.
    pub ends_in: Span,
    /// Set if the parent has given everything of the period away, and waits for nothing that comes back.
    pub exhausted: bool,
}

impl AnswerLine {
    /// Maximum number of lines of an answer. A parent with more lines continues in the next answer.
    pub const LINES_MAX: usize = 4_096;
}

/// The terms that are sent with every grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    /// Kind of the budget.
    pub kind: Kind,
    /// Its fixed point.
    pub scale: Scale,
    /// Policy of a client whose lease has lapsed.
    pub on_lease_expiry: OnLeaseExpiry,
    /// Maximum time for which a permit may be held; zero for the other kinds.
    pub max_hold: Span,
    /// Time for which a floor outlives its lease.
    pub forget_after: Span,
    /// The floor of each session.
    pub floor: Share,
    /// Maximum part of one session.
    pub ceiling: Option<Share>,
    /// Rule by which the budget is divided among its claimants.
    pub dividing: allocate::Terms,
    /// Set in central mode: the budget is too scarce for shares. Nothing of it is granted to clients, and each
    /// request is sent to the node.
    pub central_mode: bool,
    /// The largest cost that can ever be admitted: a rate's whole burst, a quota's tokens, all permits. Zero
    /// if unknown.
    pub largest: Tokens,
    /// Rate of the whole budget, for answers to callers; nothing is decided by it. Zero for a budget without a
    /// rate, and if unknown.
    pub rate: Rate,
    /// The limit as its author wrote it, for answers to callers; nothing is decided by it. `None` for permits, and
    /// if unknown: nodes of earlier versions do not send it.
    pub written: Option<WrittenLimit>,
    /// Determines if a client refuses what is beyond the limit, or admits and counts it.
    pub enforcement: Enforcement,
}

/// A limit as its author wrote it: tokens per span. `100 per 60s` and `20 per 12s` are the same rate, and are written
/// differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WrittenLimit {
    /// Tokens in each span.
    pub tokens: u64,
    /// The span of a rate, or the usual length of a quota's period ([`Period::usual`](crate::budget::Period::usual)).
    pub per: Span,
}

impl WrittenLimit {
    /// Returns the words of a limit. Permits are not written per span.
    #[must_use]
    pub const fn of(limit: &Limit) -> Option<Self> {
        match limit {
            Limit::Rate { rate, .. } => Some(Self {
                tokens: rate.tokens(),
                per: rate.per(),
            }),
            Limit::Quota { tokens, period } => Some(Self {
                tokens: *tokens,
                per: period.usual(),
            }),
            Limit::Concurrency { .. } => None,
        }
    }
}

impl From<&Budget> for Terms {
    fn from(budget: &Budget) -> Self {
        Self {
            kind: budget.kind(),
            scale: budget.scale(),
            on_lease_expiry: budget.on_lease_expiry(),
            max_hold: budget.max_hold(),
            forget_after: budget.forget_after(),
            floor: budget.floor(),
            ceiling: budget.ceiling(),
            dividing: budget.dividing(),
            central_mode: false,
            largest: match budget.kind() {
                Kind::Rate | Kind::Concurrency => budget.whole().burst,
                Kind::Quota => budget.whole().tokens,
            },
            rate: budget.whole().rate,
            written: WrittenLimit::of(&budget.limit()),
            enforcement: budget.enforcement(),
        }
    }
}

impl Terms {
    /// Number of tokens up to which a demand is sparse, in fewer than one of the ticks of an estimate: eight a second of
    /// a rate, eight of a quota. A child that does not know the terms counts whole tokens.
    pub(crate) const SPARSE: u64 = 8;

    /// Returns the time for which anything held under these terms may outlive its lease, as a parent counts
    /// it: permits in flight, or a floor.
    #[must_use]
    pub fn linger(&self) -> Span {
        match self.kind {
            Kind::Rate => self.forget_after,
            // The last permit may be taken as the floor ends.
            Kind::Concurrency if self.floor.is_empty() => self.max_hold,
            Kind::Concurrency => self.forget_after.plus_or_max(self.max_hold),
            Kind::Quota => Span::ZERO,
        }
    }

    /// Returns the demand up to which requests are sparse. Permits are never sparse: each is held.
    pub(crate) const fn sparse(&self) -> u64 {
        match self.kind {
            Kind::Rate | Kind::Quota => self.scale.grains_per_token().saturating_mul(Self::SPARSE),
            Kind::Concurrency => 0,
        }
    }
}
