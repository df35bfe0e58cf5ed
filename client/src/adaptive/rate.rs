//! A rate that follows what a dependency can take.

mod control;
mod window;

pub use control::{RateAimd, RateBounds, RateController, RateGradient, RateVegas};
pub use window::Window;

use super::led;
use crate::clock::SharedClock;
use crate::limit::{Limit, LimitError};
use crate::limiter::Limiter;
use crate::refused::Refused;
use crate::shape::{ShapeError, span_of};
use crate::switch::{Mode, Overruled};
use crate::tap::Tap;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use window::{Begun, Ended, Windows};

/// A limiter's rate, as high as a controller thinks good.
///
/// It counts how calls go in [windows](Window), of a second unless somebody says otherwise, and at the end of each asks its controller for
/// another rate. So the rate changes at most once a window. It is set if it is 2 % or more away from what holds (a setting); what is less
/// adds up until it is.
///
/// Whoever takes of the limiter without this takes of the same rate; but what is taken so counts as not used, and the controller hears nothing
/// of it. A limit that somebody else sets holds until a window's end.
///
/// A rate is no limit of what is in flight: while nothing comes back nothing is learned, and calls go on beginning. Give them a
/// time after which they fail, or let them have a permit as well.
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
    /// A change that is a smaller part of the rate is not set.
    hysteresis: f64,
    /// The burst is what the rate makes in so many seconds, if it is to follow.
    burst: Option<f64>,
    clock: SharedClock,
}

struct Learning {
    controller: Box<dyn RateController>,
    windows: Windows,
}

/// What makes an [`AdaptiveRate`] with settings of its own.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveRateBuilder {
    window: Span,
    hysteresis: u32,
    burst: Option<Span>,
}

/// A call that began. Say how it went; dropped, it counts as one of which nothing is known.
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
    /// Sets this limiter's rate from now on, starting at the controller's; the burst stays as it was. By the limiter's clock.
    ///
    /// # Errors
    ///
    /// [`LimitError::Permits`] of permits, which have no rate, and [`LimitError::NotOwn`] of a leased limit; or if the controller starts
    /// out of range. Nothing was changed.
    pub fn over(
        limiter: Limiter,
        controller: impl RateController + 'static,
    ) -> Result<Self, LimitError> {
        Self::builder().over(limiter, controller)
    }

    /// One with settings of its own.
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

    /// Begins a call that costs `n` tokens, if they are there now.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was begun.
    pub fn try_call(&self, n: u64) -> Result<RateCall, Refused> {
        self.inner.limiter.try_acquire(n)?;
        Ok(self.begin(n, self.inner.clock.now()))
    }

    /// [`AdaptiveRate::try_call`] at a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`AdaptiveRate::try_call`].
    pub fn try_call_at(&self, n: u64, now: Tick) -> Result<RateCall, Refused> {
        self.inner.limiter.try_acquire_at(n, now)?;
        Ok(self.begin(n, now))
    }

    /// Begins a call that costs `n` tokens, waiting in line for them as [`Limiter::acquire`] does. That wait is no part of its latency.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was begun.
    pub async fn call(&self, n: u64) -> Result<RateCall, Refused> {
        self.inner.limiter.acquire(n).await?;
        Ok(self.begin(n, self.inner.clock.now()))
    }

    /// [`AdaptiveRate::call`] within `most`; at once refused if that cannot be.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was begun.
    pub async fn call_within(&self, n: u64, most: Duration) -> Result<RateCall, Refused> {
        self.inner.limiter.acquire_within(n, most).await?;
        Ok(self.begin(n, self.inner.clock.now()))
    }

    /// The rate that holds.
    #[must_use]
    pub fn limit(&self) -> Limit {
        // A leased limiter, which knows none, is not led.
        self.inner.limiter.limit().unwrap_or(Limit::ZERO)
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
    /// Takes a lock for as long as the controller thinks: after a call, never before one.
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
            // Within the controller's bounds, which were in range at the start.
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

/// A rate that a controller said, as near as a limit can be and never above it.
fn limit_of(rate: f64) -> Result<Limit, LimitError> {
    if !rate.is_finite() {
        return Err(LimitError::NoRate { per_sec: rate });
    }
    // Of one in a long time a whole number of nanoseconds is the finer measure.
    if rate > 0.0 && rate < 1.0 {
        let every = (1e9 / rate).ceil() as u64;
        return Ok(Limit::every(Duration::from_nanos(every)));
    }
    Limit::per_sec_f64(rate)
}

impl RateCall {
    /// It went well.
    pub fn success(self) {
        let now = self.rate.inner.clock.now();
        self.success_at(now);
    }

    /// [`RateCall::success`] at a reading of the limiter's clock.
    pub fn success_at(self, now: Tick) {
        self.end(now, false);
    }

    /// It failed in a way that says *less*: a timeout, a refusal, an error of overload.
    pub fn failure(self) {
        let now = self.rate.inner.clock.now();
        self.failure_at(now);
    }

    /// [`RateCall::failure`] at a reading of the limiter's clock.
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
    /// How long a window is at least: a second unless this says otherwise. One is longer where calls usually are, and where
    /// fewer than ten go well in it and none fails.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Span`] outside of a millisecond to a year.
    pub fn window(mut self, span: Duration) -> Result<Self, ShapeError> {
        let nanos = span_of("window", span, Duration::from_millis(1))?;
        self.window = Span::from_nanos(nanos);
        Ok(self)
    }

    /// A change by less than so many percent of the rate that holds is not set: 2 unless this says otherwise.
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

    /// The burst follows the rate: it is what that makes in so long a time, and at least one token. A call that costs more than that is
    /// refused as [`Reason::ExceedsBurst`](crate::Reason::ExceedsBurst) while the rate is so low. Unless this is said the burst stays as it was.
    ///
    /// # Errors
    ///
    /// [`ShapeError::Span`] outside of a microsecond to a year.
    pub fn burst_of(mut self, span: Duration) -> Result<Self, ShapeError> {
        let nanos = span_of("burst", span, Duration::from_micros(1))?;
        self.burst = Some(Span::from_nanos(nanos));
        Ok(self)
    }

    /// [`AdaptiveRate::over`] with these settings.
    ///
    /// # Errors
    ///
    /// As [`AdaptiveRate::over`]; and [`LimitError::Burst`], if what the rate makes in the time of [`AdaptiveRateBuilder::burst_of`] is
    /// more than there may be at once.
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
