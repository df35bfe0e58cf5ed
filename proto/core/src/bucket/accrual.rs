//! How much a rate makes in a time: one multiplication and one shift.

use super::gcra::Made;
use crate::planted::{self, Bug};
use crate::unit::{Rate, Span};

/// Nanoseconds in a second: what a [`Rate`] is divided by to be one of a tick.
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A [`Rate`] prepared for the hot path: grains per nanosecond as `mult ÷ 2^shift`.
///
/// For a rate other than zero `mult` has its top bit set, so the quotient is
/// the rate rounded down by less than one part in 2⁶³. From this follows, for
/// every span `dt` in which the exact rate makes at most 2⁶³ grains (4 years
/// at 2³⁶ grains per second, two minutes at 2⁵⁶):
///
/// > `⌊rate · dt⌋ − 1 ≤ supply(dt) ≤ ⌊rate · dt⌋`
///
/// and the right half holds for every span whatever. The error belongs to the
/// whole span, not to a decision: it does not add up over a thousand million
/// admissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accrual {
    mult: u64,
    shift: u8,
}

impl Accrual {
    /// The accrual of `rate`.
    #[must_use]
    pub fn of(rate: Rate) -> Self {
        let grains = rate.grains();
        if grains == 0 {
            return Self::default();
        }
        // rate · 2^(29 + zeros) lies in [2⁹², 2⁹³), and 10⁹ in (2²⁹, 2³⁰): the
        // quotient has 63 or 64 bits, and one more doubling settles which.
        let shift = 29_u32.saturating_add(grains.leading_zeros());
        Self::with_shift(grains, shift)
            .or_else(|| Self::with_shift(grains, shift.saturating_add(1)))
            .unwrap_or_default()
    }

    /// `⌊grains · 2^shift ÷ 10⁹⌋`, if that has 64 bits.
    fn with_shift(grains: u64, shift: u32) -> Option<Self> {
        let scaled = u128::from(grains).checked_shl(shift)?;
        let mult = u64::try_from(scaled.checked_div(NANOS_PER_SEC)?).ok()?;
        let shift = u8::try_from(shift).ok()?;
        (mult.leading_zeros() == 0).then_some(Self { mult, shift })
    }

    /// The whole grains made in `dt`, rounded down; at most 2⁶⁴ − 1.
    #[must_use]
    pub fn supply(self, dt: Span) -> u64 {
        self.made(dt, 0).whole
    }

    /// What is made in `dt` on top of `phase`, a part of a grain in 2⁻⁶⁴.
    ///
    /// What does not fit 64 bits is cut off: a bucket that fills more slowly
    /// admits less, never more.
    #[must_use]
    pub fn made(self, dt: Span, phase: u64) -> Made {
        let product = u128::from(dt.nanos()).saturating_mul(u128::from(self.mult));
        let made = product.saturating_add(self.in_own_units(phase));
        let whole = u64::try_from(made.checked_shr(self.shift.into()).unwrap_or(0));
        let below = made & self.below_one();
        match whole {
            Ok(whole) if planted::is(Bug::SupplyRoundsUp) && below > 0 => Made {
                whole: whole.saturating_add(1),
                fraction: 0,
            },
            // A rate of zero has no unit of its own, and hands the part on as it is.
            Ok(whole) if self.mult == 0 => Made {
                whole,
                fraction: phase,
            },
            Ok(whole) => Made {
                whole,
                fraction: self.in_binary_units(below),
            },
            Err(_) => Made {
                whole: u64::MAX,
                fraction: 0,
            },
        }
    }

    /// The least span in which `grains` are made, or `None` if none that a
    /// [`Span`] can hold is long enough.
    #[must_use]
    pub fn time_until(self, grains: u64) -> Option<Span> {
        self.time_until_from(grains, 0)
    }

    /// As [`Accrual::time_until`], on top of `phase`: the least `dt` with
    /// `made(dt, phase).whole ≥ grains`.
    #[must_use]
    pub fn time_until_from(self, grains: u64, phase: u64) -> Option<Span> {
        if grains == 0 {
            return Some(Span::ZERO);
        }
        if self.mult == 0 {
            return None;
        }
        let wanted = u128::from(grains);
        if wanted.leading_zeros() < u32::from(self.shift) {
            return None;
        }
        let missing = wanted
            .checked_shl(self.shift.into())?
            .checked_sub(self.in_own_units(phase))?;
        let nanos = missing.div_ceil(u128::from(self.mult));
        u64::try_from(nanos).ok().map(Span::from_nanos)
    }

    /// All bits below one grain.
    fn below_one(self) -> u128 {
        let one = 1_u128.checked_shl(self.shift.into()).unwrap_or(1);
        one.saturating_sub(1)
    }

    /// A part of a grain from 2⁻⁶⁴ to 2^−shift, rounded down.
    fn in_own_units(self, part: u64) -> u128 {
        let part = u128::from(part);
        match u32::from(self.shift).checked_sub(u64::BITS) {
            Some(up) => part.checked_shl(up).unwrap_or(0),
            None => part
                .checked_shr(u64::BITS.saturating_sub(self.shift.into()))
                .unwrap_or(0),
        }
    }

    /// A part of a grain from 2^−shift to 2⁻⁶⁴, rounded down.
    fn in_binary_units(self, part: u128) -> u64 {
        let part = match u32::from(self.shift).checked_sub(u64::BITS) {
            Some(down) => part.checked_shr(down),
            None => part.checked_shl(u64::BITS.saturating_sub(self.shift.into())),
        };
        part.and_then(|part| u64::try_from(part).ok()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(rate: u64, dt: u64) -> u128 {
        u128::from(rate) * u128::from(dt) / NANOS_PER_SEC
    }

    #[test]
    fn the_multiplier_is_normalised_over_the_whole_range_of_rates() {
        for bits in 0..64 {
            for rate in [1_u64 << bits, (1_u64 << bits) | 1, u64::MAX >> bits] {
                let accrual = Accrual::of(Rate::from_grains(rate));
                assert_eq!(accrual.mult.leading_zeros(), 0, "{rate}");
                assert!((29..=93).contains(&accrual.shift), "{rate}");
            }
        }
    }

    #[test]
    fn a_hundred_days_at_two_to_the_36_grains_per_second_lose_at_most_one_grain() {
        let hundred_days = 100 * 86_400 * 1_000_000_000;
        for rate in [1, 3, 7, 999_999_937, 1 << 32, (1 << 36) - 1, 1 << 36] {
            for dt in [1, 999, 123_456_789, hundred_days - 1, hundred_days] {
                let supply = Accrual::of(Rate::from_grains(rate)).supply(Span::from_nanos(dt));
                let exact = exact(rate, dt);
                assert!(u128::from(supply) <= exact && u128::from(supply) + 1 >= exact);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_off() {
        let fastest = Accrual::of(Rate::MAX);
        assert_eq!(fastest.supply(Span::MAX), u64::MAX);
        assert_eq!(fastest.made(Span::MAX, u64::MAX).whole, u64::MAX);
        let slowest = Accrual::of(Rate::from_grains(1));
        assert_eq!(slowest.supply(Span::MAX), 18_446_744_073);
        assert_eq!(slowest.time_until(u64::MAX), None);
        assert_eq!(Accrual::of(Rate::ZERO).supply(Span::MAX), 0);
        assert_eq!(Accrual::of(Rate::ZERO).time_until(1), None);
        assert_eq!(Accrual::of(Rate::ZERO).made(Span::MAX, 7).fraction, 7);
    }
}
