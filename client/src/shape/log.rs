//! A sliding window of which every admission is remembered.

use super::amount::Amount;
use super::{EXCEEDS, ShapeError, limit_of, span_of, throttled};
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::refused::Refused;
use crate::sync::{AtomicU64, Ordering};
use crate::tier::{Slip, Tier};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use std::time::Duration;

/// At most `limit` in any window of length `W`, exactly: each admission's time is kept
/// in a ring as long as the limit, and `n` are admitted when the `n` oldest in it have left the window.
///
/// A window here is closed at one end: what was admitted exactly `W` ago has left it.
///
/// ```
/// use aliquot_client::{SlidingLog, Tick};
/// use std::time::Duration;
///
/// let log = SlidingLog::new(2, Duration::from_secs(1))?;
/// let at = |ms: u64| Tick::from_nanos(5_000_000_000 + ms * 1_000_000);
/// assert!(log.try_acquire_at(1, at(0)).is_ok());
/// assert!(log.try_acquire_at(1, at(600)).is_ok());
/// let refused = log.try_acquire_at(1, at(900)).unwrap_err();
/// assert_eq!(refused.retry_after, Some(Duration::from_millis(100)));
/// assert!(log.try_acquire_at(1, at(1_000)).is_ok());
/// # Ok::<(), aliquot_client::ShapeError>(())
/// ```
///
/// # How it is exact without a lock
///
/// The head counts admissions. Who is admitted moves it from `h` to `h + n` and then
/// writes the time into the slots `h … h + n − 1`, with their numbers behind it. Who asks reads
/// the slot that was written a ring ago; if its number is not that one's, its writer is
/// under way, so it was admitted just now, and the answer is no. Times never go
/// back along the ring: a decision's time is at least the latest that anybody brought
/// before the head that it moves was set.
#[derive(Debug)]
pub struct SlidingLog {
    head: AtomicU64,
    latest: AtomicU64,
    ring: Box<[Slot]>,
    limit: Amount,
    length: u64,
    clock: SharedClock,
}

#[derive(Debug)]
struct Slot {
    at: AtomicU64,
    /// The number of the admission that was written here, plus one.
    number: AtomicU64,
}

impl SlidingLog {
    /// The greatest limit: a ring of 16 MiB.
    pub const LIMIT_MAX: u64 = 1 << 20;

    /// The shortest window.
    pub const LENGTH_MIN: Duration = Duration::from_micros(1);

    /// A log by the host's clock: `limit` from 1 to [`SlidingLog::LIMIT_MAX`], 16 bytes each; `length`
    /// from a microsecond to a year.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range.
    pub fn new(limit: u64, length: Duration) -> Result<Self, ShapeError> {
        Self::with_clock(limit, length, Arc::new(HostClock))
    }

    /// [`SlidingLog::new`] by another clock.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range.
    pub fn with_clock(
        limit: u64,
        length: Duration,
        clock: SharedClock,
    ) -> Result<Self, ShapeError> {
        let limit = limit_of(limit, Self::LIMIT_MAX)?;
        let length = span_of("length", length, Self::LENGTH_MIN)?;
        Ok(Self::made(limit, Amount::own(limit), length, clock))
    }

    /// The part of a log of the whole fleet that is this process's, as of [`FixedWindow::over`](super::FixedWindow::over), at most
    /// `most` of it, 16 bytes each: in any window of the same length the fleet admits at most the budget's burst, exactly.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range; [`ShapeError::NotLeased`].
    pub fn over(limiter: &Limiter, most: u64, length: Duration) -> Result<Self, ShapeError> {
        let most = limit_of(most, Self::LIMIT_MAX)?;
        let length = span_of("length", length, Self::LENGTH_MIN)?;
        let limit = Amount::of_share(limiter, length, most)?;
        Ok(Self::made(most, limit, length, limiter.clock()))
    }

    fn made(ring: u64, limit: Amount, length: u64, clock: SharedClock) -> Self {
        let slot = |_| Slot {
            at: AtomicU64::new(0),
            number: AtomicU64::new(0),
        };
        Self {
            head: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            ring: (0..ring).map(slot).collect(),
            limit,
            length,
            clock,
        }
    }

    /// Takes `n`.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the time until the oldest have left the window; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<(), Refused> {
        self.try_acquire_at(n, self.clock.now())
    }

    /// [`SlidingLog::try_acquire`] at a reading of its clock. A reading behind the latest counts as that.
    ///
    /// # Errors
    ///
    /// As [`SlidingLog::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limit.tell(n, self.take(n, now)).map(|_| ())
    }

    /// The most in any window: over a share, the most of that which it uses.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.ring.len() as u64
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.ring[(number % self.limit()) as usize]
    }

    /// Whether `n` may follow the first `head` at `at`: the `n` oldest in the ring are
    /// written and have left.
    fn room(&self, head: u64, n: u64, at: u64) -> Result<(), Refused> {
        let limit = self.limit.at(Tick::from_nanos(at))?;
        if n > limit {
            return Err(EXCEEDS);
        }
        // Those that are overwritten, and the last of those that must have left. Times grow, so with it all before it have.
        let first = head.saturating_sub(self.limit());
        let overwritten = first..(head + n).saturating_sub(self.limit());
        let last = (head + n).checked_sub(limit + 1).filter(|_| n > 0);
        for oldest in overwritten.chain(last) {
            let slot = self.slot(oldest);
            let written = slot.number.load(Ordering::Acquire) == oldest + 1;
            let from = if written {
                slot.at.load(Ordering::Relaxed)
            } else {
                at
            };
            let leaves = from.saturating_add(self.length);
            if leaves > at {
                return Err(throttled(self.leaves(head + n - 1 - limit, at)));
            }
        }
        Ok(())
    }

    /// How long until what the admission `number` replaces has left.
    fn leaves(&self, number: u64, at: u64) -> Span {
        let slot = self.slot(number);
        let left = slot.at.load(Ordering::Relaxed).saturating_add(self.length);
        Span::from_nanos(left.saturating_sub(at).clamp(1, self.length))
    }

    /// Takes `n`, and answers the number of the first.
    fn take(&self, n: u64, now: Tick) -> Result<u64, Refused> {
        self.latest.fetch_max(now.nanos(), Ordering::AcqRel);
        loop {
            let head = self.head.load(Ordering::Acquire);
            // At least the time of everybody who moved the head before.
            let at = self.latest.load(Ordering::Acquire);
            let room = self.room(head, n, at);
            if room.is_err() && self.head.load(Ordering::Acquire) != head {
                continue;
            }
            room?;
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            let moved = self.head.compare_exchange(head, head + n, done, found);
            if moved.is_err() {
                continue;
            }
            for number in head..head + n {
                let slot = self.slot(number);
                slot.at.store(at, Ordering::Relaxed);
                slot.number.store(number + 1, Ordering::Release);
            }
            return Ok(head);
        }
    }
}

impl Tier for SlidingLog {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Slip, Refused> {
        let in_time = self.limit.in_time();
        let taken = in_time.and_then(|()| self.take(n, now));
        let taken = self.limit.tell(n, taken);
        taken.map(|head| Slip::of_window(n, head))
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limit.in_time()?;
        let at = self.latest.load(Ordering::Acquire).max(now.nanos());
        self.room(self.head.load(Ordering::Acquire), n, at)
    }

    /// Nothing is put back: what was admitted is remembered until it has left. In
    /// layers, a log is asked last.
    fn put_back_at(&self, _: &Slip, _: u64, _: Tick) -> u64 {
        0
    }
}
