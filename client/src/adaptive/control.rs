//! The controllers: pure, with time as an argument.

use crate::shape::ShapeError;
use aliquot_core::unit::{Span, Tick};
use std::fmt;

/// How one call went.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it ended.
    pub now: Tick,
    /// How long it took, at least a nanosecond.
    pub latency: Span,
    /// How many were in flight when it began, itself among them.
    pub in_flight: u64,
    /// Whether it failed in a way that says *less*.
    pub failed: bool,
}

/// What says how many calls may be in flight.
pub trait Controller: fmt::Debug + Send {
    /// How many may be.
    fn limit(&self) -> u64;

    /// Learns from a call that ended.
    fn sample(&mut self, sample: Sample);
}

/// Between what a controller moves, and where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    least: u64,
    most: u64,
    start: u64,
}

impl Bounds {
    /// From `least`, at least 1, to `most`, at most 2³²; it starts at `least`.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Limit`], if they are not in this order.
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

    /// Where it starts, cut to the bounds.
    #[must_use]
    pub fn start(mut self, start: u64) -> Self {
        self.start = start.clamp(self.least, self.most);
        self
    }

    fn clip(self, limit: f64) -> f64 {
        limit.clamp(self.least as f64, self.most as f64)
    }
}

/// Whether what is seen says anything about more: at least half of the limit was in use.
pub(super) fn is_used(used: f64, limit: f64) -> bool {
    used * 2.0 >= limit
}

/// What a failure leaves of a limit, unless somebody says otherwise.
pub(super) const KEEP: f64 = 0.9;

/// What a failure is to leave of a limit: 0.1 to 0.99; a value outside is cut to that.
pub(super) fn kept(part: f64) -> f64 {
    if part.is_nan() {
        KEEP
    } else {
        part.clamp(0.1, 0.99)
    }
}

/// Additive increase, multiplicative decrease (Chiu and Jain, 1989).
///
/// A failure takes a part of the limit away, at most once for each latency's time, since those
/// that were in flight with it say the same thing; a limit's worth of successes adds one.
#[derive(Clone, Debug)]
pub struct Aimd {
    bounds: Bounds,
    limit: f64,
    keep: f64,
    /// Failures before this say what is known.
    deaf_until: Tick,
}

impl Aimd {
    /// Within these bounds; a failure leaves nine tenths.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.start as f64,
            keep: KEEP,
            deaf_until: Tick::from_nanos(0),
        }
    }

    /// What a failure leaves of the limit, 0.1 to 0.99; a value outside is cut to that.
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

/// A limit from the queue that latency shows (Brakmo and Peterson's TCP Vegas, 1994).
///
/// With the best latency ever seen and the present one, `limit · (1 − best ÷ now)` calls stand in
/// a queue. Below three the limit grows by one for each limit's worth of calls, above six it
/// shrinks so; between, it stays. Every 300 limits' worth of calls the best is
/// measured anew, with a fifth fewer in flight, since a dependency that became slower for good would
/// look like a queue for ever.
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
    /// So many limits' worth of calls, and the best latency is forgotten.
    const PROBE: f64 = 300.0;

    /// Within these bounds.
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
            // With a fifth fewer in flight a queue of its own making is gone, and what is
            // measured then is the dependency's.
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

/// A limit from the ratio of the usual latency to the present one.
///
/// With averages of latency over about 600 and 10 calls, `g = 1.5 · long ÷ short`, cut to ½ … 1:
/// `limit ← 0.8 · limit + 0.2 · (g · limit + √limit)`. So it grows by a head-room of a square root
/// while latency is usual, and shrinks while it is half as long again as usual or more.
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
    /// So much of each call's answer is believed.
    const BELIEF: f64 = 0.2;

    /// Within these bounds.
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
        // A usual latency that is far above the present one is one of worse days.
        if self.long > 2.0 * self.short {
            self.long *= 0.95;
        }
        if !is_used(sample.in_flight as f64, self.limit) {
            return;
        }
        let gradient = (Self::TOLERANCE * self.long / self.short).clamp(0.5, 1.0);
        let wanted = gradient * self.limit + self.limit.sqrt();
        // For each call a part of what a limit's worth of calls says.
        let belief = Self::BELIEF / self.limit;
        self.limit = self
            .bounds
            .clip(self.limit + (wanted - self.limit) * belief);
    }
}
