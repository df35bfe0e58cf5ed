//! Computes `w·λ` for many weights and one level, without a division for each.

use super::{Level, wide};
use crate::planted::{self, Bug};

/// A level as a whole number and a fraction in 2⁻⁶⁴, rounded up.
///
/// The fraction is too great by less than one, so a product with a weight `w` is too great by less than `w`,
/// in 2⁻⁶⁴. One multiplication computes it. [`Quotient::is_exact`] decides if its rounding down is still
/// right (Granlund & Montgomery, *Division by invariant integers using multiplication*, 1994, use the same
/// bound).
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Quotient {
    whole: u64,
    fraction: u64,
    weight: u64,
}

impl Quotient {
    /// Returns the multiplier for a level, or `None` if it is full.
    pub(crate) fn by(level: Level) -> Option<Self> {
        let (units, weight) = (level.units(), level.weight());
        let whole = units.checked_div(weight)?;
        // The remainder is below the weight, so the fraction is at most 2⁶⁴ − 1 even rounded up.
        let rest = units.checked_rem(weight)?;
        let fraction = match rest {
            0 => 0,
            _ => upper(rest)
                .wrapping_sub(1)
                .checked_div(u128::from(weight))
                .and_then(|floor| u64::try_from(floor).ok())?
                .checked_add(1)?,
        };
        Some(Self {
            whole,
            fraction,
            weight,
        })
    }

    /// Returns true if `w·λ` has less than 62 bits for every weight of `bits` bits.
    pub(crate) const fn fits(&self, bits: u32) -> bool {
        // `fraction < 1`, so the product is below `(whole + 1)·w`.
        u64::BITS
            .saturating_sub(self.whole.leading_zeros())
            .saturating_add(bits)
            < 62
    }

    /// Number of upper bits of a fraction by which fractions may be put in buckets.
    pub(crate) const BUCKET_BITS: u32 = 5;

    /// Returns true if [`Quotient::part`] is exact for weights of up to `bits` bits, all of them, and the
    /// level's, multiples of `2^zeros`.
    ///
    /// Then remainders are multiples of `2^zeros` too, out of the level's weight `W`. A remainder that is not
    /// the next whole number, another remainder, or a bucket's end, 1/32 apart, is below it by
    /// `2^zeros/(32·W)` or more. The error is below `w/2⁶⁴`, which is no more than that if `32·w·W ≤ 2^(64 +
    /// zeros)`. So the quotient is right, remainders keep their order, and equal ones have the same bucket.
    pub(crate) fn is_exact(&self, bits: u32, zeros: u32) -> bool {
        let terms = u64::BITS.saturating_sub(self.weight.leading_zeros());
        let product = bits.saturating_add(terms).saturating_sub(zeros);
        self.fits(bits) && product.saturating_add(Self::BUCKET_BITS) <= u64::BITS
    }

    /// Returns `w·λ` in whole units, or one more. Meaningless unless it [`fits`](Quotient::fits).
    #[inline]
    pub(crate) const fn about(&self, weight: u64) -> u64 {
        self.part(weight).0
    }

    /// Returns `w·λ` rounded down, and its fraction in 2⁻⁶⁴, too great by less than `w`. Meaningless unless
    /// it [`is_exact`](Quotient::is_exact).
    #[inline]
    pub(crate) const fn part(&self, weight: u64) -> (u64, u64) {
        let product = wide(self.fraction, weight);
        let whole = self.whole.wrapping_mul(weight);
        (whole.wrapping_add(high_half(product)), low_half(product))
    }

    /// Returns the multiple of `2^zeros` that a fraction stands for, divided by `2^zeros`. Equal remainders
    /// have equal results, though their fractions differ.
    pub(crate) fn remainder(&self, fraction: u64, zeros: u32) -> u64 {
        if planted::is(Bug::TiesByRounding) {
            return fraction;
        }
        let terms = self.weight.checked_shr(zeros).unwrap_or(0);
        high_half(wide(fraction, terms))
    }
}

/// Returns the number as the upper half of 128 bits.
const fn upper(number: u64) -> u128 {
    wide(number, 1).wrapping_shl(u64::BITS)
}

#[expect(clippy::as_conversions, reason = "the upper half of 128 bits has 64")]
#[inline]
const fn high_half(number: u128) -> u64 {
    (number >> 64) as u64
}

#[expect(clippy::as_conversions, reason = "the lower half is what is wanted")]
#[inline]
const fn low_half(number: u128) -> u64 {
    number as u64
}

#[cfg(test)]
#[path = "../../tests/unit/demand/quotient.rs"]
mod tests;
