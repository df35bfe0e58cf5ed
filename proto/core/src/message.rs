//! What a parent and a child say to each other.
//!
//! One pair of messages serves both levels: a client and its node, a node and
//! the leader. Every message is a snapshot of counters that only grow, so any
//! of them may be lost, doubled, late, or overtaken.

use crate::allocate;
use crate::budget::{Budget, Claim, OnLeaseExpiry};
use crate::demand::DemandCurve;
use crate::edge::Vector;
use crate::share::{Kind, Share};
use crate::unit::{Band, BudgetId, Edge, Number, PeriodId, Scale, Seq, Span, Term, Tokens};
use crate::window::Window;
use alloc::vec::Vec;

/// What a child tells its parent.
///
/// A report builds on a **basis**: an earlier report of its edge that the parent said it
/// took, or none. It has a line for every budget of which something was said since the basis,
/// so that it does not matter which of the reports since then the parent took besides. Of a
/// budget without a line nothing is said: it is as it was, or its line waits for room in a later
/// report. That nothing is wanted any more is said by a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Report {
    /// The pair of lives that the report belongs to.
    pub edge: Edge,
    /// Counts the reports of this edge.
    pub seq: Seq,
    /// The report that this one builds on, which the parent must have taken; zero for none.
    pub basis: Seq,
    /// The greatest answer whose lines the child took, as it does while it has a lease.
    pub heard: Heard,
    /// The greatest answer that came, with a lease or without: a child that can talk but not
    /// hear is not alive, and one whose parent has no lease to give hears all the same.
    pub seen: Heard,
    /// The sender's wall clock in milliseconds since the Unix epoch, for the stamping of periods alone.
    pub wall_ms: i64,
    /// Whether the child is leaving and wants nothing any more.
    pub intent: Intent,
    /// A line per budget of which the parent may not know this. At most [`ReportLine::LINES_MAX`].
    pub lines: Vec<ReportLine>,
    /// Floors of ended edges that a child of this child has taken back, with whose they were.
    pub floors: Vec<FloorRelease>,
}

/// The greatest answer seen, by the term of its sender and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Heard {
    /// The leader's term; zero on a client's edge.
    pub term: Term,
    /// The answer's number.
    pub number: Number,
}

impl Report {
    /// Returns true if its parent should say at once that it took it: it is long, so that more may wait
    /// behind it.
    #[must_use]
    pub const fn is_long(&self) -> bool {
        self.lines.len() >= ReportLine::LINES_MAX / 4
    }
}

/// Whether a child stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Intent {
    /// It goes on.
    #[default]
    Stay,
    /// It hands everything back and leaves.
    Leave,
}

/// One budget in a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReportLine {
    /// The budget.
    pub budget: BudgetId,
    /// The period that `returned.tokens` and `returned.spent` belong to.
    pub period: PeriodId,
    /// Everything returned on this edge so far.
    pub returned: Vector,
    /// What all callers below want, per band, highest band first.
    pub demand: Vec<BandDemand>,
    /// The floors that the sessions below ask for, all together.
    pub floor: Share,
    /// The largest cost that a caller waits for; zero if none waits.
    pub largest_wait: Tokens,
    /// What became of requests on this edge so far, to be looked at: nothing is decided by it.
    pub tally: Tally,
}

impl ReportLine {
    /// Maximum number of lines of a report. A child that has more to say goes on in the next.
    pub const LINES_MAX: usize = 4_096;

    /// Maximum sum of [`ReportLine::bytes_max`] of a report's lines.
    pub const BYTES_MAX: usize = 5 << 18;

    /// A line of which nothing is wanted or returned.
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

    /// Upper bound of the bytes that it takes in a message: 162 for its counters, 10 for each
    /// band and 24 for each of its segments.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.demand.iter().fold(162_usize, |sum, band| {
            let segments = band.curve.segments().len();
            sum.saturating_add(segments.saturating_mul(24))
                .saturating_add(10)
        })
    }

    /// Whether nothing is wanted, not even a claim kept.
    #[must_use]
    pub fn asks_nothing(&self) -> bool {
        self.demand.is_empty() && self.floor.is_empty() && self.largest_wait.is_zero()
    }
}

/// Tokens let through and turned away, since the edge began. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tally {
    /// Let through.
    pub admitted: Tokens,
    /// Turned away.
    pub denied: Tokens,
}

impl Tally {
    /// Both together; what leaves the range stays at its end.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |one: Tokens, other: Tokens| one.plus(other).unwrap_or(Tokens::MAX);
        Self {
            admitted: sum(self.admitted, other.admitted),
            denied: sum(self.denied, other.denied),
        }
    }

    /// The later of two of one edge.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self {
            admitted: self.admitted.max(other.admitted),
            denied: self.denied.max(other.denied),
        }
    }
}

/// The demand of one band.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BandDemand {
    /// The band: the higher is served first.
    pub band: Band,
    /// How much, by water level.
    pub curve: DemandCurve,
}

impl BandDemand {
    /// All of a demand as that of one claimant with this band and weight: a
    /// client's, whatever it says of itself. Nothing claimed stays nothing.
    #[must_use]
    pub fn claimed(demand: &[Self], claim: Claim) -> Option<Self> {
        let total = demand
            .iter()
            .fold(0_u64, |sum, of| sum.saturating_add(of.curve.total()));
        demand.first().map(|_| Self {
            band: claim.band,
            curve: DemandCurve::of(total, claim.weight),
        })
    }
}

/// A floor of an ended edge that its owner no longer uses: it came back under a new edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FloorRelease {
    /// The budget.
    pub budget: BudgetId,
    /// The ended edge: the node's life and the client's life under it.
    pub former: Edge,
    /// What the client held as its floor there.
    pub floor: Share,
}

/// What a parent tells its child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The pair of lives that the answer belongs to.
    pub edge: Edge,
    /// The sender's term and the number of the answer within it.
    pub number: Heard,
    /// The report that the lease counts from.
    pub answers: Seq,
    /// The greatest report of the edge that the sender has taken, which later ones
    /// may build on; zero if it knows nothing and must be told everything.
    pub taken: Seq,
    /// How long the child may count from its sending of that report; zero for no lease.
    pub lease: Span,
    /// Whether the edge is still open.
    pub verdict: Verdict,
    /// A line per budget of which the child may not know this, those with targets first. At
    /// most [`AnswerLine::LINES_MAX`].
    pub lines: Vec<AnswerLine>,
}

impl Answer {
    /// Returns true if the child should echo it at once: it has about as many lines as an answer may
    /// have, so that others may wait for room.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.lines.len() >= Window::usual(AnswerLine::LINES_MAX)
    }
}

/// Whether an edge lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It does.
    #[default]
    Open,
    /// It does not: nothing said on it counts, and the child must open another.
    Closed,
}

/// One budget in an [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnswerLine {
    /// The budget.
    pub budget: BudgetId,
    /// The period that `given.tokens` belongs to.
    pub period: PeriodId,
    /// Everything given on this edge so far.
    pub given: Vector,
    /// What `returned` must reach.
    pub target: Vector,
    /// The terms on which it is given.
    pub terms: Terms,
}

impl AnswerLine {
    /// Maximum number of lines of an answer. A parent that has more to say goes on in the next.
    pub const LINES_MAX: usize = 4_096;
}

/// The terms that travel with every grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    /// What the budget limits.
    pub kind: Kind,
    /// Its fixed point.
    pub scale: Scale,
    /// What a client does when its lease has lapsed.
    pub on_lease_expiry: OnLeaseExpiry,
    /// The longest that a permit may be held; zero for the other kinds.
    pub max_hold: Span,
    /// How long a floor outlives its lease.
    pub forget_after: Span,
    /// The floor of each session.
    pub floor: Share,
    /// The most that one session gets.
    pub ceiling: Option<Share>,
    /// How it is divided among those who claim it.
    pub dividing: allocate::Terms,
    /// Whether it is kept in one piece, being too small to divide: nothing of
    /// it is dealt, and who needs any asks.
    pub gathered: bool,
    /// The largest cost that can ever be served: a rate's whole burst, a quota's tokens, all
    /// permits. Zero where that is not said.
    pub largest: Tokens,
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
            gathered: false,
            largest: match budget.kind() {
                Kind::Rate | Kind::Concurrency => budget.whole().burst,
                Kind::Quota => budget.whole().tokens,
            },
        }
    }
}

impl Terms {
    /// How long anything held under these terms may outlive its lease, as a
    /// parent counts it: permits in flight, or a floor.
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
}
