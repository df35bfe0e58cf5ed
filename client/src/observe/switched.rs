//! A limit or a store with a mode of its own.

mod keyed;

use crate::bucket::described::LimitInfo;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use crate::observe::mode_guard::ModeGuard;
use crate::observe::switch::{Mode, ModeStats};
use aliquot_core::unit::Tick;
use std::sync::Arc;

/// A [`Combine`] with a [`Mode`] that can be changed while it is in use, or a [`Keyed`](crate::Keyed) store with
/// one mode for all its keys.
///
/// A **shadow** starts as a dry run. Among [`Combined`](crate::Combined) it refuses nothing and counts what it
/// would have refused. It is charged for each request that the limits admit, as if it were enforced, and not
/// for requests that another limit refused.
///
/// ```
/// use aliquot_client::observe::{Mode, Switched};
/// use aliquot_client::{Combined, Limit, Limiter};
/// use std::time::Duration;
///
/// let limit = Limiter::local(Limit::per_sec(1_000), 1_000)?;
/// let hourly = Limit::per(10, Duration::from_secs(3_600));
/// let stricter = Switched::shadow(Limiter::local(hourly, 10)?);
/// let limits = Combined::of_any([("limit", &limit), ("stricter", &stricter)]);
/// for _ in 0..25 {
///     assert!(limits.try_acquire(1).is_ok());
/// }
/// assert_eq!(stricter.mode_stats().let_through, 15);
/// // Enforce it from now on.
/// stricter.set_mode(Mode::Enforce);
/// assert!(limits.try_acquire(10).is_err());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Debug)]
pub struct Switched<T> {
    limit: T,
    guard: Arc<ModeGuard>,
}

impl<T: Clone> Clone for Switched<T> {
    /// Makes another handle on the same mode.
    fn clone(&self) -> Self {
        Self {
            limit: self.limit.clone(),
            guard: Arc::clone(&self.guard),
        }
    }
}

impl<T> Switched<T> {
    /// Wraps the limit, enforced.
    #[must_use]
    pub fn new(limit: T) -> Self {
        let guard = Arc::default();
        Self { limit, guard }
    }

    /// Wraps the limit as a dry run.
    #[must_use]
    pub fn shadow(limit: T) -> Self {
        let switched = Self::new(limit);
        switched.set_mode(Mode::DryRun);
        switched
    }

    /// Returns the limit itself, without the mode.
    #[must_use]
    pub const fn inner(&self) -> &T {
        &self.limit
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

impl<T: Combine> Combine for Switched<T> {
    fn now(&self) -> Tick {
        self.limit.now()
    }

    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        self.limit.info_at(now)
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        self.guard.check_frozen(n)?;
        self.limit.take_at(n, now).or_else(|refused| {
            self.guard.apply(n, refused)?;
            Ok(Receipt::of_window(0, 0))
        })
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        if let Err(refused) = self.guard.check_frozen(n) {
            return Decision {
                outcome: Err(refused),
                info: self.limit.info_at(now),
            };
        }
        let Decision { outcome, info } = self.limit.decide_at(n, now);
        let outcome = outcome.or_else(|refused| {
            self.guard.apply(n, refused)?;
            Ok(Receipt::of_window(0, 0))
        });
        Decision { outcome, info }
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.guard.would_apply(self.limit.peek_at(n, now))
    }

    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        // A request that the mode admitted took nothing, so all of its tokens are free.
        match receipt.tokens() {
            0 => n,
            _ => self.limit.put_back_at(receipt, n, now),
        }
    }

    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        match receipt.tokens() {
            0 => n,
            _ => self.limit.put_back(receipt, n),
        }
    }

    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        match receipt.tokens() {
            0 => n,
            _ => self.limit.owe_at(receipt, n, now),
        }
    }
}
