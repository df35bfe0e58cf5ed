//! Counters of a watched limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters under one name: those of one limiter, or of all limiters of a client.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) name: Box<str>,
    /// One in this many refusals is logged.
    sample: u64,
    refused: [AtomicU64; Self::REASONS],
    waits: [AtomicU64; Waits::BOUNDS.len() + 1],
    waited_us: AtomicU64,
}

/// Histogram of the waits of requests that waited and were admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Number of waits in each bucket: at most the bound of the same index in [`Waits::BOUNDS`], and above
    /// the bound before it. The last bucket is for waits above all bounds.
    pub counts: [u64; Self::BOUNDS.len() + 1],
    /// Sum of all waits, to the microsecond.
    pub total: Duration,
}

impl Waits {
    /// The upper bounds of the buckets, inclusive.
    pub const BOUNDS: [Duration; 12] = [
        Duration::from_millis(1),
        Duration::from_millis(2),
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(20),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(200),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(5),
        Duration::from_secs(30),
    ];

    /// Returns the sum of both histograms.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at] + other.counts[at]),
            total: self.total.saturating_add(other.total),
        }
    }

    /// Returns the number of waits.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the least bound that this many thousandths of the waits did not exceed, such as 990 for the
    /// 99th percentile. `None` if there were no waits, or if it lies above all bounds.
    #[must_use]
    pub fn bound_of(&self, thousandths: u64) -> Option<Duration> {
        let all = self.count();
        let wanted = all
            .saturating_mul(thousandths.min(1_000))
            .div_ceil(1_000)
            .max(1);
        let mut below = 0;
        let counts = self.counts.iter().zip(Self::BOUNDS);
        let bounds = counts.map(|(count, bound)| {
            below += count;
            (below, bound)
        });
        let mut reached = bounds.filter(|(below, _)| *below >= wanted);
        reached.next().map(|(_, bound)| bound)
    }
}

impl Counters {
    /// Room for all reasons.
    pub(crate) const REASONS: usize = 16;

    pub(crate) fn new(name: &str, sample: u64) -> Self {
        Self {
            name: name.into(),
            sample: sample.max(1),
            refused: [const { AtomicU64::new(0) }; Self::REASONS],
            waits: [const { AtomicU64::new(0) }; Waits::BOUNDS.len() + 1],
            waited_us: AtomicU64::new(0),
        }
    }

    /// Counts a refusal. Returns the number of refusals that a log line stands for, if this one is to be
    /// logged: the first, and then one in `sample`.
    pub(crate) fn refused(&self, reason: usize) -> Option<u64> {
        let count = self.refused.get(reason)?;
        let before = count.fetch_add(1, Ordering::Relaxed);
        match before {
            0 => Some(1),
            before if before.is_multiple_of(self.sample) => Some(self.sample),
            _ => None,
        }
    }

    /// Returns the number of refusals for this reason.
    pub(crate) fn refusals(&self, reason: usize) -> u64 {
        let count = self.refused.get(reason);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Counts a wait that ended in an admission.
    pub(crate) fn waited(&self, wait: Duration) {
        let at = Waits::BOUNDS.partition_point(|bound| *bound < wait);
        self.waits[at].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(crate) fn waits(&self) -> Waits {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Waits {
            counts: std::array::from_fn(|at| load(&self.waits[at])),
            total: Duration::from_micros(load(&self.waited_us)),
        }
    }
}
