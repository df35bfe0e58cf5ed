//! The mean of a stream since it last changed by more than chance explains.

use crate::planted::{self, Bug};

/// Estimate of the demand per tick, in units, and of its reliability.
///
/// The mean is that of all ticks since the stream last changed. Beyond [`Regime::TICKS`] of them, older ones
/// lose as much weight as a new one has. After each tick, the last 1, 2, 4, 8 and 16 ticks are compared with
/// the mean. If the sum in one of these windows differs from the expected one by more than
/// [`Regime::DEVIATIONS`] standard deviations, the stream has changed, and the mean starts again with that
/// window.
///
/// So a great change counts at once, and a small one as soon as it is statistically significant, up or down. A
/// silent tick never raises the mean. Chance itself moves the estimate neither up nor down in the long run. A
/// stream that came in each of the last ticks, and then not at all, has ended.
///
/// The variance is that of independent requests (Poisson), `unit · count` with a request's `unit`, or the
/// recent differences of consecutive ticks, if that is more: requests may be larger than the unit, or come in
/// clusters.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Regime {
    /// Units per tick, with [`Regime::FRACTION`] bits of fraction.
    mean: u128,
    /// Number of ticks in the mean.
    age: u32,
    /// Mean difference of consecutive ticks, with as many bits of fraction.
    swing: u128,
    /// The latest ticks, the last one first.
    recent: [u64; Self::WINDOW],
    /// Number of consecutive silent ticks.
    silent: u32,
    /// Mean of the last ticks regardless of changes, and the number of ticks in it.
    slow: (u128, u32),
}

impl Regime {
    /// Maximum sample of a tick, so that squares of sums fit 128 bits.
    pub(super) const MOST: u64 = 1 << 56;

    /// Maximum number of ticks in the mean. For a stream of 15 requests a tick, the standard deviation of the
    /// mean is then a thirtieth, and of the parts granted to such streams one or two in a hundred are unused.
    const TICKS: u32 = 32;

    /// Length of the longest window. It shows a change by a quarter at 15 requests a tick.
    const WINDOW: usize = 16;

    /// Number of standard deviations that chance explains. Chance alone restarts the mean in about one tick
    /// of 400, which costs little: a later window restarts it again.
    const DEVIATIONS: u64 = 3;

    /// Number of ticks over which the first demand after silence is spread, unless it is too much for that: a
    /// single request is no stream of one per tick.
    const FIRST: u32 = 4;

    /// Number of independent requests a tick above which a stream counts as dense: one tick in nine million
    /// is silent.
    const MANY: u64 = 16;

    /// Multiple of a stream's known length for which it is expected to continue. The demand reported for it
    /// then lasts beyond the report that asks for more, and a single request asks for three.
    const BORNE: u64 = 3;

    /// Number of ticks without demand after which nothing is wanted any more.
    pub(super) const SILENT: u32 = 100;

    /// Number of ticks in the slow mean: long enough that pulses of a second or two are one stream.
    const SLOW_TICKS: u32 = 80;

    const FRACTION: u32 = 16;

    /// Returns the expected demand in the next `ticks`, rounded up, limited by the length for which the
    /// stream is known: one seen for a tick may not last for a minute.
    pub(super) fn ahead(&self, ticks: u64) -> u64 {
        let known = u64::from(self.age).saturating_mul(Self::BORNE);
        let ticks = match planted::is(Bug::AheadUnborne) {
            true => ticks,
            false => ticks.min(known),
        };
        let scaled = self.mean.saturating_mul(ticks.into());
        let rest = scaled & ((1 << Self::FRACTION) - 1);
        let units = (scaled >> Self::FRACTION).saturating_add(u128::from(rest > 0));
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Returns the mean of the last ticks regardless of changes, and its bits of fraction, if there was
    /// demand in them.
    pub(super) fn slow_scaled(&self) -> Option<(u128, u32)> {
        (self.slow.1 > 0).then_some((self.slow.0, Self::FRACTION))
    }

    /// Returns the mean in units per tick, and its bits of fraction.
    pub(super) const fn mean_scaled(&self) -> (u128, u32) {
        (self.mean, Self::FRACTION)
    }

    /// Adds a tick with the demand `sample` that is over.
    pub(super) fn fold(&mut self, sample: u64, unit: u64) {
        if sample == 0 && self.is_silent() {
            return;
        }
        let sample = sample.min(Self::MOST);
        let scaled = u128::from(sample) << Self::FRACTION;
        let last = self.recent.first().copied().unwrap_or(0);
        let swing = u128::from(sample.abs_diff(last)) << Self::FRACTION;
        self.swing = toward(self.swing, swing, 16);
        self.recent.copy_within(..Self::WINDOW.saturating_sub(1), 1);
        if let Some(first) = self.recent.first_mut() {
            *first = sample;
        }
        self.silent = match sample {
            0 => self.silent.saturating_add(1),
            _ => 0,
        };
        self.slow = match self.silent >= Self::SILENT {
            true => (0, 0),
            false => {
                let age = self.slow.1.saturating_add(1).min(Self::SLOW_TICKS);
                (toward(self.slow.0, scaled, age), age)
            }
        };
        // For most keys nothing else changes from tick to tick.
        let window = u32::try_from(Self::WINDOW).unwrap_or(u32::MAX);
        if self.mean == 0 && self.silent > window {
            return;
        }
        if self.silent >= Self::SILENT {
            self.mean = 0;
        } else if self.mean == 0 && sample > 0 {
            self.age = Self::FIRST;
            self.mean = scaled.checked_div(Self::FIRST.into()).unwrap_or(0);
        } else {
            self.age = self.age.saturating_add(1).min(Self::TICKS);
            self.mean = toward(self.mean, scaled, self.age);
        }
        if self.has_ended(unit) && !planted::is(Bug::EndedStreamLingers) {
            (self.mean, self.age, self.swing) = (0, 0, 0);
        } else {
            self.begin_anew_if_changed(unit);
        }
    }

    /// Adds `ticks` silent ticks that are over, as [`Regime::fold`] does for each. Most of them need less work than other
    /// ticks, and most ticks of a key that is asked for now and then are silent.
    pub(super) fn fold_silent(&mut self, ticks: u64, unit: u64) {
        let mut rest = ticks;
        // In the first silent ticks a dense stream may end. A sparse one stays sparse while nothing comes.
        while rest > 0 && !(self.silent > 2 && self.is_sparse(unit)) {
            if self.is_silent() {
                return;
            }
            self.fold(0, unit);
            rest = rest.saturating_sub(1);
        }
        self.fade(rest);
    }

    /// Adds silent ticks to a sparse stream that has been silent.
    fn fade(&mut self, ticks: u64) {
        let window = u32::try_from(Self::WINDOW).unwrap_or(u32::MAX);
        let count = usize::try_from(ticks).unwrap_or(usize::MAX);
        let count = count.min(Self::WINDOW);
        self.recent.rotate_right(count);
        self.recent
            .iter_mut()
            .take(count)
            .for_each(|tick| *tick = 0);
        for _ in 0..ticks {
            if self.is_silent() {
                return;
            }
            self.swing = toward(self.swing, 0, 16);
            self.silent = self.silent.saturating_add(1);
            if self.silent >= Self::SILENT {
                (self.slow, self.mean) = ((0, 0), 0);
                continue;
            }
            let age = self.slow.1.saturating_add(1).min(Self::SLOW_TICKS);
            self.slow = (toward(self.slow.0, 0, age), age);
            if self.mean > 0 || self.silent <= window {
                self.age = self.age.saturating_add(1).min(Self::TICKS);
                self.mean = toward(self.mean, 0, self.age);
            }
        }
    }

    /// Returns true if a stream that came in every tick has ended.
    ///
    /// That is after one silent tick if the mean was at least [`Regime::MANY`] requests a tick and no tick
    /// had less than half of the mean. It is after two if the mean was at least half as many and no tick was
    /// silent. The two ticks before the silence are left out of this mean: the stream ended within them, and
    /// untimed demand is spread over both.
    fn has_ended(&self, unit: u64) -> bool {
        let silent = match self.silent {
            1 => 1,
            2 => 2,
            _ => return false,
        };
        let Some([last, _, before @ ..]) = self.recent.get(silent..) else {
            return false;
        };
        let (Some(&least), Ok(count)) = (before.iter().min(), u64::try_from(before.len())) else {
            return false;
        };
        let sum: u64 = before.iter().fold(0, |sum, tick| sum.saturating_add(*tick));
        let mean = sum.div_ceil(count.max(1));
        let enough = Self::MANY.checked_div(self.silent.into()).unwrap_or(0);
        let enough = *last > 0 && mean >= unit.saturating_mul(enough);
        match silent {
            1 => enough && least.saturating_mul(2) >= mean,
            _ => enough && least > 0,
        }
    }

    /// Returns true if there is no demand, and the estimate stays 0 while none comes.
    pub(super) fn is_over(&self) -> bool {
        self.mean == 0 && self.recent.iter().all(|tick| *tick == 0)
    }

    /// Returns true if another silent tick would change nothing.
    pub(super) const fn is_silent(&self) -> bool {
        self.silent >= Self::SILENT && self.swing == 0 && self.mean == 0
    }

    fn begin_anew_if_changed(&mut self, unit: u64) {
        if self.is_sparse(unit) {
            return;
        }
        let (mut seen, mut from) = (0_u64, 0);
        for (ticks, to) in [(1, 1), (2, 2), (4, 4), (8, 8), (16, Self::WINDOW)] {
            if ticks > self.age {
                return;
            }
            let more = self.recent.get(from..to).unwrap_or_default();
            seen = more
                .iter()
                .fold(seen, |sum, sample| sum.saturating_add(*sample));
            from = to;
            let expected = self.expected(ticks);
            if seen < expected && planted::is(Bug::EndedStreamLingers) {
                continue;
            }
            // A stream that ended may be older than the mean. No silence shows that there is more of it.
            if seen > expected && self.silent > 0 && !planted::is(Bug::SilenceRaises) {
                continue;
            }
            if !self.is_chance(expected, seen, ticks, unit) {
                let mean = (u128::from(seen) << Self::FRACTION).checked_div(ticks.into());
                (self.mean, self.age) = (mean.unwrap_or(0), ticks);
                return;
            }
        }
    }

    /// Returns true if chance explains the sum in each window, because the longest has few requests and few are
    /// expected in it: a difference of no more than `DEVIATIONS²` requests is within as many deviations of their number.
    /// Most streams are like that, and need no look at each window.
    fn is_sparse(&self, unit: u64) -> bool {
        let ticks = u32::try_from(Self::WINDOW).unwrap_or(u32::MAX);
        let ticks = ticks.min(self.age);
        let seen = self.recent.iter();
        let seen = seen.fold(0, |sum: u64, tick| sum.saturating_add(*tick));
        let few = Self::DEVIATIONS.saturating_mul(Self::DEVIATIONS);
        seen.max(self.expected(ticks)) <= unit.max(1).saturating_mul(few)
    }

    /// Returns the sum that the mean predicts for `ticks` ticks: less than 2⁶¹ for [`Regime::WINDOW`] of
    /// them.
    fn expected(&self, ticks: u32) -> u64 {
        // Most products fit 64 bits, which is several times as fast.
        let few = u64::try_from(self.mean).ok();
        match few.and_then(|mean| mean.checked_mul(ticks.into())) {
            Some(sum) => sum >> Self::FRACTION,
            None => {
                let sum = self.mean.saturating_mul(ticks.into()) >> Self::FRACTION;
                u64::try_from(sum).unwrap_or(u64::MAX)
            }
        }
    }

    /// Returns true if chance explains the sum `seen` in `ticks` ticks of a stream for which `expected` is
    /// predicted.
    fn is_chance(&self, expected: u64, seen: u64, ticks: u32, unit: u64) -> bool {
        let off = expected.abs_diff(seen);
        let (greater, unit) = (expected.max(seen), unit.clamp(1, Self::MOST));
        let most = Self::DEVIATIONS.saturating_mul(Self::DEVIATIONS);
        // A sum within the 64-bit bound is also within the others.
        let poisson = greater.saturating_mul(unit).saturating_mul(most);
        if off.checked_mul(off).is_some_and(|square| square <= poisson) {
            return true;
        }
        let [expected, greater, off, most] = [expected, greater, off, most].map(u128::from);
        let square = off.saturating_mul(off);
        if square <= greater.saturating_mul(unit.into()).saturating_mul(most) {
            return true;
        }
        // For a normal distribution, the mean difference of two draws is 1.128 standard deviations, so the
        // variance is nearly 4/5 of its square.
        let swing = self.swing >> Self::FRACTION;
        let clustered = swing.saturating_mul(swing).saturating_mul(ticks.into());
        let clustered = clustered.saturating_mul(4).checked_div(5).unwrap_or(0);
        // The variance grows with the demand too. The ratio is in sixteenths.
        let sixteenths = greater.saturating_mul(16);
        let grown = sixteenths.checked_div(expected.max(1)).unwrap_or(16);
        let clustered = (clustered >> 4).saturating_mul(grown.min(1_024));
        square <= clustered.saturating_mul(most)
    }
}

/// Moves `from` towards `to` by one part in `parts` of the distance, rounded away from `from`.
fn toward(from: u128, to: u128, parts: u32) -> u128 {
    let (distance, parts) = (from.abs_diff(to), u64::from(parts.max(1)));
    // Most distances fit 64 bits, which divide several times as fast.
    let step = match u64::try_from(distance) {
        Ok(distance) => distance.div_ceil(parts).into(),
        Err(_) => distance.div_ceil(parts.into()),
    };
    match from < to {
        true => from.saturating_add(step),
        false => from.saturating_sub(step),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/demand/regime.rs"]
mod tests;
