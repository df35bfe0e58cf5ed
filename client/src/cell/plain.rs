//! The short road of the decisions that most are.

use super::{Cell, Mark, Slot, Word};
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::share::Kind;
use aliquot_core::unit::Tick;

/// What a decision goes by that needs nothing else but the time: all that can be known before the clock is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    seen: u64,
    slot: Slot,
    cost: u64,
    /// It is rightful before this.
    until: u64,
}

impl Cell {
    /// What `n` tokens of a rate would be taken by from the word that was seen, whose slot is the even or the odd one. `None` if
    /// there is more to look up: no right, or one with an end of its own, or what threads hold.
    #[inline(always)]
    pub(crate) fn plainly<const ODD: bool>(
        &self,
        seen: u64,
        n: u64,
        lease: &AtomicU64,
    ) -> Option<Plain> {
        let slot = self.slot(u16::from(ODD));
        let until = match slot.mark {
            Mark::Forever => u64::MAX,
            Mark::Leased if sync::planted(Bug::LeaseUnseen) => u64::MAX,
            Mark::Leased => lease.load(Ordering::Acquire),
            _ => return None,
        };
        let grains = n.checked_mul(self.hot.scale.load(Ordering::Relaxed))?;
        let cost = slot.units(grains);
        let so = slot.kind == Kind::Rate && slot.burst > 0 && cost <= slot.burst;
        (so && self.purses.held() == 0).then_some(Plain {
            seen,
            slot,
            cost,
            until,
        })
    }

    /// Takes them at a reading of the clock. `false` if they are not there, or the word is another by now, and with it perhaps
    /// all that was known: nothing was taken then, and [`Cell::decide`] says what becomes of it. What this admits that would
    /// have admitted as well, with the same debt after it.
    #[inline(always)]
    pub(crate) fn take_plainly(&self, plain: Plain, now: Tick) -> bool {
        let Plain {
            seen,
            slot,
            cost,
            until,
        } = plain;
        let word = Word::unpack(seen);
        let debt = after(slot.burst, word.debt, cost, slot.made(now));
        let Some(debt) = debt.filter(|&debt| debt <= Word::DEBT_MAX) else {
            return false;
        };
        let next = Word { debt, ..word }.pack();
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let swap = || self.hot.word.compare_exchange(seen, next, done, found);
        now.nanos() < until && swap().is_ok()
    }
}

/// The debt after `cost`, if that is admitted; [`super::admit`] where nothing is held back, and on a whole word. `made` is
/// what was made, and whether there is more of which the next unit is not whole. Nothing here goes by the debt but the answer,
/// since the processor would wait for its line to guess right.
#[inline]
pub(crate) fn after(burst: u64, debt: u64, cost: u64, (made, more): (u64, bool)) -> Option<u64> {
    let full = made.saturating_add(u64::from(more));
    let start = if debt <= made { full } else { debt };
    let due = debt.max(made).saturating_add(cost).saturating_sub(burst);
    let after = start.saturating_add(cost);
    let admitted = due <= made && (after < u64::MAX || debt <= made);
    admitted.then_some(after)
}
