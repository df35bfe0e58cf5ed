//! Adaptive rates, which follow the capacity of a dependency.

mod control;
mod window;

pub use control::{RateAimd, RateBounds, RateController, RateGradient, RateVegas};
pub use window::Window;

use super::led;
use crate::bucket::limit::{Limit, LimitError};
use crate::clock::SharedClock;
use crate::limiter::Limiter;
use crate::limiter::refused::Refused;
use crate::local::shape::{ShapeError, span_of};
use crate::observe::counters::Counters;
use crate::observe::switch::{Mode, ModeStats};
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use window::{Begun, Ended, Windows};

/// A limiter whose rate a controller adapts.
///
/// It observes calls in [windows](Window) of at least a second by default. At the end of each window it asks
/// its controller for a new rate, so the rate changes at most once per window. A change of less than 2 % (by
/// default) is not applied; smaller changes add up until they reach that.
///
/// The limiter may also be used directly, at the same rate. Such calls count as unused rate, and the
/// controller learns nothing from them. A limit that is set directly holds until the end of the window.
///
/// A rate does not limit the calls in flight. While no call returns, nothing is learned and calls keep
/// beginning. So give calls a timeout, or take a permit for each as well.
///
/// ```
/// use aliquot_client::adaptive::{AdaptiveRate, RateAimd, RateBounds};
/// use aliquot_client::{Limit, Limiter};
///
/// let limiter = Limiter::local(Limit::per_sec(100), 20)?;
/// let bounds = RateBounds::new(Limit::per_sec(1), Limit::per_sec(1_000))?;
/// let search = AdaptiveRate::over(limiter, RateAimd::new(bounds.start(Limit::per_sec(100))))?;
/// let call = search.try_call(1).expect("twenty may begin at once");
/// // … ask …
/// call.success();
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone)]
pub struct AdaptiveRate {
    inner: Arc<Inner>,
}

struct Inner {
    limiter: Limiter,
    learning: Mutex<Learning>,
    begun: AtomicU64,
    begun_tokens: AtomicU64,
    /// Changes smaller than this part of the rate are not applied.
    hysteresis: f64,
    /// If set, the burst is what the rate replenishes in this many seconds.
    burst: Option<f64>,
    clock: SharedClock,
}

struct Learning {
    controller: Box<dyn RateController>,
    windows: Windows,
}

/// Builder of an [`AdaptiveRate`].
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveRateBuilder {
    window: Span,
    hysteresis: u32,
    burst: Option<Span>,
}

/// A call that has begun. Report its outcome; a dropped call teaches the controller nothing.
#[must_use = "say how the call went"]
pub struct RateCall {
    rate: AdaptiveRate,
    tokens: u64,
    began: Tick,
}

impl fmt::Debug for AdaptiveRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit();
        f.debug_struct("AdaptiveRate")
            .field("limit", &limit)
            .finish()
    }
}

impl fmt::Debug for RateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateCall")
            .field("tokens", &self.tokens)
            .field("began", &self.began)
            .finish()
    }
}

impl AdaptiveRate {
    /// Controls the rate of this limiter, starting at the controller's rate. The burst stays. Uses the
    /// limiter's clock.
    ///
    /// # Errors
    ///
    /// [`LimitError::Permits`] for a limiter of permits, which has no rate; [`LimitError::NotOwn`] for a
    /// leased one; [`LimitError`] if the controller starts out of range. The limiter is unchanged then.
    pub fn over(
        limiter: Limiter,
        controller: impl RateController + 'static,
    ) -> Result<Self, LimitError> {
        Self::builder().over(limiter, controller)
    }

    /// Returns a builder.
    ///
    /// ```
    /// use aliquot_client::adaptive::{AdaptiveRate, RateBounds, RateVegas};
    /// use aliquot_client::{Limit, Limiter};
    /// use std::time::Duration;
    ///
    /// let limiter = Limiter::local(Limit::per_sec(100), 20)?;
    /// let bounds = RateBounds::new(Limit::per_sec(10), Limit::per_sec(1_000))?;
    /// let search = AdaptiveRate::builder()
    ///     .window(Duration::from_millis(500))?
    ///     .hysteresis(5)?
    ///     .burst_of(Duration::from_millis(100))?
    ///     .over(limiter.clone(), RateVegas::new(bounds.start(Limit::per_sec(200))))?;
    /// assert_eq!((limiter.peek().rate, limiter.peek().burst), (200, 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn builder() -> AdaptiveRateBuilder {
        AdaptiveRateBuilder::default()
    }

    /// Begins a call that costs `n` tokens, if they are available now.
    ///
    /// # Errors
    ///
    /// [`Refused`]; no call was begun.
    pub fn try_call(&self, n: u64) -> Result<RateCall, Refused> {
        self.inner.limiter.try_acquire(n)?;
        Ok(self.begin(n, self.inner.clock.now()))
    }

    /// Like [`AdaptiveRate::try_call`], at a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`AdaptiveRate::try_call`].
    pub fn try_call_at(&self, n: u64, now: Tick) -> Result<RateCall, Refused> {
        self.inner.limiter.try_acquire_at(n, now)?;
        Ok(self.begin(n, now))
    }

    /// Begins a call that costs `n` tokens, waiting in line for them as [`Limiter::acquire`] does. The wait
    /// does not count as latency.
    ///
    /// # Errors
    ///
    /// [`Refused`]; no call was begun.
    pub async fn call(&self, n: u64) -> Result<RateCall, Refused> {
        self.inner.limiter.acquire(n).await?;
        Ok(self.begin(n, self.inner.clock.now()))
    }

    /// Like [`AdaptiveRate::call`], waiting at most `most`. Refused at once if that is not enough.
    ///
    /// # Errors
    ///
    /// [`Refused`]; no call was begun.
    pub async fn call_within(&self, n: u64, most: Duration) -> Result<RateCall, Refused> {
        self.inner.limiter.acquire_within(n, most).await?;
        Ok(self.begin(n, self.inner.clock.now()))
    }

    /// Returns the present rate.
    #[must_use]
    pub fn limit(&self) -> Limit {
        // Leased limiters have no limit to return; they are never controlled.
        self.inner.limiter.limit().unwrap_or(Limit::ZERO)
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

    fn begin(&self, tokens: u64, began: Tick) -> RateCall {
        self.inner.begun.fetch_add(1, Ordering::Relaxed);
        self.inner.begun_tokens.fetch_add(tokens, Ordering::Relaxed);
        RateCall {
            rate: self.clone(),
            tokens,
            began,
        }
    }
}

impl Inner {
    /// Updates the controller under its lock. Called after a call, so that no decision waits for it.
    fn learn(&self, ended: Ended) {
        let learning = self.learning.lock();
        let mut learning = learning.unwrap_or_else(PoisonError::into_inner);
        let Some(window) = learning.windows.hear(ended, self.begun()) else {
            return;
        };
        let before = learning.controller.rate();
        learning.controller.window(&window);
        let rate = learning.controller.rate();
        if rate < before {
            learning.windows.lower(ended.now);
        }
        let holds = self.limiter.limit().map_or(0.0, Limit::as_per_sec_f64);
        if rate != holds && (rate - holds).abs() >= self.hysteresis * holds {
            // Within the controller's bounds, which were valid at the start.
            let _ = self.set(rate, ended.now);
        }
    }

    fn begun(&self) -> Begun {
        Begun {
            calls: self.begun.load(Ordering::Relaxed),
            tokens: self.begun_tokens.load(Ordering::Relaxed),
        }
    }

    fn set(&self, rate: f64, now: Tick) -> Result<(), LimitError> {
        let burst = self.burst.map(|secs| ((rate * secs) as u64).max(1));
        self.limiter.lead(limit_of(rate)?, burst, now)
    }
}

/// Converts a controller's rate to the nearest limit that is not above it.
fn limit_of(rate: f64) -> Result<Limit, LimitError> {
    if !rate.is_finite() {
        return Err(LimitError::NoRate { per_sec: rate });
    }
    // Below one per second, a whole number of nanoseconds per token is more precise.
    if rate > 0.0 && rate < 1.0 {
        let every = (1e9 / rate).ceil() as u64;
        return Ok(Limit::every(Duration::from_nanos(every)));
    }
    Limit::per_sec_f64(rate)
}

impl RateCall {
    /// Reports success.
    pub fn success(self) {
        let now = self.rate.inner.clock.now();
        self.success_at(now);
    }

    /// Like [`RateCall::success`], at a reading of the limiter's clock.
    pub fn success_at(self, now: Tick) {
        self.end(now, false);
    }

    /// Reports a failure that is a sign of overload: a timeout, a refusal, an overload error.
    pub fn failure(self) {
        let now = self.rate.inner.clock.now();
        self.failure_at(now);
    }

    /// Like [`RateCall::failure`], at a reading of the limiter's clock.
    pub fn failure_at(self, now: Tick) {
        self.end(now, true);
    }

    fn end(&self, now: Tick, failed: bool) {
        self.rate.inner.learn(Ended {
            began: self.began,
            now,
            tokens: self.tokens,
            failed,
        });
    }
}

impl Default for AdaptiveRateBuilder {
    fn default() -> Self {
        Self {
            window: Span::from_secs(1),
            hysteresis: 2,
            burst: None,
        }
    }
}

impl AdaptiveRateBuilder {
    /// Sets the minimum length of a window; the default is a second. A window lasts longer if calls usually
    /// do, and if fewer than ten calls succeed in it and none fails.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Span`] outside of a millisecond to a year.
    pub fn window(mut self, span: Duration) -> Result<Self, ShapeError> {
        let nanos = span_of("window", span, Duration::from_millis(1))?;
        self.window = Span::from_nanos(nanos);
        Ok(self)
    }

    /// Sets the change, in percent of the present rate, below which the rate is not changed; the default is
    /// 2.
    ///
    /// # Errors
    ///
    /// [`LimitError::Hysteresis`] above 50.
    pub const fn hysteresis(mut self, percent: u32) -> Result<Self, LimitError> {
        if percent > 50 {
            return Err(LimitError::Hysteresis { percent });
        }
        self.hysteresis = percent;
        Ok(self)
    }

    /// Lets the burst follow the rate: the burst is what the rate replenishes in `span`, at least one token.
    /// A more expensive call is refused with [`Reason::ExceedsBurst`](crate::Reason::ExceedsBurst) while the
    /// rate is that low. By default the burst stays as it was.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Span`] outside of a microsecond to a year.
    pub fn burst_of(mut self, span: Duration) -> Result<Self, ShapeError> {
        let nanos = span_of("burst", span, Duration::from_micros(1))?;
        self.burst = Some(Span::from_nanos(nanos));
        Ok(self)
    }

    /// Like [`AdaptiveRate::over`], with these settings.
    ///
    /// # Errors
    ///
    /// As [`AdaptiveRate::over`]; also [`LimitError::Burst`] if the burst that follows from
    /// [`AdaptiveRateBuilder::burst_of`] is out of range.
    pub fn over(
        self,
        limiter: Limiter,
        controller: impl RateController + 'static,
    ) -> Result<AdaptiveRate, LimitError> {
        led(&limiter, Kind::Rate, LimitError::Permits)?;
        let (rate, clock) = (controller.rate(), limiter.clock());
        let now = clock.now();
        let learning = Learning {
            controller: Box::new(controller),
            windows: Windows::new(self.window, now),
        };
        let inner = Inner {
            limiter,
            learning: Mutex::new(learning),
            begun: AtomicU64::new(0),
            begun_tokens: AtomicU64::new(0),
            hysteresis: f64::from(self.hysteresis) / 100.0,
            burst: self.burst.map(|span| span.nanos() as f64 / 1e9),
            clock,
        };
        inner.set(rate, now)?;
        Ok(AdaptiveRate {
            inner: Arc::new(inner),
        })
    }
}
