//! Division of the units that rounding down has left over.

use crate::demand::Quotient;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Remainders that have to be compared, the greatest first, with the indexes of their parts.
pub(super) type Order = Vec<(Reverse<u64>, usize)>;

/// Adds one of `units` to each of the parts with the largest remainders, and none to those without; ties go
/// to the earlier.
pub(super) fn largest_remainders(parts: &mut [u64], remainders: &[u64], units: u64) {
    if units == 0 {
        return;
    }
    let greatest = remainders.iter().fold(0, |all, &remainder| all | remainder);
    let counts = Counts::of(remainders, greatest);
    distribute(parts, remainders, units, &counts, &mut Vec::new(), |it| it);
}

/// The same as [`largest_remainders`], for remainders that are counted already.
///
/// `exact` maps remainders to their exact values, so that equal ones are equal. It keeps their order.
pub(super) fn distribute(
    parts: &mut [u64],
    remainders: &[u64],
    units: u64,
    counts: &Counts,
    order: &mut Order,
    exact: impl Fn(u64) -> u64,
) {
    // Each part above the bucket in which the units run out gets one.
    let (least, most, above) = counts.last(units);
    order.clear();
    let width = most.wrapping_sub(least);
    let mut index = 0_usize;
    for (part, &remainder) in parts.iter_mut().zip(remainders) {
        *part = part.wrapping_add(u64::from(remainder > most));
        if remainder.wrapping_sub(least) <= width {
            order.push((Reverse(exact(remainder)), index));
        }
        index = index.wrapping_add(1);
    }
    let units = usize::try_from(units.saturating_sub(above)).unwrap_or(usize::MAX);
    if let Some(last) = units.checked_sub(1)
        && last < order.len()
    {
        order.select_nth_unstable(last);
    }
    for &(_, index) in order.iter().take(units) {
        if let Some(part) = parts.get_mut(index) {
            *part = part.saturating_add(1);
        }
    }
}

/// Number of remainders by their upper bits, so that only those of the bucket in which the units run out are
/// compared.
pub(super) struct Counts {
    buckets: [u32; BUCKETS],
    /// Number of bits that a remainder's bucket leaves out.
    shift: u32,
}

/// Few enough that finding the last bucket costs little, and enough that few remainders share it.
const BUCKET_BITS: u32 = Quotient::BUCKET_BITS;
const BUCKETS: usize = 1 << BUCKET_BITS;

impl Counts {
    /// Returns zero counts, for remainders of up to all 64 bits.
    pub(super) const fn new() -> Self {
        Self {
            buckets: [0; BUCKETS],
            shift: u64::BITS - BUCKET_BITS,
        }
    }

    fn of(remainders: &[u64], greatest: u64) -> Self {
        let bits = u64::BITS.saturating_sub(greatest.leading_zeros());
        let mut counts = Self {
            // At least 1, so that the lowest bucket is not only of zero remainders.
            shift: bits.saturating_sub(BUCKET_BITS).max(1),
            ..Self::new()
        };
        for &remainder in remainders {
            counts.add(remainder, 1);
        }
        counts
    }

    /// Adds `one` to the count of a remainder's bucket: 1, or 0 for none.
    #[inline]
    pub(super) fn add(&mut self, remainder: u64, one: u32) {
        let bucket = usize::try_from(remainder.wrapping_shr(self.shift)).unwrap_or(0);
        if let Some(count) = self.buckets.get_mut(bucket % BUCKETS) {
            *count = count.wrapping_add(one);
        }
    }

    /// Returns the least (not 0) and the greatest remainder of the bucket in which the units run out, and the
    /// number of remainders above it.
    fn last(&self, units: u64) -> (u64, u64, u64) {
        let mut above = 0_u64;
        let mut bucket = 1_u64 << BUCKET_BITS;
        for &count in self.buckets.iter().rev() {
            bucket = bucket.wrapping_sub(1);
            let with = above.wrapping_add(count.into());
            if with >= units || bucket == 0 {
                let least = bucket.wrapping_shl(self.shift);
                let width = 1_u64.wrapping_shl(self.shift).wrapping_sub(1);
                return (least.max(1), least.saturating_add(width), above);
            }
            above = with;
        }
        (1, u64::MAX, 0)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/allocate/remainder.rs"]
mod tests;
