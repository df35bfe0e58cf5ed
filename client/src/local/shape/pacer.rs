//! A leaky bucket as a queue.

use super::{ShapeError, span_of};
use crate::bucket::described::LimitInfo;
use crate::bucket::step::{AtomicWord, Next, update};
use crate::clock::{HostClock, SharedClock};
use crate::limiter::Limiter;
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use crate::observe::counters::Counters;
use crate::observe::mode_guard::ModeGuard;
use crate::observe::switch::{Mode, ModeStats};
use crate::sync::{AtomicU64, Ordering};
use aliquot_core::unit::{Span, Tick};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// A leaky bucket as a queue: one turn per `interval`, in the order of booking, without bursts.
///
/// A turn is a tick. Two turns are at least one interval apart, however long the pacer was idle before. A
/// caller that would wait behind more than `queue` others is refused at once. A caller that is late for its
/// turn does not delay the next ones: they have ticks of their own.
///
/// ```
/// use aliquot_client::clock::Tick;
/// use aliquot_client::shape::Pacer;
/// use std::time::Duration;
///
/// let pacer = Pacer::new(Duration::from_millis(100), 2)?;
/// let now = Tick::from_nanos(1_000_000_000);
/// let turns: Vec<_> = (0..4).map(|_| pacer.book_at(now)).collect();
/// assert_eq!(turns[0].as_ref().unwrap().at(), now);
/// assert_eq!(turns[2].as_ref().unwrap().delay_at(now), Duration::from_millis(200));
/// assert!(turns[3].is_err());
/// # Ok::<(), aliquot_client::shape::ShapeError>(())
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
    line: Mutex<Line>,
}

/// Turns of callers that wait ([`Pacer::turn`]), in the order of booking. They are promised to no tick, so
/// each moves up to the one before it that is given up.
#[derive(Debug, Default)]
struct Line {
    turns: BTreeMap<u64, Booked>,
    next: u64,
}

/// A turn in line: its tick, the tick after it, and its caller.
#[derive(Debug)]
struct Booked {
    at: Tick,
    end: u64,
    wake: Arc<Notify>,
}

/// Time between two turns.
#[derive(Debug)]
enum Interval {
    Own {
        every: AtomicU64,
        guard: ModeGuard,
        /// Notified when the mode has changed.
        change: Notify,
    },
    /// The time in which this limiter's share replenishes one token.
    Shared(Limiter),
}

impl Interval {
    fn at(&self, now: Tick) -> Result<u64, Refused> {
        match self {
            Self::Own { every, .. } => Ok(every.load(Ordering::Acquire)),
            Self::Shared(limiter) => limiter.token_every_at(now),
        }
    }

    fn mode(&self) -> Mode {
        match self {
            Self::Own { guard, .. } => guard.mode(),
            Self::Shared(limiter) => limiter.mode(),
        }
    }

    fn change(&self) -> &Notify {
        match self {
            Self::Own { change, .. } => change,
            Self::Shared(limiter) => limiter.change(),
        }
    }

    /// Applies the mode to a booking of `n` turns; `None` means that it was let through.
    fn rule<T>(&self, n: u64, booked: Result<T, Refused>) -> Result<Option<T>, Refused> {
        match (self, booked) {
            (Self::Shared(limiter), booked) => limiter.rule(n, booked),
            (Self::Own { .. }, Ok(turns)) => Ok(Some(turns)),
            (Self::Own { guard, .. }, Err(refused)) => guard.apply(n, refused).map(|()| None),
        }
    }

    /// Returns what the mode would make of a booking; counts nothing.
    fn would_rule(&self, room: Result<(), Refused>) -> Result<(), Refused> {
        match self {
            Self::Shared(limiter) => room.or_else(|refused| limiter.would_rule(refused)),
            Self::Own { guard, .. } => guard.would_apply(room),
        }
    }
}

/// A turn in a [`Pacer`]'s queue. Dropping it uses the turn up.
#[derive(Debug)]
#[must_use = "the turn is booked: act at `at`, or cancel"]
pub struct Turn {
    pacer: Pacer,
    at: Tick,
    /// Where the next turn begins; `None` if this one was let through by the mode, without a booking.
    end: Option<u64>,
}

impl Pacer {
    /// Returns a pacer with the host's clock: one turn per `interval` (a nanosecond to a year), and at most
    /// `queue` waiting turns.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range.
    pub fn new(interval: Duration, queue: u64) -> Result<Self, ShapeError> {
        Self::with_clock(interval, queue, Arc::new(HostClock))
    }

    /// Like [`Pacer::new`], with another clock.
    ///
    /// # Errors
    ///
    /// [`ShapeError`] naming the value that is out of range.
    pub fn with_clock(
        interval: Duration,
        queue: u64,
        clock: SharedClock,
    ) -> Result<Self, ShapeError> {
        let interval = span_of("interval", interval, Duration::from_nanos(1))?;
        let state = State {
            next: AtomicU64::new(0),
            interval: Interval::Own {
                every: AtomicU64::new(interval),
                guard: ModeGuard::default(),
                change: Notify::const_new(),
            },
            queue,
            clock,
            line: Mutex::default(),
        };
        Ok(Self {
            state: Arc::new(state),
        })
    }

    /// Returns a pacer that follows this limiter's share of the fleet's rate. Turns are as far apart as the
    /// share takes to replenish a token at the time of booking, and nothing is booked without a lease. The
    /// tokens of the share are not taken, so do not also ask the limiter for paced calls.
    ///
    /// # Errors
    ///
    /// [`ShapeError::NotLeased`] for a local limiter.
    pub fn over(limiter: &Limiter, queue: u64) -> Result<Self, ShapeError> {
        if limiter.limit().is_some() {
            return Err(ShapeError::NotLeased);
        }
        let state = State {
            next: AtomicU64::new(0),
            interval: Interval::Shared(limiter.clone()),
            queue,
            clock: limiter.clock(),
            line: Mutex::default(),
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

    /// Like [`Pacer::book`], at a reading of its clock.
    ///
    /// # Errors
    ///
    /// As [`Pacer::book`].
    pub fn book_at(&self, now: Tick) -> Result<Turn, Refused> {
        let queue = match self.mode() {
            Mode::Enforce | Mode::Freeze => self.state.queue,
            Mode::DryRun | Mode::Bypass => 0,
        };
        let booked = self.state.interval.rule(1, self.turns(1, queue, now))?;
        let (at, end) = booked.map_or((now, None), |(at, end)| (at, Some(end)));
        let pacer = self.clone();
        Ok(Turn { pacer, at, end })
    }

    /// Books `n` turns, one after the other. Returns the tick of the first, and the first tick after them.
    fn turns(&self, n: u64, queue: u64, now: Tick) -> Result<(Tick, u64), Refused> {
        update(&self.state.next, |seen| {
            match self.room(seen, (n, queue), now) {
                Ok((at, end)) => Next::Swap(end, Ok((at, end))),
                Err(refused) => Next::Keep(Err(refused)),
            }
        })
    }

    /// Returns what [`Pacer::turns`] would, where `seen` is the first tick that is free.
    fn room(&self, seen: u64, (n, queue): (u64, u64), now: Tick) -> Result<(Tick, u64), Refused> {
        if self.mode() == Mode::Freeze {
            return Err(Refused::FROZEN);
        }
        let interval = self.state.interval.at(now)?;
        let at = seen.max(now.nanos());
        let wait = at - now.nanos();
        let longest = interval.saturating_mul(queue);
        if wait > longest {
            return Err(Refused::throttled(Span::from_nanos(wait - longest)));
        }
        let end = interval.checked_mul(n).and_then(|all| at.checked_add(all));
        let most = || (u64::MAX - at) / interval;
        let end = end.ok_or_else(|| Refused::exceeds(n, most()))?;
        Ok((Tick::from_nanos(at), end))
    }

    /// Waits for the next turn. Dropping the future gives the turn up: callers that wait behind it move up, and
    /// the last turn in line is free again unless a later one was booked ([`Pacer::book`]).
    ///
    /// # Errors
    ///
    /// [`Refused`], at once if the queue is full, or as soon as the pacer is frozen.
    pub async fn turn(&self) -> Result<(), Refused> {
        let Some(place) = self.join()? else {
            return Ok(());
        };
        let State {
            clock, interval, ..
        } = &*self.state;
        loop {
            let changed = interval.change().notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let wait = place.at().since(clock.now());
            if wait.is_zero() {
                place.take();
                return Ok(());
            }
            // Let through or refused, the turn is given up.
            if self.mode() != Mode::Enforce {
                return interval
                    .rule::<()>(1, Err(Refused::throttled(wait)))
                    .map(|_| ());
            }
            tokio::select! {
                () = clock.sleep(Duration::from_nanos(wait.nanos())) => {}
                () = changed => {}
                () = place.wake.notified() => {}
            }
        }
    }

    /// Books a turn, and a place in line if it is not due now.
    fn join(&self) -> Result<Option<Place<'_>>, Refused> {
        let mut line = self.line();
        let turn = self.book()?;
        let Some(end) = turn.end.filter(|_| !turn.delay().is_zero()) else {
            return Ok(None);
        };
        let wake = Arc::new(Notify::new());
        let (number, at) = (line.next, turn.at);
        line.next += 1;
        let same = Arc::clone(&wake);
        line.turns.insert(
            number,
            Booked {
                at,
                end,
                wake: same,
            },
        );
        drop(line);
        let pacer = self;
        Ok(Some(Place {
            pacer,
            number,
            wake,
        }))
    }

    /// A panic leaves nothing under this lock half-done, so a poisoned lock is usable.
    fn line(&self) -> MutexGuard<'_, Line> {
        let line = self.state.line.lock();
        line.unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the interval, at once also for callers that wait ([`Pacer::turn`]): their turns are the new interval
    /// apart, beginning with the turn before them. A turn that was booked ([`Pacer::book`]) keeps its tick, and so
    /// does every caller that waits before it.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Span`], or [`ShapeError::Shared`] over a share; nothing was changed.
    pub fn set_interval(&self, interval: Duration) -> Result<(), ShapeError> {
        let interval = span_of("interval", interval, Duration::from_nanos(1))?;
        let Interval::Own { every, change, .. } = &self.state.interval else {
            return Err(ShapeError::Shared);
        };
        let mut line = self.line();
        self.retime(&mut line, every.load(Ordering::Acquire), interval);
        // Stored last: the turn of a booking in between then ends by the former interval, as `retime` assumes.
        every.store(interval, Ordering::Release);
        drop(line);
        change.notify_waiters();
        Ok(())
    }

    /// Moves the first free tick, and the turns in line that no booked turn follows, from one interval to another.
    fn retime(&self, line: &mut Line, former: u64, interval: u64) {
        let now = self.state.clock.now().nanos();
        let end =
            |first: u64, turns: usize| first.saturating_add(interval.saturating_mul(turns as u64));
        let moved = update(&self.state.next, |seen| {
            // Without a turn so far there is nothing to move.
            if seen == 0 {
                return Next::Keep(None);
            }
            // Each of these turns ends where the next one begins.
            let mut first = seen;
            let moved = line.turns.values().rev().take_while(|turn| {
                let follows = turn.end == first;
                first = if follows { turn.at.nanos() } else { first };
                follows
            });
            let moved = moved.count();
            first = first.saturating_sub(former).saturating_add(interval);
            first = if moved > 0 { first.max(now) } else { first };
            Next::Swap(end(first, moved), Some((first, moved)))
        });
        let (first, moved) = moved.unwrap_or_default();
        let turns = line.turns.values_mut().rev().take(moved);
        for (turn, nth) in turns.zip((0..moved).rev()) {
            (turn.at, turn.end) = (Tick::from_nanos(end(first, nth)), end(first, nth + 1));
        }
    }

    /// Returns the mode in force; over a share, the limiter's.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.state.interval.mode()
    }

    /// Sets the mode for all clones, at once also for waiting callers. Over a share it is the mode of the
    /// limiter, and so of all that use its key.
    pub fn set_mode(&self, mode: Mode) {
        match &self.state.interval {
            Interval::Own { guard, change, .. } => {
                guard.set_mode(mode);
                change.notify_waiters();
            }
            Interval::Shared(limiter) => limiter.set_mode(mode),
        }
    }

    /// Returns how many decisions the mode has changed; over a share, those for the limiter's key.
    #[must_use]
    pub fn mode_stats(&self) -> ModeStats {
        match &self.state.interval {
            Interval::Own { guard, .. } => guard.mode_stats(),
            Interval::Shared(limiter) => limiter.mode_stats(),
        }
    }

    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        match &self.state.interval {
            Interval::Own { guard, .. } => guard.watch(counters),
            Interval::Shared(limiter) => limiter.watch(counters),
        }
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting_at(self.state.clock.now())
    }

    /// Returns the number of turns that are booked and not yet due.
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
    /// Returns the tick at which the turn is due.
    #[must_use]
    pub const fn at(&self) -> Tick {
        self.at
    }

    /// Returns the time until the turn is due.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay_at(self.pacer.state.clock.now())
    }

    /// Like [`Turn::delay`], at a reading of the pacer's clock.
    #[must_use]
    pub const fn delay_at(&self, now: Tick) -> Duration {
        Duration::from_nanos(self.at.since(now).nanos())
    }

    /// Gives the turn up. Returns true if another caller can have it: not if a later turn was booked, since
    /// its tick is promised, nor if the interval was changed since.
    pub fn cancel(self) -> bool {
        self.end.is_some_and(|end| self.pacer.free(self.at, end))
    }
}

impl Pacer {
    /// Describes the pacer, where `next` is the first tick that is free.
    fn describe(&self, next: u64, now: Tick) -> Option<LimitInfo> {
        let interval = self.state.interval.at(now).ok()?;
        let wait = Tick::from_nanos(next).since(now);
        Some(LimitInfo::of_turns(Span::from_nanos(interval), wait))
    }

    /// Frees the turn from `at` to `end` if it is the last one. Returns true if it was.
    fn free(&self, at: Tick, end: u64) -> bool {
        self.state.next.try_swap(end, at.nanos())
    }
}

/// As one of several limits, a pacer admits a request if a turn is due now, and its `n` tokens are `n` turns.
impl Combine for Pacer {
    fn now(&self) -> Tick {
        self.state.clock.now()
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        let taken = self.state.interval.rule(n, self.turns(n, 0, now))?;
        Ok(taken.map_or(Receipt::NOTHING, |(at, end)| Receipt::of_turns(n, at, end)))
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        let seen = self.state.next.load(Ordering::Acquire);
        let room = self.room(seen, (n, 0), now);
        self.state.interval.would_rule(room.map(|_| ()))
    }

    /// The limit is one turn in an interval, or what a second has of them.
    fn info_at(&self, now: Tick) -> Option<LimitInfo> {
        self.describe(self.state.next.load(Ordering::Acquire), now)
    }

    /// Tells what remains by the first tick that is free after this decision.
    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        let found = self.info_at(now);
        let outcome = self.take_at(n, now);
        let end = outcome.ok().and_then(|receipt| receipt.turns());
        let info = match end {
            Some((_, end)) => self.describe(end, now),
            None => found,
        };
        Decision { outcome, info }
    }

    /// Puts back the last turns, unless a later one was booked.
    fn put_back_at(&self, receipt: &Receipt, n: u64, _: Tick) -> u64 {
        let Some((at, end)) = receipt.turns().filter(|_| n > 0) else {
            return 0;
        };
        let n = n.min(receipt.tokens());
        let interval = (end - at.nanos()) / receipt.tokens().max(1);
        match self.free(Tick::from_nanos(end - n * interval), end) {
            true => n,
            false => 0,
        }
    }
}

/// A caller's place in line. Dropping it gives the turn up, unless it was taken.
struct Place<'a> {
    pacer: &'a Pacer,
    number: u64,
    wake: Arc<Notify>,
}

impl Place<'_> {
    /// Returns when the turn is due.
    fn at(&self) -> Tick {
        let line = self.pacer.line();
        let turn = line.turns.get(&self.number);
        turn.map_or(Tick::ZERO, |turn| turn.at)
    }

    /// Uses the turn up, and wakes the next caller in line, whose turn may have become an earlier one.
    fn take(&self) {
        let mut line = self.pacer.line();
        line.turns.remove(&self.number);
        if let Some((_, next)) = line.turns.range(self.number..).next() {
            next.wake.notify_one();
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut line = self.pacer.line();
        let Some(gone) = line.turns.remove(&self.number) else {
            return;
        };
        // Each caller behind moves up to the turn before its own; the last one's is free. A turn that is due
        // is not passed on: it would be used late, and less than an interval before the next one.
        let (mut at, mut end) = (gone.at, gone.end);
        let passes_on = at > self.pacer.state.clock.now();
        for (_, turn) in line.turns.range_mut(self.number..) {
            if passes_on {
                std::mem::swap(&mut turn.at, &mut at);
                std::mem::swap(&mut turn.end, &mut end);
            }
        }
        if let Some((_, next)) = line.turns.range(self.number..).next() {
            next.wake.notify_one();
        }
        self.pacer.free(at, end);
    }
}
