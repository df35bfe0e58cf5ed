//! A bucket in the form in which it is kept for every key.

use super::{Accrual, Bucket, Limit};
use crate::unit::{Rate, Tick, Tokens};

/// A bucket in half of the memory: without what follows from its rate, and without limit or reservations, which only
/// buckets of callers have.
#[derive(Clone, Debug, Hash)]
pub(crate) struct PackedBucket {
    rate: Rate,
    burst: Tokens,
    base: Tick,
    debt: u64,
    latest: Tick,
    phase: u32,
}

impl From<Bucket> for PackedBucket {
    fn from(bucket: Bucket) -> Self {
        debug_assert!(
            !bucket.is_unlimited() && bucket.reservations == 0,
            "{bucket:?}"
        );
        Self {
            rate: bucket.rate,
            burst: bucket.burst,
            base: bucket.base,
            debt: bucket.debt,
            latest: bucket.latest,
            phase: bucket.phase,
        }
    }
}

impl From<&PackedBucket> for Bucket {
    fn from(packed: &PackedBucket) -> Self {
        Self {
            limit: Limit::Bounded,
            rate: packed.rate,
            accrual: Accrual::of(packed.rate),
            burst: packed.burst,
            base: packed.base,
            phase: packed.phase,
            debt: packed.debt,
            latest: packed.latest,
            promised: 0,
            reservations: 0,
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/bucket/packed.rs"]
mod tests;
