//! Mean of the logarithm of latency.

use std::time::Duration;

/// Mean and variance of the logarithm of latency, in nanoseconds (Welford's method, 1962).
///
/// One unusual call in a hundred moves it little, while a queue delays every call.
#[derive(Clone, Debug)]
pub(super) struct LogMean {
    calls: f64,
    mean: f64,
    /// Sum of the squares of the deviations from the mean.
    squares: f64,
}

impl LogMean {
    pub(super) const fn new() -> Self {
        Self {
            calls: 0.0,
            mean: 0.0,
            squares: 0.0,
        }
    }

    pub(super) fn add(&mut self, latency: Duration) {
        let log = (latency.as_nanos().max(1) as f64).ln();
        self.calls += 1.0;
        let off = log - self.mean;
        self.mean += off / self.calls;
        self.squares += off * (log - self.mean);
    }

    /// Returns the number of calls.
    pub(super) const fn calls(&self) -> f64 {
        self.calls
    }

    pub(super) const fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the standard error of the mean, which is a part of the latency; zero without a call.
    pub(super) fn error(&self) -> f64 {
        self.squares.max(0.0).sqrt() / self.calls.max(1.0)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/local/adaptive/log_mean.rs"]
mod tests;
