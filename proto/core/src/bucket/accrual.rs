//! The amount that a rate makes in a time, exactly, without a division.

use super::gcra::Made;
use crate::planted::{self, Bug};
use crate::unit::{Rate, Span};

/// Nanoseconds in a second, and thereby the parts of a grain that matter: a rate of `r` grains per second
/// makes `r` billionths of a grain per nanosecond.
const BILLION: u64 = 1_000_000_000;

/// A [`Rate`] prepared for the hot path.
///
/// On top of `p` billionths of a grain, `r` grains per second make `⌊(r·dt + p) ÷ 10⁹⌋` in `dt` nanoseconds.
/// The division is replaced by a multiplication with the reciprocal, rounded up, in 93 binary places
/// (Granlund and Montgomery, *Division by invariant integers using multiplication*, PLDI 1994):
///
/// > `mult = ⌈r · 2⁹³ ÷ 10⁹⌉`, `supply(dt) = ⌊dt · mult ÷ 2⁹³⌋`
///
/// The product is too great by less than `dt ÷ 2⁹³`. The exact quotient is at least 10⁻⁹ below the next whole
/// number. So for `dt ≤ 2⁶³ ns` (292 years), at **every** rate, the result is the exact quotient rounded down.
/// Longer spans count as 2⁶³ ns, and results are cut to 64 bits: both only ever make less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Accrual {
    rate: u64,
    /// `mult`, upper and lower 64 bits.
    mult: (u64, u64),
}

impl Accrual {
    /// The longest span that counts: 2⁶³ ns, or 292 years.
    pub const SPAN_MAX: Span = Span::from_nanos(1 << 63);

    /// Binary places of `mult`. More would not fit 128 bits at the greatest rate. Fewer would not be exact up
    /// to [`Accrual::SPAN_MAX`].
    const PLACES: u32 = 93;

    /// Returns the accrual of `rate`.
    #[must_use]
    pub fn of(rate: Rate) -> Self {
        let rate = rate.grains();
        Self {
            rate,
            mult: halves(reciprocal(rate)),
        }
    }

    /// Returns the whole grains made in `dt`, rounded down; at most 2⁶⁴ − 1.
    #[must_use]
    pub fn supply(self, dt: Span) -> u64 {
        self.whole(dt.min(Self::SPAN_MAX).nanos(), 0)
    }

    /// Returns the amount made in `dt` on top of `phase` billionths of a grain.
    #[must_use]
    pub fn made(self, dt: Span, phase: u32) -> Made {
        let dt = dt.min(Self::SPAN_MAX).nanos();
        let whole = self.whole(dt, phase);
        if whole == u64::MAX {
            return Made { whole, fraction: 0 };
        }
        // Below 10⁹, so the lower 64 bits of each term are enough.
        let fraction = self
            .rate
            .wrapping_mul(dt)
            .wrapping_add(phase.into())
            .wrapping_sub(whole.wrapping_mul(BILLION));
        if planted::is(Bug::SupplyRoundsUp) && fraction > 0 {
            let whole = whole.saturating_add(1);
            return Made { whole, fraction: 0 };
        }
        let fraction = u32::try_from(fraction).unwrap_or(0);
        Made { whole, fraction }
    }

    /// Returns the least span in which `grains` are made on top of `phase` billionths of a grain: the least
    /// `dt` with `made(dt, phase).whole ≥ grains`. Returns `None` if it is longer than [`Accrual::SPAN_MAX`].
    #[must_use]
    pub fn time_until(self, grains: u64, phase: u32) -> Option<Span> {
        if grains == 0 {
            return Some(Span::ZERO);
        }
        if self.rate == 0 {
            return None;
        }
        let missing = u128::from(grains)
            .saturating_mul(BILLION.into())
            .saturating_sub(phase.into());
        let nanos = u64::try_from(missing.div_ceil(self.rate.into())).ok()?;
        let span = Span::from_nanos(nanos);
        (span <= Self::SPAN_MAX).then_some(span)
    }

    /// Returns `⌊(dt · mult + phase · ⌈2⁹³ ÷ 10⁹⌉) ÷ 2⁹³⌋`, for `dt ≤ 2⁶³`. No sum in it reaches 128 bits, so
    /// none of them saturates.
    fn whole(self, dt: u64, phase: u32) -> u64 {
        let phase = u128::from(phase).saturating_mul(const { reciprocal(1) });
        let (upper, lower) = self.mult;
        let lower = wide(dt, lower).saturating_add(phase);
        let sum = wide(dt, upper).saturating_add(u128::from(halves(lower).0));
        let whole = sum.checked_shr(const { Self::PLACES - u64::BITS });
        whole
            .and_then(|whole| u64::try_from(whole).ok())
            .unwrap_or(u64::MAX)
    }
}

/// Returns `⌈rate · 2⁹³ ÷ 10⁹⌉`, in two steps, since the dividend has up to 157 bits.
const fn reciprocal(rate: u64) -> u128 {
    const FIRST: u32 = 63;
    const SECOND: u32 = Accrual::PLACES - FIRST;
    const DIVISOR: u128 = 1_000_000_000;
    #[expect(
        clippy::as_conversions,
        reason = "widening, where `From` is not yet const"
    )]
    let dividend = (rate as u128) << FIRST;
    let rest = (dividend % DIVISOR) << SECOND;
    // At most 2¹²⁷·² in all: the shift back and the sum stay below 2¹²⁸.
    ((dividend / DIVISOR) << SECOND).saturating_add(rest.div_ceil(DIVISOR))
}

fn wide(a: u64, b: u64) -> u128 {
    u128::from(a).saturating_mul(u128::from(b))
}

/// Returns the upper and lower 64 bits.
fn halves(value: u128) -> (u64, u64) {
    let upper = value.checked_shr(u64::BITS).unwrap_or(0);
    let lower = value & u128::from(u64::MAX);
    (
        u64::try_from(upper).unwrap_or(u64::MAX),
        u64::try_from(lower).unwrap_or(u64::MAX),
    )
}

#[cfg(test)]
#[path = "../../tests/unit/bucket/accrual.rs"]
mod tests;
