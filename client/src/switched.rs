//! A limit of any kind with a switch of its own, and limits that only watch.

mod keyed;

use crate::refused::{Reason, Refused};
use crate::sentry::Sentry;
use crate::switch::{Mode, Overruled};
use crate::tier::{Slip, Tier};
use aliquot_core::unit::Tick;
use std::sync::Arc;

/// A [`Tier`] whose [`Mode`] can be changed while it is used; or a [`Keyed`](crate::Keyed) store of them.
///
/// A **shadow** is one that starts as a dry run. Put among [`Layers`](crate::Layers) it refuses nothing and
/// answers what it would have refused; it is charged for what the layers let through, just as
/// if it were enforced, and not for what another layer refused.
///
/// ```
/// use aliquot_client::{Layers, Limit, Limiter, Mode, Switched};
/// use std::time::Duration;
///
/// let limit = Limiter::local(Limit::per_sec(1_000), 1_000)?;
/// let hourly = Limit::per(10, Duration::from_secs(3_600));
/// let stricter = Switched::shadow(Limiter::local(hourly, 10)?);
/// let layers = Layers::of_any([("limit", &limit), ("stricter", &stricter)]);
/// for _ in 0..25 {
///     assert!(layers.try_acquire(1).is_ok());
/// }
/// assert_eq!(stricter.overruled().let_through, 15);
/// // It proved itself.
/// stricter.set_mode(Mode::Enforce);
/// assert!(layers.try_acquire(10).is_err());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Debug)]
pub struct Switched<T> {
    tier: T,
    sentry: Arc<Sentry>,
}

impl<T: Clone> Clone for Switched<T> {
    /// One more handle on the same switch.
    fn clone(&self) -> Self {
        Self {
            tier: self.tier.clone(),
            sentry: Arc::clone(&self.sentry),
        }
    }
}

impl<T> Switched<T> {
    /// The tier, enforced.
    #[must_use]
    pub fn new(tier: T) -> Self {
        let sentry = Arc::default();
        Self { tier, sentry }
    }

    /// The tier, as a dry run.
    #[must_use]
    pub fn shadow(tier: T) -> Self {
        let switched = Self::new(tier);
        switched.set_mode(Mode::DryRun);
        switched
    }

    /// The tier itself.
    #[must_use]
    pub const fn tier(&self) -> &T {
        &self.tier
    }

    /// What holds now.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.sentry.mode()
    }

    /// Another mode from the next decision on.
    pub fn set_mode(&self, mode: Mode) {
        self.sentry.set_mode(mode);
    }

    pub(crate) const fn sentry(&self) -> &Arc<Sentry> {
        &self.sentry
    }

    /// How often the mode had its way.
    #[must_use]
    pub fn overruled(&self) -> Overruled {
        self.sentry.overruled()
    }
}

/// Nothing is admitted, by order. Nobody knows for how long.
pub(crate) const FROZEN: Refused = Refused {
    reason: Reason::Frozen,
    retry_after: None,
};

impl<T: Tier> Tier for Switched<T> {
    fn now(&self) -> Tick {
        self.tier.now()
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Slip, Refused> {
        self.sentry.pass(n)?;
        self.tier.take_at(n, now).or_else(|refused| {
            self.sentry.rule(n, refused)?;
            Ok(Slip::of_window(0, 0))
        })
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.sentry.would_rule(self.tier.peek_at(n, now))
    }

    fn put_back_at(&self, slip: &Slip, n: u64, now: Tick) -> u64 {
        // What was let through took nothing, and keeps nobody from anything.
        match slip.tokens() {
            0 => n,
            _ => self.tier.put_back_at(slip, n, now),
        }
    }

    fn put_back(&self, slip: &Slip, n: u64) -> u64 {
        match slip.tokens() {
            0 => n,
            _ => self.tier.put_back(slip, n),
        }
    }

    fn owe_at(&self, slip: &Slip, n: u64, now: Tick) -> u64 {
        match slip.tokens() {
            0 => n,
            _ => self.tier.owe_at(slip, n, now),
        }
    }
}
