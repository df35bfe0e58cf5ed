//! Latencies of answers.

use aliquot_core::unit::Span;

/// Buckets per doubling of the latency. Each is at most 1/16 wider than the one before.
const PER_DOUBLING: u32 = 16;
const BUCKETS: usize = 40 * PER_DOUBLING as usize;

/// Counts of latencies, in buckets of microseconds whose bounds grow by a sixteenth. Memory does not
/// grow with the number of latencies.
#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
    max: Span,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            buckets: vec![0; BUCKETS],
            count: 0,
            max: Span::ZERO,
        }
    }
}

impl Latencies {
    /// Counts a latency.
    pub fn add(&mut self, latency: Span) {
        let micros = latency.nanos() / 1_000;
        if let Some(bucket) = self.buckets.get_mut(bucket_of(micros)) {
            *bucket += 1;
        }
        self.count += 1;
        self.max = self.max.max(latency);
    }

    /// Returns the longest latency.
    #[must_use]
    pub fn max(&self) -> Span {
        self.max
    }

    /// Returns the latency below which `per_mille` of 1,000 lie, rounded up to the end of its bucket.
    /// Returns zero if none was counted.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Span {
        let rank = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1_000);
        let mut seen = 0_u128;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u128::from(*count);
            if *count > 0 && seen >= rank {
                return end_of(bucket).min(self.max);
            }
        }
        self.max
    }
}

/// Returns the bucket of a latency. Below 16 µs a bucket is one microsecond, and above that a sixteenth
/// of a doubling.
fn bucket_of(micros: u64) -> usize {
    let Some(log) = micros.checked_ilog2().filter(|log| *log >= 4) else {
        return usize::try_from(micros).unwrap_or(0);
    };
    let within = (micros >> (log - 4)) & 15;
    let bucket = u64::from((log - 3) * PER_DOUBLING) + within;
    usize::try_from(bucket).map_or(BUCKETS - 1, |bucket| bucket.min(BUCKETS - 1))
}

/// Returns the lowest latency that is too long for a bucket.
fn end_of(bucket: usize) -> Span {
    let bucket = u32::try_from(bucket).unwrap_or(u32::MAX);
    let (doubling, within) = (bucket / PER_DOUBLING, u64::from(bucket % PER_DOUBLING));
    let micros = match doubling.checked_sub(1) {
        None => within + 1,
        Some(shift) => (17 + within) << shift,
    };
    Span::from_nanos(micros.saturating_mul(1_000))
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/load/latency.rs"]
mod tests;
