//! Limits of many keys in a fixed amount of memory.

mod ask;
mod batch;
mod bucket;
mod builder;
mod described;
mod limits;
mod name;
mod table;
mod tags;

pub use bucket::KeyedBucket;
pub use builder::KeyedBuilder;

use crate::bucket::Slot;
use crate::bucket::described::BucketLevel;
use crate::bucket::limit::{Limit, LimitError};
use crate::clock::Source;
use crate::limiter::refused::Refused;
use aliquot_core::unit::{Span, Tick};
use name::by_words;
use std::time::Duration;
use table::Table;

/// A bucket for each key, in memory that is allocated once and never grows.
///
/// A key that was never seen has a full bucket, and so has a key that was forgotten. When room is needed, a
/// key whose bucket is full again is forgotten: of a few candidates, the one that has been full for the
/// longest. This loses nothing. A key that owes tokens is never forgotten. If every key that could make room
/// owes some, the new key is refused as [`Reason::NoRoom`](crate::Reason::NoRoom), until the first of them is
/// full.
///
/// So over any window of length `t` each key admits at most `burst + rate · t`, whatever was forgotten. If a
/// caller's clock reading is older than the time at which a forgotten key became full, the key is missing the
/// tokens that are refilled between the two.
///
/// # Keys and classes
///
/// Keys are compared in full; keys above 48 bytes are compared by 128 keyed bits. A key may belong to one of
/// several *classes*, each with a limit of its own. The same text in another class is another key.
///
/// Finding a key takes no lock and allocates nothing. Adding a new key takes one of 1,024 locks for a moment.
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
    classes: Vec<Class>,
    table: Table,
    clock: Source,
    /// Time for which a key is full before a new key's decision forgets it; `None` never does.
    idle: Option<Span>,
}

/// State of a key, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    pub(crate) level: u64,
}

/// Limit of a class.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// The limit as it was written.
    limit: Limit,
    /// `None` if the class has no limit.
    slot: Option<Slot>,
    grains_per_token: u64,
    /// Maximum debt of a key.
    most: u64,
}

impl Class {
    /// Returns the bucket of a key with this debt; `None` if there is no limit.
    fn bucket_of(&self, debt: u64, now: Tick) -> Option<BucketLevel> {
        let slot = self.slot?;
        Some(BucketLevel {
            rate: slot.rate_grains(),
            burst: slot.grains(slot.burst),
            missing: slot.grains(debt.saturating_sub(slot.made(now).0)),
            scale: self.grains_per_token,
        })
    }
}

impl Keyed {
    /// Maximum number of keys: 2³² × 4/5.
    pub const KEYS_MAX: usize = (1 << 32) / 5 * 4;

    /// Makes a store of buckets with this limit, full at the start, with room for `keys` keys.
    ///
    /// Each key takes 83 bytes, which are allocated at once. The store decides by the
    /// [`CounterClock`](crate::clock::CounterClock).
    ///
    /// # Errors
    ///
    /// [`LimitError`], which names the value that is out of range.
    pub fn new(limit: impl Into<Limit>, burst: u64, keys: usize) -> Result<Self, LimitError> {
        Self::builder(limit, burst, keys).build()
    }

    /// Returns a builder, for several classes and for other settings.
    ///
    /// ```
    /// use aliquot_client::{Keyed, Limit};
    ///
    /// let tenants = Keyed::builder(Limit::per_sec(10), 5, 10_000)
    ///     .class(Limit::per_sec(1_000), 500)
    ///     .build()?;
    /// let now = tenants.now();
    /// assert!(tenants.try_acquire_class_at(1, "tenant/paying", 500, now).is_ok());
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub fn builder(limit: impl Into<Limit>, burst: u64, keys: usize) -> KeyedBuilder {
        KeyedBuilder::new(limit.into(), burst, keys)
    }

    /// Takes `n` tokens of a key of class 0.
    ///
    /// # Errors
    ///
    /// [`Refused`]: [`Reason::Throttled`](crate::Reason::Throttled) with the wait,
    /// [`Reason::ExceedsBurst`](crate::Reason::ExceedsBurst), or [`Reason::NoRoom`](crate::Reason::NoRoom) if
    /// a new key finds no slot. Nothing was taken.
    #[inline]
    pub fn try_acquire(&self, key: &str, n: u64) -> Result<(), Refused> {
        by_words!(key, W => self.ask::<W>(key, n))
    }

    /// [`Keyed::try_acquire`] at `now`, a reading of the store's clock.
    ///
    /// # Errors
    ///
    /// As [`Keyed::try_acquire`].
    pub fn try_acquire_at(&self, key: &str, n: u64, now: Tick) -> Result<(), Refused> {
        by_words!(key, W => self.ask_of::<W>(0, key, n, now))
    }

    /// Takes `n` tokens of a key of a class, at `now`, a reading of the store's clock. The first class is 0.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken. The reason is [`Reason::NoBudget`](crate::Reason::NoBudget) if there
    /// is no such class.
    pub fn try_acquire_class_at(
        &self,
        class: u16,
        key: &str,
        n: u64,
        now: Tick,
    ) -> Result<(), Refused> {
        by_words!(key, W => self.ask_of::<W>(class, key, n, now))
    }

    /// Returns the tokens of a key of class 0, rounded down: the burst if the key is not remembered, and
    /// `u64::MAX` if there is no limit.
    #[must_use]
    pub fn tokens_at(&self, key: &str, now: Tick) -> u64 {
        self.bucket_at(key, now).map_or(u64::MAX, |bucket| {
            bucket.burst.saturating_sub(bucket.missing) / bucket.scale
        })
    }

    /// Returns the bucket of a key of class 0; `None` if there is no limit.
    pub(crate) fn bucket_at(&self, key: &str, now: Tick) -> Option<BucketLevel> {
        self.bucket_in(0, key, now)
    }

    /// Returns the bucket of a key of a class; `None` if there is no such class, or no limit.
    fn bucket_in(&self, of: u16, key: &str, now: Tick) -> Option<BucketLevel> {
        let class = self.classes.get(usize::from(of))?;
        class.bucket_of(self.owed(of, key, now), now)
    }

    /// Returns the debt of a key of a class, in units of that class.
    fn owed(&self, of: u16, key: &str, now: Tick) -> u64 {
        by_words!(key, W => {
            let name = self.table.maker().name::<W>(of, key);
            let found = self.table.find(&name.spelled());
            found.map_or_else(
                || self.table.owed_by_new(of, now, self),
                |found| found.debt(),
            )
        })
    }

    /// Returns the limit of class 0 and the tokens of a key; `None` if there is no limit.
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

    /// Forgets the keys that have been full for at least `idle`, and returns their number.
    ///
    /// This looks at all slots, so call it from a background task, not from a request;
    /// [`KeyedBuilder::idle_after`] does the same bit by bit. It frees no memory, but saves the search for
    /// room later.
    pub fn forget_idle_at(&self, idle: Duration, now: Tick) -> usize {
        let idle = Span::from_nanos(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
        self.table.free_if(&self.idle_for(idle, now))
    }

    /// Returns the number of keys that are remembered: keys that owe tokens, and full keys that are not
    /// forgotten yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns true if no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of the table in bytes, which does not depend on the number of keys in it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Returns a reading of the store's clock.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.clock.now()
    }
}
