//! The state of a limit in the terms of header fields: a quota per window, what remains, and when it is back.

use crate::bucket::limit::Limit;
use aliquot_core::unit::Span;
use std::time::Duration;

/// State of a limit, as header fields report it.
///
/// A decision returns the state that it left ([`Limiter::decide`](crate::Limiter::decide)):
/// `remaining` then excludes this request's cost, but not what other threads have taken since. Tokens that other
/// threads hold in advance ([`Limiter::unbatched`](crate::Limiter::unbatched)) are added as an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitInfo {
    /// Tokens per window. For a leased limit those of the whole budget, as far as its node tells them.
    pub limit: u64,
    /// The window, in whole seconds. For a quota it is the usual length of a period: 30 days for a month, 365 days
    /// for a year. `None` if the tokens are not refilled by time.
    pub window: Option<u64>,
    /// Tokens that this process can admit now. For a leased limit what is left of its **share**, which may be less
    /// than what is left of the budget. For a budget in central mode what its home node has left.
    pub remaining: u64,
    /// Time until the limit is unused again: until the bucket is full, the window is empty, or the period of a
    /// quota is over. `None` if time alone does not achieve that, or if it is not known.
    pub reset: Option<Duration>,
}

impl LimitInfo {
    /// Returns the state of a window of this length.
    pub(crate) fn of_window(limit: u64, length: Span, used: u64, reset: Span) -> Self {
        let second = Span::from_secs(1).nanos();
        Self {
            limit,
            window: Some(length.nanos().div_ceil(second)),
            remaining: limit.saturating_sub(used),
            reset: Some(Duration::from_nanos(reset.nanos())),
        }
    }

    /// Returns the state of a pacer with this interval, whose next turn is due after `wait`.
    pub(crate) fn of_turns(interval: Span, wait: Span) -> Self {
        let (limit, window) = made(1, 1, interval.nanos().into());
        Self {
            limit,
            window,
            remaining: u64::from(wait.is_zero()),
            reset: Some(Duration::from_nanos(wait.nanos())),
        }
    }
}

/// A bucket in grains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketLevel {
    /// Grains per second.
    pub(crate) rate: u64,
    pub(crate) burst: u64,
    /// Missing to a full bucket.
    pub(crate) missing: u64,
    /// Grains per token.
    pub(crate) scale: u64,
}

const BILLION: u128 = 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

impl BucketLevel {
    /// Describes the bucket. `written` is the limit as its author wrote it, if that is known.
    pub(crate) fn describe(self, written: Option<Limit>) -> LimitInfo {
        let scale = self.scale.max(1);
        let burst = self.burst / scale;
        let (limit, window) = match written.and_then(Limit::per_span) {
            Some((tokens, per)) => as_written(burst, tokens, per),
            None => limit_of_budget(self.rate, self.burst, scale),
        };
        LimitInfo {
            limit,
            window,
            remaining: self.burst.saturating_sub(self.missing) / scale,
            reset: self.reset(),
        }
    }

    /// Returns the time until the bucket is full; `None` if nothing refills it.
    pub(crate) fn reset(self) -> Option<Duration> {
        (self.rate > 0).then(|| {
            // Rounded down, since the debt is rounded up to a grain: a whole second stays one.
            let nanos = u128::from(self.missing) * BILLION / u128::from(self.rate);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        })
    }
}

/// Returns the limit and the window of a bucket that holds `burst` tokens: as its author wrote them, or what comes
/// nearest in whole seconds.
pub(crate) fn as_written(burst: u64, tokens: u64, per: Span) -> (u64, Option<u64>) {
    written(burst, tokens, per).unwrap_or_else(|| made(burst, tokens.into(), per.nanos().into()))
}

/// Returns a quota and its window in seconds as they were written: 100 per minute is 100 and 60. `None` if the
/// window is no whole number of seconds, or if the bucket holds more than that.
const fn written(burst: u64, tokens: u64, per: Span) -> Option<(u64, Option<u64>)> {
    let whole = per.nanos() > 0 && per.nanos().is_multiple_of(SECOND);
    if !whole || burst > tokens {
        return None;
    }
    Some((tokens, Some(per.nanos() / SECOND)))
}

/// Returns the limit and the window of a budget with this rate and burst, in grains, whose author's words are not
/// known.
pub(crate) fn limit_of_budget(rate: u64, burst: u64, scale: u64) -> (u64, Option<u64>) {
    let scale = scale.max(1);
    made(burst / scale, rate.into(), u128::from(scale) * BILLION)
}

/// Returns a quota and its window in seconds, for a bucket that holds `burst` tokens and is refilled by `tokens`
/// in `nanos`: what a second makes if that is more than the burst, or else the burst and the time that makes it.
fn made(burst: u64, tokens: u128, nanos: u128) -> (u64, Option<u64>) {
    let fit = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
    if tokens == 0 || nanos == 0 {
        return (burst, None);
    }
    let held = u128::from(burst);
    let in_a_second = tokens * BILLION / nanos;
    if held < in_a_second {
        return (fit(in_a_second), Some(1));
    }
    // A rate in fixed point is up to one part in 10⁸ below the one that was meant.
    let full = held * nanos / tokens;
    let full = full - full / 10_000_000;
    (burst, Some(fit(full.div_ceil(BILLION)).max(1)))
}

#[cfg(test)]
#[path = "../../tests/unit/bucket/described.rs"]
mod tests;
