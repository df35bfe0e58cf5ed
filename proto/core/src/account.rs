//! The book of one budget at one level.
//!
//! Whose parts the whole is cut into: the nodes' in the replicated state, the
//! clients' sessions' in a node's memory. The same rules keep both.
//!
//! ```text
//!            grant                      close                    forget
//!   free ───────────► open edge ───────────────────► kept ───────────────► free
//!     ▲                   │   (floors and permits stay; the rest is free)
//!     └──── release ──────┘
//! ```
//!
//! State invariants, for rate, burst, floors, and a quota's tokens:
//! `held = Σ open holdings + Σ kept`, and a grant never makes `held` (for a
//! quota: `held + spent`) pass the whole. Lowering the whole may leave more
//! held than there is; then nothing is free until enough came back.

mod central;
mod edges;
mod error;
mod ghosts;
mod restore;
mod slot;
pub use error::AccountError;
pub use slot::{Kept, Slot};

use crate::edge::{Counters, EdgeError, Vector};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Incarnation, PeriodId, Span, Tokens};
use alloc::collections::{BTreeMap, BTreeSet};
use edges::Edges;

/// The book.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Account {
    kind: Kind,
    whole: Share,
    linger: Span,
    period: PeriodId,
    spent: Tokens,
    open: Edges,
    kept: BTreeMap<Incarnation, Kept>,
    held: Vector,
}

impl Account {
    /// An empty book of `whole`. Anything of an edge may outlive its lease by `linger`.
    #[must_use]
    pub const fn new(kind: Kind, whole: Share, linger: Span) -> Self {
        Self {
            kind,
            whole,
            linger,
            period: PeriodId::new(0),
            spent: Tokens::ZERO,
            open: Edges::new(),
            kept: BTreeMap::new(),
            held: Vector::ZERO,
        }
    }

    /// What the budget limits.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What is being divided.
    #[must_use]
    pub const fn whole(&self) -> Share {
        self.whole
    }

    /// The period that is running, of a quota.
    #[must_use]
    pub const fn period(&self) -> PeriodId {
        self.period
    }

    /// What was spent of a quota in this period, with what dead holders never reported.
    #[must_use]
    pub const fn spent(&self) -> Tokens {
        self.spent
    }

    /// What all edges hold together, open and closed.
    #[must_use]
    pub const fn held(&self) -> Vector {
        self.held
    }

    /// The open edges.
    pub fn open(&self) -> impl Iterator<Item = (Incarnation, &Slot)> {
        self.open.iter()
    }

    /// Returns how long the booked rest of a closed edge outlives its lease; `None` if nothing stays booked.
    #[must_use]
    pub fn linger_of(&self, child: Incarnation) -> Option<Span> {
        self.kept.get(&child).map(|kept| kept.linger)
    }

    /// What stays booked of closed edges.
    pub fn kept(&self) -> impl Iterator<Item = (Incarnation, &Kept)> {
        self.kept.iter().map(|(&child, kept)| (child, kept))
    }

    /// Returns true if anything stays booked of a closed edge.
    #[must_use]
    pub fn keeps(&self, child: Incarnation) -> bool {
        self.kept.contains_key(&child)
    }

    /// The counters of an open edge; zero for one that never held.
    #[must_use]
    pub fn counters(&self, child: Incarnation) -> Counters {
        self.open
            .get(child)
            .map_or(Counters::new(self.period), |slot| slot.counters)
    }

    /// What an open edge holds.
    #[must_use]
    pub fn holding(&self, child: Incarnation) -> Vector {
        self.counters(child).holding(self.kind)
    }

    /// Whether nothing at all is booked.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.held.is_zero()
    }

    /// What is not booked to anybody; nothing where more is held than there is.
    #[must_use]
    pub fn free(&self) -> Share {
        let tokens = match self.kind {
            Kind::Quota => self
                .whole
                .tokens
                .minus_or_zero(self.spent)
                .minus_or_zero(self.held.tokens),
            Kind::Rate | Kind::Concurrency => Tokens::ZERO,
        };
        Share {
            rate: self.whole.rate.minus_or_zero(self.held.rate),
            burst: self.whole.burst.minus_or_zero(self.held.burst),
            tokens,
        }
    }

    /// Sets the whole and how long things may outlive a lease. What is held stays held.
    pub fn set_whole(&mut self, whole: Share, linger: Span) {
        self.whole = whole;
        if linger > self.linger {
            for slot in self.open.slots_mut() {
                slot.linger = slot.linger.max(linger);
            }
        }
        self.linger = linger;
        if planted::is(Bug::LoweringForgets) {
            self.count_excess_as_returned();
        }
        self.invariants();
    }

    /// Used by a planted bug alone.
    fn count_excess_as_returned(&mut self) {
        let (kind, whole) = (self.kind, Vector::of(self.whole));
        for slot in self.open.slots_mut() {
            let before = slot.counters.holding(kind);
            let returned = slot.counters.returned.plus(before.ahead_of(whole));
            slot.counters.returned = returned.unwrap_or(slot.counters.returned);
            let after = slot.counters.holding(kind);
            self.held = self.held.ahead_of(before.ahead_of(after));
        }
    }

    /// Books that `child` was given `given` in all. The difference to before, as a share.
    ///
    /// # Errors
    ///
    /// [`AccountError`]; nothing was changed.
    pub fn grant(
        &mut self,
        child: Incarnation,
        period: PeriodId,
        given: Vector,
    ) -> Result<Share, AccountError> {
        if self.kept.contains_key(&child) {
            return Err(AccountError::Closed);
        }
        if period != self.period {
            return Err(AccountError::OtherPeriod);
        }
        if given.is_exhausted() {
            return Err(EdgeError::Exhausted.into());
        }
        let mut slot = self.open.get(child).copied().unwrap_or_default();
        slot.counters.period = period;
        slot.linger = slot.linger.max(self.linger);
        let before = slot.counters.holding(self.kind);
        let more = given.ahead_of(slot.counters.given);
        slot.counters.given = slot.counters.given.merge(given);
        let after = slot.counters.holding(self.kind);
        self.check_grant(more, after)?;
        self.open.insert(child, slot);
        self.rebook(before, after);
        Ok(more.share())
    }

    fn check_grant(&self, more: Vector, after: Vector) -> Result<(), AccountError> {
        let carried = match self.kind {
            Kind::Rate => more.tokens <= more.burst,
            Kind::Quota => more.rate.is_zero() && more.burst.is_zero(),
            Kind::Concurrency => more.rate.is_zero() && more.tokens.is_zero(),
        };
        let floored = after.floor_rate <= after.rate && after.floor_burst <= after.burst;
        if !carried || !floored || !more.spent.is_zero() {
            return Err(AccountError::Unaccompanied);
        }
        let free = self.free();
        let tokens = match self.kind {
            Kind::Quota => more.tokens <= free.tokens,
            Kind::Rate | Kind::Concurrency => true,
        };
        if more.rate <= free.rate && more.burst <= free.burst && tokens {
            Ok(())
        } else {
            Err(AccountError::NotFree)
        }
    }

    /// Books that `child` returned `returned` in all. What came back: for a
    /// rate with the tokens that fill the capacity they came with, no more.
    ///
    /// # Errors
    ///
    /// [`AccountError`]; nothing was changed.
    pub fn release(
        &mut self,
        child: Incarnation,
        period: PeriodId,
        returned: Vector,
    ) -> Result<Share, AccountError> {
        let Some(slot) = self.open.get_mut(child) else {
            return if planted::is(Bug::LateReturnCredited) {
                self.held = self.held.ahead_of(returned);
                Ok(returned.share())
            } else {
                Err(AccountError::Closed)
            };
        };
        if period != slot.counters.period && !planted::is(Bug::StaleReturnCounts) {
            return Err(AccountError::OtherPeriod);
        }
        let known = slot.counters.returned;
        let merged = match planted::is(Bug::ReturnsAddUp) {
            true => known.plus(returned).unwrap_or(known),
            false => known.merge(returned),
        };
        slot.counters.admits(self.kind, merged)?;
        let back = merged.ahead_of(slot.counters.returned);
        let before = slot.counters.holding(self.kind);
        slot.counters.returned = merged;
        let after = slot.counters.holding(self.kind);
        if self.kind == Kind::Quota {
            self.spent = self.spent.plus(back.spent).unwrap_or(Tokens::MAX);
        }
        self.rebook(before, after);
        let tokens = match self.kind {
            Kind::Rate => back.tokens.min(back.burst),
            Kind::Quota => back.tokens,
            Kind::Concurrency => Tokens::ZERO,
        };
        Ok(Share {
            tokens,
            ..back.share()
        })
    }

    /// Closes an edge whose lease is over: all it held is free, except floors
    /// and permits, which stay until [`Account::forget`]. A quota's tokens
    /// that it never reported count as spent. What came free, without tokens.
    pub fn close(&mut self, child: Incarnation) -> Share {
        let Some(slot) = self.open.remove(child) else {
            return Share::EMPTY;
        };
        let before = slot.counters.holding(self.kind);
        let after = match self.kind {
            _ if planted::is(Bug::CloseFreesAll) => Vector::ZERO,
            Kind::Rate => Vector {
                rate: before.floor_rate.min(before.rate),
                burst: before.floor_burst.min(before.burst),
                floor_rate: before.floor_rate.min(before.rate),
                floor_burst: before.floor_burst.min(before.burst),
                ..Vector::ZERO
            },
            Kind::Concurrency => before,
            Kind::Quota => {
                if !planted::is(Bug::DeadEscrowFree) {
                    self.spent = self.spent.plus(before.tokens).unwrap_or(Tokens::MAX);
                }
                Vector::ZERO
            }
        };
        if !after.is_zero() {
            let linger = if planted::is(Bug::HoldForgotten) {
                self.linger
            } else {
                slot.linger
            };
            let kept = Kept {
                holding: after,
                linger,
                released: BTreeSet::new(),
            };
            self.kept.insert(child, kept);
        }
        self.rebook(before, after);
        // The dead bring no tokens: a quota's are spent, a rate's are lost.
        Share {
            tokens: Tokens::ZERO,
            ..before.ahead_of(after).share()
        }
    }

    /// Begins `period`, if it is later than the running one: nothing is spent,
    /// and tokens of the old one are void wherever they are. Whether it began.
    pub fn stamp(&mut self, period: PeriodId) -> bool {
        if self.kind != Kind::Quota || (period <= self.period && !planted::is(Bug::StampTwice)) {
            return false;
        }
        self.period = period;
        self.spent = Tokens::ZERO;
        self.open.clear();
        self.held = Vector::ZERO;
        self.invariants();
        true
    }

    fn rebook(&mut self, before: Vector, after: Vector) {
        let held = self.held.ahead_of(before);
        self.held = slot::added(held, after);
        self.invariants();
    }

    /// Puts a quota into `period`, earlier or later, and keeps what was spent:
    /// an operator's way out of a period that a wrong clock began.
    pub fn reset_period(&mut self, period: PeriodId) {
        if self.kind == Kind::Quota {
            let outstanding = self.held.tokens;
            self.spent = self.spent.plus(outstanding).unwrap_or(Tokens::MAX);
            self.period = period;
            self.open.clear();
            self.held = Vector::ZERO;
            self.invariants();
        }
    }

    /// Whether the sum that is kept is the sum of the parts.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let open = self
            .open
            .iter()
            .map(|(_, slot)| slot.counters.holding(self.kind));
        let kept = self.kept.values().map(|kept| kept.holding);
        open.chain(kept).fold(Vector::ZERO, slot::added) == self.held
    }

    /// The state invariants above, in debug builds after every change.
    fn invariants(&self) {
        debug_assert!(
            planted::any() || self.adds_up(),
            "the book does not add up: {self:?}"
        );
    }

    /// What is kept of closed edges, all together: no plan can move it.
    #[must_use]
    pub fn ghosts(&self) -> Vector {
        let holdings = self.kept.values().map(|kept| kept.holding);
        holdings.fold(Vector::ZERO, slot::added)
    }
}
