//! The fixed point of one budget.

use super::time::NANOS_PER_SEC;
use super::{Rate, Span, Tokens, UnitError, div_ceil};
use core::num::NonZeroU64;

/// A rate as people write it: tokens per span.
///
/// Range: 1 token per 10 days to 10¹² tokens per second, or exactly 0.
///
/// `1.5/s` and `3/2s` are the same rate, but are kept distinct: each is shown as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Frequency {
    tokens: u64,
    per: Span,
    /// Denominator of the number that was written: 2 for `1.5/s`, which is 3 tokens per 2 s. Divides a power of ten.
    #[cfg_attr(feature = "serde", serde(default = "one"))]
    denominator: NonZeroU64,
}

/// Returns the denominator of a whole number of tokens.
const fn one() -> NonZeroU64 {
    NonZeroU64::MIN
}

impl Frequency {
    /// No tokens, ever.
    pub const ZERO: Self = Self {
        tokens: 0,
        per: Span::from_secs(1),
        denominator: one(),
    };

    /// The maximum number of tokens per second.
    pub const PER_SEC_MAX: u64 = 1_000_000_000_000;

    /// The longest time that one token may take.
    pub const SPAN_PER_TOKEN_MAX: Span = Span::from_secs(10 * 86_400);

    /// Returns the rate of `tokens` per `per`.
    ///
    /// # Errors
    ///
    /// [`UnitError::Zero`] for an empty span, [`UnitError::OutOfRange`] for a rate other than 0 that is
    /// slower than one token per 10 days or faster than 10¹² tokens per second.
    pub fn new(tokens: u64, per: Span) -> Result<Self, UnitError> {
        if per.is_zero() {
            return Err(UnitError::Zero { what: "span" });
        }
        let frequency = Self {
            tokens,
            per,
            denominator: one(),
        };
        let out_of_range = UnitError::OutOfRange { what: "rate" };
        // tokens ÷ per ≤ 10¹² ÷ s, compared crosswise: both products fit 128 bits.
        let (tokens, per) = (u128::from(tokens), u128::from(per.nanos()));
        let most = per
            .checked_mul(u128::from(Self::PER_SEC_MAX))
            .ok_or(out_of_range)?;
        let fastest = tokens
            .checked_mul(u128::from(NANOS_PER_SEC))
            .ok_or(out_of_range)?;
        let slowest = tokens
            .checked_mul(u128::from(Self::SPAN_PER_TOKEN_MAX.nanos()))
            .ok_or(out_of_range)?;
        if fastest > most || (tokens != 0 && slowest < per) {
            return Err(out_of_range);
        }
        Ok(frequency)
    }

    /// Returns the rate of `numerator` ÷ `denominator` tokens per `per`, in lowest terms: 3 and 2 for 1.5 tokens.
    ///
    /// # Errors
    ///
    /// As [`Frequency::new`]; also if the fraction is no decimal number.
    pub fn decimal(numerator: u64, denominator: NonZeroU64, per: Span) -> Result<Self, UnitError> {
        let out_of_range = UnitError::OutOfRange { what: "rate" };
        let mut other = denominator.get();
        for factor in [2, 5] {
            while other.checked_rem(factor) == Some(0) {
                other = other.checked_div(factor).unwrap_or(other);
            }
        }
        let nanos = per.nanos().checked_mul(denominator.get());
        let nanos = nanos.filter(|_| other == 1).ok_or(out_of_range)?;
        let frequency = Self::new(numerator, Span::from_nanos(nanos))?;
        Ok(Self {
            denominator,
            ..frequency
        })
    }

    /// Returns the rate of `tokens` per second.
    ///
    /// # Errors
    ///
    /// See [`Frequency::new`].
    pub fn per_sec(tokens: u64) -> Result<Self, UnitError> {
        Self::new(tokens, Span::from_secs(1))
    }

    /// Returns the tokens of one span.
    #[must_use]
    #[inline]
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// Returns the span.
    #[must_use]
    #[inline]
    pub const fn per(self) -> Span {
        self.per
    }

    /// Returns the denominator of the number of tokens as it was written: 2 for `1.5/s`, and 1 for a whole number.
    #[must_use]
    #[inline]
    pub const fn denominator(self) -> NonZeroU64 {
        self.denominator
    }
}

/// Number of grains of one token of a budget.
///
/// Rates from one token in ten days to 10¹² a second do not fit one 64-bit fixed point that also divides
/// finely, so each budget has its own. The scale is chosen once, when a generation of the budget is made,
/// such that its rate is about [`Scale::GRAINS_TARGET`] grains per second and its burst still fits. Range: 1
/// to 2⁵⁶ grains per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u64", into = "u64"))]
pub struct Scale(u64);

impl Scale {
    /// One grain is one token: the scale of quotas and permits.
    pub const WHOLE: Self = Self(1);

    /// The rate that a new scale aims at: fine enough that a ten-thousandth part of a budget still divides to
    /// a part in 10⁵, small enough that 2³⁰ moves of the whole budget do not exhaust an edge's 64-bit
    /// counters.
    pub const GRAINS_TARGET: u64 = 1 << 32;

    /// Maximum of any limit in grains, in rate or burst: 1/256 of the 64-bit range, so that sums over limits
    /// that were raised still fit.
    pub const GRAINS_MAX: u64 = 1 << 56;

    const GRAINS_PER_TOKEN_MAX: u64 = 1 << 56;

    /// Divides into seconds, minutes, hours, and ten days: with it in the scale, rates in those units are
    /// exact.
    const SECONDS_IN_TEN_DAYS: u64 = 864_000;

    /// Returns the scale for a budget of this rate and this burst (in tokens).
    ///
    /// # Errors
    ///
    /// [`UnitError::OutOfRange`] if no scale holds both.
    pub fn fit(rate: Frequency, burst: u64) -> Result<Self, UnitError> {
        let out_of_range = UnitError::OutOfRange { what: "burst" };
        if burst > Self::GRAINS_MAX {
            return Err(out_of_range);
        }
        if rate.tokens == 0 {
            return Ok(Self::WHOLE);
        }
        // grains per token = target ÷ (tokens per second), at least 1.
        let wanted = u128::from(Self::GRAINS_TARGET)
            .checked_mul(u128::from(rate.per.nanos()))
            .and_then(|product| {
                let per_sec = u128::from(rate.tokens).checked_mul(u128::from(NANOS_PER_SEC))?;
                product.checked_div(per_sec)
            })
            .ok_or(out_of_range)?;
        let by_burst = u128::from(Self::GRAINS_MAX)
            .checked_div(u128::from(burst.max(1)))
            .ok_or(out_of_range)?;
        let most = wanted
            .min(by_burst)
            .min(u128::from(Self::GRAINS_PER_TOKEN_MAX));
        let most = u64::try_from(most).map_err(|_| out_of_range)?.max(1);
        let scale = Self(Self::rounded(most));
        if scale.rate(rate)?.is_zero() {
            return Err(out_of_range);
        }
        Ok(scale)
    }

    /// Returns the greatest power of two up to `most`, times the seconds of ten days if there is room for
    /// them.
    fn rounded(most: u64) -> u64 {
        let power = |limit: u64| 1_u64.checked_shl(limit.ilog2()).unwrap_or(1);
        match most.checked_div(Self::SECONDS_IN_TEN_DAYS) {
            None | Some(0) => power(most),
            Some(room) => power(room).saturating_mul(Self::SECONDS_IN_TEN_DAYS),
        }
    }

    /// Returns the grains per token.
    #[must_use]
    #[inline]
    pub const fn grains_per_token(self) -> u64 {
        self.0
    }

    /// Returns `whole` tokens as an amount.
    ///
    /// # Errors
    ///
    /// [`UnitError::OutOfRange`] above [`Scale::GRAINS_MAX`] grains.
    pub fn tokens(self, whole: u64) -> Result<Tokens, UnitError> {
        match whole.checked_mul(self.0) {
            Some(grains) if grains <= Self::GRAINS_MAX => Ok(Tokens::from_grains(grains)),
            _ => Err(UnitError::OutOfRange { what: "tokens" }),
        }
    }

    /// Returns the rate in grains per second, rounded down.
    ///
    /// # Errors
    ///
    /// [`UnitError::OutOfRange`] above [`Scale::GRAINS_MAX`] grains per second.
    pub fn rate(self, frequency: Frequency) -> Result<Rate, UnitError> {
        let out_of_range = UnitError::OutOfRange { what: "rate" };
        // tokens · grains · 10⁹ may pass 128 bits only far outside the range.
        let per_span = u128::from(frequency.tokens)
            .checked_mul(u128::from(self.0))
            .and_then(|grains| grains.checked_mul(u128::from(NANOS_PER_SEC)))
            .ok_or(out_of_range)?;
        let grains = per_span
            .checked_div(u128::from(frequency.per.nanos()))
            .ok_or(out_of_range)?;
        match u64::try_from(grains) {
            Ok(grains) if grains <= Self::GRAINS_MAX => Ok(Rate::from_grains(grains)),
            _ => Err(out_of_range),
        }
    }

    /// Returns the whole tokens in an amount, rounded down.
    #[must_use]
    #[inline]
    pub const fn whole(self, tokens: Tokens) -> u64 {
        match tokens.grains().checked_div(self.0) {
            Some(whole) => whole,
            None => 0,
        }
    }

    /// Returns the whole tokens in an amount, rounded up.
    #[must_use]
    #[inline]
    pub const fn whole_up(self, tokens: Tokens) -> u64 {
        tokens.grains().div_ceil(self.0)
    }
}

impl TryFrom<u64> for Scale {
    type Error = UnitError;

    fn try_from(grains_per_token: u64) -> Result<Self, UnitError> {
        match grains_per_token {
            0 => Err(UnitError::Zero { what: "scale" }),
            1..=Self::GRAINS_PER_TOKEN_MAX => Ok(Self(grains_per_token)),
            _ => Err(UnitError::OutOfRange { what: "scale" }),
        }
    }
}

impl From<Scale> for u64 {
    fn from(scale: Scale) -> Self {
        scale.grains_per_token()
    }
}

/// Returns the time in which `rate` makes `tokens`, rounded up; `None` if never.
pub(crate) fn time_to_make(tokens: Tokens, rate: Rate) -> Option<Span> {
    if tokens.is_zero() {
        return Some(Span::ZERO);
    }
    if rate.is_zero() {
        return None;
    }
    let grain_nanos = u128::from(tokens.grains()).checked_mul(u128::from(NANOS_PER_SEC))?;
    u64::try_from(div_ceil(grain_nanos, u128::from(rate.grains())))
        .ok()
        .map(Span::from_nanos)
}

#[cfg(test)]
#[path = "../../tests/unit/unit/scale.rs"]
mod tests;
