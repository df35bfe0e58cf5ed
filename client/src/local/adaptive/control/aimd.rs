//! Additive increase, multiplicative decrease.

use super::failure_backoff::FailureBackoff;
use super::{Bounds, Controller, KEEP, Sample, is_used, kept};
#[cfg(doc)]
use super::{Gradient, Vegas};

/// Additive increase, multiplicative decrease (Chiu and Jain, 1989).
///
/// A failure lowers the limit to a part of it. Calls that began before that do not lower it again, since
/// calls in flight at the same time fail for the same reason. As many successes as the limit raise it by one.
///
/// The limit settles between that part of the number at which calls begin to fail, and that number. Do not
/// use it for a service that queues calls for long before they fail: the limit then rises until the queue is
/// as long as the service lets it become, or to its maximum. Use [`Vegas`] or [`Gradient`] there.
///
/// ```
/// use aliquot_client::adaptive::{Adaptive, Bounds, Aimd};
///
/// let limit = Adaptive::new(Aimd::new(Bounds::new(1, 200)?))?;
/// let call = limit.try_call().expect("one call may be in flight");
/// assert!(limit.try_call().is_err());
/// call.success();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Aimd {
    backoff: FailureBackoff,
    keep: f64,
}

impl Aimd {
    /// Returns a controller with these bounds. A failure leaves nine tenths of the limit.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            backoff: FailureBackoff::new(bounds),
            keep: KEEP,
        }
    }

    /// Sets the part of the limit that remains after a failure, clamped to 0.1 … 0.99.
    #[must_use]
    pub fn keep(mut self, part: f64) -> Self {
        self.keep = kept(part);
        self
    }
}

impl Controller for Aimd {
    fn limit(&self) -> u64 {
        self.backoff.limit as u64
    }

    fn sample(&mut self, sample: Sample) {
        if sample.failed {
            self.backoff.fail(&sample, self.keep);
        } else if is_used(sample.in_flight as f64, self.backoff.limit) {
            self.backoff.add(1.0 / self.backoff.limit);
        }
    }
}
