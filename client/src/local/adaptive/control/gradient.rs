//! A limit derived from the ratio of two latencies.

use super::probed::Probed;
use super::{Bounds, Controller, Sample};

/// Limit derived from the ratio of the latency without a queue to the present latency.
///
/// With the mean latency of a block of calls, `now`, and the mean latency without a queue, `base`,
/// `g = 1.05 · base ÷ now`, clamped to 0.7 … 1, and after each block `limit ← g · limit + 0.4 · √limit`. So
/// the limit grows by a head-room of its square root while there is no queue, and shrinks with the ratio
/// otherwise. A failure leaves nine tenths of the limit, once for all calls in flight.
///
/// The formula is that of Envoy's adaptive concurrency filter (2019), which has it from Netflix's
/// concurrency-limits (2018), with another tolerance and head-room.
///
/// See [latency without a queue](crate::adaptive#latency-without-a-queue) for the two latencies.
///
/// ```
/// use aliquot_client::adaptive::{Adaptive, Bounds, Gradient};
///
/// let limit = Adaptive::new(Gradient::new(Bounds::new(1, 200)?))?;
/// let call = limit.try_call().expect("one call may be in flight");
/// assert!(limit.try_call().is_err());
/// call.success();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gradient {
    probed: Probed,
}

impl Gradient {
    /// The latency may be this many times as long as without a queue.
    const TOLERANCE: f64 = 1.05;
    /// Part of the limit that a block leaves at least.
    const LEAST: f64 = 0.7;
    const HEAD_ROOM: f64 = 0.4;

    /// Returns a controller with these bounds.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            probed: Probed::new(bounds),
        }
    }
}

impl Controller for Gradient {
    fn limit(&self) -> u64 {
        self.probed.limit()
    }

    fn sample(&mut self, sample: Sample) {
        let Some(unqueued) = self.probed.sample(&sample) else {
            return;
        };
        let limit = self.probed.limit() as f64;
        let gradient = (Self::TOLERANCE * unqueued).clamp(Self::LEAST, 1.0);
        self.probed
            .add((gradient - 1.0) * limit + Self::HEAD_ROOM * limit.sqrt());
    }
}
