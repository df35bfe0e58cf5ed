//! Controllers of a limiter's rate: their properties, how they settle, and their public API.

mod laws;
mod settling;
mod using;

use aliquot_client::Limit;
use aliquot_client::adaptive::{
    RateAimd, RateBounds, RateController, RateGradient, RateVegas, Window,
};
use aliquot_client::{Clock, ManualClock};
use std::time::Duration;

fn bounds(least: u64, most: u64) -> RateBounds {
    RateBounds::new(Limit::per_sec(least), Limit::per_sec(most)).expect("bounds")
}

/// Returns a controller of each kind with these bounds.
fn each(bounds: RateBounds) -> [(&'static str, Box<dyn RateController>); 3] {
    [
        ("aimd", Box::new(RateAimd::new(bounds))),
        ("vegas", Box::new(RateVegas::new(bounds))),
        ("gradient", Box::new(RateGradient::new(bounds))),
    ]
}

/// Returns a window of one second with this many successful calls, each of ten milliseconds and one token.
fn well(calls: u64) -> Window {
    Window {
        span: Duration::from_secs(1),
        begun: calls,
        asked: calls,
        succeeded: calls,
        served: calls,
        failed: 0,
        latency: Duration::from_millis(10),
        error: Duration::ZERO,
        usual: Duration::from_millis(10),
    }
}

fn secs(clock: &ManualClock) -> f64 {
    clock.now().nanos() as f64 / 1e9
}
