//! The mean of a stream since it last changed by more than chance explains.

use crate::planted::{self, Bug};

/// How much is wanted per tick, in units, and how far that can be trusted.
///
/// The mean is that of all ticks since the stream last changed, up to
/// [`Regime::TICKS`] of them, after which older ones are forgotten by as much as
/// a new one weighs. With each tick the last 1, 2, 4, 8 and 16 ticks are held
/// against it: if what came in one of these windows is further from what the
/// mean promised than [`Regime::DEVIATIONS`] standard deviations, the stream has
/// changed, and the mean begins anew with that window. So a great change counts
/// at once and a small one as soon as it can be told from chance, up or down, and
/// chance itself moves the estimate neither up nor down in the long run. A stream that
/// came in each of the last ticks, and then not at all, has ended.
///
/// The variance is that of independent requests (Poisson), `unit · count` with a
/// request's `unit`, or what consecutive ticks have differed by of late,
/// if that is more: requests may be larger than the unit, or come in clusters.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Regime {
    /// Units per tick, with [`Regime::FRACTION`] bits of fraction.
    mean: u128,
    /// Of how many ticks it is the mean.
    age: u32,
    /// The mean distance of consecutive ticks, with as many bits of fraction.
    swing: u128,
    /// The latest ticks, the last one in front.
    recent: [u64; Self::WINDOW],
    /// Silent ticks in a row.
    silent: u32,
    /// The mean of the last ticks whatever changed in them, and of how many it is.
    slow: (u128, u32),
}

impl Regime {
    /// No tick counts for more, so that squares of sums have room in 128 bits.
    pub(super) const MOST: u64 = 1 << 56;

    /// The mean forgets as if it were of so many ticks: of a stream of 15 requests a
    /// tick its standard deviation is then a thirtieth, and of what is given to
    /// such streams one or two in a hundred lie idle.
    const TICKS: u32 = 32;

    /// The longest window. A change by a quarter at 15 requests a tick is seen in it.
    const WINDOW: usize = 16;

    /// Chance alone begins a mean anew in one tick of 400 or so, which costs little:
    /// what chance began it also ends.
    const DEVIATIONS: u64 = 3;

    /// What comes after silence is taken for what came in so many ticks, unless it
    /// is too much for that: a single request is no stream of one per tick.
    const FIRST: u32 = 4;

    /// Of so many requests a tick, independent of each other, one tick in nine million is silent.
    const MANY: u64 = 16;

    /// So many times as long as a stream is known it is thought to go on: what is asked for then
    /// outlives the report that asks for more, and a single request asks for three.
    const BORNE: u64 = 3;

    /// After so many ticks without demand nothing is wanted any more.
    pub(super) const SILENT: u32 = 100;

    /// Long enough that pulses of a second or two are one stream.
    const SLOW_TICKS: u32 = 80;

    const FRACTION: u32 = 16;

    /// What comes in the next `ticks`, rounded up, as far as what was seen bears it: of a stream
    /// that is known for a tick nobody knows whether it will last for a minute.
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

    /// The same of the last ticks whatever changed in them, if anything came in them.
    pub(super) fn slow_scaled(&self) -> Option<(u128, u32)> {
        (self.slow.1 > 0).then_some((self.slow.0, Self::FRACTION))
    }

    /// Units per tick, rounded up.
    pub(super) const fn mean_scaled(&self) -> (u128, u32) {
        (self.mean, Self::FRACTION)
    }

    /// A tick in which so much was wanted is over.
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
        // Of most keys there is nothing else to say, tick by tick.
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

    /// Whether a stream that came in every tick comes in none any more: after one silent tick if it was of
    /// [`Regime::MANY`] requests a tick and none brought less than half of that, after two if it
    /// was of half as many. What came in the two ticks before is left out of this: the
    /// stream ended within them, and of what nobody timed each has a part.
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

    /// Returns true if nothing is wanted, and nothing of it will be thought to be while nothing comes.
    pub(super) fn is_over(&self) -> bool {
        self.mean == 0 && self.recent.iter().all(|tick| *tick == 0)
    }

    /// Whether another silent tick would change nothing.
    pub(super) const fn is_silent(&self) -> bool {
        self.silent >= Self::SILENT && self.swing == 0 && self.mean == 0
    }

    fn begin_anew_if_changed(&mut self, unit: u64) {
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
            if !self.is_chance(expected, seen, ticks, unit) {
                let mean = (u128::from(seen) << Self::FRACTION).checked_div(ticks.into());
                (self.mean, self.age) = (mean.unwrap_or(0), ticks);
                return;
            }
        }
    }

    /// What the mean promises of so many ticks: of [`Regime::WINDOW`] of them less than 2⁶¹.
    fn expected(&self, ticks: u32) -> u64 {
        // Most fit 64 bits, which multiply several times as fast.
        let few = u64::try_from(self.mean).ok();
        match few.and_then(|mean| mean.checked_mul(ticks.into())) {
            Some(sum) => sum >> Self::FRACTION,
            None => {
                let sum = self.mean.saturating_mul(ticks.into()) >> Self::FRACTION;
                u64::try_from(sum).unwrap_or(u64::MAX)
            }
        }
    }

    /// Whether a stream of which so much is expected may well show so much.
    fn is_chance(&self, expected: u64, seen: u64, ticks: u32, unit: u64) -> bool {
        let off = expected.abs_diff(seen);
        let (greater, unit) = (expected.max(seen), unit.clamp(1, Self::MOST));
        let most = Self::DEVIATIONS.saturating_mul(Self::DEVIATIONS);
        // What is within 64 bits is within more, too.
        let poisson = greater.saturating_mul(unit).saturating_mul(most);
        if off.checked_mul(off).is_some_and(|square| square <= poisson) {
            return true;
        }
        let [expected, greater, off, most] = [expected, greater, off, most].map(u128::from);
        let square = off.saturating_mul(off);
        if square <= greater.saturating_mul(unit.into()).saturating_mul(most) {
            return true;
        }
        // Of a normal distribution the mean distance of two draws is 1.128 standard
        // deviations: the variance is 4/5 of its square, nearly.
        let swing = self.swing >> Self::FRACTION;
        let clustered = swing.saturating_mul(swing).saturating_mul(ticks.into());
        let clustered = clustered.saturating_mul(4).checked_div(5).unwrap_or(0);
        // It grows with what is wanted, too: in sixteenths.
        let sixteenths = greater.saturating_mul(16);
        let grown = sixteenths.checked_div(expected.max(1)).unwrap_or(16);
        let clustered = (clustered >> 4).saturating_mul(grown.min(1_024));
        square <= clustered.saturating_mul(most)
    }
}

/// `from` on its way to `to`, by one part in `parts` of the distance, rounded away from `from`.
fn toward(from: u128, to: u128, parts: u32) -> u128 {
    let (distance, parts) = (from.abs_diff(to), u64::from(parts.max(1)));
    // Most fit 64 bits, which divide several times as fast.
    let step = match u64::try_from(distance) {
        Ok(distance) => distance.div_ceil(parts).into(),
        Err(_) => distance.div_ceil(parts.into()),
    };
    match from < to {
        true => from.saturating_add(step),
        false => from.saturating_sub(step),
    }
}
