//! A limit derived from the queue that latency reveals.

use super::probed::Probed;
use super::{Bounds, Controller, Sample};

/// Limit derived from the queue that latency reveals (Brakmo and Peterson's TCP Vegas, 1994).
///
/// With the mean latency of a block of calls, `now`, and the mean latency without a queue, `base`,
/// `queue = limit · (1 − base ÷ now)` calls are waiting. A short queue is a twentieth of the limit, and at
/// least one call. Below that, the limit grows by a short queue a block. Above three times that, it shrinks
/// by two. In between it stays. A failure leaves nine tenths of the limit, once for all calls in flight.
///
/// See [latency without a queue](crate::adaptive#latency-without-a-queue) for the two latencies.
///
/// ```
/// use aliquot_client::adaptive::{Adaptive, Bounds, Vegas};
///
/// let limit = Adaptive::new(Vegas::new(Bounds::new(1, 200)?))?;
/// let call = limit.try_call().expect("one call may be in flight");
/// assert!(limit.try_call().is_err());
/// call.success();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Vegas {
    probed: Probed,
}

impl Vegas {
    /// A short queue, as a part of the limit.
    const SHORT: f64 = 0.05;
    /// A long queue, in short ones.
    const LONG: f64 = 3.0;

    /// Returns a controller with these bounds.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            probed: Probed::new(bounds),
        }
    }
}

impl Controller for Vegas {
    fn limit(&self) -> u64 {
        self.probed.limit()
    }

    fn sample(&mut self, sample: Sample) {
        let Some(unqueued) = self.probed.sample(&sample) else {
            return;
        };
        let limit = self.probed.limit() as f64;
        let queue = limit * (1.0 - unqueued);
        let short = (limit * Self::SHORT).max(1.0);
        if queue < short {
            self.probed.add(short);
        } else if queue > Self::LONG * short {
            self.probed.add(-2.0 * short);
        }
    }
}
