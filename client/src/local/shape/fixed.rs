//! A limit for each window of a grid.

use super::amount::Amount;
use super::{ShapeError, limit_of, span_of, take_what_is_left};
use crate::bucket::described::LimitInfo;
use crate::bucket::step::{Next, update};
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use std::time::Duration;

/// At most `limit` in each window `[k·W, (k + 1)·W)` of its clock.
///
/// Any window of length `W` overlaps two windows of the grid, so it holds at most `2 · limit`. Two bursts
/// around a boundary reach that. The window's number and its use are one atomic word.
///
/// ```
/// use aliquot_client::clock::Tick;
/// use aliquot_client::shape::FixedWindow;
/// use std::time::Duration;
///
/// let window = FixedWindow::new(2, Duration::from_secs(1))?;
/// let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
/// assert!(window.try_acquire_at(2, at(900)).is_ok());
/// let refused = window.try_acquire_at(1, at(900)).unwrap_err();
/// assert_eq!(refused.retry_after, Some(Duration::from_millis(100)));
/// assert!(window.try_acquire_at(2, at(1_000)).is_ok());
/// # Ok::<(), aliquot_client::shape::ShapeError>(())
/// ```
#[derive(Debug)]
pub struct FixedWindow {
    /// The window's number (40 bits) and the tokens used in it.
    word: AtomicU64,
    limit: Amount,
    length: u64,
    clock: SharedClock,
}

impl FixedWindow {
    /// Maximum limit: 2²⁴ − 1.
    pub const LIMIT_MAX: u64 = (1 << Self::USED_BITS) - 1;

    /// Minimum length of a window: their numbers then last for 34 years of uptime.
    pub const LENGTH_MIN: Duration = Duration::from_millis(1);

    const USED_BITS: u32 = 24;

    /// Returns a window with the host's clock. `limit` is from 1 to [`FixedWindow::LIMIT_MAX`], `length` from
    /// [`FixedWindow::LENGTH_MIN`] to a year.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range.
    pub fn new(limit: u64, length: Duration) -> Result<Self, ShapeError> {
        Self::with_clock(limit, length, Arc::new(HostClock))
    }

    /// Like [`FixedWindow::new`], with another clock.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range.
    pub fn with_clock(
        limit: u64,
        length: Duration,
        clock: SharedClock,
    ) -> Result<Self, ShapeError> {
        Ok(Self {
            word: AtomicU64::new(0),
            limit: Amount::own(limit_of(limit, Self::LIMIT_MAX)?),
            length: span_of("length", length, Self::LENGTH_MIN)?,
            clock,
        })
    }

    /// Returns this process's part of a window of the whole fleet.
    ///
    /// The fleet may admit the budget's burst per window. This process may use the part of its share that it
    /// has held for a whole window. So over any window of this length the fleet admits at most twice the
    /// burst, however the share moves between processes. Without a lease nothing is admitted, whatever the
    /// budget's policy.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range; [`ShapeError::NotLeased`] for a local limiter.
    pub fn over(limiter: &Limiter, length: Duration) -> Result<Self, ShapeError> {
        let length = span_of("length", length, Self::LENGTH_MIN)?;
        Ok(Self {
            word: AtomicU64::new(0),
            limit: Amount::of_share(limiter, length, Self::LIMIT_MAX)?,
            length,
            clock: limiter.clock(),
        })
    }

    /// Takes `n` from the present window.
    ///
    /// # Errors
    ///
    /// [`Refused`] with the time until the next window; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<(), Refused> {
        self.try_acquire_at(n, self.clock.now())
    }

    /// Like [`FixedWindow::try_acquire`], at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`FixedWindow::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limit.rule(n, self.take(n, now)).map(|_| ())
    }

    /// Returns the tokens used in the window at `now`.
    #[must_use]
    pub fn used_at(&self, now: Tick) -> u64 {
        self.look(self.word.load(Ordering::Acquire), now).1
    }

    /// Sets the limit from the next decision on: 1 to [`FixedWindow::LIMIT_MAX`]. Earlier admissions still
    /// count. For a window in which the limit changed, the bound is the largest of its limits.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Limit`], or [`ShapeError::Shared`] over a share; nothing was changed.
    pub fn set_limit(&self, limit: u64) -> Result<(), ShapeError> {
        let limit = limit_of(limit, Self::LIMIT_MAX)?;
        self.limit.set(limit)
    }

    /// Returns the window's number and its use. A clock that stepped back stays in the later window.
    fn look(&self, word: u64, now: Tick) -> (u64, u64) {
        let (index, used) = (word >> Self::USED_BITS, word & Self::LIMIT_MAX);
        let present = now.nanos() / self.length;
        match present > index {
            true => (present, 0),
            false => (index, used),
        }
    }

    /// Returns the window's number and its use after `n`, if there is room.
    fn step(&self, seen: u64, n: u64, now: Tick) -> Result<(u64, u64), Refused> {
        let limit = self.limit.at(now)?;
        let (index, used) = self.look(seen, now);
        if n > limit {
            return Err(self.limit.exceeds(n, limit));
        }
        if used + n > limit {
            let next = Tick::from_nanos((index + 1).saturating_mul(self.length));
            return Err(Refused::throttled(next.since(now)));
        }
        Ok((index, used + n))
    }

    /// Takes `n`. Returns the window's number.
    fn take(&self, n: u64, now: Tick) -> Result<u64, Refused> {
        self.take_and_look(n, now).0
    }

    /// Takes `n`. Returns the window's number, and that number and the use of the window as this left or found it.
    fn take_and_look(&self, n: u64, now: Tick) -> (Result<u64, Refused>, (u64, u64)) {
        update(&self.word, |seen| match self.step(seen, n, now) {
            Ok((index, used)) => {
                let next = index << Self::USED_BITS | used;
                Next::Swap(next, (Ok(index), (index, used)))
            }
            Err(refused) => Next::Keep((Err(refused), self.look(seen, now))),
        })
    }

    fn describe(&self, (index, used): (u64, u64), now: Tick) -> Option<LimitInfo> {
        let next = Tick::from_nanos((index + 1).saturating_mul(self.length));
        let reset = if used > 0 {
            next.since(now)
        } else {
            Span::ZERO
        };
        let length = Span::from_nanos(self.length);
        let limit = self.limit.at(now).ok()?;
        Some(LimitInfo::of_window(limit, length, used, reset))
    }
}

impl Combine for FixedWindow {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        self.describe(self.look(self.word.load(Ordering::Acquire), now), now)
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        let in_time = self.limit.in_time();
        self.limit.rule(n, in_time.and_then(|()| self.take(n, now)))
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        let (taken, seen) = match self.limit.in_time() {
            Ok(()) => self.take_and_look(n, now),
            Err(refused) => (
                Err(refused),
                self.look(self.word.load(Ordering::Acquire), now),
            ),
        };
        Decision {
            outcome: self.limit.rule(n, taken),
            info: self.describe(seen, now),
        }
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        let in_time = self.limit.in_time();
        self.limit.would_rule(in_time.and_then(|()| {
            self.step(self.word.load(Ordering::Acquire), n, now)
                .map(|_| ())
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

    /// Puts tokens back into the window that they were taken from, while it is the present one.
    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        let Some(taken_in) = receipt.window() else {
            return 0;
        };
        update(&self.word, |seen| {
            let (index, used) = self.look(seen, now);
            let back = n.min(receipt.tokens()).min(used);
            match index != taken_in || back == 0 {
                true => Next::Keep(0),
                false => Next::Swap(index << Self::USED_BITS | (used - back), back),
            }
        })
    }
}
