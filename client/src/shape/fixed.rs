//! So many in each window of a grid.

use super::amount::Amount;
use super::{EXCEEDS, ShapeError, limit_of, span_of, throttled};
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::refused::Refused;
use crate::sync::{AtomicU64, Ordering};
use crate::tier::{Slip, Tier};
use aliquot_core::unit::Tick;
use std::sync::Arc;
use std::time::Duration;

/// At most `limit` in each window `[k·W, (k + 1)·W)` of its clock.
///
/// The end of one window and the start of the next are as close as can be, so any
/// window of length `W` holds at most `2 · limit`, and two bursts at a boundary
/// attain that. The window and what is used of it are one word.
///
/// ```
/// use aliquot_client::{FixedWindow, Tick};
/// use std::time::Duration;
///
/// let window = FixedWindow::new(2, Duration::from_secs(1))?;
/// let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
/// assert!(window.try_acquire_at(2, at(900)).is_ok());
/// let refused = window.try_acquire_at(1, at(900)).unwrap_err();
/// assert_eq!(refused.retry_after, Some(Duration::from_millis(100)));
/// assert!(window.try_acquire_at(2, at(1_000)).is_ok());
/// # Ok::<(), aliquot_client::ShapeError>(())
/// ```
#[derive(Debug)]
pub struct FixedWindow {
    /// The window's number in 40 bits, and what is used of it.
    word: AtomicU64,
    limit: Amount,
    length: u64,
    clock: SharedClock,
}

impl FixedWindow {
    /// The greatest limit: 2²⁴ − 1.
    pub const LIMIT_MAX: u64 = (1 << Self::USED_BITS) - 1;

    /// The shortest window: their numbers then last for 34 years of uptime.
    pub const LENGTH_MIN: Duration = Duration::from_millis(1);

    const USED_BITS: u32 = 24;

    /// A window by the host's clock: `limit` from 1 to [`FixedWindow::LIMIT_MAX`], `length` from
    /// [`FixedWindow::LENGTH_MIN`] to a year.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range.
    pub fn new(limit: u64, length: Duration) -> Result<Self, ShapeError> {
        Self::with_clock(limit, length, Arc::new(HostClock))
    }

    /// [`FixedWindow::new`] by another clock.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range.
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

    /// The part of a window of the whole fleet that is this process's: the budget's burst is what the fleet may
    /// admit, and of this process's share of it counts what it has held for a whole window. So over
    /// any window of the same length the fleet admits at most twice the burst, whoever holds how much of it when. While
    /// there is no lease nothing is admitted, whatever the budget's policy.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range; [`ShapeError::NotLeased`].
    pub fn over(limiter: &Limiter, length: Duration) -> Result<Self, ShapeError> {
        let length = span_of("length", length, Self::LENGTH_MIN)?;
        Ok(Self {
            word: AtomicU64::new(0),
            limit: Amount::of_share(limiter, length, Self::LIMIT_MAX)?,
            length,
            clock: limiter.clock(),
        })
    }

    /// Takes `n` out of the present window.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the time to the next window; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<(), Refused> {
        self.try_acquire_at(n, self.clock.now())
    }

    /// [`FixedWindow::try_acquire`] at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`FixedWindow::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limit.rule(n, self.take(n, now)).map(|_| ())
    }

    /// What was used of the window at `now`.
    #[must_use]
    pub fn used_at(&self, now: Tick) -> u64 {
        self.look(self.word.load(Ordering::Acquire), now).1
    }

    /// Another limit from the next decision on: 1 to [`FixedWindow::LIMIT_MAX`]. What was
    /// admitted stays; over a window in which it changed, the greatest counts.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Limit`], and [`ShapeError::Shared`] over a share; nothing was changed.
    pub fn set_limit(&self, limit: u64) -> Result<(), ShapeError> {
        let limit = limit_of(limit, Self::LIMIT_MAX)?;
        self.limit.set(limit)
    }

    /// The window's number and what is used of it; a clock that stepped back stays in the later one.
    fn look(&self, word: u64, now: Tick) -> (u64, u64) {
        let (index, used) = (word >> Self::USED_BITS, word & Self::LIMIT_MAX);
        let present = now.nanos() / self.length;
        match present > index {
            true => (present, 0),
            false => (index, used),
        }
    }

    /// The window's number and what is used of it after `n`, if there is room.
    fn step(&self, seen: u64, n: u64, now: Tick) -> Result<(u64, u64), Refused> {
        let limit = self.limit.at(now)?;
        let (index, used) = self.look(seen, now);
        if n > limit {
            return Err(EXCEEDS);
        }
        if used + n > limit {
            let next = Tick::from_nanos((index + 1).saturating_mul(self.length));
            return Err(throttled(next.since(now)));
        }
        Ok((index, used + n))
    }

    /// Takes `n`, and answers the window's number.
    fn take(&self, n: u64, now: Tick) -> Result<u64, Refused> {
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            let (index, used) = self.step(seen, n, now)?;
            match self.swap(seen, index << Self::USED_BITS | used) {
                Ok(_) => return Ok(index),
                Err(found) => seen = found,
            }
        }
    }

    fn swap(&self, seen: u64, next: u64) -> Result<u64, u64> {
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        self.word.compare_exchange_weak(seen, next, done, found)
    }
}

impl Tier for FixedWindow {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Slip, Refused> {
        let in_time = self.limit.in_time();
        self.limit.rule(n, in_time.and_then(|()| self.take(n, now)))
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        let in_time = self.limit.in_time();
        self.limit.would_rule(in_time.and_then(|()| {
            self.step(self.word.load(Ordering::Acquire), n, now)
                .map(|_| ())
        }))
    }

    /// What is put back counts in the window that it was taken from, while that is the present one.
    fn put_back_at(&self, slip: &Slip, n: u64, now: Tick) -> u64 {
        let Some(taken_in) = slip.window() else {
            return 0;
        };
        let mut seen = self.word.load(Ordering::Acquire);
        loop {
            let (index, used) = self.look(seen, now);
            let back = n.min(slip.tokens()).min(used);
            if index != taken_in || back == 0 {
                return 0;
            }
            match self.swap(seen, index << Self::USED_BITS | (used - back)) {
                Ok(_) => return back,
                Err(found) => seen = found,
            }
        }
    }
}
