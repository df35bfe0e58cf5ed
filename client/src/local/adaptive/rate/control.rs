//! Controllers of rates: pure, updated once per window.

use super::super::control::{KEEP, is_used, kept};
use super::Window;
use crate::bucket::limit::{Limit, LimitError};
use std::fmt;
use std::time::Duration;

/// Decides how many tokens per second a dependency can take.
///
/// ```
/// use aliquot_client::adaptive::{RateController, Window};
///
/// /// Halves the rate after a window with a failure, and never raises it.
/// #[derive(Debug)]
/// struct Halving(f64);
///
/// impl RateController for Halving {
///     fn rate(&self) -> f64 {
///         self.0
///     }
///
///     fn window(&mut self, seen: &Window) {
///         if seen.failed > 0 {
///             self.0 = (self.0 / 2.0).max(1.0);
///         }
///     }
/// }
/// ```
pub trait RateController: fmt::Debug + Send {
    /// Returns the rate in tokens per second: finite and above zero.
    fn rate(&self) -> f64;

    /// Learns from the calls of a window.
    fn window(&mut self, seen: &Window);
}

/// Range of a controller's rate, and its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateBounds {
    least: f64,
    most: f64,
    start: f64,
}

impl RateBounds {
    /// Returns the range from `least`, at least one token a day, to `most`, at most 10¹² a second. The rate
    /// starts at `least`.
    ///
    /// ```
    /// use aliquot_client::Limit;
    /// use aliquot_client::adaptive::RateBounds;
    /// use std::time::Duration;
    ///
    /// let bounds = RateBounds::new(Limit::per(1, Duration::from_secs(60)), Limit::per_sec(500))?;
    /// let bounds = bounds.start(Limit::per_sec(50));
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LimitError::RateBounds`] if these are out of range or not in this order.
    pub fn new(least: impl Into<Limit>, most: impl Into<Limit>) -> Result<Self, LimitError> {
        const LEAST: f64 = 1.0 / 86_400.0;
        const MOST: f64 = 1e12;
        let (least, most) = (least.into().as_per_sec_f64(), most.into().as_per_sec_f64());
        if least < LEAST || least > most || most > MOST {
            return Err(LimitError::RateBounds { least, most });
        }
        let start = least;
        Ok(Self { least, most, start })
    }

    /// Sets the start, clamped to the range. Growing from a start that is far too low takes a while: see
    /// [`RateAimd`].
    #[must_use]
    pub fn start(mut self, start: impl Into<Limit>) -> Self {
        self.start = self.clip(start.into().as_per_sec_f64());
        self
    }

    fn clip(self, rate: f64) -> f64 {
        rate.clamp(self.least, self.most)
    }
}

/// A rate within its bounds, and the steps that all controllers share.
#[derive(Clone, Debug)]
struct SteppedRate {
    bounds: RateBounds,
    rate: f64,
}

impl SteppedRate {
    /// Part of a window's calls that may fail without an effect.
    const TOLERATED: f64 = 0.01;
    /// Factor of the square root of the calls that a window allows.
    const ROOT: f64 = 0.5;

    const fn new(bounds: RateBounds) -> Self {
        let rate = bounds.start;
        Self { bounds, rate }
    }

    fn is_used(&self, seen: &Window) -> bool {
        is_used(seen.asked as f64, self.rate * secs(seen))
    }

    /// Lowers the rate to a part of it if too many calls failed. Returns true if they did.
    fn fail(&mut self, seen: &Window, keep: f64) -> bool {
        let ended = seen.succeeded.saturating_add(seen.failed);
        let failed = seen.failed as f64 > ended as f64 * Self::TOLERATED;
        if failed {
            self.rate = self.bounds.clip(self.rate * keep);
        }
        failed
    }

    /// Raises the rate by `step` if the window was used. The default step is half the square root of the
    /// calls that the window allows, per window. The rate at most doubles.
    fn grow(&mut self, seen: &Window, step: Option<f64>) {
        if !self.is_used(seen) || seen.begun == 0 {
            return;
        }
        let cost = seen.asked as f64 / seen.begun as f64;
        let calls = self.rate * secs(seen) / cost;
        let step = step.unwrap_or(self.rate * Self::ROOT / calls.sqrt());
        self.rate = self.bounds.clip(self.rate + step.min(self.rate));
    }

    /// Lowers the rate to `to`. If the window was used, the result is at least `part` of the rate served;
    /// otherwise at least twice the demand. It is at least half of the present rate in any case.
    fn shrink(&mut self, to: f64, seen: &Window, part: f64) {
        let floor = if self.is_used(seen) {
            part * seen.served as f64 / secs(seen)
        } else {
            2.0 * seen.asked as f64 / secs(seen)
        };
        let to = to.max(floor).max(self.rate * 0.5).min(self.rate);
        self.rate = self.bounds.clip(to);
    }
}

/// Returns the window's latency in nanoseconds, less and plus two standard errors: about nineteen in twenty
/// means are in between.
fn latency(seen: &Window) -> [f64; 2] {
    let (mean, error) = (nanos(seen.latency), nanos(seen.error));
    [(mean - 2.0 * error).max(0.0), mean + 2.0 * error]
}

fn nanos(length: Duration) -> f64 {
    length.as_nanos() as f64
}

fn secs(seen: &Window) -> f64 {
    nanos(seen.span).max(1.0) / 1e9
}

/// Additive increase, multiplicative decrease (Chiu and Jain, 1989).
///
/// If more than one in a hundred calls of a window failed, the rate is lowered to a part of it. Any other
/// window raises it, if half of the rate was used: by half the square root of the calls that a window allows,
/// or by a given step, at most doubling it. The square root means 5 % at a hundred calls per window and 0.5 %
/// at ten thousand. It takes about 120 windows from 1 to 1,000 calls per window, and fifty from 1,000 to
/// 2,000.
///
/// A decrease keeps the ratio of two rates, and both kinds of increase bring it closer to one. So several
/// clients of one dependency converge to equal shares. The square root needs no tuning (one of the binomial
/// algorithms of Bansal and Balakrishnan, 2001, with `k = −½`, `l = 1`).
///
/// ```
/// use aliquot_client::Limit;
/// use aliquot_client::adaptive::{RateAimd, RateBounds, RateController};
///
/// let bounds = RateBounds::new(Limit::per_sec(10), Limit::per_sec(1_000))?;
/// // A window with failures leaves half of the rate, and any other adds five a second.
/// let controller = RateAimd::new(bounds.start(Limit::per_sec(200))).keep(0.5).step(Limit::per_sec(5));
/// assert_eq!(controller.rate(), 200.0);
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateAimd {
    stepped: SteppedRate,
    keep: f64,
    step: Option<f64>,
}

impl RateAimd {
    /// Returns a controller with these bounds. A window with failures leaves nine tenths of the rate; any
    /// other adds by the square root.
    #[must_use]
    pub const fn new(bounds: RateBounds) -> Self {
        Self {
            stepped: SteppedRate::new(bounds),
            keep: KEEP,
            step: None,
        }
    }

    /// Sets the part of the rate that remains after a window with failures, clamped to 0.1 … 0.99.
    #[must_use]
    pub fn keep(mut self, part: f64) -> Self {
        self.keep = kept(part);
        self
    }

    /// Sets what any other window adds, instead of the square root.
    #[must_use]
    pub fn step(mut self, step: impl Into<Limit>) -> Self {
        self.step = Some(step.into().as_per_sec_f64());
        self
    }
}

impl RateController for RateAimd {
    fn rate(&self) -> f64 {
        self.stepped.rate
    }

    fn window(&mut self, seen: &Window) {
        if !self.stepped.fail(seen, self.keep) {
            self.stepped.grow(seen, self.step);
        }
    }
}

/// Rate derived from the queue that latency reveals (Brakmo and Peterson's TCP Vegas, 1994).
///
/// By Little's law (1961), on average `served ÷ span · (latency − best)` calls are waiting in a queue and
/// `served ÷ span · best` are being served. `latency` is the mean of the window, less two standard errors.
/// `best` is the lowest mean of any window, plus two standard errors of that.
///
/// - If the queue is below three calls, or below a fifth of those being served, the rate grows as that of
///   [`RateAimd`] does.
/// - If it is above twice that, the rate becomes the rate served, less what drains the excess in two windows.
///   It stays at least half of the rate served.
/// - In between it stays.
///
/// Shrinking by a step, as Vegas does, would be too little: a rate that is too high lets the queue grow for
/// as long as it lasts, while calls in flight bound their own queue.
///
/// After sixty used windows the best latency is measured again, for one window at four fifths of the rate.
/// Otherwise a dependency that became slower for good would look like one with a queue.
///
/// ```
/// use aliquot_client::adaptive::{AdaptiveRate, RateBounds, RateVegas};
/// use aliquot_client::{Limit, Limiter};
///
/// let limiter = Limiter::local(Limit::per_sec(100), 20)?;
/// let bounds = RateBounds::new(Limit::per_sec(1), Limit::per_sec(1_000))?;
/// let search = AdaptiveRate::over(limiter, RateVegas::new(bounds.start(Limit::per_sec(100))))?;
/// search.try_call(1).expect("twenty may begin at once").success();
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateVegas {
    stepped: SteppedRate,
    /// In nanoseconds.
    best: f64,
    /// Number of used windows since the best latency was measured.
    seen: u64,
    /// While the best latency is measured: the rate from before.
    measures: Option<f64>,
}

impl RateVegas {
    const SHORT: f64 = 3.0;
    /// A queue below this part of the calls being served is not significant.
    const SMALL: f64 = 0.2;
    /// Minimum part of the rate served that is still requested while a queue drains.
    const DRAIN: f64 = 0.5;
    /// Number of used windows after which the best latency is measured again: without a long queue, and with
    /// one.
    const PROBE: [u64; 2] = [60, 90];
    const LESS: f64 = 0.8;

    /// Returns a controller with these bounds.
    #[must_use]
    pub const fn new(bounds: RateBounds) -> Self {
        Self {
            stepped: SteppedRate::new(bounds),
            best: f64::INFINITY,
            seen: 0,
            measures: None,
        }
    }

    /// Adapts the rate to the queue. Returns true if the queue was long.
    fn follow(&mut self, seen: &Window, latency: f64) -> bool {
        let (span, calls) = (secs(seen), seen.succeeded as f64);
        let queue = calls / span * (latency - self.best) / 1e9;
        let serving = calls / span * self.best / 1e9;
        let short = Self::SHORT.max(serving * Self::SMALL);
        let long = 2.0 * short;
        if queue > long {
            let served = seen.served as f64 / span;
            let cost = seen.served as f64 / calls;
            let to = served - (queue - long) * cost / (2.0 * span);
            self.stepped.shrink(to, seen, Self::DRAIN);
        } else if queue < short {
            self.stepped.grow(seen, None);
        }
        queue > long
    }

    fn measure_anew(&mut self, is_long: bool) {
        if self.seen > Self::PROBE[usize::from(is_long)] {
            self.seen = 0;
            self.measures = Some(self.stepped.rate);
            self.stepped.rate = self.stepped.bounds.clip(self.stepped.rate * Self::LESS);
        }
    }
}

impl RateController for RateVegas {
    fn rate(&self) -> f64 {
        self.stepped.rate
    }

    fn window(&mut self, seen: &Window) {
        let measured = self.measures.take();
        if self.stepped.fail(seen, KEEP) || seen.succeeded == 0 {
            return;
        }
        let [low, high] = latency(seen);
        if let Some(before) = measured {
            (self.best, self.stepped.rate) = (high, before);
            return;
        }
        self.seen += u64::from(self.stepped.is_used(seen));
        self.best = self.best.min(high);
        let is_long = self.follow(seen, low);
        self.measure_anew(is_long);
    }
}

/// Rate derived from the ratio of usual latency to present latency.
///
/// Let `g = 1.5 · usual ÷ latency`, with the [usual](Window::usual) latency, and the window's mean latency less
/// two standard errors. Below
/// one, the rate becomes `g · rate`, but at least half of the rate, and at least four fifths of the rate
/// served: a dependency with a queue can serve that much, and so can one that only became slower. Otherwise
/// the rate grows as that of [`RateAimd`] does.
///
/// The gradient is that of [`Gradient`](super::super::Gradient). The rate served is the measure that TCP BBR
/// uses (Cardwell and others, 2016).
///
/// ```
/// use aliquot_client::adaptive::{AdaptiveRate, RateBounds, RateGradient};
/// use aliquot_client::{Limit, Limiter};
///
/// let limiter = Limiter::local(Limit::per_sec(100), 20)?;
/// let bounds = RateBounds::new(Limit::per_sec(1), Limit::per_sec(1_000))?;
/// let search = AdaptiveRate::over(limiter, RateGradient::new(bounds.start(Limit::per_sec(100))))?;
/// search.try_call(1).expect("twenty may begin at once").failure();
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateGradient {
    stepped: SteppedRate,
}

impl RateGradient {
    const TOLERANCE: f64 = 1.5;
    const DRAIN: f64 = 0.8;

    /// Returns a controller with these bounds.
    #[must_use]
    pub const fn new(bounds: RateBounds) -> Self {
        Self {
            stepped: SteppedRate::new(bounds),
        }
    }
}

impl RateController for RateGradient {
    fn rate(&self) -> f64 {
        self.stepped.rate
    }

    fn window(&mut self, seen: &Window) {
        if self.stepped.fail(seen, KEEP) || seen.succeeded == 0 {
            return;
        }
        let [low, _] = latency(seen);
        let gradient = (Self::TOLERANCE * nanos(seen.usual) / low.max(1.0)).min(1.0);
        if gradient < 1.0 {
            self.stepped
                .shrink(gradient * self.stepped.rate, seen, Self::DRAIN);
        } else {
            self.stepped.grow(seen, None);
        }
    }
}
