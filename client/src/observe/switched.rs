//! A tier or a store with a mode of its own.

mod keyed;

use crate::limiter::layers::tier::{Receipt, Tier};
use crate::limiter::refused::{Reason, Refused};
use crate::observe::mode_guard::ModeGuard;
use crate::observe::switch::{Mode, ModeStats};
use aliquot_core::unit::Tick;
use std::sync::Arc;

/// A [`Tier`] with a [`Mode`] that can be changed while it is in use, or a [`Keyed`](crate::Keyed) store with
/// one mode for all its keys.
///
/// A **shadow** starts as a dry run. Among [`Layers`](crate::Layers) it refuses nothing and counts what it
/// would have refused. It is charged for each request that the layers admit, as if it were enforced, and not
/// for requests that another layer refused.
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
/// assert_eq!(stricter.mode_stats().let_through, 15);
/// // Enforce it from now on.
/// stricter.set_mode(Mode::Enforce);
/// assert!(layers.try_acquire(10).is_err());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Debug)]
pub struct Switched<T> {
    tier: T,
    guard: Arc<ModeGuard>,
}

impl<T: Clone> Clone for Switched<T> {
    /// Makes another handle on the same mode.
    fn clone(&self) -> Self {
        Self {
            tier: self.tier.clone(),
            guard: Arc::clone(&self.guard),
        }
    }
}

impl<T> Switched<T> {
    /// Wraps the tier, enforced.
    #[must_use]
    pub fn new(tier: T) -> Self {
        let guard = Arc::default();
        Self { tier, guard }
    }

    /// Wraps the tier as a dry run.
    #[must_use]
    pub fn shadow(tier: T) -> Self {
        let switched = Self::new(tier);
        switched.set_mode(Mode::DryRun);
        switched
    }

    /// Returns the tier itself, without the mode.
    #[must_use]
    pub const fn tier(&self) -> &T {
        &self.tier
    }

    /// Returns the mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.guard.mode()
    }

    /// Sets the mode from the next decision on.
    pub fn set_mode(&self, mode: Mode) {
        self.guard.set_mode(mode);
    }

    pub(crate) const fn mode_guard(&self) -> &Arc<ModeGuard> {
        &self.guard
    }

    /// Returns the counts of the decisions that the mode changed.
    #[must_use]
    pub fn mode_stats(&self) -> ModeStats {
        self.guard.mode_stats()
    }
}

/// Refusal of a frozen limit. How long the freeze lasts is not known.
pub(crate) const FROZEN: Refused = Refused {
    reason: Reason::Frozen,
    retry_after: None,
};

impl<T: Tier> Tier for Switched<T> {
    fn now(&self) -> Tick {
        self.tier.now()
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        self.guard.check_frozen(n)?;
        self.tier.take_at(n, now).or_else(|refused| {
            self.guard.apply(n, refused)?;
            Ok(Receipt::of_window(0, 0))
        })
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.guard.would_apply(self.tier.peek_at(n, now))
    }

    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        // A request that the mode admitted took nothing, so all of its tokens are free.
        match receipt.tokens() {
            0 => n,
            _ => self.tier.put_back_at(receipt, n, now),
        }
    }

    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        match receipt.tokens() {
            0 => n,
            _ => self.tier.put_back(receipt, n),
        }
    }

    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        match receipt.tokens() {
            0 => n,
            _ => self.tier.owe_at(receipt, n, now),
        }
    }
}
