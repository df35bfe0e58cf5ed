//! A sliding window that keeps only two counts.

use super::amount::Amount;
use super::{ShapeError, limit_of, span_of, take_what_is_left};
use crate::bucket::described::LimitInfo;
use crate::bucket::step::{AtomicWord, Next, update};
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use std::time::Duration;

/// At most `limit` in the last `W`, as estimated from two counts.
///
/// With `prev` admitted in the last window of the grid, `cur` in the present one, and a part `f` of the
/// present one passed, `n` are admitted if
///
/// > `⌈prev · (1 − f)⌉ + cur + n ≤ limit`.
///
/// This assumes that the admissions of the last window were spread evenly. If they were, the last `W` hold at
/// most `limit`, and the estimate is exact to one. If they all came at its end, the last `W` hold
/// `prev + cur ≤ limit + prev · f`: less than `2 · limit`, and no more than `limit` at the start of a window.
///
/// ```
/// use aliquot_client::clock::Tick;
/// use aliquot_client::shape::SlidingCounter;
/// use std::time::Duration;
///
/// let counter = SlidingCounter::new(10, Duration::from_secs(1))?;
/// let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
/// assert!(counter.try_acquire_at(10, at(500)).is_ok());
/// assert!(counter.try_acquire_at(1, at(1_000)).is_err());
/// assert!(counter.try_acquire_at(5, at(1_500)).is_ok());
/// assert!(counter.try_acquire_at(1, at(1_500)).is_err());
/// # Ok::<(), aliquot_client::shape::ShapeError>(())
/// ```
#[derive(Debug)]
pub struct SlidingCounter {
    /// Words of the even and of the odd window: number, whether the window is over, and count.
    words: [AtomicU64; 2],
    limit: Amount,
    length: u64,
    clock: SharedClock,
}

/// Content of a word.
#[derive(Clone, Copy)]
struct Count {
    index: u64,
    /// True if a later window has begun and relies on this count.
    over: bool,
    used: u64,
}

impl Count {
    const fn unpack(word: u64) -> Self {
        Self {
            index: word >> 25,
            over: word & 1 << 24 != 0,
            used: word & SlidingCounter::LIMIT_MAX,
        }
    }

    const fn pack(self) -> u64 {
        self.index << 25 | (self.over as u64) << 24 | self.used
    }
}

/// Both counts, as one decision sees them.
struct Look {
    index: u64,
    now: Tick,
    /// The word of the present window, as it was loaded.
    seen: u64,
    used: u64,
    previous: u64,
}

impl SlidingCounter {
    /// Maximum limit: 2²⁴ − 1.
    pub const LIMIT_MAX: u64 = (1 << 24) - 1;

    /// Minimum length of a window: their numbers then last for 17 years of uptime.
    pub const LENGTH_MIN: Duration = Duration::from_millis(1);

    /// Returns a counter with the host's clock. `limit` is from 1 to [`SlidingCounter::LIMIT_MAX`], `length`
    /// from [`SlidingCounter::LENGTH_MIN`] to a year.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range.
    pub fn new(limit: u64, length: Duration) -> Result<Self, ShapeError> {
        Self::with_clock(limit, length, Arc::new(HostClock))
    }

    /// Like [`SlidingCounter::new`], with another clock.
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
            words: [AtomicU64::new(0), AtomicU64::new(0)],
            limit: Amount::own(limit_of(limit, Self::LIMIT_MAX)?),
            length: span_of("length", length, Self::LENGTH_MIN)?,
            clock,
        })
    }

    /// Returns this process's part of a counter of the whole fleet, as
    /// [`FixedWindow::over`](super::FixedWindow::over) does for a window. Over any window of this length the
    /// fleet admits less than twice the budget's burst.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range; [`ShapeError::NotLeased`] for a local limiter.
    pub fn over(limiter: &Limiter, length: Duration) -> Result<Self, ShapeError> {
        let length = span_of("length", length, Self::LENGTH_MIN)?;
        Ok(Self {
            words: [AtomicU64::new(0), AtomicU64::new(0)],
            limit: Amount::of_share(limiter, length, Self::LIMIT_MAX)?,
            length,
            clock: limiter.clock(),
        })
    }

    /// Takes `n`.
    ///
    /// # Errors
    ///
    /// [`Refused`] with the time until there is room, as far as is known; nothing was taken.
    pub fn try_acquire(&self, n: u64) -> Result<(), Refused> {
        self.try_acquire_at(n, self.clock.now())
    }

    /// Like [`SlidingCounter::try_acquire`], at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`SlidingCounter::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.limit.rule(n, self.take(n, now)).map(|_| ())
    }

    /// Sets the limit from the next decision on: 1 to [`SlidingCounter::LIMIT_MAX`].
    ///
    /// # Errors
    ///
    /// [`ShapeError::Limit`], or [`ShapeError::Shared`] over a share; nothing was changed.
    pub fn set_limit(&self, limit: u64) -> Result<(), ShapeError> {
        let limit = limit_of(limit, Self::LIMIT_MAX)?;
        self.limit.set(limit)
    }

    /// Returns both counts at `now`. The last window is first marked as over, so that no thread adds to it
    /// any more: this decision relies on its count.
    fn look(&self, now: Tick) -> Look {
        let mut index = now.nanos() / self.length;
        loop {
            let [present, last] = [index, index.wrapping_sub(1)].map(|index| index & 1);
            let word = &self.words[last as usize];
            let seen = word.load(Ordering::Acquire);
            let count = Count::unpack(seen);
            if count.index > index {
                // The clock stepped back, or this thread is late: the later window decides.
                index = count.index;
                continue;
            }
            let is_last = count.index + 1 == index;
            if is_last && !count.over {
                let over = Count {
                    over: true,
                    ..count
                };
                let _marked = word.try_swap(seen, over.pack());
                continue;
            }
            let seen = self.words[present as usize].load(Ordering::Acquire);
            let here = Count::unpack(seen);
            if here.index > index {
                index = here.index;
                continue;
            }
            if here.index == index && here.over {
                index += 1;
                continue;
            }
            return Look {
                index,
                now: now.max(Tick::from_nanos(index.saturating_mul(self.length))),
                seen,
                used: if here.index == index { here.used } else { 0 },
                previous: if is_last { count.used } else { 0 },
            };
        }
    }

    /// Returns the tokens of the last window that still count, if they were spread evenly over it.
    fn still_counted(&self, look: &Look) -> u64 {
        let gone = look.now.nanos() - look.index * self.length;
        let rest = u128::from(look.previous) * u128::from(self.length - gone.min(self.length));
        // At most `previous`, so it fits.
        rest.div_ceil(u128::from(self.length)) as u64
    }

    /// Returns the tokens used after `n`, if there is room.
    fn step(&self, look: &Look, n: u64, now: Tick) -> Result<u64, Refused> {
        let limit = self.limit.at(now)?;
        if n > limit {
            return Err(self.limit.exceeds(n, limit));
        }
        if self.still_counted(look) + look.used + n <= limit {
            return Ok(look.used + n);
        }
        // Retry when enough of the last window has slid out. If that is not enough, retry in the next window,
        // once enough of the present one has.
        let (index, slides, room) = match limit.checked_sub(look.used + n) {
            Some(room) => (look.index, look.previous, room),
            None => (look.index + 1, look.used, limit - n),
        };
        let keep = u128::from(room) * u128::from(self.length) / u128::from(slides.max(1));
        let gone = self.length - u64::try_from(keep).unwrap_or(0).min(self.length);
        let at = index.saturating_mul(self.length).saturating_add(gone);
        Err(Refused::throttled(
            Tick::from_nanos(at).since(now).max(Span::from_nanos(1)),
        ))
    }

    /// Takes `n`. Returns the window's number.
    fn take(&self, n: u64, now: Tick) -> Result<u64, Refused> {
        self.take_and_look(n, now).0
    }

    /// Takes `n`. Returns the window's number, and both counts as this left or found them.
    fn take_and_look(&self, n: u64, now: Tick) -> (Result<u64, Refused>, Look) {
        loop {
            let look = self.look(now);
            let used = match self.step(&look, n, now) {
                Ok(used) => used,
                Err(refused) => return (Err(refused), look),
            };
            let next = Count {
                index: look.index,
                over: false,
                used,
            };
            let word = &self.words[(look.index & 1) as usize];
            if word.try_swap(look.seen, next.pack()) {
                return (Ok(look.index), Look { used, ..look });
            }
        }
    }

    /// Describes both counts. An empty window is one after the last in which tokens were used.
    fn describe(&self, look: &Look, now: Tick) -> Option<LimitInfo> {
        let windows = match (look.used, look.previous) {
            (0, 0) => 0,
            (0, _) => 1,
            _ => 2,
        };
        let end = (look.index + windows).saturating_mul(self.length);
        let used = self.still_counted(look) + look.used;
        let reset = Tick::from_nanos(end).since(now);
        let limit = self.limit.at(now).ok()?;
        let length = Span::from_nanos(self.length);
        Some(LimitInfo::of_window(limit, length, used, reset))
    }
}

impl Combine for SlidingCounter {
    fn now(&self) -> Tick {
        self.clock.now()
    }

    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        self.describe(&self.look(now), now)
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        let in_time = self.limit.in_time();
        self.limit.rule(n, in_time.and_then(|()| self.take(n, now)))
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        let (taken, seen) = match self.limit.in_time() {
            Ok(()) => self.take_and_look(n, now),
            Err(refused) => (Err(refused), self.look(now)),
        };
        Decision {
            outcome: self.limit.rule(n, taken),
            info: self.describe(&seen, now),
        }
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        let in_time = self.limit.in_time();
        self.limit
            .would_rule(in_time.and_then(|()| self.step(&self.look(now), n, now).map(|_| ())))
    }

    /// Takes what is left of the window: it cannot owe, since what is used of it ends with it.
    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        if !self.limit.may_take_more(receipt) {
            return 0;
        }
        let left = || self.info_at(now).map_or(0, |info| info.remaining);
        take_what_is_left(n, left, |part| self.take(part, now).is_ok())
    }

    /// Puts tokens back while the window that they were taken from is the present one or the last. Decisions
    /// rely on the count of the last one; none becomes wrong because that was less.
    fn put_back_at(&self, receipt: &Receipt, n: u64, _: Tick) -> u64 {
        let Some(index) = receipt.window() else {
            return 0;
        };
        update(&self.words[(index & 1) as usize], |seen| {
            let count = Count::unpack(seen);
            let back = n.min(receipt.tokens()).min(count.used);
            if count.index != index || back == 0 {
                return Next::Keep(0);
            }
            let next = Count {
                used: count.used - back,
                ..count
            };
            Next::Swap(next.pack(), back)
        })
    }
}
