//! Answers of the store about the limits of its keys, for the table.

use super::Keyed;
use super::table::Limits;
use aliquot_core::unit::{Span, Tick};

impl Limits for Keyed {
    fn full_since(&self, class: u16, debt: u64) -> Option<Tick> {
        let class = self.classes.get(usize::from(class))?;
        let slot = class.slot.as_ref()?;
        let whole = slot.time_until(debt);
        whole.map(|span| slot.base.after(span))
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
    fn full_since(&self, class: u16, debt: u64) -> Option<Tick> {
        let since = self.store.full_since(class, debt)?;
        (since <= self.now && self.now.since(since) >= self.idle).then_some(since)
    }

    fn made_by(&self, class: u16, at: Tick) -> u64 {
        self.store.made_by(class, at)
    }
}
