//! Controllers of the number of calls in flight: pure, with time as an argument.

mod probed;

use crate::local::shape::ShapeError;
use aliquot_core::unit::{Span, Tick};
use probed::Probed;
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

/// A limit within its bounds, which failures lower.
#[derive(Clone, Debug)]
struct Led {
    bounds: Bounds,
    limit: f64,
    /// When a failure last lowered the limit.
    lowered: Tick,
}

impl Led {
    const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.start as f64,
            lowered: Tick::from_nanos(0),
        }
    }

    fn add(&mut self, step: f64) {
        self.limit = self.bounds.clip(self.limit + step);
    }

    /// Lowers the limit to a part of it after a failure, and returns true. Does nothing if the call began
    /// before a failure last lowered the limit: all calls of that time fail for the same reason.
    fn fail(&mut self, failed: &Sample, keep: f64) -> bool {
        let is_new = failed.began() >= self.lowered;
        if is_new {
            self.limit = self.bounds.clip((self.limit * keep).floor());
            self.lowered = failed.now;
        }
        is_new
    }
}

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
    led: Led,
    keep: f64,
}

impl Aimd {
    /// Returns a controller with these bounds. A failure leaves nine tenths of the limit.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            led: Led::new(bounds),
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
        self.led.limit as u64
    }

    fn sample(&mut self, sample: Sample) {
        if sample.failed {
            self.led.fail(&sample, self.keep);
        } else if is_used(sample.in_flight as f64, self.led.limit) {
            self.led.add(1.0 / self.led.limit);
        }
    }
}

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
