//! Adaptive limits, which follow the capacity of a dependency.
//!
//! A controller observes calls and returns how many may be in flight, or how many may begin in a second. It
//! is pure: time and latency are arguments. [`Adaptive`] applies a controller to a limiter of permits, its
//! own or a given one. [`AdaptiveRate`] applies one to a limiter's rate.
//!
//! Every controller keeps its limit within bounds. None raises it while less than half of it is used, because
//! calls at a low load say nothing about a higher one.
//!
//! # Limits on calls in flight
//!
//! | controller | grows | shrinks |
//! |---|---|---|
//! | [`Aimd`] | by one for each limit's worth of calls without a failure | by a factor at a failure |
//! | [`Vegas`] | by a twentieth a block, while the queue that latency reveals is short | by a tenth a block, while that is long; by a factor at a failure |
//! | [`Gradient`] | by a part of its square root a block, while latency is as without a queue | with the ratio of the latencies without and with a queue; by a factor at a failure |
//!
//! [`Aimd`] observes only failures. A dependency that queues calls for long before it fails needs one of the
//! others.
//!
//! ## Latency without a queue
//!
//! [`Vegas`] and [`Gradient`] compare two mean latencies, each of a block of calls: the present one, and the
//! one without a queue.
//!
//! The latter is measured in a probe: one block in which only half of the limit may be in flight. A limit
//! below twice the capacity causes no queue then. Every thirtieth block is followed by a probe. A probe also
//! follows a block after which the limit is below six tenths of its value at the last probe, because the dependency
//! may have become permanently slower. The minimum limit needs no probe. TCP BBR measures its minimum latency in a
//! similar way (Cardwell and others, 2016).
//!
//! Means are computed from the logarithm of latency. One unusual call in a hundred changes such a mean little,
//! while a queue delays every call. A block has as many calls as the limit, at least twenty. It goes on until the
//! standard
//! error of its mean is 4 %, or to 5,000 calls. Latencies whose logarithm has a standard deviation of 0.4 need
//! 100 calls, and those with 1.0 need 625. Before each block, as many calls as the limit are skipped, because
//! they may have begun under another one.
//!
//! In simulations the limit settles within a quarter of the number of calls that the dependency works on at
//! once, from ten on. Below that, up to three calls may wait. If callers always want the whole limit, the
//! probes and the noise cost 1 % of the throughput with equal latencies, and up to a tenth with very unequal
//! ones.
//!
//! The queue must be caused by this limit. If many processes call the same dependency, the probe of one does
//! not drain the queue of the others, and all may grow. Divide one limit among such processes instead, by a
//! budget at the coordinator.
//!
//! # Limits on calls per second
//!
//! | controller | at a window's end grows, if half of the rate was used | shrinks |
//! |---|---|---|
//! | [`RateAimd`] | by half the square root of the calls that a window allows, or by a step, unless calls failed | by a factor if calls failed |
//! | [`RateVegas`] | the same, while the queue that it infers, `served · (latency − best)` per second, is short | to the rate served, less what drains the queue; by a factor if calls failed |
//! | [`RateGradient`] | the same, while latency is below one and a half times the usual | with the ratio of the two, but not below four fifths of the rate served; by a factor if calls failed |
//!
//! Little's law relates the two: `in flight = rate · latency`. Yet a rate needs other control laws than a
//! limit on calls in flight. With a limit on calls in flight, a queue is never longer than the limit, slow
//! calls delay the next ones by themselves, and a step down suffices. A rate that is too high builds up a
//! queue for as long as it lasts. Lowering it by steps, or as the inverse of latency, would overshoot
//! downwards while that queue drains. So these controllers follow the rate of completed calls, which is the
//! capacity of a dependency that has a queue. They also compare mean logarithms, and take a difference of less
//! than two standard errors for noise.
//!
//! Prefer permits if calls may hang. Prefer a rate if the dependency limits the number of calls rather than the
//! calls in flight: third-party quotas, costs, writes.
//!
//! # Without a limit
//!
//! [`Throttle`] needs no limit: it rejects locally the calls that the dependency would probably reject.

mod control;
mod log_mean;
mod rate;
mod throttle;

pub use control::{Aimd, Bounds, Controller, Gradient, Sample, Vegas};
pub use rate::{
    AdaptiveRate, AdaptiveRateBuilder, RateAimd, RateBounds, RateCall, RateController,
    RateGradient, RateVegas, Window,
};
pub use throttle::{Attempt, Criticality, Throttle, ThrottleBuilder, ThrottleStats};

use crate::bucket::limit::LimitError;
use crate::clock::{CounterClock, SharedClock};
use crate::limiter::Limiter;
use crate::limiter::permit::Permit;
use crate::limiter::refused::Refused;
use crate::observe::counters::Counters;
use crate::observe::switch::{Mode, ModeStats};
use aliquot_core::share::Kind;
use aliquot_core::unit::Tick;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A limiter of permits whose number a controller adapts.
///
/// ```
/// use aliquot_client::adaptive::{Adaptive, Aimd, Bounds};
///
/// let database = Adaptive::new(Aimd::new(Bounds::new(1, 100)?.start(10)))?;
/// let call = database.try_call().expect("ten may be in flight");
/// // … ask the database …
/// call.success();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Adaptive {
    inner: Arc<Inner>,
}

struct Inner {
    limiter: Limiter,
    controller: Mutex<Box<dyn Controller>>,
    clock: SharedClock,
}

/// A call in flight. Report its outcome; a dropped call teaches the controller nothing.
#[must_use = "say how the call went"]
pub struct Call {
    adaptive: Adaptive,
    _permit: Permit,
    began: Tick,
    in_flight: u64,
}

impl fmt::Debug for Adaptive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit();
        f.debug_struct("Adaptive").field("limit", &limit).finish()
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("began", &self.began).finish()
    }
}

impl Adaptive {
    /// Creates permits whose number the controller adapts, starting at the controller's limit. Uses the
    /// [`CounterClock`].
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the controller starts out of range.
    pub fn new(controller: impl Controller + 'static) -> Result<Self, LimitError> {
        Self::with_clock(controller, Arc::new(CounterClock))
    }

    /// Like [`Adaptive::new`], with another clock.
    ///
    /// # Errors
    ///
    /// As [`Adaptive::new`].
    pub fn with_clock(
        controller: impl Controller + 'static,
        clock: SharedClock,
    ) -> Result<Self, LimitError> {
        let limiter = Limiter::local_permits_with(controller.limit(), clock)?;
        Self::over(limiter, controller)
    }

    /// Controls the number of permits of this limiter, which others may use as well. [`Limiter::peek`] and
    /// [`Limiter::tokens`] then return the controller's limit and what is left of it. Permits that others
    /// take count as in flight, but the controller does not learn from their outcome.
    ///
    /// ```
    /// use aliquot_client::Limiter;
    /// use aliquot_client::adaptive::{Adaptive, Bounds, Vegas};
    ///
    /// let workers = Limiter::local_permits(50)?;
    /// let adaptive = Adaptive::over(workers.clone(), Vegas::new(Bounds::new(1, 100)?.start(10)))?;
    /// let call = adaptive.try_call().expect("ten may be in flight");
    /// assert_eq!((workers.peek().burst, workers.tokens()), (10, 9.0));
    /// call.success();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LimitError::NoPermits`] for a limiter of a rate, [`LimitError::NotOwn`] for a leased one, and
    /// [`LimitError`] if the controller starts out of range. The limiter is unchanged then.
    pub fn over(
        limiter: Limiter,
        controller: impl Controller + 'static,
    ) -> Result<Self, LimitError> {
        led(&limiter, Kind::Concurrency, LimitError::NoPermits)?;
        limiter.set_burst(controller.limit())?;
        let inner = Inner {
            clock: limiter.clock(),
            limiter,
            controller: Mutex::new(Box::new(controller)),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Begins a call, if the limit allows one more in flight.
    ///
    /// # Errors
    ///
    /// [`Refused`]; no call was begun.
    pub fn try_call(&self) -> Result<Call, Refused> {
        self.inner
            .limiter
            .try_permit()
            .map(|permit| self.begin(permit))
    }

    /// Begins a call, waiting in line until the limit allows one more in flight.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the limit never allows one.
    pub async fn call(&self) -> Result<Call, Refused> {
        let permit = self.inner.limiter.permit().await?;
        Ok(self.begin(permit))
    }

    /// Returns the maximum number of calls in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.inner.limiter.peek().burst
    }

    /// Returns the mode in force.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.limiter.mode()
    }

    /// Sets the mode for all clones: see [`Limiter::set_mode`]. The controller keeps learning from the calls
    /// that are made.
    pub fn set_mode(&self, mode: Mode) {
        self.inner.limiter.set_mode(mode);
    }

    /// Returns how many decisions the mode has changed.
    #[must_use]
    pub fn mode_stats(&self) -> ModeStats {
        self.inner.limiter.mode_stats()
    }

    pub(crate) fn watch(&self, counters: &Arc<Counters>) {
        self.inner.limiter.watch(counters);
    }

    fn begin(&self, permit: Permit) -> Call {
        let seen = self.inner.limiter.peek();
        Call {
            adaptive: self.clone(),
            _permit: permit,
            began: self.inner.clock.now(),
            in_flight: seen.burst.saturating_sub(seen.level),
        }
    }

    /// Updates the controller under its lock. Called after a call, so that no decision waits for it.
    fn learn(&self, sample: Sample) {
        let controller = self.inner.controller.lock();
        let mut controller = controller.unwrap_or_else(PoisonError::into_inner);
        let before = controller.limit();
        controller.sample(sample);
        let limit = controller.limit();
        if limit != before {
            // Within the controller's bounds, which were valid at the start.
            let _ = self.inner.limiter.set_burst(limit);
        }
    }
}

/// Checks that a controller may control a limiter: it must be local, and of the given kind. Returns `other`
/// if the kind is wrong.
fn led(limiter: &Limiter, kind: Kind, other: LimitError) -> Result<(), LimitError> {
    if limiter.limit().is_none() {
        return Err(LimitError::NotOwn { what: "this key" });
    }
    if limiter.peek().kind != kind {
        return Err(other);
    }
    Ok(())
}

impl Call {
    /// Reports success.
    pub fn success(self) {
        self.end(false);
    }

    /// Reports a failure that is a sign of overload: a timeout, a refusal, an overload error.
    pub fn failure(self) {
        self.end(true);
    }

    fn end(self, failed: bool) {
        let now = self.adaptive.inner.clock.now();
        self.adaptive.learn(Sample {
            now,
            latency: Duration::from_nanos(now.since(self.began).nanos().max(1)),
            in_flight: self.in_flight,
            failed,
        });
    }
}
