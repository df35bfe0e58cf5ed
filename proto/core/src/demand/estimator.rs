//! How much callers want.

use crate::planted::{self, Bug};
use crate::unit::{Span, Tick};

/// What callers wanted since the last observation, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Let through.
    pub admitted: u64,
    /// Turned away.
    pub denied: u64,
    /// Still waiting at this moment, all together.
    pub waiting: u64,
    /// The greatest single cost among those waiting.
    pub waiting_largest: u64,
}

/// Demand: what callers **wanted** (admitted, denied and waiting), not what
/// they got, or a claimant that is held short would seem to want no more.
///
/// Time is cut into ticks. A tick in which more was wanted than the estimate
/// raises it at once, already before the tick is over; one in which less was
/// wanted lowers it by an eighth of the difference, rounded up, so that it
/// comes to exactly 0 after [`Estimator::SILENT_TICKS`] at the latest. A stream
/// that was dense for [`Estimator::DENSE_TICKS`] and then is silent for two has
/// ended, and is forgotten by three quarters in each tick from there. No
/// observation can make the estimate pass the bound, and a clock that steps
/// back lets no time pass.
#[derive(Clone, Debug)]
pub struct Estimator {
    tick: Span,
    bound: u64,
    began: Tick,
    /// Units per second, as of `began`.
    estimate: u64,
    /// Admitted and denied since `began`.
    wanted: u64,
    waiting: u64,
    largest: u64,
    largest_before: u64,
    /// Ticks with demand in a row, before the present silence if there is one.
    dense: u32,
    /// Silent ticks in a row.
    silent: u32,
}

impl Estimator {
    /// After so many ticks without demand the estimate is 0, whatever it was:
    /// 64 bits · ln 2 · 8 ticks, and the last few one by one.
    pub const SILENT_TICKS: u64 = 400;

    /// How much of a fall is followed in one tick. An eighth forgets half of a
    /// demand in about five ticks: slower than a burst's gaps, faster than a lease.
    const SMOOTHING: u64 = 8;

    /// A stream with demand in so many ticks in a row is dense. If its requests
    /// come independently, each tick has demand with some chance `p`, and the
    /// chance of such a run with two silent ticks after it, `p¹⁰ (1 − p)²`, is
    /// less than one in 200 whatever `p` is.
    pub const DENSE_TICKS: u32 = 10;

    /// After so many silent ticks such a stream has ended.
    const ENDED: u32 = 2;

    /// An estimator without demand, from `now`.
    ///
    /// `tick` is how long demand is added up (at least a nanosecond); `bound`,
    /// in units per second, is what no report may pass, such as the budget's rate.
    #[must_use]
    pub const fn new(tick: Span, bound: u64, now: Tick) -> Self {
        Self {
            tick: if tick.is_zero() {
                Span::from_nanos(1)
            } else {
                tick
            },
            bound,
            began: now,
            estimate: 0,
            wanted: 0,
            waiting: 0,
            largest: 0,
            largest_before: 0,
            dense: 0,
            silent: 0,
        }
    }

    /// Takes in what happened up to `now` since the last observation.
    pub fn observe(&mut self, observed: Observed, now: Tick) {
        self.advance(now);
        self.wanted = self
            .wanted
            .saturating_add(observed.admitted)
            .saturating_add(observed.denied);
        self.waiting = observed.waiting;
        self.largest = self.largest.max(observed.waiting_largest);
    }

    /// What callers want, in units per second.
    pub fn rate_at(&mut self, now: Tick) -> u64 {
        self.advance(now);
        self.estimate.max(self.sample())
    }

    /// The greatest single cost that waited in this tick or the one before.
    pub fn largest_waiting_at(&mut self, now: Tick) -> u64 {
        self.advance(now);
        self.largest.max(self.largest_before)
    }

    /// Closes the ticks that are over.
    fn advance(&mut self, now: Tick) {
        let elapsed = now.since(self.began);
        let ticks = elapsed.nanos().checked_div(self.tick.nanos()).unwrap_or(0);
        if ticks == 0 {
            return;
        }
        self.began = self.began.after(self.tick.times_or_max(ticks));
        let sample = self.sample();
        self.fold(sample);
        self.wanted = 0;
        // Who still waits is observed again; a tick without a word is silence.
        self.waiting = 0;
        for _ in 1..ticks.min(Self::SILENT_TICKS) {
            self.fold(0);
        }
        self.largest_before = if ticks == 1 { self.largest } else { 0 };
        self.largest = 0;
    }

    fn fold(&mut self, sample: u64) {
        if sample == 0 {
            self.silent = self.silent.saturating_add(1);
        } else {
            self.dense = match self.silent {
                0 => self.dense.saturating_add(1),
                _ => 1,
            };
            self.silent = 0;
        }
        let ended = self.dense >= Self::DENSE_TICKS && self.silent >= Self::ENDED;
        let fall = self.estimate.saturating_sub(sample);
        let lower = if ended && !planted::is(Bug::EndedStreamLingers) {
            fall.saturating_sub(fall.checked_div(4).unwrap_or(0))
        } else {
            fall.div_ceil(Self::SMOOTHING)
        };
        self.estimate = self.estimate.max(sample).saturating_sub(lower);
    }

    /// What this tick alone says, in units per second.
    fn sample(&self) -> u64 {
        let wanted = self.wanted.saturating_add(self.waiting);
        crate::unit::mul_div_ceil(wanted, Span::from_secs(1).nanos(), self.tick.nanos())
            .unwrap_or(u64::MAX)
            .min(self.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Span = Span::from_millis(100);

    fn at(millis: u64) -> Tick {
        Tick::default().after(Span::from_millis(millis))
    }

    fn wanted(admitted: u64, denied: u64, waiting: u64) -> Observed {
        Observed {
            admitted,
            denied,
            waiting,
            waiting_largest: waiting,
        }
    }

    #[test]
    fn demand_is_what_was_wanted_and_jumps_up_at_once() {
        let mut estimator = Estimator::new(TICK, u64::MAX, at(0));
        estimator.observe(wanted(3, 5, 2), at(10));
        assert_eq!(estimator.rate_at(at(10)), 100);
        estimator.observe(wanted(0, 90, 2), at(20));
        assert_eq!(estimator.rate_at(at(20)), 1_000);
    }

    #[test]
    fn demand_falls_by_an_eighth_of_the_difference_and_ends_at_zero() {
        let mut estimator = Estimator::new(TICK, u64::MAX, at(0));
        estimator.observe(wanted(80, 0, 0), at(0));
        assert_eq!(estimator.rate_at(at(100)), 800);
        assert_eq!(estimator.rate_at(at(200)), 700);
        estimator.observe(wanted(u64::MAX, u64::MAX, 0), at(200));
        assert_eq!(estimator.rate_at(at(200)), u64::MAX);
        let silent = at(300).after(TICK.times_or_max(Estimator::SILENT_TICKS));
        assert_eq!(estimator.rate_at(silent), 0);
    }

    /// The estimate so many ticks after a stream of 800 a second ended, which
    /// had demand in `busy` ticks in a row.
    fn after(busy: u64, silent: u64) -> u64 {
        let mut estimator = Estimator::new(TICK, u64::MAX, at(0));
        for tick in 0..busy {
            estimator.observe(wanted(80, 0, 0), at(tick * 100));
        }
        estimator.rate_at(at((busy + silent) * 100))
    }

    #[test]
    fn a_dense_stream_that_ends_is_forgotten_within_three_ticks() {
        assert_eq!(after(10, 0), 800);
        assert_eq!(after(10, 1), 700, "one silent tick may be an accident");
        assert_eq!(after(10, 2), 175);
        assert_eq!(after(10, 3), 43);
        assert_eq!(after(10, 40), 0);
        assert_eq!(after(9, 2), 612, "a thin stream has gaps");
        let lingers = || planted::with(Some(Bug::EndedStreamLingers), || after(10, 3));
        assert!(lingers() > 400);
    }

    #[test]
    fn those_who_wait_count_in_every_tick_in_which_they_are_seen() {
        let mut estimator = Estimator::new(TICK, 1_000, at(0));
        for millis in [0, 100, 200] {
            estimator.observe(wanted(0, 0, 8), at(millis));
            assert_eq!(estimator.rate_at(at(millis)), 80);
        }
        assert_eq!(estimator.largest_waiting_at(at(300)), 8);
        assert_eq!(estimator.largest_waiting_at(at(400)), 0);
        assert_eq!(estimator.rate_at(at(400)), 70);
    }

    #[test]
    fn no_report_passes_the_bound() {
        let mut estimator = Estimator::new(TICK, 1_000, at(0));
        estimator.observe(wanted(0, 0, 4_000), at(0));
        assert_eq!(estimator.rate_at(at(0)), 1_000);
        assert_eq!(estimator.largest_waiting_at(at(150)), 4_000);
    }

    #[test]
    fn a_clock_that_steps_back_lets_no_time_pass() {
        let mut estimator = Estimator::new(TICK, u64::MAX, at(1_000));
        estimator.observe(wanted(1, 0, 0), at(1_000));
        assert_eq!(estimator.rate_at(at(0)), 10);
        assert_eq!(estimator.rate_at(at(1_000)), 10);
    }
}
