//! The book of one budget at one level.
//!
//! It records how the whole is divided: among nodes in the replicated state, among clients' sessions in a
//! node's memory. The same rules apply to both.
//!
//! ```text
//!            grant                      close                    forget
//!   free ───────────► open edge ───────────────────► kept ───────────────► free
//!     ▲                   │   (floors and permits stay; the rest is free)
//!     └──── release ──────┘
//! ```
//!
//! State invariants, for rate, burst, floors, and a quota's tokens: `held = Σ open holdings + Σ kept`, and a
//! grant never makes `held` (for a quota: `held + spent`) exceed the whole. Lowering the whole may leave more
//! held than there is. Then nothing is free until enough was returned.

mod central;
mod edges;
mod error;
mod lingering;
#[cfg(feature = "serde")]
mod parts;
mod rare;
mod restore;
mod slot;
pub use error::AccountError;
pub use slot::{Lingering, Slot};

use crate::edge::{Counters, EdgeError, Vector};
use crate::planted::{self, Bug};
use crate::share::{Kind, Share};
use crate::unit::{Incarnation, PeriodId, Span, Tokens};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use edges::Edges;
use rare::PackedRare;

/// The book.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "parts::Parts", into = "parts::Parts"))]
pub struct Account {
    kind: Kind,
    whole: Share,
    linger: Span,
    open: Edges,
    rare: PackedRare,
}

impl Account {
    /// Maximum number of edges whose sum is not stored.
    const FEW: usize = 4;

    /// Returns an empty book of `whole`. Anything of an edge may outlive its lease by `linger`.
    #[must_use]
    pub const fn new(kind: Kind, whole: Share, linger: Span) -> Self {
        Self {
            kind,
            whole,
            linger,
            open: Edges::new(),
            rare: PackedRare::NONE,
        }
    }

    /// Returns the kind of the budget.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the whole that is divided.
    #[must_use]
    pub const fn whole(&self) -> Share {
        self.whole
    }

    /// Returns the running period of a quota.
    #[must_use]
    pub fn period(&self) -> PeriodId {
        self.rare.get().period
    }

    /// Returns the spent tokens of a quota in this period, including what closed edges never reported.
    #[must_use]
    pub fn spent(&self) -> Tokens {
        self.rare.get().spent
    }

    /// Returns the sum that all edges hold, open and closed.
    #[must_use]
    pub fn held(&self) -> Vector {
        match &self.rare.get().held {
            Some(held) => **held,
            None => self.sum(),
        }
    }

    /// Adds up what all edges hold.
    fn sum(&self) -> Vector {
        let open = self.open.iter();
        let open = open.map(|(_, counters)| counters.holding(self.kind));
        let kept = self.kept().map(|(_, kept)| kept.holding);
        open.chain(kept).fold(Vector::ZERO, slot::added)
    }

    /// Returns the open edges.
    pub fn open(&self) -> impl Iterator<Item = (Incarnation, Slot)> {
        let linger = |child| self.linger_of_open(child).unwrap_or(self.linger);
        let slot = move |(child, counters)| {
            let linger = linger(child);
            (child, Slot { counters, linger })
        };
        self.open.iter().map(slot)
    }

    /// Returns the time for which anything of an open edge may outlive its lease, if it is not the book's.
    fn linger_of_open(&self, child: Incarnation) -> Option<Span> {
        self.rare.get().linger.get(&child).copied()
    }

    /// Returns the time for which the booked rest of a closed edge outlives its lease, or `None` if nothing
    /// stays booked.
    #[must_use]
    pub fn linger_of(&self, child: Incarnation) -> Option<Span> {
        self.rare.get().kept.get(&child).map(|kept| kept.linger)
    }

    /// Returns the booked rests of closed edges.
    pub fn kept(&self) -> impl Iterator<Item = (Incarnation, &Lingering)> {
        let kept = self.rare.get().kept.iter();
        kept.map(|(&child, rest)| (child, rest))
    }

    /// Returns true if something stays booked of a closed edge.
    #[must_use]
    pub fn keeps(&self, child: Incarnation) -> bool {
        self.rare.get().kept.contains_key(&child)
    }

    /// Returns the counters of an open edge; zero for an edge without grants.
    #[must_use]
    pub fn counters(&self, child: Incarnation) -> Counters {
        self.open
            .get(child)
            .unwrap_or_else(|| Counters::new(self.period()))
    }

    /// Returns the part that an open edge holds.
    #[must_use]
    pub fn holding(&self, child: Incarnation) -> Vector {
        self.counters(child).holding(self.kind)
    }

    /// Returns true if nothing is booked.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.held().is_zero()
    }

    /// Returns the part that is not booked; zero if more is held than there is.
    #[must_use]
    pub fn free(&self) -> Share {
        let held = self.held();
        let tokens = match self.kind {
            Kind::Quota => self
                .whole
                .tokens
                .minus_or_zero(self.spent())
                .minus_or_zero(held.tokens),
            Kind::Rate | Kind::Concurrency => Tokens::ZERO,
        };
        Share {
            rate: self.whole.rate.minus_or_zero(held.rate),
            burst: self.whole.burst.minus_or_zero(held.burst),
            tokens,
        }
    }

    /// Sets the whole, and the time for which anything may outlive a lease. Held parts stay held.
    pub fn set_whole(&mut self, whole: Share, linger: Span) {
        self.whole = whole;
        if linger != self.linger {
            self.set_linger(linger);
        }
        if planted::is(Bug::LoweringForgets) {
            self.count_excess_as_returned();
        }
        self.invariants();
    }

    /// Sets the time for new edges. Of edges that are open, the longest counts that was in force.
    fn set_linger(&mut self, linger: Span) {
        let (open, before) = (&self.open, self.linger);
        self.rare.change(|rare| {
            for (child, _) in open.iter() {
                let known = rare.linger.remove(&child).unwrap_or(before);
                if known > linger {
                    rare.linger.insert(child, known);
                }
            }
        });
        self.linger = linger;
    }

    /// Used only by a planted bug.
    fn count_excess_as_returned(&mut self) {
        let (kind, whole) = (self.kind, Vector::of(self.whole));
        let mut held = self.held();
        for (child, mut counters) in self.open.iter().collect::<Vec<_>>() {
            let before = counters.holding(kind);
            let returned = counters.returned.plus(before.ahead_of(whole));
            counters.returned = returned.unwrap_or(counters.returned);
            held = held.ahead_of(before.ahead_of(counters.holding(kind)));
            self.open.insert(child, counters);
        }
        self.set_held(Some(held).filter(|_| self.has_many_edges()));
    }

    /// Books `given` as the total that was given to `child`. Returns the difference to the former total, as a
    /// share.
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
        if self.keeps(child) {
            return Err(AccountError::Closed);
        }
        if period != self.period() {
            return Err(AccountError::OtherPeriod);
        }
        if given.is_exhausted() {
            return Err(EdgeError::Exhausted.into());
        }
        let mut counters = self.open.get(child).unwrap_or_default();
        counters.period = period;
        let before = counters.holding(self.kind);
        let more = given.ahead_of(counters.given);
        counters.given = counters.given.merge(given);
        let after = counters.holding(self.kind);
        self.check_grant(more, after)?;
        self.open.insert(child, counters);
        self.rebook(before, after);
        Ok(more.share())
    }

    fn check_grant(&self, more: Vector, after: Vector) -> Result<(), AccountError> {
        let carried = match self.kind {
            Kind::Rate => more.tokens <= more.burst,
            Kind::Quota => more.rate.is_zero() && more.burst.is_zero(),
            Kind::Concurrency => more.rate.is_zero() && more.tokens.is_zero(),
        };
        if !carried || !after.carries_floors() || !more.spent.is_zero() {
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

    /// Books `returned` as the total that `child` returned. Returns the difference to the former total. For a
    /// rate, its tokens are at most those that fill its capacity.
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
        let Some(mut counters) = self.open.get(child) else {
            return if planted::is(Bug::LateReturnCredited) {
                self.set_held(Some(self.held().ahead_of(returned)));
                Ok(returned.share())
            } else {
                Err(AccountError::Closed)
            };
        };
        if period != counters.period && !planted::is(Bug::StaleReturnCounts) {
            return Err(AccountError::OtherPeriod);
        }
        let known = counters.returned;
        let merged = match planted::is(Bug::ReturnsAddUp) {
            true => known.plus(returned).unwrap_or(known),
            false => known.merge(returned),
        };
        counters.admits(self.kind, merged)?;
        let back = merged.ahead_of(counters.returned);
        let before = counters.holding(self.kind);
        counters.returned = merged;
        let after = counters.holding(self.kind);
        self.open.insert(child, counters);
        if self.kind == Kind::Quota {
            self.spend(back.spent);
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

    /// Closes an edge whose lease is over. All that it held becomes free, except floors and permits, which
    /// stay booked until [`Account::forget`]. Tokens of a quota that it did not report count as spent.
    /// Returns the freed part, without tokens.
    pub fn close(&mut self, child: Incarnation) -> Share {
        let Some(counters) = self.open.remove(child) else {
            return Share::EMPTY;
        };
        let linger = self.linger_of_open(child);
        if linger.is_some() {
            self.rare.change(|rare| rare.linger.remove(&child));
        }
        let before = counters.holding(self.kind);
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
                    self.spend(before.tokens);
                }
                Vector::ZERO
            }
        };
        if !after.is_zero() {
            let linger = linger.filter(|_| !planted::is(Bug::HoldForgotten));
            let kept = Lingering {
                holding: after,
                linger: linger.unwrap_or(self.linger),
                released: BTreeSet::new(),
            };
            self.rare.change(|rare| rare.kept.insert(child, kept));
        }
        self.rebook(before, after);
        // A closed edge returns no tokens: those of a quota are spent, those of a rate are lost.
        Share {
            tokens: Tokens::ZERO,
            ..before.ahead_of(after).share()
        }
    }

    /// Begins `period`, if it is later than the running one: nothing is spent, and tokens of the old one are
    /// void everywhere. Returns true if it began.
    pub fn stamp(&mut self, period: PeriodId) -> bool {
        if self.kind != Kind::Quota || (period <= self.period() && !planted::is(Bug::StampTwice)) {
            return false;
        }
        self.open.clear();
        self.rare.change(|rare| {
            rare.period = period;
            rare.spent = Tokens::ZERO;
            rare.linger.clear();
            rare.held = None;
        });
        self.invariants();
        true
    }

    /// Counts tokens of a quota as spent.
    fn spend(&mut self, tokens: Tokens) {
        self.rare
            .change(|rare| rare.spent = rare.spent.plus(tokens).unwrap_or(Tokens::MAX));
    }

    /// Returns true if the book stores the sum of its edges.
    fn has_many_edges(&self) -> bool {
        let edges = self.open.len().saturating_add(self.rare.get().kept.len());
        edges > Self::FEW
    }

    fn rebook(&mut self, before: Vector, after: Vector) {
        let known = self.rare.get().held.as_deref().copied();
        let is_stored = self.has_many_edges() || planted::is(Bug::LateReturnCredited);
        let held = is_stored.then(|| match known {
            Some(held) => slot::added(held.ahead_of(before), after),
            None => self.sum(),
        });
        self.set_held(held);
        self.invariants();
    }

    /// Sets the stored sum.
    fn set_held(&mut self, held: Option<Vector>) {
        if self.rare.get().held.as_deref() == held.as_ref() {
            return;
        }
        self.rare.change(|rare| match (&mut rare.held, held) {
            (Some(known), Some(held)) => **known = held,
            (known, held) => *known = held.map(Box::new),
        });
    }

    /// Returns true if the sum, if it is stored, equals the sum of the parts.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let held = self.rare.get().held.as_deref();
        held.is_none_or(|held| *held == self.sum())
    }

    /// Checks the state invariants, in debug builds after every change.
    fn invariants(&self) {
        debug_assert!(
            planted::any() || self.adds_up(),
            "the book does not add up: {self:?}"
        );
    }

    /// Returns the sum that stays booked of closed edges (lingering). No plan can move it.
    #[must_use]
    pub fn lingering(&self) -> Vector {
        let holdings = self.kept().map(|(_, kept)| kept.holding);
        holdings.fold(Vector::ZERO, slot::added)
    }
}
