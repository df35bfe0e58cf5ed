//! A sliding window that records the time of every admission.

mod ring;

use super::amount::Amount;
use super::{ShapeError, limit_of, span_of, take_what_is_left};
use crate::bucket::described::LimitInfo;
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use aliquot_core::unit::{Span, Tick};
use ring::{Ring, Short};
use std::sync::Arc;
use std::time::Duration;

/// At most `limit` admissions in any window of length `W`, exactly. The time of each admission is kept in a
/// ring as long as the limit; `n` are admitted if the `n` oldest in it have left the window.
///
/// A window is closed at one end: an admission exactly `W` ago has left it.
///
/// ```
/// use aliquot_client::clock::Tick;
/// use aliquot_client::shape::SlidingLog;
/// use std::time::Duration;
///
/// let log = SlidingLog::new(2, Duration::from_secs(1))?;
/// let at = |ms: u64| Tick::from_nanos(5_000_000_000 + ms * 1_000_000);
/// assert!(log.try_acquire_at(1, at(0)).is_ok());
/// assert!(log.try_acquire_at(1, at(600)).is_ok());
/// let refused = log.try_acquire_at(1, at(900)).unwrap_err();
/// assert_eq!(refused.retry_after, Some(Duration::from_millis(100)));
/// assert!(log.try_acquire_at(1, at(1_000)).is_ok());
/// # Ok::<(), aliquot_client::shape::ShapeError>(())
/// ```
///
/// # Refunds
///
/// A refund undoes an admission completely, whatever was admitted after it: later admissions move down in the
/// ring. A decision takes no lock. A refund waits for other refunds, and takes time in proportion to the
/// admissions after the refunded one. Meanwhile a decision may be refused as if nothing had been refunded
/// yet. Once the window is over a refund does nothing, since the admission has left by itself.
#[derive(Debug)]
pub struct SlidingLog {
    ring: Ring,
    limit: Amount,
    clock: SharedClock,
}

impl SlidingLog {
    /// Maximum limit: a ring of 16 MiB.
    pub const LIMIT_MAX: u64 = 1 << 20;

    /// Minimum length of a window.
    pub const LENGTH_MIN: Duration = Duration::from_micros(1);

    /// Returns a log with the host's clock. `limit` is from 1 to [`SlidingLog::LIMIT_MAX`], with 16 bytes
    /// each; `length` is from a microsecond to a year.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range.
    pub fn new(limit: u64, length: Duration) -> Result<Self, ShapeError> {
        Self::with_clock(limit, length, Arc::new(HostClock))
    }

    /// Like [`SlidingLog::new`], with another clock.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range.
    pub fn with_clock(
        limit: u64,
        length: Duration,
        clock: SharedClock,
    ) -> Result<Self, ShapeError> {
        let limit = limit_of(limit, Self::LIMIT_MAX)?;
        let length = span_of("length", length, Self::LENGTH_MIN)?;
        Ok(Self::made(limit, Amount::own(limit), length, clock))
    }

    /// Returns this process's part of a log of the whole fleet, as
    /// [`FixedWindow::over`](super::FixedWindow::over) does for a window. The part is at most `most`, with 16
    /// bytes each. In any window of this length the fleet admits at most the budget's burst, exactly.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range; [`ShapeError::NotLeased`] for a local limiter.
    pub fn over(limiter: &Limiter, most: u64, length: Duration) -> Result<Self, ShapeError> {
        let most = limit_of(most, Self::LIMIT_MAX)?;
        let length = span_of("length", length, Self::LENGTH_MIN)?;
        let limit = Amount::of_share(limiter, length, most)?;
        Ok(Self::made(most, limit, length, limiter.clock()))
    }

    fn made(ring: u64, limit: Amount, length: u64, clock: SharedClock) -> Self {
        Self {
            ring: Ring::new(ring, length),
            limit,
            clock,
        }
    }

    /// Takes `n`.
    ///
    /// # Errors
    ///
    /// [`Refused`] with the time until the oldest admissions have left the window; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<(), Refused> {
        self.try_acquire_at(n, self.clock.now())
    }

    /// Like [`SlidingLog::try_acquire`], at a reading of its clock. A reading before the latest counts as the
    /// latest.
    ///
    /// # Errors
    ///
    /// As [`SlidingLog::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limit.rule(n, self.take(n, now)).map(|_| ())
    }

    /// Returns the maximum number of admissions in a window; over a share, the maximum part of the share that
    /// is used.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.ring.slots()
    }

    /// Takes `n`. Returns the time that is recorded for them.
    fn take(&self, n: u64, now: Tick) -> Result<u64, Refused> {
        self.take_last(n, now).map(|(at, _)| at)
    }

    /// Takes `n`. Returns the time that is recorded for them, and the number of all admissions by then.
    fn take_last(&self, n: u64, now: Tick) -> Result<(u64, u64), Refused> {
        let taken = self.ring.take(n, now.nanos(), |at| self.most_at(at));
        taken.map_err(|short| self.refused(n, short))
    }

    fn describe(&self, (used, reset): (u64, Span), now: Tick) -> Option<LimitInfo> {
        let limit = self.limit.at(now).ok()?.min(self.ring.slots());
        Some(LimitInfo::of_window(limit, self.ring.length(), used, reset))
    }

    fn refused(&self, n: u64, short: Short<Refused>) -> Refused {
        match short {
            Short::Limit(refused) => refused,
            Short::Exceeds(limit) => self.limit.exceeds(n, limit),
            Short::Full(wait) => Refused::throttled(wait),
        }
    }

    fn most_at(&self, at: u64) -> Result<u64, Refused> {
        self.limit.at(Tick::from_nanos(at))
    }
}

impl Combine for SlidingLog {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        self.describe(self.ring.used(now.nanos()), now)
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        let in_time = self.limit.in_time();
        self.limit.rule(n, in_time.and_then(|()| self.take(n, now)))
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        let in_time = self.limit.in_time();
        let taken = in_time.and_then(|()| self.take_last(n, now));
        let used = match taken {
            Ok((at, head)) => self.ring.used_by(head, at, now.nanos()),
            Err(_) => self.ring.used(now.nanos()),
        };
        Decision {
            outcome: self.limit.rule(n, taken.map(|(at, _)| at)),
            info: self.describe(used, now),
        }
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        let in_time = self.limit.in_time();
        self.limit.would_rule(in_time.and_then(|()| {
            self.ring
                .peek(n, now.nanos(), |at| self.most_at(at))
                .map_err(|short| self.refused(n, short))
        }))
    }

    /// Takes what is left of the window: it cannot owe, since what is used of it ends with it.
    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        if !self.limit.may_take_more(receipt) {
            return 0;
        }
        let left = || self.info_at(now).map_or(0, |info| info.remaining);
        take_what_is_left(n, left, |part| self.take(part, now).is_ok())
    }

    /// Removes admissions that are still in the window.
    fn put_back_at(&self, receipt: &Receipt, n: u64, _: Tick) -> u64 {
        let taken_at = receipt.window();
        taken_at.map_or(0, |at| self.ring.take_back(at, n.min(receipt.tokens())))
    }
}
