//! Controllers of the number of calls in flight: pure, with time as an argument.

use crate::local::shape::ShapeError;
use aliquot_core::unit::{Span, Tick};
use std::fmt;

/// Observation of one call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When the call ended.
    pub now: Tick,
    /// Its latency, at least one nanosecond.
    pub latency: Span,
    /// Calls in flight when it began, including itself.
    pub in_flight: u64,
    /// True if it failed in a way that is a sign of overload.
    pub failed: bool,
}

/// Decides how many calls may be in flight.
pub trait Controller: fmt::Debug + Send {
    /// Returns the maximum number of calls in flight.
    fn limit(&self) -> u64;

    /// Learns from a call that has ended.
    fn sample(&mut self, sample: Sample);
}

/// Range of a controller's limit, and its start.
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

/// Additive increase, multiplicative decrease (Chiu and Jain, 1989).
///
/// A failure lowers the limit to a part of it. That happens at most once in the time of a call's latency,
/// since calls in flight at the same time fail for the same reason. As many successes as the limit raise it
/// by one.
#[derive(Clone, Debug)]
pub struct Aimd {
    bounds: Bounds,
    limit: f64,
    keep: f64,
    /// Failures before this tick belong to one that already counted.
    deaf_until: Tick,
}

impl Aimd {
    /// Returns a controller with these bounds. A failure leaves nine tenths of the limit.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.start as f64,
            keep: KEEP,
            deaf_until: Tick::from_nanos(0),
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
        self.limit as u64
    }

    fn sample(&mut self, sample: Sample) {
        if sample.failed {
            if sample.now >= self.deaf_until {
                self.limit = self.bounds.clip((self.limit * self.keep).floor());
                self.deaf_until = sample.now.after(sample.latency);
            }
        } else if is_used(sample.in_flight as f64, self.limit) {
            self.limit = self.bounds.clip(self.limit + 1.0 / self.limit);
        }
    }
}

/// Limit derived from the queue that latency reveals (Brakmo and Peterson's TCP Vegas, 1994).
///
/// With the best latency seen and the present one, `limit · (1 − best ÷ now)` calls are waiting in a queue.
/// Below three, the limit grows by one for as many calls as the limit; above six it shrinks at that pace; in
/// between it stays.
///
/// The best latency is measured again after every 300 times as many calls as the limit, with a fifth fewer in
/// flight. Otherwise a dependency that became slower for good would look like one with a queue.
#[derive(Clone, Debug)]
pub struct Vegas {
    bounds: Bounds,
    limit: f64,
    best: f64,
    seen: u64,
    deaf_until: Tick,
}

impl Vegas {
    const SHORT: f64 = 3.0;
    const LONG: f64 = 6.0;
    /// After this many times as many calls as the limit, the best latency is measured again.
    const PROBE: f64 = 300.0;

    /// Returns a controller with these bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.start as f64,
            best: f64::INFINITY,
            seen: 0,
            deaf_until: Tick::from_nanos(0),
        }
    }
}

impl Controller for Vegas {
    fn limit(&self) -> u64 {
        self.limit as u64
    }

    fn sample(&mut self, sample: Sample) {
        if sample.failed {
            if sample.now >= self.deaf_until {
                self.limit = self.bounds.clip((self.limit * KEEP).floor());
                self.deaf_until = sample.now.after(sample.latency);
            }
            return;
        }
        if !is_used(sample.in_flight as f64, self.limit) {
            return;
        }
        let now = sample.latency.nanos() as f64;
        self.seen += 1;
        if self.seen as f64 > Self::PROBE * self.limit {
            // With a fifth fewer calls in flight, a queue caused by this limit drains, and the latency
            // measured next is that of the dependency.
            self.limit = self.bounds.clip(self.limit * 0.8);
            (self.best, self.seen) = (f64::INFINITY, 0);
        }
        self.best = self.best.min(now);
        let queue = self.limit * (1.0 - self.best / now);
        let step = 1.0 / self.limit;
        if queue < Self::SHORT {
            self.limit = self.bounds.clip(self.limit + step);
        } else if queue > Self::LONG {
            self.limit = self.bounds.clip(self.limit - step);
        }
    }
}

/// Limit derived from the ratio of usual latency to present latency.
///
/// With mean latencies over about 600 and 10 calls, `g = 1.5 · long ÷ short`, clamped to ½ … 1:
/// `limit ← 0.8 · limit + 0.2 · (g · limit + √limit)`. So the limit grows by a head-room of its square root
/// while latency is usual. It shrinks once latency is one and a half times as long or more.
#[derive(Clone, Debug)]
pub struct Gradient {
    bounds: Bounds,
    limit: f64,
    long: f64,
    short: f64,
}

impl Gradient {
    const LONG: f64 = 1.0 / 600.0;
    const SHORT: f64 = 1.0 / 10.0;
    const TOLERANCE: f64 = 1.5;
    /// Weight of the new value per limit's worth of calls.
    const BELIEF: f64 = 0.2;

    /// Returns a controller with these bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.start as f64,
            long: 0.0,
            short: 0.0,
        }
    }
}

impl Controller for Gradient {
    fn limit(&self) -> u64 {
        self.limit as u64
    }

    fn sample(&mut self, sample: Sample) {
        if sample.failed {
            self.limit = self.bounds.clip(self.limit * KEEP);
            return;
        }
        let now = sample.latency.nanos() as f64;
        if self.long == 0.0 {
            (self.long, self.short) = (now, now);
        }
        self.long += (now - self.long) * Self::LONG;
        self.short += (now - self.short) * Self::SHORT;
        // A long mean far above the short one stems from worse times: let it decay.
        if self.long > 2.0 * self.short {
            self.long *= 0.95;
        }
        if !is_used(sample.in_flight as f64, self.limit) {
            return;
        }
        let gradient = (Self::TOLERANCE * self.long / self.short).clamp(0.5, 1.0);
        let wanted = gradient * self.limit + self.limit.sqrt();
        // Each call contributes its share of one limit's worth of calls.
        let belief = Self::BELIEF / self.limit;
        self.limit = self
            .bounds
            .clip(self.limit + (wanted - self.limit) * belief);
    }
}
