//! Division of a rate by demand, in whole tokens per whole seconds.
//!
//! Rates are in millionths of a token per second. The division is max-min fair: no part gets more than it wants, and
//! what one does not want goes to the others in equal parts. Of `n` parts that want something each gets a token
//! per fill at least, as long as the interval of fills may be long enough.

/// Millionths of a token in a token.
pub const MICRO: u64 = 1_000_000;

/// Intervals of fills, in seconds. Scarce rates are filled seldom, since a fill has whole tokens.
pub const INTERVALS: [u64; 15] = [
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800, 43_200, 86_400,
];

/// Tokens of a fill that each part should have on average. Fewer would round the parts too roughly.
const TOKENS_EACH: u64 = 4;

/// Tokens that parts get each interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// Interval of fills, in seconds.
    pub interval_s: u64,
    /// Tokens of each part, in the order of the demands.
    pub tokens: Vec<u64>,
}

/// Divides `rate` by what the parts want. Keeps the interval in use while it still fits, because a data plane
/// ignores a change of the interval alone.
#[must_use]
pub fn divide(wants: &[u64], rate: u64, interval_in_use: u64) -> Division {
    let wanting = wants.iter().filter(|want| **want > 0).count() as u64;
    let wanted = wants
        .iter()
        .fold(0_u64, |sum, want| sum.saturating_add(*want));
    let interval_s = interval(rate.min(wanted), wanting, interval_in_use);
    let fill = tokens_in(rate, interval_s);
    // A part that wants less than a token per fill gets one.
    let wants: Vec<u64> = wants
        .iter()
        .map(|want| micro_in(*want, interval_s).div_ceil(MICRO))
        .collect();
    Division {
        interval_s,
        tokens: max_min(&wants, fill),
    }
}

/// Returns the shortest interval whose fill has enough tokens for all parts.
fn interval(rate: u64, parts: u64, in_use: u64) -> u64 {
    let fill = |interval| tokens_in(rate, interval);
    let (least, most) = (parts * TOKENS_EACH / 2, parts * TOKENS_EACH * 10);
    if INTERVALS.contains(&in_use) && fill(in_use) >= least && (in_use == 1 || fill(in_use) <= most)
    {
        return in_use;
    }
    let enough = |interval: &&u64| fill(**interval) >= parts * TOKENS_EACH;
    let longest = INTERVALS[INTERVALS.len() - 1];
    INTERVALS.iter().find(enough).copied().unwrap_or(longest)
}

fn micro_in(rate: u64, seconds: u64) -> u64 {
    rate.saturating_mul(seconds)
}

fn tokens_in(rate: u64, seconds: u64) -> u64 {
    micro_in(rate, seconds) / MICRO
}

/// Divides whole tokens: the smallest demands first, each at most an equal part of what is left.
fn max_min(wants: &[u64], tokens: u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wants.len()).filter(|index| wants[*index] > 0).collect();
    order.sort_by_key(|index| (wants[*index], *index));
    let mut given = vec![0; wants.len()];
    let mut left = tokens;
    for (served, index) in order.iter().enumerate() {
        let equal = left / (order.len() - served) as u64;
        given[*index] = wants[*index].min(equal);
        left -= given[*index];
    }
    given
}

#[cfg(test)]
#[path = "../../tests/unit/rlqs/divide.rs"]
mod tests;
