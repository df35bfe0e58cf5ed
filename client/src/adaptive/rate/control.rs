//! The controllers of rates: pure, told of a window at a time.

use super::super::control::{KEEP, is_used, kept};
use super::Window;
use crate::limit::{Limit, LimitError};
use std::fmt;

/// What says how many tokens a second a dependency bears.
pub trait RateController: fmt::Debug + Send {
    /// How many, in tokens a second: a finite number above zero.
    fn rate(&self) -> f64;

    /// Learns from the calls of a window.
    fn window(&mut self, seen: &Window);
}

/// Between what a controller of rates moves, and where it starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateBounds {
    least: f64,
    most: f64,
    start: f64,
}

impl RateBounds {
    /// From `least`, at least one token a day, to `most`, at most 10¹² a second; it starts at `least`.
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
    /// [`LimitError::RateBounds`], if they are out of range or not in this order.
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

    /// Where it starts, cut to the bounds. From far below it takes a while: see [`RateAimd`].
    #[must_use]
    pub fn start(mut self, start: impl Into<Limit>) -> Self {
        self.start = self.clip(start.into().as_per_sec_f64());
        self
    }

    fn clip(self, rate: f64) -> f64 {
        rate.clamp(self.least, self.most)
    }
}

/// A rate between its bounds, and what all do to it.
#[derive(Clone, Debug)]
struct Led {
    bounds: RateBounds,
    rate: f64,
}

impl Led {
    /// A part of a window's calls that may fail without saying anything.
    const TOLERATED: f64 = 0.01;
    /// Of the root of what a window allows.
    const ROOT: f64 = 0.5;

    const fn new(bounds: RateBounds) -> Self {
        let rate = bounds.start;
        Self { bounds, rate }
    }

    fn is_used(&self, seen: &Window) -> bool {
        is_used(seen.asked as f64, self.rate * secs(seen))
    }

    /// Leaves a part of the rate, if too many failed: whether they did.
    fn fail(&mut self, seen: &Window, keep: f64) -> bool {
        let ended = seen.succeeded.saturating_add(seen.failed);
        let failed = seen.failed as f64 > ended as f64 * Self::TOLERATED;
        if failed {
            self.rate = self.bounds.clip(self.rate * keep);
        }
        failed
    }

    /// Adds a step if the window was used: half the root of the calls that it allows, for each window; at most as much again.
    fn grow(&mut self, seen: &Window, step: Option<f64>) {
        if !self.is_used(seen) || seen.begun == 0 {
            return;
        }
        let cost = seen.asked as f64 / seen.begun as f64;
        let calls = self.rate * secs(seen) / cost;
        let step = step.unwrap_or(self.rate * Self::ROOT / calls.sqrt());
        self.rate = self.bounds.clip(self.rate + step.min(self.rate));
    }

    /// Goes down to a rate; but, if the window was used, no lower than to a part of what came back, and else to twice what was
    /// asked for; and to a half in any case.
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

fn secs(seen: &Window) -> f64 {
    seen.span.nanos().max(1) as f64 / 1e9
}

/// Increase by a step, multiplicative decrease (Chiu and Jain, 1989).
///
/// A window in which more than one in a hundred calls failed leaves a part of the rate. Any other adds to it, if half of the rate was used:
/// half the root of the calls that it allows in a window, so 5 % at a hundred calls a window, and 0.5 % at ten thousand; or a step
/// that is given, at most as much again. From 1 to 1,000 calls a window the root takes some hundred and twenty windows, from 1,000 to 2,000 fifty.
///
/// A decrease keeps the ratio of two rates, and both increases bring it nearer to one: several that share a dependency
/// come to equal parts of it. The root needs no number to be chosen (of the binomial algorithms of Bansal and
/// Balakrishnan, 2001, with `k = −½`, `l = 1`).
#[derive(Clone, Debug)]
pub struct RateAimd {
    led: Led,
    keep: f64,
    step: Option<f64>,
}

impl RateAimd {
    /// Within these bounds; a window with failures leaves nine tenths, and any other adds by the root.
    #[must_use]
    pub const fn new(bounds: RateBounds) -> Self {
        Self {
            led: Led::new(bounds),
            keep: KEEP,
            step: None,
        }
    }

    /// What a window with failures leaves of the rate, 0.1 to 0.99; a value outside is cut to that.
    #[must_use]
    pub fn keep(mut self, part: f64) -> Self {
        self.keep = kept(part);
        self
    }

    /// What each other window adds, instead of the root.
    #[must_use]
    pub fn step(mut self, step: impl Into<Limit>) -> Self {
        self.step = Some(step.into().as_per_sec_f64());
        self
    }
}

impl RateController for RateAimd {
    fn rate(&self) -> f64 {
        self.led.rate
    }

    fn window(&mut self, seen: &Window) {
        if !self.led.fail(seen, self.keep) {
            self.led.grow(seen, self.step);
        }
    }
}

/// A rate from the queue that latency shows (Brakmo and Peterson's TCP Vegas, 1994).
///
/// By Little's law (1961) `served ÷ span · (latency − best)` calls stand in a queue on average, with the mean latency of the window
/// and the best that any had; and `served ÷ span · best` are served. Below three in the queue, or a fifth of those that are served, the
/// rate grows as [`RateAimd`]'s does; above twice that, it becomes what came back, less what takes the rest of the queue away in two windows,
/// but no less than half of what came back; between, it stays. A step down, as Vegas has it, would be too little: a queue
/// of what is sent too fast grows for as long as that lasts, while one of what is in flight is no longer than that.
///
/// After sixty windows the best is measured anew, for one window at four fifths of the rate, since a dependency that became
/// slower for good would look like a queue for ever.
#[derive(Clone, Debug)]
pub struct RateVegas {
    led: Led,
    /// In nanoseconds.
    best: f64,
    /// Windows that were used since the best was measured.
    seen: u64,
    /// The rate from before, while the best is measured.
    measures: Option<f64>,
}

impl RateVegas {
    const SHORT: f64 = 3.0;
    /// A queue that is so small a part of what is served says nothing.
    const SMALL: f64 = 0.2;
    /// Of what came back, the least that is asked for while a queue is taken away.
    const DRAIN: f64 = 0.5;
    /// So many windows, and the best latency is measured anew; with a queue so many.
    const PROBE: [u64; 2] = [60, 90];
    const LESS: f64 = 0.8;

    /// Within these bounds.
    #[must_use]
    pub const fn new(bounds: RateBounds) -> Self {
        Self {
            led: Led::new(bounds),
            best: f64::INFINITY,
            seen: 0,
            measures: None,
        }
    }

    /// Goes by the queue: whether it was long.
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
            self.led.shrink(to, seen, Self::DRAIN);
        } else if queue < short {
            self.led.grow(seen, None);
        }
        queue > long
    }

    fn measure_anew(&mut self, is_long: bool) {
        if self.seen > Self::PROBE[usize::from(is_long)] {
            self.seen = 0;
            self.measures = Some(self.led.rate);
            self.led.rate = self.led.bounds.clip(self.led.rate * Self::LESS);
        }
    }
}

impl RateController for RateVegas {
    fn rate(&self) -> f64 {
        self.led.rate
    }

    fn window(&mut self, seen: &Window) {
        let measured = self.measures.take();
        if self.led.fail(seen, KEEP) || seen.succeeded == 0 {
            return;
        }
        let latency = seen.latency.nanos() as f64;
        if let Some(before) = measured {
            (self.best, self.led.rate) = (latency, before);
            return;
        }
        self.seen += u64::from(self.led.is_used(seen));
        self.best = self.best.min(latency);
        let is_long = self.follow(seen, latency);
        self.measure_anew(is_long);
    }
}

/// A rate from the ratio of the usual latency to the present one.
///
/// With a window's mean latency and [that of windows of late](Window::usual), `g = 1.5 · usual ÷ latency`. Below one the rate
/// becomes `g · rate`, but no less than its half, and than four fifths of what came back: that much a dependency can do that has a
/// queue, and one that only became slower. Else the rate grows as [`RateAimd`]'s does.
///
/// The gradient is that of [`Gradient`](super::super::Gradient); what came back is the measure that TCP BBR goes by (Cardwell and others,
/// 2016).
#[derive(Clone, Debug)]
pub struct RateGradient {
    led: Led,
}

impl RateGradient {
    const TOLERANCE: f64 = 1.5;
    const DRAIN: f64 = 0.8;

    /// Within these bounds.
    #[must_use]
    pub const fn new(bounds: RateBounds) -> Self {
        Self {
            led: Led::new(bounds),
        }
    }
}

impl RateController for RateGradient {
    fn rate(&self) -> f64 {
        self.led.rate
    }

    fn window(&mut self, seen: &Window) {
        if self.led.fail(seen, KEEP) || seen.succeeded == 0 {
            return;
        }
        let (usual, latency) = (seen.usual.nanos() as f64, seen.latency.nanos() as f64);
        let gradient = (Self::TOLERANCE * usual / latency.max(1.0)).min(1.0);
        if gradient < 1.0 {
            self.led.shrink(gradient * self.led.rate, seen, Self::DRAIN);
        } else {
            self.led.grow(seen, None);
        }
    }
}
