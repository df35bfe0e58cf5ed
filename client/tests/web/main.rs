//! The HTTP layers: addresses and keys of requests, responses, and when to retry.

mod address;
mod answers;
mod outgoing;
mod permits;
mod said;
mod tiered;

use aliquot_client::{Limit, Limiter, ManualClock};
use http::{HeaderMap, HeaderValue};
use std::sync::Arc;
use std::time::Duration;

fn headers(name: &'static str, lines: &[&str]) -> HeaderMap {
    let value = |line: &&str| {
        (
            name.parse().expect("a name"),
            HeaderValue::from_bytes(line.as_bytes()).expect("a value"),
        )
    };
    lines.iter().map(value).collect()
}

fn one() -> (ManualClock, Limiter) {
    let clock = ManualClock::new();
    let limiter = Limiter::local_with(
        Limit::every(Duration::from_secs(90)),
        1,
        Arc::new(clock.clone()),
    );
    (clock, limiter.expect("a limit"))
}
