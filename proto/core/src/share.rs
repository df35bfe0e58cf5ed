//! A part of a budget, and the algebra of parts.
//!
//! A whole of rate `R` and capacity `B` may be divided into parts `(rᵢ, bᵢ, tᵢ)`. As long as `Σ rᵢ ≤ R`, `Σ
//! bᵢ ≤ B`, and tokens are only ever moved, all parts together admit no more than the whole would (invariant
//! 2 of `docs/invariants.md`). The operations here are exact in integers: the parts of a split add up to the
//! whole, to the grain.

use crate::planted::{self, Bug};
use crate::unit::{Rate, Scale, Tokens, Weight};
use alloc::vec::Vec;
use core::fmt;

/// Kind of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Kind {
    /// Tokens per second, up to a burst. Time refills it.
    Rate,
    /// Tokens per period. The start of a period refills it.
    Quota,
    /// Permits in flight. A release refills it.
    Concurrency,
}

/// A part of a budget.
///
/// | kind | `rate` | `burst` | `tokens` |
/// |---|---|---|---|
/// | rate | grains per second | capacity of the bucket | level, `≤ burst` |
/// | quota | 0 | 0 | unspent tokens |
/// | concurrency | 0 | permits | 0 |
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Share {
    /// Rate at which the part is refilled.
    pub rate: Rate,
    /// Capacity of the part.
    pub burst: Tokens,
    /// Level of the part.
    pub tokens: Tokens,
}

impl Share {
    /// The empty part: the identity of [`Share::merge`].
    pub const EMPTY: Self = Self {
        rate: Rate::ZERO,
        burst: Tokens::ZERO,
        tokens: Tokens::ZERO,
    };

    /// Returns true if the part is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rate.is_zero() && self.burst.is_zero() && self.tokens.is_zero()
    }

    /// Returns the sum of both parts, or `None` if it is out of range.
    #[must_use]
    pub fn merge(self, other: Self) -> Option<Self> {
        Some(Self {
            rate: self.rate.plus(other.rate)?,
            burst: self.burst.plus(other.burst)?,
            tokens: self.tokens.plus(other.tokens)?,
        })
    }

    /// Returns the difference, or `None` if `part` is not covered.
    #[must_use]
    pub fn without(self, part: Self) -> Option<Self> {
        Some(Self {
            rate: self.rate.minus(part.rate)?,
            burst: self.burst.minus(part.burst)?,
            tokens: self.tokens.minus(part.tokens)?,
        })
    }

    /// Returns true if no component of `part` is greater.
    #[must_use]
    pub fn covers(&self, part: &Self) -> bool {
        part.rate <= self.rate && part.burst <= self.burst && part.tokens <= self.tokens
    }

    /// Takes `tokens` out of the level. Returns `None` if there are not enough.
    #[must_use]
    pub fn spend(self, tokens: Tokens) -> Option<Self> {
        Some(Self {
            tokens: self.tokens.minus(tokens)?,
            ..self
        })
    }

    /// Adds `tokens` to the level, at most up to the burst. Tokens that do not fit are lost.
    #[must_use]
    pub fn refund(self, tokens: Tokens) -> Self {
        let room = self.burst.minus_or_zero(self.tokens);
        let tokens = self.tokens.plus(tokens.min(room)).unwrap_or(self.tokens);
        Self { tokens, ..self }
    }

    /// Returns the part with its level cut to its burst, and the tokens that were cut.
    #[must_use]
    pub fn clip(self) -> (Self, Tokens) {
        let kept = self.tokens.min(self.burst);
        let cut = self.tokens.minus_or_zero(kept);
        (
            Self {
                tokens: kept,
                ..self
            },
            cut,
        )
    }

    /// Divides the part in proportion to the weights, exactly.
    ///
    /// Each component is divided by largest remainder (ties go to the earlier part), so the parts add up to
    /// the grain. Levels are divided in proportion to the bursts, so no part's level exceeds its burst if the
    /// whole's does not. A quota has no burst: its tokens are divided by the weights.
    ///
    /// Without weights there are no parts, and the caller keeps the share.
    #[must_use]
    pub fn split(self, weights: &[Weight]) -> Vec<Self> {
        let weights: Vec<u64> = weights.iter().map(|weight| weight.get().into()).collect();
        let rates = apportion(self.rate.grains(), &weights);
        let bursts = apportion(self.burst.grains(), &weights);
        let tokens = if self.burst.is_zero() {
            apportion(self.tokens.grains(), &weights)
        } else {
            apportion(self.tokens.grains(), &bursts)
        };
        rates
            .into_iter()
            .zip(bursts)
            .zip(tokens)
            .map(|((rate, burst), tokens)| Self {
                rate: Rate::from_grains(rate),
                burst: Tokens::from_grains(burst),
                tokens: Tokens::from_grains(tokens),
            })
            .collect()
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes `rate/burst/tokens`, in grains.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.rate, self.burst, self.tokens)
    }
}

/// Divides `amount` among `weights` in proportion, by largest remainder: the parts add up to `amount`
/// exactly, and each is its quotient rounded down or up. Ties go to the earlier part. All parts are zero if
/// no weight is positive.
#[must_use]
pub fn apportion(amount: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    let mut left = amount;
    let mut parts = Vec::with_capacity(weights.len());
    let mut remainders = Vec::with_capacity(weights.len());
    for (index, &weight) in weights.iter().enumerate() {
        let product = u128::from(amount).saturating_mul(u128::from(weight));
        let (quotient, remainder) = match (product.checked_div(sum), product.checked_rem(sum)) {
            (Some(quotient), Some(remainder)) => (quotient, remainder),
            _ => (0, 0),
        };
        let part = u64::try_from(quotient).unwrap_or(u64::MAX);
        left = left.saturating_sub(part);
        parts.push(part);
        if remainder > 0 {
            remainders.push((core::cmp::Reverse(remainder), index));
        }
    }
    remainders.sort_unstable();
    if sum == 0 {
        return parts;
    }
    // Fewer units are left than there are remainders: each was rounded down by less than one.
    let units = usize::try_from(left).unwrap_or(usize::MAX);
    let rounds = if planted::is(Bug::RemainderTwice) {
        2
    } else {
        1
    };
    for &(_, index) in remainders.iter().take(units.saturating_mul(rounds)) {
        if let Some(part) = parts.get_mut(index) {
            *part = part.saturating_add(1);
        }
    }
    parts
}

/// Divides a burst in whole tokens, since fractions of a token are useless. The fraction that is left goes to
/// the first part.
#[must_use]
pub fn distribute_whole(burst: Tokens, scale: Scale, weights: &[Weight]) -> Vec<Tokens> {
    let weights: Vec<u64> = weights.iter().map(|weight| weight.get().into()).collect();
    let grains = scale.grains_per_token();
    let mut parts: Vec<Tokens> = apportion(scale.whole(burst), &weights)
        .into_iter()
        .map(|whole| Tokens::from_grains(whole.saturating_mul(grains)))
        .collect();
    let fraction = burst.grains().checked_rem(grains).unwrap_or(0);
    if let Some(first) = parts.first_mut() {
        *first = first.plus(Tokens::from_grains(fraction)).unwrap_or(*first);
    }
    parts
}
