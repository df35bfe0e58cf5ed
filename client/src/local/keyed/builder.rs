//! The settings of a store of keys.

use super::table::Table;
use super::{Class, Keyed};
use crate::bucket::limit::{Limit, LimitError};
use crate::bucket::{AdmissionMode, Slot};
use crate::clock::{SharedClock, Source};
use aliquot_core::share::Kind;
use aliquot_core::unit::Span;
use std::time::Duration;

/// Settings of a [`Keyed`] store; see [`Keyed::builder`].
///
/// ```
/// use aliquot_client::{Keyed, Limit};
/// use std::time::Duration;
///
/// let store = Keyed::builder(Limit::per_sec(5), 10, 100_000)
///     .class(Limit::per_sec(50), 100) // class 1: customers who pay
///     .idle_after(Duration::from_secs(60))
///     .build()?;
/// assert!(store.try_acquire("alice", 10).is_ok());
/// assert!(store.try_acquire("alice", 1).is_err());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Debug)]
pub struct KeyedBuilder {
    limits: Vec<(Limit, u64)>,
    keys: usize,
    clock: Source,
    seed: Option<u64>,
    idle: Option<Span>,
}

impl KeyedBuilder {
    pub(super) fn new(limit: Limit, burst: u64, keys: usize) -> Self {
        Self {
            limits: vec![(limit, burst)],
            keys,
            clock: Source::counter(),
            seed: None,
            idle: None,
        }
    }

    /// Adds a class with a limit of its own. The first call adds class 1, the second one class 2, and so on.
    #[must_use]
    pub fn class(mut self, limit: impl Into<Limit>, burst: u64) -> Self {
        self.limits.push((limit.into(), burst));
        self
    }

    /// Sets the clock that the store decides by. The default is the [`CounterClock`](crate::clock::CounterClock).
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = Source::Other(clock);
        self
    }

    /// Sets the seed for the places of keys, for runs that must be reproducible. The default is random, so
    /// that an attacker cannot choose keys that collide.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Forgets keys whose buckets have been full for `idle`, as new keys come; zero forgets a key as soon as
    /// it is full.
    ///
    /// Each decision on a new key first scans one group of 32 slots, and the next such decision scans the next
    /// group. There are 5/4 · `keys` ÷ 32 groups, so after that number of new keys, every key that was idle at the
    /// beginning is forgotten. While there are no new keys, nothing is forgotten, and no room is needed.
    ///
    /// A key that owes tokens is never forgotten, and forgetting a full key changes no decision. So this
    /// setting serves two purposes: [`Keyed::len`] counts little more than the keys in use, and new keys find
    /// free slots.
    ///
    /// Decisions on keys that are remembered become no slower. By default a full key is forgotten when its
    /// room is needed, or by [`Keyed::forget_idle_at`].
    ///
    /// ```
    /// use aliquot_client::{Keyed, Limit, ManualClock};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let users = Keyed::builder(Limit::per_sec(10), 5, 20)
    ///     .clock(Arc::new(clock.clone()))
    ///     .idle_after(Duration::from_secs(60))
    ///     .build()?;
    /// assert!(users.try_acquire("user/42", 5).is_ok());
    /// // It is full again in half a second, and a minute later it is idle.
    /// clock.advance(Duration::from_millis(60_501));
    /// assert_eq!(users.len(), 1);
    /// assert!(users.try_acquire("user/43", 1).is_ok());
    /// assert_eq!(users.len(), 1, "there is one group");
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use]
    pub fn idle_after(mut self, idle: Duration) -> Self {
        let nanos = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
        self.idle = Some(Span::from_nanos(nanos));
        self
    }

    /// Allocates the memory and makes the store.
    ///
    /// # Errors
    ///
    /// [`LimitError`], which names the value that is out of range.
    pub fn build(self) -> Result<Keyed, LimitError> {
        let keys = self.keys;
        if keys == 0 || keys > Keyed::KEYS_MAX {
            let most = Keyed::KEYS_MAX;
            return Err(LimitError::Keys { keys, most });
        }
        if self.limits.len() > usize::from(u16::MAX) {
            return Err(LimitError::Classes {
                classes: self.limits.len(),
            });
        }
        let now = self.clock.now();
        let class = |&(limit, burst): &(Limit, u64)| {
            let fitted = limit.fit_for_long(burst)?;
            let mode = AdmissionMode::Forever;
            let slot = Slot::new(fitted.rate, fitted.burst, now, mode, Kind::Rate);
            let hour = slot.made(now.after(Span::from_secs(3_600))).0;
            let grains_per_token = fitted.scale.grains_per_token();
            Ok(Class {
                limit,
                most: slot.burst.saturating_add(hour),
                slot: (!limit.is_unlimited()).then_some(slot),
                grains_per_token,
            })
        };
        let classes = self.limits.iter().map(class);
        let classes = classes.collect::<Result<Vec<_>, _>>()?;
        Ok(Keyed {
            classes,
            table: Table::new(keys, self.seed),
            clock: self.clock,
            idle: self.idle,
        })
    }
}
