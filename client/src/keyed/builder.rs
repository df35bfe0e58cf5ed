//! What a store of keys is made of.

use super::deferred::Deferral;
use super::table::Table;
use super::{Class, Keyed};
use crate::cell::tariff::Tariff;
use crate::cell::{Mark, Slot};
use crate::clock::{SharedClock, Source};
use crate::limit::{Limit, LimitError};
use aliquot_core::share::Kind;
use aliquot_core::unit::Span;
use std::time::Duration;

/// What makes a [`Keyed`]; see [`Keyed::builder`].
#[derive(Debug)]
pub struct KeyedBuilder {
    limits: Vec<(Limit, u64)>,
    keys: usize,
    clock: Source,
    seed: Option<u64>,
    idle: Option<Span>,
    /// Where the clock is not the counter, and nothing would be gained by it.
    #[cfg(test)]
    defers: bool,
}

impl KeyedBuilder {
    pub(super) fn new(limit: Limit, burst: u64, keys: usize) -> Self {
        Self {
            limits: vec![(limit, burst)],
            keys,
            clock: Source::counter(),
            seed: None,
            idle: None,
            #[cfg(test)]
            defers: false,
        }
    }

    /// Has what may be charged later charged later by any clock.
    #[cfg(test)]
    pub(crate) const fn deferring(mut self) -> Self {
        self.defers = true;
        self
    }

    /// Whether keys may be charged later: where a reading takes long, and who asks does not say when it is.
    const fn defers(&self) -> bool {
        #[cfg(test)]
        if self.defers {
            return true;
        }
        matches!(self.clock, Source::InPlace(_))
    }

    /// Another class, with a limit of its own: the second is 1, the third 2, and so on.
    #[must_use]
    pub fn class(mut self, limit: impl Into<Limit>, burst: u64) -> Self {
        self.limits.push((limit.into(), burst));
        self
    }

    /// The clock that it decides by.
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = Source::Other(clock);
        self
    }

    /// What places of keys are drawn from, for runs that are to be the same. The default is
    /// random, so that nobody can choose keys that meet.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Has keys forgotten whose buckets have been full for as long as `idle`, zero for at once, by those who bring new ones: each key that is not
    /// remembered, before room for it is looked for, looks through one more group of 32 slots, round and round. So whatever has been idle for as long at one
    /// moment is gone when as many new keys have come as there are groups, a thirty-second of 7/6 of the keys that there is room for; and where
    /// no new key comes, nothing is forgotten, and nobody needs room. A key that owes something is never forgotten, nor is
    /// anything told from a full one that is: what this is for is [`Keyed::len`], which then counts next to nothing but the keys
    /// in use, and free slots for new ones.
    ///
    /// Decisions by keys that are remembered cost nothing more. The default is that a full key is forgotten when its room is needed, or
    /// [`Keyed::forget_idle`] is called.
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

    /// Takes the memory and makes the store.
    ///
    /// # Errors
    ///
    /// [`LimitError`], naming what is out of range.
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
        let class = |(which, &(limit, burst)): (usize, &(Limit, u64))| {
            let fitted = limit.fit_for_long(burst)?;
            let mark = Mark::Forever;
            let slot = Slot::new(fitted.rate, fitted.burst, now, mark, Kind::Rate);
            let hour = slot.made(now.after(Span::from_secs(3_600))).0;
            let grains_per_token = fitted.scale.grains_per_token();
            let deferral = match which == 0 && slot.shift == 0 && self.defers() {
                true => Deferral::of(slot.burst, grains_per_token, slot.rate_grains()),
                false => Deferral::default(),
            };
            let made_max = match deferral.is_any() {
                true => Deferral::MADE_MAX,
                false => Tariff::MADE_MAX,
            };
            Ok(Class {
                tariff: match limit.is_unlimited() {
                    true => Tariff::default(),
                    false => Tariff::of(&slot, grains_per_token, made_max),
                },
                deferral,
                most: slot.burst.saturating_add(hour),
                slot: (!limit.is_unlimited()).then_some(slot),
                grains_per_token,
            })
        };
        let classes = self.limits.iter().enumerate().map(class);
        let classes = classes.collect::<Result<Vec<_>, _>>()?;
        Ok(Keyed {
            first: classes
                .first()
                .map(|class| class.tariff)
                .unwrap_or_default(),
            deferral: classes
                .first()
                .map(|class| class.deferral)
                .unwrap_or_default(),
            classes,
            table: Table::new(keys, self.seed),
            clock: self.clock,
            idle: self.idle,
        })
    }
}
