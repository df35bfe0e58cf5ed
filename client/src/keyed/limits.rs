//! Answers of the store about the limits of its keys, for the table.

use super::table::Limits;
use super::{Class, Deferral, Keyed};
use crate::cell::prepared_limit::PreparedLimit;
use crate::sync::{self, Bug};
use aliquot_core::unit::{Span, Tick};

impl Class {
    /// Returns the prepared limit, and how many may be charged later.
    #[inline(always)]
    pub(super) const fn prepared(&self) -> (&PreparedLimit, Deferral) {
        (&self.prepared, self.deferral)
    }
}

impl Limits for Keyed {
    fn full_since(&self, class: u16, word: u64) -> Option<Tick> {
        let class = self.classes.get(usize::from(class))?;
        let slot = class.slot.as_ref()?;
        if class.deferral.deferred(word) > 0 && !sync::planted(Bug::FullByDebt) {
            return None;
        }
        let whole = slot.time_until(class.deferral.debt(word));
        whole.map(|span| slot.base.after(span))
    }

    fn charged(&self, class: u16, word: u64) -> Option<u64> {
        let class = self.classes.get(usize::from(class))?;
        let slot = class.slot.as_ref()?;
        if class.deferral.deferred(word) == 0 {
            return None;
        }
        let full = slot.made_up(self.clock.now());
        Some(class.deferral.owed(word, full))
    }

    fn made_by(&self, class: u16, at: Tick) -> u64 {
        let class = self.classes.get(usize::from(class));
        let slot = class.and_then(|class| class.slot.as_ref());
        slot.map_or(0, |slot| slot.made(at).0)
    }
}

/// Limits of a store that forgets keys after they have been full for `idle`.
pub(super) struct IdleFor<'a> {
    store: &'a Keyed,
    idle: Span,
    now: Tick,
}

impl Keyed {
    pub(super) const fn idle_for(&self, idle: Span, now: Tick) -> IdleFor<'_> {
        IdleFor {
            store: self,
            idle,
            now,
        }
    }
}

impl Limits for IdleFor<'_> {
    fn full_since(&self, class: u16, word: u64) -> Option<Tick> {
        let since = self.store.full_since(class, word)?;
        (since <= self.now && self.now.since(since) >= self.idle).then_some(since)
    }

    fn charged(&self, class: u16, word: u64) -> Option<u64> {
        self.store.charged(class, word)
    }

    fn made_by(&self, class: u16, at: Tick) -> u64 {
        self.store.made_by(class, at)
    }
}
