//! One token bucket, in exact arithmetic: a level is counted in parts of a token of which the rate makes a whole number
//! in each nanosecond.

use super::Rate;

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Time since the first request of all keys, in nanoseconds.
    pub at: u64,
    /// Cost in tokens.
    pub cost: u64,
}

/// Iterates over the indices of the requests that a bucket refuses. It is full at first.
pub fn refusals(
    requests: &[Request],
    rate: Rate,
    burst: u64,
) -> impl Iterator<Item = usize> + use<'_> {
    let token = u128::from(rate.per());
    let full = u128::from(burst) * token;
    let (mut level, mut before) = (full, 0);
    let refused = move |(index, request): (usize, &Request)| {
        let made = u128::from(request.at - before) * u128::from(rate.tokens());
        (level, before) = ((level + made).min(full), request.at);
        let cost = u128::from(request.cost) * token;
        match level.checked_sub(cost) {
            Some(left) => {
                level = left;
                None
            }
            None => Some(index),
        }
    };
    requests.iter().enumerate().filter_map(refused)
}

/// Returns the least burst with which a bucket refuses at most `allowed` requests.
///
/// If all requests cost the same, a larger burst never refuses more, so the result is exact. Otherwise the result
/// refuses at most `allowed` requests, and a burst of one token less refuses more.
#[must_use]
pub fn least_burst(requests: &[Request], rate: Rate, allowed: u64) -> u64 {
    let refused = |burst: u64| refusals(requests, rate, burst).count() as u64;
    let (mut low, mut high) = (0, burst_for_all(requests, rate));
    if allowed == 0 {
        return high.max(1);
    }
    // Invariant: `high` refuses few enough, and `low` too many (or admits nothing at all).
    while high - low > 1 {
        let middle = low.midpoint(high);
        match refused(middle) <= allowed {
            true => high = middle,
            false => low = middle,
        }
    }
    high.max(1)
}

/// Returns the least burst with which a bucket refuses nothing: the greatest debt of a bucket without a limit.
fn burst_for_all(requests: &[Request], rate: Rate) -> u64 {
    let token = u128::from(rate.per());
    let (mut debt, mut most, mut before) = (0_u128, 0, 0);
    for request in requests {
        let made = u128::from(request.at - before) * u128::from(rate.tokens());
        debt = debt.saturating_sub(made) + u128::from(request.cost) * token;
        (most, before) = (debt.max(most), request.at);
    }
    u64::try_from(most.div_ceil(token)).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "../../tests/unit/sizing/bucket.rs"]
mod tests;
