//! Restores a book from its edges.

use super::rare::Rare;
use super::{Account, Lingering, Slot, slot};
use crate::edge::Vector;
use crate::share::Kind;
use crate::unit::{Incarnation, PeriodId, Span, Tokens};
use alloc::collections::BTreeMap;

impl Account {
    /// Returns the time for which anything of a new edge may outlive its lease.
    #[must_use]
    pub const fn linger(&self) -> Span {
        self.linger
    }

    /// Returns the time for which a permit of an open edge may keep it from returning what is wanted: the
    /// greatest maximum hold that was in force while the edge existed.
    #[must_use]
    pub fn hold_of(&self, child: Incarnation) -> Span {
        match self.kind {
            Kind::Concurrency => self.linger_of_open(child).unwrap_or(self.linger),
            Kind::Rate | Kind::Quota => Span::ZERO,
        }
    }

    /// Returns the time for which floors of former clients may keep an open edge from returning them: the greatest that
    /// was in force while the edge existed.
    #[must_use]
    pub fn floor_linger_of(&self, child: Incarnation) -> Span {
        match self.kind {
            Kind::Rate => self.linger_of_open(child).unwrap_or(self.linger),
            Kind::Concurrency | Kind::Quota => Span::ZERO,
        }
    }

    /// Returns this empty book with these edges in it, as a decoder needs. Returns `None` if the sum of what they hold is
    /// out of the range of the counters, or if an incarnation is both open and closed.
    #[must_use]
    pub fn restore(
        self,
        period: PeriodId,
        spent: Tokens,
        open: BTreeMap<Incarnation, Slot>,
        kept: BTreeMap<Incarnation, Lingering>,
    ) -> Option<Self> {
        if open
            .keys()
            .any(|incarnation| kept.contains_key(incarnation))
        {
            return None;
        }
        let holdings = open.values().map(|slot| slot.counters.holding(self.kind));
        let lingering = kept.values().map(|kept| kept.holding);
        let held = holdings
            .chain(lingering)
            .try_fold(Vector::ZERO, Vector::plus)?;
        let rare = Rare {
            period,
            spent,
            linger: slot::longer(&open, self.linger),
            kept,
            held: None,
        };
        let mut restored = Self {
            open: slot::counters(open).collect(),
            rare: rare.into(),
            ..self
        };
        restored.set_held(restored.has_many_edges().then_some(held));
        Some(restored)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/account/restore.rs"]
mod tests;
