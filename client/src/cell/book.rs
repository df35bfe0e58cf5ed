//! What is taken for later, and what is put back.
//!
//! With `D` the debt, `S` what was made, `B` the capacity, all of the present
//! epoch, and `D₀` the debt just after `n` were taken, counted as if the base had
//! always been the present one:
//!
//! > put back `≤ min(n, D₀ − F − S, D − S)`, less, while `D > S + B`, what was
//! > promised since: `(D − B) − (D₀ − B₀)`.
//!
//! The second term, with `F` all that others put back since, and what was missing of parts that were taken away, is what of it the
//! bucket would still have room for had it never been taken: at each instant since, the debt
//! was at least `D₀ − F`; where it was not above `S` the bucket would have been full, and
//! what a full bucket makes is lost. Nor is more lost than what was made since `n` were taken, at `S₀`: so where the
//! epoch is still the same, `n − (S − S₀)` has room as well, whatever others put back. So nobody ever finds more than one bucket of the same rate and
//! capacity could have offered to those who really used it. The last term is
//! `golang.org/x/time/rate`'s: later reservations wait for ticks that these tokens
//! delayed, and if they were given up to newcomers, both would act at once.

use super::{Ask, Cell, Mark, No, Slot, Word};
use crate::sync::{self, AtomicU64, Bug, Ordering, fence};
use aliquot_core::share::Kind;
use aliquot_core::unit::{PeriodId, Span, Tick};

/// What was taken, and where: enough to put it back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// What it cost, in grains, rounded up to the units of then.
    grains: u64,
    /// The debt just after it, since the cell is; it wraps.
    position: u64,
    /// What had ever been put back by then.
    back: u64,
    /// The capacity then, in grains.
    burst: u64,
    era: u64,
    epoch: u16,
    pub(crate) at: Tick,
    pub(crate) period: PeriodId,
    /// From when it may be used.
    pub(crate) act_at: Tick,
}

impl Taken {
    /// Eras that never are.
    const NOWHERE: u64 = u64::MAX;
    const AT_HOME: u64 = u64::MAX - 2;

    /// Nothing of it can be put back.
    pub(crate) const fn nothing(now: Tick) -> Self {
        Self::outside(Self::NOWHERE, now, now, PeriodId::new(0))
    }

    /// Taken at the home of its budget, between these two: nothing of it can be put back here.
    pub(crate) const fn at_home(at: Tick, act_at: Tick, period: PeriodId) -> Self {
        Self::outside(Self::AT_HOME, at, act_at, period)
    }

    /// Nothing taken under the edge of this era, to owe more by.
    pub(crate) const fn owing(era: u64, now: Tick) -> Self {
        Self::outside(era, now, now, PeriodId::new(0))
    }

    const fn outside(era: u64, at: Tick, act_at: Tick, period: PeriodId) -> Self {
        Self {
            grains: 0,
            position: 0,
            back: 0,
            burst: 0,
            era,
            epoch: 0,
            at,
            period,
            act_at,
        }
    }

    /// Whether it was taken at the home of its budget.
    pub(crate) const fn is_at_home(&self) -> bool {
        self.era == Self::AT_HOME
    }
}

/// What one look at a word and its slot says.
struct Page {
    word: Word,
    slot: Slot,
    /// What was made before the base, in grains.
    before: u64,
}

impl Cell {
    /// What was taken before counts no more. Before the epoch that forgets it
    /// begins: who puts back after that puts nothing back. Until [`Cell::end_change`] the
    /// era is an odd one, and what is taken then, on whichever side of that epoch, is never
    /// put back.
    pub(super) fn begin_change(&self) {
        self.cold.era.fetch_add(1, Ordering::AcqRel);
    }

    /// The epoch has begun.
    pub(super) fn end_change(&self) {
        self.cold.era.fetch_add(1, Ordering::AcqRel);
    }

    fn page(&self, seen: u64) -> Page {
        let word = Word::unpack(seen);
        Page {
            word,
            slot: self.slot(word.epoch),
            before: self.cold.made[usize::from(word.epoch & 1)].load(Ordering::Relaxed),
        }
    }

    /// Decides as [`Cell::decide`] does, within `most`, and answers what was taken.
    /// Only of a part that has no end can anything be taken that is not there
    /// yet: what is leased may be recalled before it is made.
    pub(crate) fn reserve(
        &self,
        n: u64,
        now: Tick,
        most: Span,
        lease: &AtomicU64,
    ) -> Result<Taken, No> {
        loop {
            // The era first: what is taken under an edge is not put back under the next.
            let era = self.era();
            let back = self.cold.back.load(Ordering::Acquire);
            let seen = self.hot.word.load(Ordering::Acquire);
            let page = self.page(seen);
            let Page { word, slot, before } = &page;
            let period = self.period(slot, word.epoch);
            let step = self.step_for_later(&page, n, now, most, lease);
            let (debt, grains, act_at) = match step {
                Ok(step) => step,
                Err(no) => {
                    fence(Ordering::Acquire);
                    let found = self.hot.word.load(Ordering::Acquire);
                    if Word::unpack(found).epoch == word.epoch {
                        return Err(no);
                    }
                    continue;
                }
            };
            if self.swap(seen, Word { debt, ..*word }).is_ok() {
                // What was charged of others as of now may be charged again as of later.
                let position = debt.saturating_sub(self.deferred_of(slot, *word));
                return Ok(Taken {
                    grains,
                    position: before.wrapping_add(slot.grains(position)),
                    back,
                    burst: slot.grains(slot.burst),
                    era,
                    epoch: word.epoch,
                    at: now,
                    period,
                    act_at,
                });
            }
        }
    }

    /// What [`Cell::decide`] would say; nothing is taken.
    pub(crate) fn would(&self, ask: Ask, now: Tick, lease: &AtomicU64) -> Result<(), No> {
        let mut seen = self.hot.word.load(Ordering::Acquire);
        loop {
            let Page { word, slot, .. } = self.page(seen);
            let step = self.step(&slot, word, ask, now, lease, 0);
            fence(Ordering::Acquire);
            let found = self.hot.word.load(Ordering::Acquire);
            if Word::unpack(found).epoch == word.epoch {
                return step.map(|_| ());
            }
            seen = found;
        }
    }

    /// Whether the right to what is held, if it has an end, is not over at `now`.
    pub(crate) fn in_time(&self, now: Tick, lease: &AtomicU64) -> Result<(), No> {
        let mut seen = self.hot.word.load(Ordering::Acquire);
        loop {
            let Page { word, slot, .. } = self.page(seen);
            let over = match slot.mark {
                Mark::Leased => now.nanos() >= lease.load(Ordering::Acquire),
                Mark::Floor => now >= self.until(word.epoch),
                _ => false,
            };
            fence(Ordering::Acquire);
            let found = self.hot.word.load(Ordering::Acquire);
            if Word::unpack(found).epoch == word.epoch {
                return if over { Err(No::Lapsed) } else { Ok(()) };
            }
            seen = found;
        }
    }

    /// The debt after `n`, what that is in grains, and from when they may be used.
    fn step_for_later(
        &self,
        page: &Page,
        n: u64,
        now: Tick,
        most: Span,
        lease: &AtomicU64,
    ) -> Result<(u64, u64, Tick), No> {
        let Page { word, slot, .. } = page;
        let ask = Ask::Tokens(n);
        let no = match self.step(slot, *word, ask, now, lease, 0) {
            Ok(debt) if slot.mark == Mark::Open => return Ok((debt, 0, now)),
            Ok(debt) => return Ok((debt, slot.grains(self.cost(slot, ask)?), now)),
            Err(no) => no,
        };
        let owns = slot.mark == Mark::Forever && slot.kind == Kind::Rate;
        let No::NotYet(Some(wait)) = no else {
            return Err(no);
        };
        if !owns || wait > most {
            return Err(no);
        }
        let cost = self.cost(slot, ask)?;
        let floor = self.floor(slot, 0);
        // What threads hold may be used at the very instant that this is, and what is deferred may have been taken after this reading:
        // one must be given up, the other charged, where there is no room for them beside it.
        let beside = floor.saturating_add(self.deferred_of(slot, *word));
        if beside.saturating_add(cost) > slot.burst {
            return Err(no);
        }
        // Beside those it fits, so that what is missing is owed: the bucket is not full.
        let debt = self.owed(slot, *word, floor, now).saturating_add(cost);
        match debt > Word::DEBT_MAX {
            true => Err(No::Aged),
            false => Ok((debt, slot.grains(cost), now.after(wait))),
        }
    }

    /// Puts up to `tokens` of what was taken back, and answers how many grains it were. The clock is looked at after the word: a
    /// reading that is behind those of others who decided would not see what was made until theirs, and lost.
    pub(crate) fn put_back_of(&self, taken: &Taken, tokens: u64, clock: impl Fn() -> Tick) -> u64 {
        // What this said and did not do, since others came first, keeps it from nothing.
        let mut said_in_vain = 0_u64;
        loop {
            let back = self.cold.back.load(Ordering::Acquire);
            let seen = self.hot.word.load(Ordering::Acquire);
            let now = clock().max(taken.at);
            let gone = self.era() != taken.era;
            if gone && !sync::planted(Bug::EraIgnored) {
                return 0;
            }
            let scale = self.hot.scale.load(Ordering::Relaxed);
            let page = self.page(seen);
            let Page { word, slot, .. } = &page;
            let nothing = matches!(slot.mark, Mark::Open | Mark::Cold);
            if nothing || self.period(slot, word.epoch) != taken.period {
                return 0;
            }
            let grains = tokens.saturating_mul(scale).min(taken.grains);
            let units = page
                .room_for(
                    taken,
                    back.wrapping_sub(said_in_vain),
                    self.floor(slot, 0),
                    now,
                )
                .min(grains)
                >> slot.shift;
            if units == 0 {
                return 0;
            }
            // Said before it is done: who puts back at the same time may find less room, never more.
            let after = back.wrapping_add(slot.grains(units));
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            let said = self.cold.back.compare_exchange(back, after, done, found);
            if said.is_err() && !sync::planted(Bug::OthersUnseen) {
                continue;
            }
            let debt = word.debt.saturating_sub(units);
            if self.swap(seen, Word { debt, ..*word }).is_ok() {
                return slot.grains(units);
            }
            if !sync::planted(Bug::SaidAgain) {
                said_in_vain = said_in_vain.wrapping_add(slot.grains(units));
            }
        }
    }

    /// Takes `n` more than was asked for, whether they are there or not: a cost that
    /// is known only now. Of a quota no more than there is. `false`, and nothing was taken, if
    /// that is beyond what can be owed, or the right to it is gone.
    pub(crate) fn exact(&self, taken: &Taken, n: u64, now: Tick) -> bool {
        let mut seen = self.hot.word.load(Ordering::Acquire);
        loop {
            if self.era() != taken.era {
                return false;
            }
            let scale = self.hot.scale.load(Ordering::Relaxed);
            let Page { word, slot, .. } = self.page(seen);
            let unknown = slot.mark == Mark::Cold;
            if unknown || self.period(&slot, word.epoch) != taken.period {
                return false;
            }
            if slot.mark == Mark::Open {
                return true;
            }
            let Some(cost) = slot.cost(u128::from(n) * u128::from(scale)) else {
                return false;
            };
            let (now, floor) = (now.max(taken.at), self.floor(&slot, 0));
            let (made, more) = slot.made(now);
            let made = made.saturating_add(floor);
            let owed = self.owed(&slot, word, floor, now);
            let start = match owed > made {
                true => owed,
                false => made.saturating_add(u64::from(more)),
            };
            let mut debt = start.saturating_add(cost);
            if slot.kind == Kind::Quota {
                debt = debt.min(slot.burst.max(word.debt));
            }
            if debt > Word::DEBT_MAX {
                return false;
            }
            match self.swap(seen, Word { debt, ..word }) {
                Ok(()) => return true,
                Err(found) => seen = found,
            }
        }
    }

    pub(super) fn swap(&self, seen: u64, next: Word) -> Result<(), u64> {
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        let swapped = self
            .hot
            .word
            .compare_exchange(seen, next.pack(), done, found);
        swapped.map(|_| ())
    }
}

impl Page {
    /// The most grains of what was taken that may be put back at `now`; the level stays
    /// `floor` units below the capacity.
    fn room_for(&self, taken: &Taken, back: u64, floor: u64, now: Tick) -> u64 {
        let Self { word, slot, before } = self;
        let (made, more) = slot.made(now);
        let by_now = made.saturating_add(u64::from(more));
        let there = i128::from(slot.grains(made));
        let made = slot.grains(by_now.saturating_add(floor));
        let (debt, burst) = (slot.grains(word.debt), slot.grains(slot.burst));
        // Beyond this epoch's base in one or the other direction.
        let mine = i128::from(taken.position.wrapping_sub(*before).cast_signed());
        let [debt, burst, made] = [debt, burst, made].map(i128::from);
        // Whatever threads hold, who waits does.
        let promised = match debt > there + burst {
            true => (debt - burst) - (mine - i128::from(taken.burst)),
            false => 0,
        };
        let others = i128::from(back.wrapping_sub(taken.back));
        let mut room = mine - others - made;
        // Epochs come again, but their bases are later then.
        if taken.epoch == word.epoch && taken.at >= slot.base {
            let since = by_now.saturating_sub(slot.made(taken.at).0);
            room = room.max(i128::from(taken.grains) - i128::from(slot.grains(since)));
        }
        let room = room.min(debt - made);
        let room = room.min(i128::from(taken.grains)) - promised.max(0);
        u64::try_from(room.max(0)).unwrap_or(u64::MAX)
    }
}
