//! Limits that follow what a dependency can take.
//!
//! A controller is told how calls went and answers how many may be in flight, or begin in a second. It is pure: time and
//! latency are arguments. [`Adaptive`] ties one to a limiter of permits: of its own, or of
//! whoever hands it one. [`AdaptiveRate`] ties one to a limiter's rate.
//!
//! All controllers keep to their bounds, and none grows while less than half of its limit is used: nothing
//! was learned then.
//!
//! # How many may be in flight
//!
//! | controller | grows | shrinks |
//! |---|---|---|
//! | [`Aimd`] | by one for each window without a failure that was used | by a factor at a failure, once a window |
//! | [`Vegas`] | while the queue that it infers, `limit · (1 − best ÷ now)`, is short | while that is long; by a factor at a failure |
//! | [`Gradient`] | by a head-room while latency is near its long average | with the ratio of the two; by a factor at a failure |
//!
//! # How many may begin in a second
//!
//! | controller | at a window's end grows, if half of the rate was used | shrinks |
//! |---|---|---|
//! | [`RateAimd`] | by half the root of the calls that a window allows, or by a step, unless calls failed | by a factor where calls failed |
//! | [`RateVegas`] | the same, while the queue that it infers, `served · (latency − best)` in a second, is short | to what came back, less what takes the queue away; by a factor where calls failed |
//! | [`RateGradient`] | the same, while latency is below one and a half times the usual | with the ratio of the two, no lower than four fifths of what came back; by a factor where calls failed |
//!
//! The two are tied by Little's law: `in flight = rate · latency`. Yet a rate is not led by the laws of what is in flight. There a queue is no
//! longer than the limit, calls that take longer begin more slowly by themselves, and a step down suffices. What is sent too fast adds up for
//! as long as it is sent, and a rate that went down by steps, or as the inverse of latency, would overshoot downwards while the queue
//! drains. So these go by what came back, which, of a dependency that has a queue, is what it can do. Permits are the better
//! limit where calls may hang; a rate is, where a dependency counts calls and not what is in flight: quotas of others, costs, writes.
//!
//! # By none
//!
//! [`Throttle`] needs no limit at all: it rejects here what would be rejected there.

mod control;
mod rate;
mod throttle;

pub use control::{Aimd, Bounds, Controller, Gradient, Sample, Vegas};
pub use rate::{
    AdaptiveRate, AdaptiveRateBuilder, RateAimd, RateBounds, RateCall, RateController,
    RateGradient, RateVegas, Window,
};
pub use throttle::{Attempt, Criticality, Shown, Throttle, ThrottleBuilder};

use crate::clock::{CounterClock, SharedClock};
use crate::limit::LimitError;
use crate::limiter::Limiter;
use crate::permit::Permit;
use crate::refused::Refused;
use crate::switch::{Mode, Overruled};
use crate::tap::Tap;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Permits, as many as a controller thinks good.
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

/// A call in flight. Say how it went; dropped, it counts as one of which nothing is known.
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
    /// Permits by a controller, starting at its limit. By the [`CounterClock`].
    ///
    /// # Errors
    ///
    /// [`LimitError`], if the controller starts out of range.
    pub fn new(controller: impl Controller + 'static) -> Result<Self, LimitError> {
        Self::with_clock(controller, Arc::new(CounterClock))
    }

    /// [`Adaptive::new`] by another clock.
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

    /// Sets the number of this limiter's permits from now on, whoever else has it: [`Limiter::peek`] and [`Limiter::tokens`] say what
    /// the controller allows and what is left of that. Permits that others take of it count as in flight; of what becomes of them
    /// the controller hears nothing.
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
    /// [`LimitError::NoPermits`] of a rate, and [`LimitError::NotOwn`] of a leased limit; or if the controller starts out of range. Nothing
    /// was changed.
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

    /// Begins a call, if there may be another one in flight.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was begun.
    pub fn try_call(&self) -> Result<Call, Refused> {
        self.inner
            .limiter
            .try_permit()
            .map(|permit| self.begin(permit))
    }

    /// Begins a call, waiting in line until there may be another one in flight.
    ///
    /// # Errors
    ///
    /// [`Refused`], if there may be none at all.
    pub async fn call(&self) -> Result<Call, Refused> {
        let permit = self.inner.limiter.permit().await?;
        Ok(self.begin(permit))
    }

    /// How many calls may be in flight.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.inner.limiter.peek().burst
    }

    /// What holds.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.inner.limiter.mode()
    }

    /// Another mode for all clones: see [`Limiter::set_mode`]. The controller goes on learning from the calls that there are.
    pub fn set_mode(&self, mode: Mode) {
        self.inner.limiter.set_mode(mode);
    }

    /// How often the mode had its way.
    #[must_use]
    pub fn overruled(&self) -> Overruled {
        self.inner.limiter.overruled()
    }

    pub(crate) fn watch(&self, tap: &Arc<Tap>) {
        self.inner.limiter.tap(tap);
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

    /// Takes a lock for as long as the controller thinks: after a call, never before one.
    fn learn(&self, sample: Sample) {
        let controller = self.inner.controller.lock();
        let mut controller = controller.unwrap_or_else(PoisonError::into_inner);
        let before = controller.limit();
        controller.sample(sample);
        let limit = controller.limit();
        if limit != before {
            // Within the controller's bounds, which were in range at the start.
            let _ = self.inner.limiter.set_burst(limit);
        }
    }
}

/// Whether a controller may lead a limiter: one of this process's own, and of a kind, or `other` is what is wrong.
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
    /// It went well.
    pub fn success(self) {
        self.end(false);
    }

    /// It failed in a way that says *less*: a timeout, a refusal, an error of overload.
    pub fn failure(self) {
        self.end(true);
    }

    fn end(self, failed: bool) {
        let now = self.adaptive.inner.clock.now();
        self.adaptive.learn(Sample {
            now,
            latency: now.since(self.began).max(Span::from_nanos(1)),
            in_flight: self.in_flight,
            failed,
        });
    }
}
