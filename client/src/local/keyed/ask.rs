//! Decisions on keys: the fast path that most decisions take, and the slow path.

use super::Keyed;
use super::name::{Spelled, by_words};
use super::table::{Claimed, Found, Line};
use crate::bucket::Slot;
use crate::bucket::step::Next;
use crate::limiter::refused::{Reason, Refused};
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
        let cost = slot.cost(n, class.grains_per_token);
        let Some(cost) = cost.filter(|&cost| cost <= slot.burst) else {
            let burst = slot.grains(slot.burst) / class.grains_per_token;
            return Err(Refused::exceeds(n, burst));
        };
        let most = class.most;
        Ok(Some(Price { slot, most, cost }))
    }

    /// Decides on a key of `W` words in class 0, now.
    #[inline(never)]
    pub(super) fn ask<const W: usize>(&self, key: &str, n: u64) -> Result<(), Refused> {
        let decided = self.ask_at_home::<W>(0, key, n, || self.clock.in_place());
        decided.unwrap_or_else(|| self.ask_now(key, n))
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
        let decided = self.ask_at_home::<W>(class, key, n, || Some(now));
        decided.unwrap_or_else(|| self.ask_all(class, key, n, now))
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
        let price = self.price(0, n).ok().flatten();
        let decided = price
            .zip(line.found_at_once(&name))
            .and_then(|(price, found)| price.charge(found, now));
        match decided {
            Some(decided) => decided.map(|_| ()),
            None => self.ask_all(0, key, n, now),
        }
    }

    /// Decides on a key that is in its likely slot. Otherwise takes nothing and returns `None`.
    #[inline(always)]
    fn ask_at_home<const W: usize>(
        &self,
        class: u16,
        key: &str,
        n: u64,
        clock: impl FnOnce() -> Option<Tick>,
    ) -> Option<Result<(), Refused>> {
        // The order matters. On some processors a clock reading waits for the instructions before it, and
        // those after it wait for the reading. So memory is requested before the reading, and everything that
        // does not need the time is computed before it.
        let name = self.table.maker().name::<W>(class, key);
        let home = self.table.fetched_home(name.hash);
        let price = self.price(class, n).ok()??;
        let now = clock()?;
        let decided = price.charge(home.find_at_once(&name)?, now)?;
        Some(decided.map(|_| ()))
    }

    #[cold]
    #[inline(never)]
    fn ask_now(&self, key: &str, n: u64) -> Result<(), Refused> {
        self.ask_all(0, key, n, self.clock.now())
    }

    /// Slow path: for a key that is not in its likely slot (one in twenty), and all other cases. It starts from the beginning, so that the fast path need not keep anything for it.
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
            if let Some(decided) = found.and_then(|found| price.charge(found, now)) {
                return decided.map(|_| ());
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
    #[inline(always)]
    pub(super) fn next(&self, debt: u64, now: Tick) -> Result<u64, Refused> {
        let bucket = self.slot.at(now, 0);
        let step = bucket.step(self.sane(debt, bucket.made), self.cost);
        match bucket.admits(step) {
            true => Ok(step.debt),
            false => Err(throttled(self.slot, step.due, now)),
        }
    }

    /// Charges the found key and returns its debt; `None` if the slot belongs to another key by now.
    #[inline(always)]
    pub(super) fn charge(&self, found: Found<'_>, now: Tick) -> Option<Result<u64, Refused>> {
        found.update(|debt| match self.next(debt, now) {
            Ok(next) => Next::Swap(next, Ok(next)),
            Err(refused) => Next::Keep(Err(refused)),
        })
    }

    /// Charges the found key. Returns also its debt after that or, if it was refused, before.
    pub(super) fn charge_and_look(
        &self,
        found: Found<'_>,
        now: Tick,
    ) -> Option<(Result<(), Refused>, u64)> {
        found.update(|debt| match self.next(debt, now) {
            Ok(next) => Next::Swap(next, (Ok(()), next)),
            Err(refused) => Next::Keep((Err(refused), self.sane(debt, self.slot.made(now).0))),
        })
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
        retry_after: soonest.map(|at| Duration::from_nanos(at.since(now).nanos().max(1))),
        ..Refused::from(Reason::NoRoom)
    }
}

/// Refusal until the supply reaches `due`.
#[cold]
fn throttled(slot: &Slot, due: u64, now: Tick) -> Refused {
    let wait = slot.time_until(due).map(|whole| slot.base.after(whole));
    Refused {
        retry_after: wait.map(|at| Duration::from_nanos(at.since(now).nanos())),
        ..Refused::from(Reason::Throttled)
    }
}
