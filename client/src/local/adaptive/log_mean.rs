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

#[test]
fn the_mean_and_its_error_are_those_of_the_logarithms() {
    let mut logs = LogMean::new();
    assert_eq!((logs.calls(), logs.error()), (0.0, 0.0));
    // Logarithms of about 1, 2 and 6 times that of a thousand.
    for nanos in [1_000, 1_000_000, 1_000_000_000_000_000_000] {
        logs.add(Duration::from_nanos(nanos));
    }
    let unit = 1_000_f64.ln();
    assert!((logs.mean() / unit - 3.0).abs() < 1e-9, "{logs:?}");
    // The squares of 2, 1 and 3 are 14.
    assert!(
        (logs.error() / unit - 14_f64.sqrt() / 3.0).abs() < 1e-9,
        "{logs:?}"
    );
}
