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

    /// Does the same for a sparse demand, which may be known later: at the end of this tick, and then after a second, and
    /// whenever the time without demand has doubled.
    pub(crate) fn fades_until(&self, now: Tick) -> Tick {
        let (first, over) = (self.cools_until(now), self.over());
        if self.sample() > 0 || now >= over {
            return first;
        }
        let silence = now.since(self.asked.unwrap_or(self.began));
        let least = self.tick.times_or_max(Self::COOLS_TICKS);
        now.after(silence.max(least)).min(over)
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
        let (mean, fraction) = self.regime.mean_scaled();
        // A tick that is not over can only raise the estimate.
        let with_sample = match self.sample() {
            0 => mean,
            sample => {
                let mut next = self.regime.clone();
                next.fold(sample, self.unit);
                next.mean_scaled().0
            }
        };
        self.per_second(mean.max(with_sample), fraction)
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
        if others == 0 {
            self.regime.fold_silent(ticks.saturating_sub(1), self.unit);
        } else {
            for _ in 1..ticks.min(Self::SILENT_TICKS.saturating_add(1)) {
                self.regime.fold(others, self.unit);
            }
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
#[path = "../../tests/unit/demand/estimator.rs"]
mod tests;
