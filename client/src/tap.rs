//! What is counted of a limit that is watched.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts of one name: of one limiter, or of all of a client's.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) name: Box<str>,
    /// Of so many refusals one is told.
    sample: u64,
    refused: [AtomicU64; Self::REASONS],
    waits: [AtomicU64; Waits::BOUNDS.len() + 1],
    waited_us: AtomicU64,
}

/// How long those waited who waited and were served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many waited no longer than each of [`Waits::BOUNDS`], and not as short as the one before; last
    /// those who waited longer than all.
    pub counts: [u64; Self::BOUNDS.len() + 1],
    /// How long all of them waited, to the microsecond.
    pub total: Duration,
}

impl Waits {
    /// The bounds, each included.
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

    /// All of both.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at] + other.counts[at]),
            total: self.total.saturating_add(other.total),
        }
    }

    /// How many waited.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// A bound that so many thousandths of them did not exceed; `None` if nobody waited, or it was
    /// longer than all bounds.
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

impl Tap {
    /// There is room for all reasons.
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

    /// Counts a refusal. For how many it is to be told: the first is, and then one in so many.
    pub(crate) fn refused(&self, reason: usize) -> Option<u64> {
        let count = self.refused.get(reason)?;
        let before = count.fetch_add(1, Ordering::Relaxed);
        match before {
            0 => Some(1),
            before if before.is_multiple_of(self.sample) => Some(self.sample),
            _ => None,
        }
    }

    /// How often that was the reason.
    pub(crate) fn refusals(&self, reason: usize) -> u64 {
        let count = self.refused.get(reason);
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Counts a wait that was served.
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
