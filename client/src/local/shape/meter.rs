//! A leaky bucket as a meter.

use crate::bucket::described::LimitInfo;
use crate::bucket::limit::{Limit, LimitError};
use crate::clock::SharedClock;
use crate::limiter::Limiter;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use aliquot_core::unit::Tick;

/// A leaky bucket as a meter: requests fill it, it leaks at a steady rate, and a request that would overflow
/// it is refused (ITU-T I.371; the *generic cell rate algorithm*).
///
/// It is a token bucket seen from the other side: its level is what is missing there. So it has the same
/// bound: over any window of length `t` it admits at most `capacity + leak · t`. Over a leased [`Limiter`] it
/// measures the part of this process.
///
/// ```
/// use aliquot_client::shape::Meter;
/// use aliquot_client::{Limit, Limiter, ManualClock};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let meter = Meter::over(Limiter::local_with(Limit::per_sec(2), 10, Arc::new(clock.clone()))?);
/// assert!(meter.try_pour(6).is_ok());
/// assert!(meter.try_pour(6).is_err());
/// assert_eq!(meter.level(), 6.0);
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(meter.level(), 4.0);
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Meter {
    limiter: Limiter,
}

impl Meter {
    /// Returns an empty local meter, with the host's clock.
    ///
    /// # Errors
    ///
    /// [`LimitError`] naming the value that is out of range.
    pub fn new(leak: impl Into<Limit>, capacity: u64) -> Result<Self, LimitError> {
        Limiter::local(leak, capacity).map(Self::over)
    }

    /// Like [`Meter::new`], with another clock.
    ///
    /// # Errors
    ///
    /// [`LimitError`] naming the value that is out of range.
    pub fn with_clock(
        leak: impl Into<Limit>,
        capacity: u64,
        clock: SharedClock,
    ) -> Result<Self, LimitError> {
        Limiter::local_with(leak, capacity, clock).map(Self::over)
    }

    /// Returns a meter over a limiter, leased or local.
    #[must_use]
    pub const fn over(limiter: Limiter) -> Self {
        Self { limiter }
    }

    /// Adds `n`, if they fit.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was added.
    pub fn try_pour(&self, n: u64) -> Result<(), Refused> {
        self.limiter.try_acquire(n).map(|_| ())
    }

    /// Like [`Meter::try_pour`], at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`Meter::try_pour`].
    pub fn try_pour_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limiter.try_acquire_at(n, now).map(|_| ())
    }

    /// Returns the level; zero once everything has leaked out.
    #[must_use]
    pub fn level(&self) -> f64 {
        self.level_at(self.limiter.now())
    }

    /// Like [`Meter::level`], at a reading of its clock.
    #[must_use]
    pub fn level_at(&self, now: Tick) -> f64 {
        self.limiter.missing_at(now)
    }

    /// Returns the limiter that is metered.
    #[must_use]
    pub const fn limiter(&self) -> &Limiter {
        &self.limiter
    }
}

impl Combine for Meter {
    fn now(&self) -> Tick {
        self.limiter.now()
    }

    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        self.limiter.info_at(now)
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        self.limiter.take_at(n, now)
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        Combine::decide_at(&self.limiter, n, now)
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limiter.peek_at(n, now)
    }

    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        self.limiter.put_back_at(receipt, n, now)
    }

    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        self.limiter.put_back(receipt, n)
    }

    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        self.limiter.owe_at(receipt, n, now)
    }
}
