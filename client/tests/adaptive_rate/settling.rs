//! Each rate controller against a simulated dependency of fixed capacity, through the public API and a manual
//! clock.

use crate::{bounds, secs};
use aliquot_client::adaptive::{AdaptiveRate, RateAimd, RateCall, RateGradient, RateVegas};
use aliquot_client::clock::{Span, Tick};
use aliquot_client::{Clock, Limit, Limiter, ManualClock};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// A dependency that serves `capacity` calls a second one after the other, adds a latency to each, and rejects
/// calls that would wait too long.
struct Dependency {
    capacity: f64,
    patience: Span,
    takes: Span,
    noise: Noise,
    free: Tick,
}

/// Draws the latency that is added to a call, as a part of the usual one.
type Noise = fn(&mut Pcg64) -> f64;

fn little(rng: &mut Pcg64) -> f64 {
    rng.random_range(0.8..=1.2)
}

/// Log-normal, with a median of one and a standard deviation of the logarithm of one.
fn unequal(rng: &mut Pcg64) -> f64 {
    // Box and Muller's method.
    let (a, b): (f64, f64) = (rng.random(), rng.random());
    ((-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()).exp()
}

fn bimodal(rng: &mut Pcg64) -> f64 {
    if rng.random_bool(0.1) { 10.0 } else { 0.1 }
}

fn lucky(rng: &mut Pcg64) -> f64 {
    if rng.random_bool(0.01) { 0.1 } else { 1.0 }
}

impl Dependency {
    /// Returns when a call is answered, and whether it failed.
    fn answer(&mut self, now: Tick, rng: &mut Pcg64) -> (Tick, bool) {
        if self.free.since(now) > self.patience {
            return (now.after(Span::from_millis(2)), true);
        }
        let start = self.free.max(now);
        self.free = start.after(Span::from_nanos((1e9 / self.capacity) as u64));
        let takes = self.takes.nanos() as f64 * (self.noise)(rng);
        (self.free.after(Span::from_nanos(takes as u64)), false)
    }
}

/// Callers that always have more calls to make, and their calls in flight.
struct Callers {
    clock: ManualClock,
    rate: AdaptiveRate,
    dependency: Dependency,
    rng: Pcg64,
    attempt: Tick,
    under_way: BTreeMap<(Tick, u64), (RateCall, bool)>,
    begun: u64,
}

/// Limits in the second half of a run, relative to the capacity.
#[derive(Debug)]
struct Held {
    mean: f64,
    served: f64,
}

impl Callers {
    fn new(name: &str, start: u64, patience: Span, takes: Span) -> Self {
        let clock = ManualClock::new();
        let limiter = Limiter::local_with(Limit::ZERO, 2, Arc::new(clock.clone()));
        let limiter = limiter.expect("a limit");
        let bounds = bounds(1, 10_000).start(Limit::per_sec(start));
        let rate = match name {
            "aimd" => AdaptiveRate::over(limiter, RateAimd::new(bounds)),
            "vegas" => AdaptiveRate::over(limiter, RateVegas::new(bounds)),
            _ => AdaptiveRate::over(limiter, RateGradient::new(bounds)),
        };
        Self {
            attempt: clock.now(),
            rate: rate.expect("a rate"),
            dependency: Dependency {
                capacity: 1.0,
                patience,
                takes,
                noise: little,
                free: clock.now(),
            },
            clock,
            rng: Pcg64::seed_from_u64(11),
            under_way: BTreeMap::new(),
            begun: 0,
        }
    }

    fn live(&mut self, capacity: f64, span: Duration) -> Held {
        self.dependency.capacity = capacity;
        let began = secs(&self.clock);
        let half = span.as_secs_f64() / 2.0;
        let (mut area, mut served, mut before) = (0.0, 0, began + half);
        while secs(&self.clock) < began + 2.0 * half {
            let well = self.run_on();
            let now = secs(&self.clock);
            if now >= began + half {
                area += self.rate.limit().as_per_sec_f64() * (now - before);
                before = now;
                served += u64::from(well);
            }
        }
        Held {
            mean: area / half / capacity,
            served: served as f64 / half / capacity,
        }
    }

    /// Processes the next event. Returns true if it is a call that ends successfully.
    fn run_on(&mut self) -> bool {
        let ends = self.under_way.first_key_value().map(|(key, _)| key.0);
        if ends.is_none_or(|ends| self.attempt < ends) {
            self.go_to(self.attempt);
            self.call();
            return false;
        }
        let Some(((end, _), (call, failed))) = self.under_way.pop_first() else {
            return false;
        };
        self.go_to(end);
        match failed {
            true => call.failure(),
            false => call.success(),
        }
        !failed
    }

    fn call(&mut self) {
        let now = self.clock.now();
        let wait = match self.rate.try_call(1) {
            Ok(call) => {
                let (end, failed) = self.dependency.answer(now, &mut self.rng);
                self.begun += 1;
                self.under_way.insert((end, self.begun), (call, failed));
                Span::from_nanos(1)
            }
            Err(refused) => {
                let wait = refused.retry_after.expect("tokens come");
                Span::from_nanos(wait.as_nanos() as u64)
            }
        };
        self.attempt = now.after(wait);
    }

    fn go_to(&self, then: Tick) {
        let span = then.since(self.clock.now());
        self.clock.advance(Duration::from_nanos(span.nanos()));
    }
}

const HURRIED: Span = Span::from_millis(50);
const PATIENT: Span = Span::from_secs(100_000);

/// Tells whether a limit was within a quarter of the capacity, which was used.
fn is_near(held: &Held) -> bool {
    (0.75..=1.25).contains(&held.mean) && held.served > 0.8
}

/// Runs each controller from a start through a sequence of capacities, two hundred seconds each.
fn check(names: &[&str], (patience, takes): (Span, Span), start: u64, capacities: &[f64]) {
    for name in names {
        let mut callers = Callers::new(name, start, patience, takes);
        for &capacity in capacities {
            let held = callers.live(capacity, Duration::from_secs(200));
            assert!(
                is_near(&held),
                "{name}, from {start}, at {capacity} a second: {held:?}"
            );
        }
    }
}

#[test]
fn controllers_find_the_rate_of_a_dependency_that_rejects() {
    let takes = Span::from_millis(10);
    for start in [5, 1_000] {
        let capacities = [100.0, 50.0, 100.0];
        check(
            &["aimd", "vegas", "gradient"],
            (HURRIED, takes),
            start,
            &capacities,
        );
    }
}

#[test]
fn latency_controllers_find_the_rate_of_a_dependency_that_queues() {
    for takes in [10, 100, 900].map(Span::from_millis) {
        for start in [5, 1_000] {
            let capacities = [100.0, 50.0, 100.0];
            check(&["vegas", "gradient"], (PATIENT, takes), start, &capacities);
        }
    }
}

/// Overload that lasts: no controller learns from its own queue that more is usual.
#[test]
fn no_controller_runs_away_in_a_million_calls() {
    let mut strays = Vec::new();
    for name in ["aimd", "vegas", "gradient"] {
        let patience = if name == "aimd" { HURRIED } else { PATIENT };
        let mut callers = Callers::new(name, 300, patience, Span::from_millis(10));
        for turn in 0.. {
            let held = callers.live(1_000.0, Duration::from_secs(50));
            if turn >= 2 && !is_near(&held) {
                strays.push((name, callers.begun, held));
            }
            if callers.begun >= 1_000_000 {
                break;
            }
        }
    }
    assert!(strays.is_empty(), "{strays:.2?}");
}

#[test]
fn a_drop_to_a_tenth_is_followed_down_and_up() {
    let takes = Span::from_millis(10);
    let capacities = [1_000.0, 100.0, 1_000.0];
    check(&["aimd"], (HURRIED, takes), 300, &capacities);
    check(&["vegas", "gradient"], (PATIENT, takes), 300, &capacities);
}

#[test]
fn unequal_latencies_hide_no_rate() {
    let noises: [(&str, Noise); 3] = [("unequal", unequal), ("bimodal", bimodal), ("lucky", lucky)];
    let mut table = String::new();
    let mut failed = false;
    for (noise, draw) in noises {
        for name in ["aimd", "vegas", "gradient"] {
            for takes in [10, 900].map(Span::from_millis) {
                let patience = if name == "aimd" { HURRIED } else { PATIENT };
                let mut callers = Callers::new(name, 5, patience, takes);
                callers.dependency.noise = draw;
                for capacity in [100.0, 50.0, 100.0] {
                    let held = callers.live(capacity, Duration::from_secs(400));
                    let is_near = (0.75..=1.25).contains(&held.mean) && held.served > 0.7;
                    let fault = if is_near { "" } else { "  FAULT" };
                    writeln!(
                        table,
                        "{name:9} {noise:9} {takes:?} {capacity:5}: {held:.2?}{fault}"
                    )
                    .expect("a string");
                    failed |= !is_near;
                }
            }
        }
    }
    eprintln!("{table}");
    assert!(!failed, "{table}");
}
