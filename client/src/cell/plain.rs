//! The short road of the decisions that most are.

use super::deferred::Known;
use super::slot::made_in_a_word;
use super::{Cell, Mark, Slot, Word};
use crate::sync::{self, AtomicU64, Bug, Ordering};
use aliquot_core::unit::Tick;

/// What a decision goes by that needs nothing else but the time: all that can be known before the clock is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    seen: u64,
    base: u64,
    mult: u64,
    places: u32,
    /// What one token costs, and all of them do.
    token: u64,
    cost: u64,
    /// What may be owed before it.
    room: u64,
    /// It is rightful before this.
    until: u64,
}

impl Plain {
    /// Of `burst`, and of what one token costs: whether so many tokens are left after a decision before which so much was `owed` that
    /// some may be taken by the same reading.
    #[inline(always)]
    pub(super) const fn leaves_enough(self, owed: u64) -> bool {
        let most = Word::DEFERRED_MAX * self.token;
        // More, and not as much: of a full bucket's next unit it is said that it is made.
        let left = self.room.saturating_sub(owed);
        left > most && (self.room + self.cost) / Word::PART >= most && self.until == u64::MAX
    }

    /// What one token costs.
    pub(super) const fn token(self) -> u64 {
        self.token
    }
}

const FOREVER: u64 = Mark::Forever as u64;
const LEASED: u64 = Mark::Leased as u64;

impl Cell {
    /// What `n` tokens of a rate would be taken by from the word that was seen, whose slot is the even or the odd one. `None` if
    /// there is more to look up: no right, or one with an end of its own, or what threads hold, or units that are no grains.
    #[inline(always)]
    pub(crate) fn plainly<const ODD: bool>(
        &self,
        seen: u64,
        n: u64,
        lease: &AtomicU64,
    ) -> Option<Plain> {
        let [base, mult, meta] = &self.hot.slots[usize::from(ODD)];
        let (burst, places, mark) = Slot::plain(meta.load(Ordering::Relaxed))?;
        let until = match mark {
            FOREVER => u64::MAX,
            LEASED if sync::planted(Bug::LeaseUnseen) => u64::MAX,
            LEASED => lease.load(Ordering::Acquire),
            _ => return None,
        };
        let token = self.hot.scale.load(Ordering::Relaxed);
        let cost = n.checked_mul(token)?;
        let room = burst.checked_sub(cost)?;
        (burst > 0 && self.purses.held() == 0).then(|| Plain {
            seen,
            base: base.load(Ordering::Relaxed),
            mult: mult.load(Ordering::Relaxed),
            places,
            token,
            cost,
            room,
            until,
        })
    }

    /// Takes them at a reading of the clock that is made now, after the word was seen; answers what is known then. `None` if they are not
    /// there, or the word is another by now, and with it perhaps all that was known: nothing was taken then, and [`Cell::decide`] says what
    /// becomes of it. What this admits that would have admitted as well, with the same debt after it.
    #[inline(always)]
    pub(crate) fn take_plainly(&self, plain: Plain, now: Tick) -> Option<Known> {
        let seen = plain.seen;
        let nanos = now.since(Tick::from_nanos(plain.base)).nanos();
        let made = made_in_a_word(nanos, plain.mult, plain.places);
        let (made, more) = made.filter(|&(made, _)| made <= Word::DEBT_MAX)?;
        let deferred = (seen >> Word::DEFERRED_AT) * plain.token;
        let debt = (seen & Word::DEBT_MAX).saturating_sub(deferred);
        let owed = debt.saturating_sub(made) + deferred;
        let after = debt.max(made + u64::from(more)) + deferred + plain.cost;
        let admitted = owed <= plain.room && after <= Word::DEBT_MAX;
        let next = seen & Word::EPOCH | after;
        let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
        let swap = || self.hot.word.compare_exchange(seen, next, done, found);
        let known = Known::of(next, self.name(), plain, owed, now);
        let taken = admitted && now.nanos() < plain.until && swap().is_ok();
        taken.then_some(known)
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
