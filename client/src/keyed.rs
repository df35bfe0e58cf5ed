//! Limits of as many keys as there is memory for, and no more.

mod builder;
mod name;
mod near;
mod table;
mod tags;
pub(crate) mod tier;

pub use builder::KeyedBuilder;
pub(crate) use tier::Charged;

use crate::cell::Slot;
use crate::cell::plain::after;
use crate::cell::tariff::Tariff;
use crate::clock::Source;
use crate::limit::{Limit, LimitError};
use crate::refused::{Reason, Refused};
use aliquot_core::unit::{Span, Tick};
use name::{Spelled, by_words};
use std::time::Duration;
use table::{Claimed, Found, No, Table};

/// A bucket for each key, found by the key itself, in memory that is taken once and never
/// grows.
///
/// A key that was never seen has a full bucket. So has one that is not remembered: when
/// room is needed, a key whose bucket is full again is forgotten, of those that were looked at the
/// one that has been full for the longest, and nothing can be told from it. A key that owes
/// something is never forgotten; where all that could make room do, the new key is refused as
/// [`Reason::NoRoom`], until the first of them is full. So over any window each key admits at
/// most its `burst + rate · t`, whatever was forgotten.
///
/// Keys are compared in full (above 48 bytes by 128 keyed bits of them). A key may be of one of
/// several *classes*, each with a limit of its own; the same text in another class is
/// another key. To find a key takes no lock and allocates nothing; a key that is new takes
/// one of 1,024 locks for as long as it is written down.
///
/// ```
/// use aliquot_client::{Keyed, Limit};
///
/// let users = Keyed::new(Limit::per_sec(10), 5, 100_000)?;
/// assert!(users.try_acquire("user/42", 5).is_ok());
/// assert!(users.try_acquire("user/42", 1).is_err());
/// assert!(users.try_acquire("user/43", 1).is_ok());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Debug)]
pub struct Keyed {
    /// Class 0's, on the way of most decisions.
    first: Tariff,
    classes: Vec<Class>,
    table: Table,
    clock: Source,
}

/// What a key holds, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    pub(crate) level: u64,
}

/// The limit of a class.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// `None`: no limit.
    slot: Option<Slot>,
    tariff: Tariff,
    grains_per_token: u64,
    /// No key can owe more than this.
    most: u64,
}

impl Keyed {
    /// How many keys are worked on at once in a batch, so that their memory is fetched together.
    const BATCH: usize = 16;

    /// The most keys: 2³² × 6/7.
    pub const KEYS_MAX: usize = (1 << 32) / 7 * 6;

    /// Buckets of this limit, full at the start, with room for `keys` keys: 77 bytes each,
    /// which are taken at once. By the [`CounterClock`](crate::CounterClock).
    ///
    /// # Errors
    ///
    /// [`LimitError`], naming what is out of range.
    pub fn new(limit: impl Into<Limit>, burst: u64, keys: usize) -> Result<Self, LimitError> {
        Self::builder(limit, burst, keys).build()
    }

    /// A store with more classes, or settings of its own.
    ///
    /// ```
    /// use aliquot_client::{Keyed, Limit};
    ///
    /// let tenants = Keyed::builder(Limit::per_sec(10), 5, 10_000)
    ///     .class(Limit::per_sec(1_000), 500)
    ///     .build()?;
    /// let now = tenants.now();
    /// assert!(tenants.try_acquire_of(1, "tenant/paying", 500, now).is_ok());
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub fn builder(limit: impl Into<Limit>, burst: u64, keys: usize) -> KeyedBuilder {
        KeyedBuilder::new(limit.into(), burst, keys)
    }

    /// Takes `n` of the key's tokens, of class 0.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub fn try_acquire(&self, key: &str, n: u64) -> Result<(), Refused> {
        by_words!(key, W => self.ask::<W>(key, n))
    }

    /// [`Keyed::try_acquire`] at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`Keyed::try_acquire`].
    pub fn try_acquire_at(&self, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        by_words!(key, W => self.ask_of::<W>(0, key, n, now))
    }

    /// Takes `n` of the tokens that the key has in a class; 0 is the first.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken. A class that there is not has [`Reason::NoBudget`].
    pub fn try_acquire_of(&self, class: u16, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        by_words!(key, W => self.ask_of::<W>(class, key, n, now))
    }

    /// Takes `n` for each of these keys, of class 0, each on its own, and writes the answers
    /// into `answers`, as many as there are of both. One clock reading serves all, and the
    /// memory of several keys is fetched at once.
    pub fn try_each(&self, asked: &[(&str, u64)], answers: &mut [Result<(), Refused>]) {
        self.try_each_at(asked, answers, self.clock.now());
    }

    /// [`Keyed::try_each`] at a reading of its clock.
    pub fn try_each_at(
        &self,
        asked: &[(&str, u64)],
        answers: &mut [Result<(), Refused>],
        now: Tick,
    ) {
        for (asked, answers) in asked
            .chunks(Self::BATCH)
            .zip(answers.chunks_mut(Self::BATCH))
        {
            // Three rounds, so that no fetch waits for the end of another one's.
            let mut hashes = [0; Self::BATCH];
            for (hash, (key, _)) in hashes.iter_mut().zip(asked) {
                *hash = by_words!(key, W => self.table.maker().name::<W>(0, key).hash);
                self.table.home(*hash).fetch(*hash);
            }
            let mut likely = [0; Self::BATCH];
            for (likely, &hash) in likely.iter_mut().zip(&hashes).take(asked.len()) {
                *likely = self.table.fetch_likely(hash);
            }
            let found = hashes.iter().zip(likely);
            for (((hash, likely), (key, n)), answer) in found.zip(asked).zip(answers) {
                *answer = by_words!(key, W => self.ask_at::<W>(*hash, likely, key, *n, now));
            }
        }
    }

    /// The tokens that a key of class 0 has, rounded down; all of them if it is not remembered.
    #[must_use]
    pub fn tokens_at(&self, key: &str, now: Tick) -> u64 {
        let (Some(slot), scale) = (self.classes[0].slot, self.classes[0].grains_per_token) else {
            return u64::MAX;
        };
        let debt = by_words!(key, W => {
            let name = self.table.maker().name::<W>(0, key);
            self.table.find(&name.spelled()).map_or(0, |found| found.debt())
        });
        let missing = debt.saturating_sub(slot.made(now).0);
        slot.grains(slot.burst.saturating_sub(missing)) / scale
    }

    /// The limit of class 0, and the tokens that a key has of it; `None` without a limit.
    pub(crate) fn held_at(&self, key: &str, now: Tick) -> Option<Held> {
        let class = &self.classes[0];
        let slot = class.slot?;
        let tokens = |grains: u64| grains / class.grains_per_token;
        Some(Held {
            rate: tokens(slot.rate_grains()),
            burst: tokens(slot.grains(slot.burst)),
            level: self.tokens_at(key, now),
        })
    }

    /// Forgets the keys that have been full for as long as `idle`, and answers how many those
    /// were. It looks at all there are: for a background task, not for a request. Memory
    /// stays as it is; what this saves is looking for room later.
    pub fn forget_idle(&self, idle: Duration, now: Tick) -> usize {
        let idle = Span::from_nanos(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
        self.table.free_if(|class, debt| {
            let since = self.full_since(class, debt);
            since.is_some_and(|since| now.since(since) >= idle && since <= now)
        })
    }

    /// How many keys are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory that the keys' table takes, in bytes, however many there are.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// A reading of its clock.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.clock.now()
    }

    /// What `n` tokens of a class cost; `None` if it has no limit.
    #[inline(always)]
    fn price(&self, class: u16, n: u64) -> Result<Option<Price<'_>>, Refused> {
        let Some(class) = self.classes.get(usize::from(class)) else {
            return Err(Refused::from(Reason::NoBudget));
        };
        let Some(slot) = &class.slot else {
            return Ok(None);
        };
        // Of a word's width, since more than that is more than any burst.
        let cost = n.checked_mul(class.grains_per_token);
        let cost = cost.map(|grains| slot.units(grains));
        let Some(cost) = cost.filter(|&cost| cost <= slot.burst) else {
            return Err(Refused::from(Reason::ExceedsBurst));
        };
        let most = class.most;
        Ok(Some(Price { slot, most, cost }))
    }

    /// Decides by a key of `W` words, of class 0, now.
    #[inline(never)]
    fn ask<const W: usize>(&self, key: &str, n: u64) -> Result<(), Refused> {
        match self.charge_at_once::<W>(0, &self.first, key, n, || self.clock.in_place()) {
            Some(()) => Ok(()),
            None => self.ask_now(key, n),
        }
    }

    /// The same at a reading of the clock.
    #[inline(never)]
    fn ask_of<const W: usize>(
        &self,
        class: u16,
        key: &str,
        n: u64,
        now: Tick,
    ) -> Result<(), Refused> {
        let known = self.classes.get(usize::from(class));
        let charged = known
            .and_then(|known| self.charge_at_once::<W>(class, &known.tariff, key, n, || Some(now)));
        match charged {
            Some(()) => Ok(()),
            None => self.ask_all(class, key, n, now),
        }
    }

    /// The same by a key of class 0 of which it is known where it may stand, and most likely does.
    #[inline(always)]
    fn ask_at<const W: usize>(
        &self,
        hash: u64,
        likely: usize,
        key: &str,
        n: u64,
        now: Tick,
    ) -> Result<(), Refused> {
        let name = self.table.maker().name_at::<W>(hash, 0, key);
        let fare = self.first.fare(n);
        let found = self.table.find_at(likely, &name);
        let charged = fare.zip(found).and_then(|(fare, found)| {
            let debt = found.debt();
            let next = self.first.after(debt, fare, now)?;
            found.charge(debt, next).ok()
        });
        match charged {
            Some(()) => Ok(()),
            None => self.ask_all(0, key, n, now),
        }
    }

    /// Charges a key that is where it most likely would be, if it has what is asked for and nobody else charges it meanwhile:
    /// what most decisions are. `None` if anything is otherwise; then nothing was taken.
    #[inline(always)]
    fn charge_at_once<const W: usize>(
        &self,
        class: u16,
        tariff: &Tariff,
        key: &str,
        n: u64,
        clock: impl FnOnce() -> Option<Tick>,
    ) -> Option<()> {
        // In this order: a reading of the clock waits, on some processors, for what was begun before, and what comes
        // after waits for it. Memory that was asked for comes meanwhile; what can be known before, is.
        let name = self.table.maker().name::<W>(class, key);
        let home = self.table.home(name.hash);
        home.fetch(name.hash);
        let fare = tariff.fare(n)?;
        let now = clock()?;
        let found = home.find_at_once(&name)?;
        let debt = found.debt();
        let next = tariff.after(debt, fare, now)?;
        found.charge(debt, next).ok()
    }

    #[cold]
    #[inline(never)]
    fn ask_now(&self, key: &str, n: u64) -> Result<(), Refused> {
        self.ask_all(0, key, n, self.clock.now())
    }

    /// The same by a key that is not where it most likely would be, as one in twenty, or is refused, or whatever else.
    /// From the beginning, so that no other decision has to keep what is wanted here.
    #[cold]
    #[inline(never)]
    fn ask_all(&self, class: u16, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        let Some(price) = self.price(class, n)? else {
            return Ok(());
        };
        by_words!(key, W => {
            let name = self.table.maker().name::<W>(class, key);
            self.search(&name.spelled(), price, now)
        })
    }

    fn search(&self, name: &Spelled<'_>, price: Price<'_>, now: Tick) -> Result<(), Refused> {
        let mut found = self.table.find(name);
        loop {
            if let Some(answer) = price.charge(found, now) {
                return answer.map(|_| ());
            }
            found = Some(self.claim(name, now)?);
        }
    }

    /// A slot for a key that has none: a free one, or that of a key which owes nothing.
    fn claim(&self, name: &Spelled<'_>, now: Tick) -> Result<Found<'_>, Refused> {
        let full_since = |class: u16, debt: u64| self.full_since(class, debt);
        match self.table.claim(name, now, full_since) {
            Claimed::Slot(found) => Ok(found),
            Claimed::NoRoom(soonest) => Err(no_room(soonest, now)),
        }
    }

    /// When a bucket with this debt is, or was, full.
    fn full_since(&self, class: u16, debt: u64) -> Option<Tick> {
        let class = self.classes.get(usize::from(class))?;
        let slot = class.slot.as_ref()?;
        slot.time_until(debt).map(|span| slot.base.after(span))
    }
}

/// What tokens cost by the limit of a class.
#[derive(Clone, Copy, Debug)]
struct Price<'a> {
    slot: &'a Slot,
    most: u64,
    cost: u64,
}

impl Price<'_> {
    /// What the key whose slot was found would owe after it; `None` if it is another key's by now.
    fn after(&self, found: Found<'_>, now: Tick) -> Option<Result<u64, Refused>> {
        let Self { slot, cost, .. } = *self;
        let made = slot.made(now);
        let owed = self.sane(found.debt(), made.0);
        let next = after(slot.burst, owed, cost, made);
        let next = next.ok_or_else(|| throttled(slot, owed, cost, now));
        found.is_still().then_some(next)
    }

    /// Charges the key whose slot was found, and answers what it owes; `None` if none was, or it is another key's by now.
    #[inline(always)]
    fn charge(&self, found: Option<Found<'_>>, now: Tick) -> Option<Result<u64, Refused>> {
        let Self { slot, cost, .. } = *self;
        let found = found?;
        let made = slot.made(now);
        let mut debt = found.debt();
        loop {
            let owed = self.sane(debt, made.0);
            let Some(next) = after(slot.burst, owed, cost, made) else {
                // A refusal is this key's only if the slot still is.
                let so = found.is_still();
                return so.then(|| Err(throttled(slot, owed, cost, now)));
            };
            match found.charge(debt, next) {
                Ok(()) => return Some(Ok(next)),
                Err(No::Lost) => return None,
                Err(No::Changed(seen)) => debt = seen,
            }
        }
    }

    /// The debt, or an empty bucket's where it cannot be this class's: who was charged in
    /// the measure of the slot's former key is not to wait for a year. A bucket owes at most its
    /// burst; the hour on top is for a clock that steps back.
    #[inline(always)]
    fn sane(&self, debt: u64, made: u64) -> u64 {
        match debt.saturating_sub(made) > self.most {
            true => made.saturating_add(self.slot.burst),
            false => debt,
        }
    }
}

/// The refusal of a key that finds no slot, and when the first of those in its way is full.
fn no_room(soonest: Option<Tick>, now: Tick) -> Refused {
    Refused {
        reason: Reason::NoRoom,
        retry_after: soonest.map(|at| Duration::from_nanos(at.since(now).nanos().max(1))),
    }
}

/// The refusal of a bucket that owes this.
#[cold]
fn throttled(slot: &Slot, debt: u64, cost: u64, now: Tick) -> Refused {
    let due = debt.saturating_add(cost).saturating_sub(slot.burst);
    let wait = slot.time_until(due).map(|whole| slot.base.after(whole));
    Refused {
        reason: Reason::Throttled,
        retry_after: wait.map(|at| Duration::from_nanos(at.since(now).nanos())),
    }
}
