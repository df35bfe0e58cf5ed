//! Limits of as many keys as there is memory for, and no more.

mod ask;
mod batch;
mod builder;
mod deferred;
mod limits;
mod name;
mod near;
mod table;
mod tags;
pub(crate) mod tier;

pub use builder::KeyedBuilder;
pub(crate) use tier::Charged;

use crate::cell::Slot;
use crate::cell::tariff::Tariff;
use crate::clock::Source;
use crate::limit::{Limit, LimitError};
use crate::refused::Refused;
use aliquot_core::unit::{Span, Tick};
use deferred::Deferral;
use name::by_words;
use std::time::Duration;
use table::Table;

/// A bucket for each key, found by the key itself, in memory that is taken once and never
/// grows.
///
/// A key that was never seen has a full bucket. So has one that is not remembered: when
/// room is needed, a key whose bucket is full again is forgotten, of those that were looked at the
/// one that has been full for the longest, and nothing can be told from it. A key that owes
/// something is never forgotten; where all that could make room do, the new key is refused as
/// [`Reason::NoRoom`](crate::Reason::NoRoom), until the first of them is full. So over any window each key admits at
/// most its `burst + rate · t`, whatever was forgotten. Who comes late with a reading, from before some key that was forgotten was full,
/// finds a new key short of what is made until then.
///
/// Where the burst is 64 or more and a token is made in a whole number of nanoseconds (1,000 a second, not 300), most decisions by
/// [`Keyed::try_acquire`] read no clock: of each key up to fifteen tokens, and a 64th of the burst, may be charged later than they were taken, as of the next
/// reading that is made for that key. That never admits more. A key whose bucket was full may lack as many when somebody looks at it again,
/// however much later, until they are made. A store with a clock of its own ([`KeyedBuilder::clock`]), and whoever says when it is, charges each at once.
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
    /// What may be charged later of keys of class 0; of others nothing is.
    deferral: Deferral,
    classes: Vec<Class>,
    table: Table,
    clock: Source,
    /// For how long a key is full before it is forgotten by whoever brings a new one; `None`: not for that.
    idle: Option<Span>,
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
    deferral: Deferral,
    grains_per_token: u64,
    /// No key can owe more than this.
    most: u64,
}

impl Keyed {
    /// The most keys: 2³² × 4/5.
    pub const KEYS_MAX: usize = (1 << 32) / 5 * 4;

    /// Buckets of this limit, full at the start, with room for `keys` keys: 83 bytes each,
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
    #[inline]
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
    /// [`Refused`]; nothing was taken. A class that there is not has [`Reason::NoBudget`](crate::Reason::NoBudget).
    pub fn try_acquire_of(&self, class: u16, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        by_words!(key, W => self.ask_of::<W>(class, key, n, now))
    }

    /// The tokens that a key of class 0 has, rounded down; all of them if it is not remembered.
    #[must_use]
    pub fn tokens_at(&self, key: &str, now: Tick) -> u64 {
        let (Some(slot), scale) = (self.classes[0].slot, self.classes[0].grains_per_token) else {
            return u64::MAX;
        };
        let owed = by_words!(key, W => {
            let name = self.table.maker().name::<W>(0, key);
            let found = self.table.find(&name.spelled());
            found.map_or_else(
                || self.table.owed_by_new(0, now, self),
                |found| self.deferral.owed(found.settled(self), slot.made_up(now)),
            )
        });
        let missing = owed.saturating_sub(slot.made(now).0);
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
    /// were. It looks at all there are: for a background task, not for a request; [`KeyedBuilder::idle_after`] does it bit by bit. Memory
    /// stays as it is; what this saves is looking for room later. A key of which tokens were still to be charged is charged, and
    /// forgotten by a later call.
    pub fn forget_idle(&self, idle: Duration, now: Tick) -> usize {
        let idle = Span::from_nanos(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
        self.table.free_if(&self.idle_for(idle, now))
    }

    /// How many keys are remembered: those that owe something, and those that are full and not forgotten yet.
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
}
