//! Rates as people write them, and the grid of candidates.

use std::fmt;

/// A rate: whole tokens per second, minute, hour or day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    tokens: u64,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
}

impl Unit {
    const ALL: [Self; 4] = [Self::Second, Self::Minute, Self::Hour, Self::Day];

    const fn nanos(self) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        match self {
            Self::Second => SECOND,
            Self::Minute => 60 * SECOND,
            Self::Hour => 3_600 * SECOND,
            Self::Day => 86_400 * SECOND,
        }
    }
}

impl Rate {
    /// Makes a rate of whole tokens per second.
    #[must_use]
    pub const fn per_second(tokens: u64) -> Self {
        let unit = Unit::Second;
        Self { tokens, unit }
    }

    /// Returns the tokens that are made in [`Rate::per`].
    #[must_use]
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// Returns the span in nanoseconds in which the tokens are made.
    #[must_use]
    pub const fn per(self) -> u64 {
        self.unit.nanos()
    }

    /// Returns the tokens per second.
    #[must_use]
    pub fn tokens_per_second(self) -> f64 {
        self.tokens as f64 * 1e9 / self.per() as f64
    }

    /// Returns the time in nanoseconds in which `tokens` are made.
    #[must_use]
    pub fn time_for(self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.per()) / u128::from(self.tokens.max(1))
    }
}

/// Formats the rate as a budget file writes it.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Second => "s",
            Unit::Minute => "min",
            Unit::Hour => "h",
            Unit::Day => "day",
        };
        write!(f, "{}/{unit}", self.tokens)
    }
}

/// Returns the candidates for a key that had `tokens` in `nanos`: rates with two digits in steps of about a tenth,
/// from the mean on, over a factor of a thousand.
pub(super) fn grid(tokens: u64, nanos: u64) -> impl Iterator<Item = Rate> {
    const STEPS: [u64; 24] = [
        10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82,
        91,
    ];
    let mean = |unit: Unit| {
        let all = u128::from(tokens) * u128::from(unit.nanos());
        u64::try_from(all.div_ceil(u128::from(nanos.max(1)))).unwrap_or(u64::MAX)
    };
    let units = Unit::ALL.into_iter();
    // The shortest unit in which the mean has two digits.
    let unit = units.clone().find(|unit| mean(*unit) >= 10);
    let unit = unit.unwrap_or(Unit::Day);
    let least = mean(unit).max(1);
    let scale = |step: u64, ten: u32| step.saturating_mul(10_u64.saturating_pow(ten)) / 10;
    let all = (0..18).flat_map(move |ten| STEPS.into_iter().map(move |step| scale(step, ten)));
    let mut before = 0;
    all.filter(move |tokens| *tokens >= least)
        .filter(move |tokens| std::mem::replace(&mut before, *tokens) != *tokens)
        .take(3 * STEPS.len())
        .map(move |tokens| Rate { tokens, unit })
}

#[cfg(test)]
#[path = "../../tests/unit/sizing/rate.rs"]
mod tests;
