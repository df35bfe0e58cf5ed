//! Controllers that lead a limiter's rate: their laws, how they settle, and what is seen of them.

mod laws;
mod settling;
mod using;

use aliquot_client::Limit;
use aliquot_client::adaptive::{
    RateAimd, RateBounds, RateController, RateGradient, RateVegas, Window,
};
use aliquot_client::{Clock, ManualClock, Span};

fn bounds(least: u64, most: u64) -> RateBounds {
    RateBounds::new(Limit::per_sec(least), Limit::per_sec(most)).expect("bounds")
}

/// One of each, within these bounds.
fn each(bounds: RateBounds) -> [(&'static str, Box<dyn RateController>); 3] {
    [
        ("aimd", Box::new(RateAimd::new(bounds))),
        ("vegas", Box::new(RateVegas::new(bounds))),
        ("gradient", Box::new(RateGradient::new(bounds))),
    ]
}

/// A second of calls that all went well, each in ten milliseconds and for a token.
fn well(calls: u64) -> Window {
    Window {
        span: Span::from_secs(1),
        begun: calls,
        asked: calls,
        succeeded: calls,
        served: calls,
        failed: 0,
        latency: Span::from_millis(10),
        usual: Span::from_millis(10),
    }
}

fn secs(clock: &ManualClock) -> f64 {
    clock.now().nanos() as f64 / 1e9
}
