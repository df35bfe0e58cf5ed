//! Estimate of the callers' demand.

mod ahead;

use super::regime::Regime;
use crate::planted::{self, Bug};
use crate::unit::{Span, Tick};

/// Demand of callers since the last observation, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Observed {
    /// Admitted units.
    pub admitted: u64,
    /// Denied units.
    pub denied: u64,
    /// Units that wait at this moment, until they are admitted. They count in each tick in which they wait.
    pub waiting: u64,
    /// Units that wait for a moment, and are then admitted or denied. They count once, when they come.
    pub waiting_once: u64,
    /// The greatest single cost that waits.
    pub waiting_largest: u64,
    /// The greatest single cost that was denied.
    pub denied_largest: u64,
}

/// Estimates demand: what callers **wanted** (admitted, denied and waiting). If it were what they were
/// granted, a claimant with too small a share would seem to want no more.
///
/// Time is cut into ticks. The estimate is the mean demand per tick since the demand last changed by more
/// than chance explains (see `Regime`). It rises at once, even before the tick is over, if demand is higher
/// than chance explains, and always from nothing to something. It is exactly 0 [`Estimator::SILENT_TICKS`]
/// after the last demand. No observation can raise the estimate above the bound. If the clock steps back, no
/// time passes.
#[derive(Clone, Debug, Hash)]
pub struct Estimator {
    tick: Span,
    bound: u64,
    /// The minimum size of a request.
    unit: u64,
    began: Tick,
    /// The last time at which untimed demand was observed.
    seen: Tick,
    regime: Regime,
    /// The beginning of the last tick with demand.
    asked: Option<Tick>,
    /// Units admitted and denied since `began`.
    wanted: u64,
    waiting: u64,
    /// Units that wait for a moment, and were counted.
    waiting_once: u64,
    /// The greatest cost that waits now.
    waiting_largest: u64,
    largest: u64,
    largest_before: u64,
    /// The greatest cost of more than one unit that lately waited or was denied, and when it last was.
    lacked: Option<(Tick, u64)>,
}

impl Estimator {
    /// Number of ticks without demand after which the estimate is 0.
    pub const SILENT_TICKS: u64 = 100;

    /// Number of ticks for which a caller is expected to return: half a minute.
    pub const REMEMBERED_TICKS: u64 = 300;

    /// Maximum number of ticks without an examination while there is an estimate.
    const COOLS_TICKS: u64 = 10;

    /// Returns an estimator without demand, from `now`.
    ///
    /// Demand is summed over `tick` (at least a nanosecond). `bound`, in units per second, is the maximum
    /// estimate, such as the budget's rate.
    #[must_use]
    pub fn new(tick: Span, bound: u64, now: Tick) -> Self {
        Self {
            tick: if tick.is_zero() {
                Span::from_nanos(1)
            } else {
                tick
            },
            bound,
            unit: 1,
            began: now,
            seen: now,
            regime: Regime::default(),
            asked: None,
            wanted: 0,
            waiting: 0,
            waiting_once: 0,
            waiting_largest: 0,
            largest: 0,
            largest_before: 0,
            lacked: None,
        }
    }

    /// Counts in requests of at least `unit` from `now` on, which decides which changes chance explains.
    /// Demand before `now` is judged by the unit of its time, whenever it is observed.
    pub(crate) fn counts_in(&mut self, unit: u64, now: Tick) {
        if self.unit != unit {
            self.observe_calm(now);
            self.unit = unit;
        }
    }

    /// Adds what happened at `now`.
    pub fn observe(&mut self, observed: Observed, now: Tick) {
        self.advance(now);
        let new = self.new_of(observed);
        self.take(new, observed);
    }

    /// Adds what happened since the last observation at unknown times, spread evenly over that time.
    pub fn observe_since(&mut self, observed: Observed, now: Tick) {
        let (ticks, seen) = (self.ticks_until(now), self.seen.max(self.began));
        self.seen = self.seen.max(now);
        let new = self.new_of(observed);
        if ticks == 0 {
            return self.take(new, observed);
        }
        let elapsed = now.since(seen).nanos();
        let in_span = |span: Span| crate::unit::mul_div_floor(new, span.nanos(), elapsed);
        let to_end = self.began.after(self.tick).since(seen);
        let first = in_span(to_end).unwrap_or(new);
        let later = in_span(self.tick).unwrap_or(0);
        let rest = new.saturating_sub(first);
        let rest = rest.saturating_sub(later.saturating_mul(ticks.saturating_sub(1)));
        let before = self.wanted.saturating_add(first);
        self.take(new, observed);
        let Observed {
            waiting,
            waiting_largest,
            ..
        } = observed;
        let first = before.saturating_add(waiting);
        self.close(ticks, first, later.saturating_add(waiting));
        // Requests that wait now also wait in this tick, and no longer.
        (self.wanted, self.waiting) = (rest, waiting);
        (self.waiting_largest, self.largest) = (waiting_largest, waiting_largest);
        self.lack(waiting_largest);
        if self.sample() > 0 || later > 0 {
            self.asked = Some(self.began);
        }
    }

    /// Notes that nothing came since the last observation until `now`, and that the same requests waited. One
    /// such observation of a long time equals many observations of its parts.
    pub(crate) fn observe_calm(&mut self, now: Tick) {
        if self.seen < now {
            let same = Observed {
                waiting: self.waiting,
                waiting_once: self.waiting_once,
                waiting_largest: self.waiting_largest,
                ..Observed::default()
            };
            self.observe_since(same, now);
        }
    }

    /// Returns true if every estimate is 0 until something else is observed.
    pub(crate) fn is_at_rest(&self) -> bool {
        let seen = self.largest.max(self.largest_before);
        self.sample() == 0 && seen == 0 && self.regime.is_over()
    }

    /// Returns the time at which the estimate may have fallen by much if nothing is observed after `now`.
    ///
    /// A mean that falls because nothing is added takes half as long again for each further fall. At the
    /// latest it is the time at which nothing is wanted any more. What this tick adds to the mean counts once the
    /// tick is over, so that is when the estimate changes first.
    pub(crate) fn cools_until(&self, now: Tick) -> Tick {
        let end = self.began.after(self.tick);
        if self.sample() > 0 && now < end {
            return end;
        }
        let asked = self.asked.unwrap_or(self.began);
        let half = Span::from_nanos(now.since(asked).nanos() / 2);
        let most = self.tick.times_or_max(Self::COOLS_TICKS);
        let then = now.after(half.max(self.tick).min(most));
        let over = self.over();
        if now < over { then.min(over) } else { then }
    }

    /// Returns the time at which the estimate may have risen, or nothing is wanted any more, if nothing is observed
    /// after `now`. It may rise at the end of this tick, and no later.
    pub(crate) fn over_at(&self, now: Tick) -> Tick {
        let over = self.over();
        if self.sample() == 0 && now < over {
            over
        } else {
            self.cools_until(now)
        }
    }

    fn over(&self) -> Tick {
        let silent = self.tick.times_or_max(Self::SILENT_TICKS.saturating_add(2));
        self.asked.unwrap_or(self.began).after(silent)
    }

    /// Returns the units that came since the last observation. Those decided now that have waited for a moment were
    /// counted before.
    fn new_of(&mut self, observed: Observed) -> u64 {
        let decided = observed.admitted.saturating_add(observed.denied);
        let waiting = observed.waiting_once;
        let before = core::mem::replace(&mut self.waiting_once, waiting);
        let counted = match planted::is(Bug::WaitsCountedAgain) {
            true => 0,
            false => before,
        };
        decided.saturating_add(waiting).saturating_sub(counted)
    }

    fn take(&mut self, new: u64, observed: Observed) {
        self.wanted = self.wanted.saturating_add(new);
        self.waiting = observed.waiting;
        self.waiting_largest = observed.waiting_largest;
        if self.sample() > 0 {
            self.asked = Some(self.began);
        }
        self.largest = self.largest.max(observed.waiting_largest);
        self.lack(observed.waiting_largest.max(observed.denied_largest));
    }

    /// Notes a cost that waits or was denied in the tick that has begun last.
    fn lack(&mut self, cost: u64) {
        if cost > self.unit.max(self.lacked_at(self.began).saturating_sub(1)) {
            self.lacked = Some((self.began, cost));
        }
    }

    /// Returns the greatest cost of more than one unit that waited or was denied in the last nine seconds.
    pub(crate) fn lacked_at(&self, now: Tick) -> u64 {
        match self.lacked {
            Some((since, cost)) if now.since(since) < super::ESCROW => cost,
            _ => 0,
        }
    }

    /// Returns the estimated demand, in units per second.
    pub fn rate_at(&mut self, now: Tick) -> u64 {
        self.advance(now);
        // A tick that is not over can only raise the estimate.
        let mut next = self.regime.clone();
        next.fold(self.sample(), self.unit);
        let (mean, fraction) = self.regime.mean_scaled();
        self.per_second(mean.max(next.mean_scaled().0), fraction)
    }

    /// Returns a mean with `fraction` bits of fraction, per second.
    fn per_second(&self, mean: u128, fraction: u32) -> u64 {
        let second = u128::from(Span::from_secs(1).nanos());
        let scaled = mean.saturating_mul(second);
        let tick = u128::from(self.tick.nanos()) << fraction;
        let rate = scaled.div_ceil(tick.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX).min(self.bound)
    }

    /// Returns the greatest single cost that waited in this tick or the one before.
    pub fn largest_waiting_at(&mut self, now: Tick) -> u64 {
        self.advance(now);
        self.largest.max(self.largest_before)
    }

    fn ticks_until(&self, now: Tick) -> u64 {
        let elapsed = now.since(self.began).nanos();
        elapsed.checked_div(self.tick.nanos()).unwrap_or(0)
    }

    /// Closes the ticks that are over. What was observed belongs to the first.
    fn advance(&mut self, now: Tick) {
        let ticks = self.ticks_until(now);
        if ticks > 0 {
            self.close(ticks, self.sample(), 0);
        }
    }

    /// Closes `ticks` ticks, the first with the sample `first` and each other one with `others`.
    fn close(&mut self, ticks: u64, first: u64, others: u64) {
        self.began = self.began.after(self.tick.times_or_max(ticks));
        self.regime.fold(first, self.unit);
        let most = match others {
            0 => ticks,
            _ => ticks.min(Self::SILENT_TICKS.saturating_add(1)),
        };
        for _ in 1..most {
            if others == 0 && self.regime.is_silent() {
                break;
            }
            self.regime.fold(others, self.unit);
        }
        self.wanted = 0;
        // Requests that still wait are observed again. A tick without an observation counts as silent.
        (self.waiting, self.waiting_largest) = (0, 0);
        self.largest_before = if ticks == 1 { self.largest } else { 0 };
        self.largest = 0;
    }

    /// Returns the demand in this tick so far.
    const fn sample(&self) -> u64 {
        self.wanted.saturating_add(self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Span = Span::from_millis(100);

    fn at(millis: u64) -> Tick {
        Tick::ZERO.after(Span::from_millis(millis))
    }

    fn wanted(admitted: u64, denied: u64, waiting: u64) -> Observed {
        Observed {
            admitted,
            denied,
            waiting,
            waiting_once: 0,
            waiting_largest: waiting,
            denied_largest: 0,
        }
    }

    fn fresh() -> Estimator {
        Estimator::new(TICK, u64::MAX, at(0))
    }

    #[test]
    fn demand_is_what_was_wanted_and_jumps_up_at_once() {
        let mut estimator = fresh();
        assert_eq!(estimator.rate_at(at(10)), 0);
        estimator.observe(wanted(3, 5, 2), at(10));
        assert_eq!(estimator.rate_at(at(10)), 25, "so few may be a chance");
        estimator.observe(wanted(0, 90, 2), at(20));
        assert_eq!(estimator.rate_at(at(20)), 1_000);
    }

    #[test]
    fn a_single_request_is_a_demand_and_soon_a_small_one() {
        let mut estimator = fresh();
        estimator.observe(wanted(0, 1, 0), at(0));
        assert_eq!(estimator.rate_at(at(0)), 3);
        assert_eq!(estimator.rate_at(at(1_000)), 1);
        let silent = at(100).after(TICK.times_or_max(Estimator::SILENT_TICKS));
        assert_eq!(estimator.rate_at(silent), 0);
    }

    /// The estimate `silent` ticks after a stream of `rate` per tick ended.
    fn after(rate: u64, silent: u64) -> u64 {
        let mut estimator = fresh();
        for tick in 0..20 {
            estimator.observe(wanted(rate, 0, 0), at(tick * 100));
        }
        estimator.rate_at(at((20 + silent) * 100))
    }

    #[test]
    fn a_stream_that_ends_is_forgotten_as_soon_as_that_can_be_told() {
        assert_eq!(after(80, 0), 800);
        assert_eq!(after(80, 1), 0);
        assert!(after(5, 1) > 40, "one silent tick may be an accident");
        assert_eq!(after(5, 4), 0);
        assert!(after(1, 8) > 5, "a thin stream has gaps");
        assert!(after(1, 30) < 5);
        let lingers = || planted::with(Some(Bug::EndedStreamLingers), || after(80, 3));
        assert!(lingers() > 600);
    }

    /// Observations every 70 ms, which is not a tick. Each is spread over the time since the last one and no
    /// further, so the time after the end of a stream counts as silent.
    #[test]
    fn an_untimed_stream_is_over_two_ticks_after_it_ended() {
        let mut estimator = fresh();
        for look in 1..=40 {
            estimator.observe_since(wanted(70, 140, 0), at(look * 70));
        }
        let steady = estimator.rate_at(at(2_800));
        assert!((2_900..3_100).contains(&steady), "{steady}");
        // It ended ten milliseconds after the last observation.
        estimator.observe_since(wanted(0, 30, 0), at(2_870));
        for look in 42..=44 {
            estimator.observe_since(wanted(0, 0, 0), at(look * 70));
        }
        assert_eq!(estimator.rate_at(at(3_100)), 0);
    }

    #[test]
    fn untimed_requests_are_all_counted() {
        let mut estimator = fresh();
        estimator.observe_since(wanted(0, 20, 0), at(20));
        estimator.observe_since(wanted(0, 400, 0), at(420));
        // In the first tick 20 and 80, in three of them 100 each, and 20 are left for the next.
        assert_eq!(estimator.rate_at(at(420)), 1_000);
        assert_eq!(estimator.sample(), 20);
    }

    /// Requests in a tick by chance: each of 1,000 callers comes with a chance of `mean`/1,000.
    fn by_chance(random: &mut u64, mean: u64) -> u64 {
        let mut next = || {
            *random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (*random >> 33) % 1_000
        };
        (0..1_000).map(|_| u64::from(next() < mean)).sum()
    }

    /// Mean of the estimates of a stream by chance, and mean of the amount by which they are too high, both
    /// in thousandths of its rate.
    fn estimates(mean: u64) -> (u64, u64) {
        let (mut estimator, mut random) = (fresh(), 1);
        let (mut sum, mut high) = (0, 0);
        for tick in 0..4_000 {
            let count = by_chance(&mut random, mean);
            estimator.observe(wanted(count, 0, 0), at(tick * 100));
            let rate = estimator.rate_at(at(tick * 100 + 100));
            if tick >= 1_000 {
                sum += rate;
                high += rate.saturating_sub(mean * 10);
            }
        }
        (sum / (30 * mean), high / (30 * mean))
    }

    #[test]
    fn chance_moves_the_estimate_neither_up_nor_down() {
        for (mean, most) in [(1, 75), (2, 50), (15, 20), (100, 10)] {
            let (estimate, high) = estimates(mean);
            assert!(estimate.abs_diff(1_000) <= most, "{mean}: {estimate}");
            assert!(high <= most, "{mean}: {high} too high");
        }
    }

    /// Number of ticks until the estimate stays within two fifths of the new rate.
    fn follows(from: u64, to: u64) -> u64 {
        let (mut estimator, mut random) = (fresh(), 7);
        let mut last = 0;
        for tick in 0..200 {
            let mean = if tick < 100 { from } else { to };
            let count = by_chance(&mut random, mean);
            estimator.observe(wanted(count, 0, 0), at(tick * 100));
            let rate = estimator.rate_at(at(tick * 100 + 99));
            if rate.abs_diff(to * 10) > to * 4 {
                last = tick;
            }
        }
        last - 99
    }

    #[test]
    fn a_great_change_is_followed_in_a_tick_or_two_and_a_small_one_in_a_second_or_two() {
        for (from, to, ticks) in [(1, 100, 2), (100, 10, 10), (100, 200, 3), (15, 30, 15)] {
            let followed = follows(from, to);
            assert!(followed <= ticks, "{from} to {to}: {followed} ticks");
        }
    }

    #[test]
    fn large_requests_are_told_from_a_change_by_how_ticks_differ() {
        let (mut estimator, mut random) = (fresh(), 3);
        let (mut least, mut most) = (u64::MAX, 0);
        for tick in 0..1_000 {
            let count = 100 * by_chance(&mut random, 5);
            estimator.observe(wanted(count, 0, 0), at(tick * 100));
            let rate = estimator.rate_at(at(tick * 100 + 100));
            if tick >= 100 {
                (least, most) = (least.min(rate), most.max(rate));
            }
        }
        assert!(least > 2_000 && most < 10_000, "{least} to {most} of 5,000");
    }

    #[test]
    fn what_is_observed_seldom_is_spread_over_the_time_since() {
        let mut estimator = fresh();
        for look in 1..40 {
            estimator.observe_since(wanted(50, 0, 0), at(look * 250));
            let rate = estimator.rate_at(at(look * 250));
            if look > 10 {
                assert!((185..=215).contains(&rate), "{rate}");
            }
        }
    }

    #[test]
    fn those_who_wait_count_in_every_tick_in_which_they_are_seen() {
        let mut estimator = Estimator::new(TICK, 1_000, at(0));
        for millis in [0, 100, 200, 300, 400, 500] {
            estimator.observe(wanted(0, 0, 80), at(millis));
            assert_eq!(estimator.rate_at(at(millis)), 800);
        }
        assert_eq!(estimator.largest_waiting_at(at(600)), 80);
        assert_eq!(estimator.largest_waiting_at(at(700)), 0);
        assert_eq!(estimator.rate_at(at(700)), 0);
    }

    /// The estimate of a stream of 40 per tick of which 60 wait for a moment at any time.
    fn with_a_line_of_60(observe: fn(&mut Estimator, Observed, Tick)) -> u64 {
        let mut estimator = fresh();
        for tick in 0..40 {
            let observed = Observed {
                admitted: if tick == 0 { 0 } else { 40 },
                waiting_once: 60,
                ..Observed::default()
            };
            observe(&mut estimator, observed, at(tick * 100));
        }
        estimator.rate_at(at(3_900))
    }

    #[test]
    fn those_who_wait_for_a_moment_count_once() {
        for observe in [Estimator::observe, Estimator::observe_since] {
            let once = with_a_line_of_60(observe);
            assert!((400..=410).contains(&once), "{once}");
            let again = || with_a_line_of_60(observe);
            let again = planted::with(Some(Bug::WaitsCountedAgain), again);
            assert!(again > 900, "{again}");
        }
        let mut estimator = fresh();
        let first = Observed {
            waiting_once: 30,
            waiting_largest: 30,
            ..Observed::default()
        };
        estimator.observe(first, at(10));
        assert!(estimator.rate_at(at(10)) > 0, "it is wanted at once");
        assert_eq!(estimator.largest_waiting_at(at(10)), 30);
    }

    #[test]
    fn a_cost_is_lacked_for_nine_seconds_after_it_waited() {
        let mut estimator = fresh();
        let waits = Observed {
            waiting: 30,
            waiting_largest: 30,
            ..Observed::default()
        };
        estimator.observe_since(waits, at(10));
        // It still waits, though no report has confirmed that; later it no longer does.
        estimator.observe_calm(at(20_000));
        estimator.observe_since(Observed::default(), at(20_000));
        assert_eq!(estimator.lacked_at(at(28_900)), 30);
        assert_eq!(estimator.lacked_at(at(29_100)), 0);
    }

    #[test]
    fn no_report_passes_the_bound() {
        let mut estimator = Estimator::new(TICK, 1_000, at(0));
        estimator.observe(wanted(0, 0, 4_000), at(0));
        assert_eq!(estimator.rate_at(at(0)), 1_000);
        assert_eq!(estimator.largest_waiting_at(at(150)), 4_000);
        estimator.observe(wanted(u64::MAX, u64::MAX, u64::MAX), at(200));
        assert_eq!(estimator.rate_at(at(200)), 1_000);
    }

    #[test]
    fn a_clock_that_steps_back_lets_no_time_pass() {
        let mut estimator = Estimator::new(TICK, u64::MAX, at(1_000));
        estimator.observe(wanted(40, 0, 0), at(1_000));
        assert_eq!(estimator.rate_at(at(0)), 400);
        estimator.observe_since(wanted(40, 0, 0), at(0));
        assert_eq!(estimator.rate_at(at(1_000)), 800);
    }
}
