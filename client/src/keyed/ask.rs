//! Decisions on keys: the fast path that most decisions take, and the slow path.

use super::Keyed;
use super::name::{Spelled, by_words};
use super::table::{Claimed, Found, Line, No};
use crate::cell::Slot;
use crate::cell::fast_path::after;
use crate::cell::prepared_limit::PreparedLimit;
use crate::refused::{Reason, Refused};
use aliquot_core::unit::Tick;
use std::time::Duration;

impl Keyed {
    /// Returns the price of `n` tokens of a class; `None` if the class has no limit.
    #[inline(always)]
    pub(super) fn price(&self, class: u16, n: u64) -> Result<Option<Price<'_>>, Refused> {
        let Some(class) = self.classes.get(usize::from(class)) else {
            return Err(Refused::from(Reason::NoBudget));
        };
        let Some(slot) = &class.slot else {
            return Ok(None);
        };
        // One word is enough: a cost that overflows it exceeds any burst.
        let cost = n.checked_mul(class.grains_per_token);
        let cost = cost.map(|grains| slot.units(grains));
        let Some(cost) = cost.filter(|&cost| cost <= slot.burst) else {
            return Err(Refused::from(Reason::ExceedsBurst));
        };
        let most = class.most;
        Ok(Some(Price { slot, most, cost }))
    }

    /// Decides on a key of `W` words in class 0, now.
    #[inline(never)]
    pub(super) fn ask<const W: usize>(&self, key: &str, n: u64) -> Result<(), Refused> {
        let charged = self.charge_at_once::<W>(0, &self.first, key, n, || self.clock.in_place());
        match charged {
            Some(()) => Ok(()),
            None => self.ask_now(key, n),
        }
    }

    /// Decides on a key of `W` words in any class, at a given reading.
    #[inline(never)]
    pub(super) fn ask_of<const W: usize>(
        &self,
        class: u16,
        key: &str,
        n: u64,
        now: Tick,
    ) -> Result<(), Refused> {
        let known = self.classes.get(usize::from(class));
        let charged = known.and_then(|known| {
            self.charge_at_once::<W>(class, &known.prepared, key, n, || Some(now))
        });
        match charged {
            Some(()) => Ok(()),
            None => self.ask_all(class, key, n, now),
        }
    }

    /// Decides on a key of class 0 whose likely slot is known.
    #[inline(always)]
    pub(super) fn ask_at<const W: usize>(
        &self,
        line: &Line,
        key: &str,
        n: u64,
        now: Tick,
    ) -> Result<(), Refused> {
        let name = self.table.maker().name_at::<W>(0, 0, key);
        let cost = self.first.cost(n);
        let found = line.found_at_once(&name);
        let charged = cost.zip(found).and_then(|(cost, found)| {
            let debt = found.debt();
            let next = self.first.after(debt, cost, now)?;
            found.charge(debt, next).ok()
        });
        match charged {
            Some(()) => Ok(()),
            None => self.ask_all(0, key, n, now),
        }
    }

    /// Fast path: charges a key that is in its likely slot, has the tokens, and is not charged by another
    /// thread at the same time. Otherwise takes nothing and returns `None`.
    #[inline(always)]
    fn charge_at_once<const W: usize>(
        &self,
        class: u16,
        prepared: &PreparedLimit,
        key: &str,
        n: u64,
        clock: impl FnOnce() -> Option<Tick>,
    ) -> Option<()> {
        // The order matters. On some processors a clock reading waits for the instructions before it, and
        // those after it wait for the reading. So memory is requested before the reading, and everything that
        // does not need the time is computed before it.
        let name = self.table.maker().name::<W>(class, key);
        let home = self.table.fetched_home(name.hash);
        let cost = prepared.cost(n)?;
        let now = clock()?;
        let found = home.find_at_once(&name)?;
        let debt = found.debt();
        let next = prepared.after(debt, cost, now)?;
        found.charge(debt, next).ok()
    }

    #[cold]
    #[inline(never)]
    fn ask_now(&self, key: &str, n: u64) -> Result<(), Refused> {
        self.ask_all(0, key, n, self.clock.now())
    }

    /// Slow path: for a key that is not in its likely slot (one in twenty), a refusal, a lost race, and all
    /// other cases. It starts from the beginning, so that the fast path need not keep anything for it.
    #[cold]
    #[inline(never)]
    pub(super) fn ask_all(&self, class: u16, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        let Some(price) = self.price(class, n)? else {
            return Ok(());
        };
        by_words!(key, W => {
            let name = self.table.maker().name::<W>(class, key);
            self.search(&name.spelled(), price, now)
        })
    }

    pub(super) fn search(
        &self,
        name: &Spelled<'_>,
        price: Price<'_>,
        now: Tick,
    ) -> Result<(), Refused> {
        let mut found = self.table.find(name);
        loop {
            if let Some(answer) = price.charge(found, now) {
                return answer.map(|_| ());
            }
            found = Some(self.claim(name, now)?);
        }
    }

    /// Finds a slot for a key that has none: a free slot, or that of a key which owes nothing.
    pub(super) fn claim(&self, name: &Spelled<'_>, now: Tick) -> Result<Found<'_>, Refused> {
        if let Some(idle) = self.idle {
            self.table.sweep(&self.idle_for(idle, now));
        }
        match self.table.claim(name, now, self) {
            Claimed::Slot(found) => Ok(found),
            Claimed::NoRoom(soonest) => Err(no_room(soonest, now)),
        }
    }
}

/// Price of tokens by the limit of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price<'a> {
    pub(super) slot: &'a Slot,
    pub(super) most: u64,
    pub(super) cost: u64,
}

impl Price<'_> {
    /// Returns the debt that the found key would have after the charge; `None` if the slot belongs to another
    /// key by now.
    pub(super) fn after(&self, found: Found<'_>, now: Tick) -> Option<Result<u64, Refused>> {
        let next = self.next(found.debt(), now);
        found.is_still().then_some(next)
    }

    /// Returns the debt of a key after the charge.
    pub(super) fn next(&self, debt: u64, now: Tick) -> Result<u64, Refused> {
        let Self { slot, cost, .. } = *self;
        let made = slot.made(now);
        let debt = self.sane(debt, made.0);
        after(slot.burst, debt, cost, made).ok_or_else(|| throttled(slot, debt, cost, now))
    }

    /// Charges the found key and returns its debt; `None` if none was found, or if the slot belongs to
    /// another key by now.
    #[inline(always)]
    pub(super) fn charge(
        &self,
        found: Option<Found<'_>>,
        now: Tick,
    ) -> Option<Result<u64, Refused>> {
        let found = found?;
        let mut debt = found.debt();
        loop {
            let next = match self.next(debt, now) {
                Ok(next) => next,
                // The refusal is this key's only if the slot still belongs to it.
                Err(refused) => return found.is_still().then_some(Err(refused)),
            };
            match found.charge(debt, next) {
                Ok(()) => return Some(Ok(next)),
                Err(No::Lost) => return None,
                Err(No::Changed(seen)) => debt = seen,
            }
        }
    }

    /// Replaces a debt that is impossible for this class by that of an empty bucket. A debt that was charged
    /// in the units of the slot's former key must not block this key for a year.
    ///
    /// A bucket owes at most its burst. `most` adds the tokens of an hour for a clock that steps back.
    #[inline(always)]
    pub(super) fn sane(&self, debt: u64, made: u64) -> u64 {
        match debt.saturating_sub(made) > self.most {
            true => made.saturating_add(self.slot.burst),
            false => debt,
        }
    }
}

/// Refusal of a key that finds no slot. The wait ends when the first key in its way is full.
pub(super) fn no_room(soonest: Option<Tick>, now: Tick) -> Refused {
    Refused {
        reason: Reason::NoRoom,
        retry_after: soonest.map(|at| Duration::from_nanos(at.since(now).nanos().max(1))),
    }
}

/// Refusal of a bucket with this debt.
#[cold]
fn throttled(slot: &Slot, debt: u64, cost: u64, now: Tick) -> Refused {
    let due = debt.saturating_add(cost).saturating_sub(slot.burst);
    let wait = slot.time_until(due).map(|whole| slot.base.after(whole));
    Refused {
        reason: Reason::Throttled,
        retry_after: wait.map(|at| Duration::from_nanos(at.since(now).nanos())),
    }
}
