//! A leaky bucket that queues.

use super::{ShapeError, span_of, throttled};
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::refused::{Reason, Refused};
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use std::time::Duration;

/// A leaky bucket as a queue: one turn each `interval`, in the order in which they were
/// asked for, and no burst at all.
///
/// A turn is a tick. Two turns are never closer than the interval, however long nobody
/// came before; who would have to wait behind more than `queue` others is refused at once. Who
/// comes late to its turn is not late for those behind it: they have ticks of their own.
///
/// ```
/// use aliquot_client::{Pacer, Tick};
/// use std::time::Duration;
///
/// let pacer = Pacer::new(Duration::from_millis(100), 2)?;
/// let now = Tick::from_nanos(1_000_000_000);
/// let turns: Vec<_> = (0..4).map(|_| pacer.book_at(now)).collect();
/// assert_eq!(turns[0].as_ref().unwrap().at(), now);
/// assert_eq!(turns[2].as_ref().unwrap().delay_at(now), Duration::from_millis(200));
/// assert!(turns[3].is_err());
/// # Ok::<(), aliquot_client::ShapeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pacer {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// The first tick that is free.
    next: AtomicU64,
    interval: Interval,
    queue: u64,
    clock: SharedClock,
}

/// The time from one turn to the next.
#[derive(Debug)]
enum Interval {
    Own(AtomicU64),
    /// That in which this limiter's share makes one token.
    Shared(Limiter),
}

impl Interval {
    fn at(&self, now: Tick) -> Result<u64, Refused> {
        match self {
            Self::Own(interval) => Ok(interval.load(Ordering::Acquire)),
            Self::Shared(limiter) => limiter.token_every_at(now),
        }
    }
}

/// A turn in a [`Pacer`]'s queue. Dropping it uses it up.
#[derive(Debug)]
#[must_use = "the turn is booked: act at `at`, or cancel"]
pub struct Turn {
    pacer: Pacer,
    at: Tick,
    end: u64,
}

impl Pacer {
    /// A pacer by the host's clock: a turn each `interval`, a nanosecond to a year, and at most
    /// `queue` that wait.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range.
    pub fn new(interval: Duration, queue: u64) -> Result<Self, ShapeError> {
        Self::with_clock(interval, queue, Arc::new(HostClock))
    }

    /// [`Pacer::new`] by another clock.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], naming what is out of range.
    pub fn with_clock(
        interval: Duration,
        queue: u64,
        clock: SharedClock,
    ) -> Result<Self, ShapeError> {
        let interval = span_of("interval", interval, Duration::from_nanos(1))?;
        let state = State {
            next: AtomicU64::new(0),
            interval: Interval::Own(AtomicU64::new(interval)),
            queue,
            clock,
        };
        Ok(Self {
            state: Arc::new(state),
        })
    }

    /// A pacer by this limiter's share of the fleet's rate, as it is at each booking: turns are as far apart as the
    /// share takes to make a token, and nothing is booked without a lease. The share's tokens are not
    /// taken: what is paced is not to be asked of the limiter as well.
    ///
    /// # Errors
    ///
    /// [`ShapeError::NotLeased`].
    pub fn over(limiter: &Limiter, queue: u64) -> Result<Self, ShapeError> {
        if limiter.limit().is_some() {
            return Err(ShapeError::NotLeased);
        }
        let state = State {
            next: AtomicU64::new(0),
            interval: Interval::Shared(limiter.clone()),
            queue,
            clock: limiter.clock(),
        };
        Ok(Self {
            state: Arc::new(state),
        })
    }

    /// Books the next turn.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the queue is full, with the time until it is not; nothing was booked.
    pub fn book(&self) -> Result<Turn, Refused> {
        self.book_at(self.state.clock.now())
    }

    /// [`Pacer::book`] at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`Pacer::book`].
    pub fn book_at(&self, now: Tick) -> Result<Turn, Refused> {
        let booked = self.next_turn(now);
        if let Interval::Shared(limiter) = &self.state.interval {
            limiter.wanted(1, booked.is_ok());
        }
        booked
    }

    fn next_turn(&self, now: Tick) -> Result<Turn, Refused> {
        let state = &self.state;
        let mut seen = state.next.load(Ordering::Acquire);
        loop {
            let interval = state.interval.at(now)?;
            let at = seen.max(now.nanos());
            let wait = at - now.nanos();
            let longest = interval.saturating_mul(state.queue);
            if wait > longest {
                return Err(throttled(Span::from_nanos(wait - longest)));
            }
            let Some(end) = at.checked_add(interval) else {
                return Err(Refused::from(Reason::ExceedsBurst));
            };
            let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
            match state.next.compare_exchange_weak(seen, end, done, found) {
                Ok(_) => {
                    return Ok(Turn {
                        pacer: self.clone(),
                        at: Tick::from_nanos(at),
                        end,
                    });
                }
                Err(found) => seen = found,
            }
        }
    }

    /// Waits for the next turn. Dropping the future gives it up: others have it, if nobody
    /// booked after it.
    ///
    /// # Errors
    ///
    /// [`Refused`] at once if the queue is full.
    pub async fn turn(&self) -> Result<(), Refused> {
        let mut booked = Booked(Some(self.book()?));
        let at = booked.0.as_ref().map_or(Tick::from_nanos(0), Turn::at);
        let clock = &self.state.clock;
        loop {
            let wait = at.since(clock.now());
            if wait.is_zero() {
                break;
            }
            clock.sleep(Duration::from_nanos(wait.nanos())).await;
        }
        booked.0 = None;
        Ok(())
    }

    /// Another interval from the next booking on; turns that are booked keep their ticks.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Span`], and [`ShapeError::Shared`] over a share; nothing was changed.
    pub fn set_interval(&self, interval: Duration) -> Result<(), ShapeError> {
        let interval = span_of("interval", interval, Duration::from_nanos(1))?;
        match &self.state.interval {
            Interval::Own(own) => own.store(interval, Ordering::Release),
            Interval::Shared(_) => return Err(ShapeError::Shared),
        }
        Ok(())
    }

    /// How many turns are booked and not yet due.
    #[must_use]
    pub fn waiting_at(&self, now: Tick) -> u64 {
        let next = self.state.next.load(Ordering::Acquire);
        let Ok(interval) = self.state.interval.at(now) else {
            return 0;
        };
        next.saturating_sub(now.nanos()).saturating_sub(1) / interval
    }
}

impl Turn {
    /// The clock reading that it is due at.
    #[must_use]
    pub const fn at(&self) -> Tick {
        self.at
    }

    /// How long to wait for it.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay_at(self.pacer.state.clock.now())
    }

    /// [`Turn::delay`] at a reading of the pacer's clock.
    #[must_use]
    pub const fn delay_at(&self, now: Tick) -> Duration {
        Duration::from_nanos(self.at.since(now).nanos())
    }

    /// Gives it up. Whether the next one gets it: not if somebody booked after it, since those
    /// ticks are promised.
    pub fn cancel(self) -> bool {
        let (done, found) = (Ordering::AcqRel, Ordering::Acquire);
        let next = &self.pacer.state.next;
        let at = self.at.nanos();
        next.compare_exchange(self.end, at, done, found).is_ok()
    }
}

/// A turn that is given up by whoever does not wait for it.
struct Booked(Option<Turn>);

impl Drop for Booked {
    fn drop(&mut self) {
        if let Some(turn) = self.0.take() {
            turn.cancel();
        }
    }
}
