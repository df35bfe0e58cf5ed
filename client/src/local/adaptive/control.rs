//! Controllers of the number of calls in flight: pure, with time as an argument.

mod aimd;
mod failure_backoff;
mod gradient;
mod probed;
mod vegas;

pub use aimd::Aimd;
pub use gradient::Gradient;
pub use vegas::Vegas;

use crate::local::shape::ShapeError;
use aliquot_core::unit::{Span, Tick};
use std::fmt;
use std::time::Duration;

/// Observation of one call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When the call ended.
    pub now: Tick,
    /// Its latency, at least one nanosecond.
    pub latency: Duration,
    /// Calls in flight when it began, including itself.
    pub in_flight: u64,
    /// True if it failed in a way that is a sign of overload.
    pub failed: bool,
}

impl Sample {
    fn began(&self) -> Tick {
        let nanos = u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX);
        self.now.before(Span::from_nanos(nanos))
    }
}

/// Decides how many calls may be in flight.
///
/// ```
/// use aliquot_client::adaptive::{Controller, Sample};
///
/// /// Allows eight calls in flight until one has failed, and one call from then on.
/// #[derive(Debug)]
/// struct Timid(u64);
///
/// impl Controller for Timid {
///     fn limit(&self) -> u64 {
///         self.0
///     }
///
///     fn sample(&mut self, sample: Sample) {
///         if sample.failed {
///             self.0 = 1;
///         }
///     }
/// }
/// ```
pub trait Controller: fmt::Debug + Send {
    /// Returns the maximum number of calls in flight.
    fn limit(&self) -> u64;

    /// Learns from a call that has ended.
    fn sample(&mut self, sample: Sample);
}

/// Range of a controller's limit, and its start.
///
/// ```
/// use aliquot_client::adaptive::{Adaptive, Bounds, Gradient};
///
/// let bounds = Bounds::new(1, 200)?.start(20);
/// let limit = Adaptive::new(Gradient::new(bounds))?;
/// assert_eq!(limit.limit(), 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    least: u64,
    most: u64,
    start: u64,
}

impl Bounds {
    /// Returns the range from `least`, at least 1, to `most`, at most 2³². The limit starts at `least`.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Limit`] if these are out of range or not in this order.
    pub const fn new(least: u64, most: u64) -> Result<Self, ShapeError> {
        if least == 0 || least > most || most > 1 << 32 {
            return Err(ShapeError::Limit {
                limit: least,
                most: if most > 1 << 32 { 1 << 32 } else { most },
            });
        }
        let start = least;
        Ok(Self { least, most, start })
    }

    /// Sets the start, clamped to the range.
    #[must_use]
    pub fn start(mut self, start: u64) -> Self {
        self.start = start.clamp(self.least, self.most);
        self
    }

    fn clip(self, limit: f64) -> f64 {
        limit.clamp(self.least as f64, self.most as f64)
    }
}

/// Returns true if an observation tells something about higher limits: at least half of the limit was in use.
pub(super) fn is_used(used: f64, limit: f64) -> bool {
    used * 2.0 >= limit
}

/// Default part of a limit that remains after a failure.
pub(super) const KEEP: f64 = 0.9;

/// Clamps the part of a limit that remains after a failure to 0.1 … 0.99.
pub(super) fn kept(part: f64) -> f64 {
    if part.is_nan() {
        KEEP
    } else {
        part.clamp(0.1, 0.99)
    }
}
