//! Counts of the last two minutes.

use crate::bucket::step::{Next, update};
use aliquot_core::unit::{Span, Tick};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of the last two minutes, in parts of five seconds that expire one at a time.
#[derive(Debug, Default)]
pub(super) struct History {
    parts: [AtomicU64; Self::PARTS],
}

/// Content of a part: `index (20 bits) │ requests (22 bits) │ accepts (22 bits)`. A full part stops counting;
/// that takes 800,000 calls per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) requests: u64,
    pub(super) accepts: u64,
}

impl Count {
    const BITS: u32 = 22;
    const MOST: u64 = (1 << Self::BITS) - 1;

    pub(super) const REQUEST: Self = Self {
        requests: 1,
        accepts: 0,
    };
    pub(super) const ACCEPT: Self = Self {
        requests: 0,
        accepts: 1,
    };

    const fn unpack(word: u64) -> (u64, Self) {
        let count = Self {
            requests: word >> Self::BITS & Self::MOST,
            accepts: word & Self::MOST,
        };
        (word >> (2 * Self::BITS), count)
    }

    const fn pack(self, index: u64) -> u64 {
        index << (2 * Self::BITS) | self.requests << Self::BITS | self.accepts
    }
}

impl History {
    const PARTS: usize = 24;
    const PART: Span = Span::from_secs(5);
    const INDEX_BITS: u32 = 20;

    /// Returns the index of the part at `now`. Indices repeat after 60 days.
    const fn index(now: Tick) -> u64 {
        let index = now.nanos() / Self::PART.nanos() + 1;
        index & ((1 << Self::INDEX_BITS) - 1)
    }

    pub(super) fn add(&self, now: Tick, more: Count) {
        let index = Self::index(now);
        let part = &self.parts[index as usize % Self::PARTS];
        update(part, |seen| {
            let (of, count) = Count::unpack(seen);
            let count = match of == index {
                true => count,
                false => Count {
                    requests: 0,
                    accepts: 0,
                },
            };
            let next = Count {
                requests: count.requests + more.requests,
                accepts: count.accepts + more.accepts,
            };
            if next.requests > Count::MOST || next.accepts > Count::MOST {
                return Next::Keep(());
            }
            Next::Swap(next.pack(index), ())
        });
    }

    pub(super) fn sum(&self, now: Tick) -> Count {
        let index = Self::index(now);
        let none = Count {
            requests: 0,
            accepts: 0,
        };
        self.parts.iter().fold(none, |sum, part| {
            let (of, count) = Count::unpack(part.load(Ordering::Relaxed));
            let age = index.wrapping_sub(of) & ((1 << Self::INDEX_BITS) - 1);
            match age < Self::PARTS as u64 {
                true => Count {
                    requests: sum.requests + count.requests,
                    accepts: sum.accepts + count.accepts,
                },
                false => sum,
            }
        })
    }
}
