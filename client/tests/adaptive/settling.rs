//! Each controller against each kind of simulated service: its limit must settle near the knee, the number of
//! calls that the service works on at once. More calls in flight only wait, or are rejected.

use crate::service::Service;
use crate::service::Times::{self, Either, Fixed, LogNormal};
use aliquot_client::adaptive::{Aimd, Bounds, Controller, Gradient, Vegas};
use std::fmt::Write;

const MOST: u64 = 5_000;
const ENDLESS: u64 = u64::MAX;
const FEW: usize = 300_000;
const MANY: usize = 1_000_000;

/// A service and its callers. The phases follow each other: workers, and their times.
struct Row {
    service: &'static str,
    start: u64,
    queue: u64,
    load: Option<f64>,
    calls: usize,
    phases: &'static [(u64, Times)],
}

const fn row(service: &'static str, queue: u64, phases: &'static [(u64, Times)]) -> Row {
    Row {
        service,
        start: 5,
        queue,
        load: None,
        calls: FEW,
        phases,
    }
}

/// Services that reject calls, with a queue of a tenth of their workers at most.
fn rejecting() -> Vec<Row> {
    const SHIFTS: &[(u64, Times)] = &[
        (100, LogNormal(10, 0.5)),
        (40, LogNormal(10, 0.5)),
        (100, LogNormal(10, 0.5)),
        (200, LogNormal(10, 0.5)),
    ];
    let noisy = &[(100, LogNormal(10, 1.0))];
    vec![
        row("rejects", 10, &[(100, Fixed(10))]),
        Row {
            calls: MANY,
            ..row("rejects, noisy", 10, noisy)
        },
        row("rejects without a queue", 0, noisy),
        Row {
            start: MOST,
            ..row("rejects, from the maximum", 10, noisy)
        },
        row("rejects, bimodal", 5, &[(50, Either(1, 100, 0.1))]),
        row("rejects, shifts", 10, SHIFTS),
        Row {
            load: Some(2.0),
            ..row("rejects, random arrivals", 10, noisy)
        },
    ]
}

/// Services that queue any number of calls and never fail.
fn queueing() -> Vec<Row> {
    const SHIFTS: &[(u64, Times)] = &[
        (100, LogNormal(10, 1.0)),
        (40, LogNormal(10, 1.0)),
        (100, LogNormal(10, 1.0)),
        (300, LogNormal(10, 1.0)),
        (30, LogNormal(10, 1.0)),
    ];
    const SLOWS: &[(u64, Times)] = &[
        (100, Fixed(10)),
        (100, LogNormal(30, 0.1)),
        (100, LogNormal(10, 0.1)),
    ];
    let noisy = &[(100, LogNormal(10, 1.0))];
    vec![
        Row {
            calls: MANY,
            ..row("queues", ENDLESS, &[(100, Fixed(10))])
        },
        Row {
            start: MOST,
            calls: MANY,
            ..row("from the maximum", ENDLESS, noisy)
        },
        row("little noise", ENDLESS, &[(100, LogNormal(10, 0.3))]),
        Row {
            calls: MANY,
            ..row("noisy", ENDLESS, noisy)
        },
        row("very noisy", ENDLESS, &[(100, LogNormal(10, 1.5))]),
        row("small", ENDLESS, &[(10, LogNormal(10, 1.0))]),
        row("large", ENDLESS, &[(1_000, LogNormal(10, 0.5))]),
        Row {
            start: 20,
            calls: MANY,
            ..row("lucky calls", ENDLESS, &[(200, Either(300, 150, 0.01))])
        },
        row("rare slow calls", ENDLESS, &[(50, Either(10, 1_000, 0.01))]),
        row("bimodal", ENDLESS, &[(50, Either(10, 100, 0.5))]),
        row("mostly fast", ENDLESS, &[(50, Either(1, 100, 0.1))]),
        row("mostly slow", ENDLESS, &[(50, Either(100, 1, 0.1))]),
        row("rejects late", 300, noisy),
        Row {
            calls: MANY,
            ..row("shifts", ENDLESS, SHIFTS)
        },
        row("slows down", ENDLESS, SLOWS),
        Row {
            load: Some(1.5),
            ..row("random arrivals", ENDLESS, noisy)
        },
    ]
}

/// Runs the controller against each service. After half of the calls of a phase, nine tenths of the time the
/// limit must be at most a quarter above the knee, and nine tenths at most a quarter below it. It must never
/// be above twice the knee then, nor below a quarter of it, which a probe may reach.
fn check(name: &str, make: impl Fn(Bounds) -> Box<dyn Controller>, rows: &[Row]) {
    let mut table = format!("{name}: knee, least, one tenth, median, nine tenths, most\n");
    let mut failed = false;
    for row in rows {
        let bounds = Bounds::new(1, MOST).expect("bounds").start(row.start);
        let mut controller = make(bounds);
        let mut service = Service::new(row.queue, row.load);
        for &phase in row.phases {
            let calls = row.calls / row.phases.len();
            let limits = service.run(phase, &mut *controller, calls);
            let knee = phase.0 as f64;
            let parts = [0, 10, 50, 90, 100].map(|part| limits[(limits.len() - 1) * part / 100]);
            let [least, low, _, high, most] = parts.map(|limit| limit as f64 / knee);
            let is_near = low >= 0.75 && high <= 1.25 && least >= 0.25 && most <= 2.0;
            let fault = if is_near { "" } else { "  FAULT" };
            let service = row.service;
            writeln!(table, "{service:26} {:5} {parts:5?}{fault}", phase.0).expect("a string");
            failed |= !is_near;
        }
    }
    eprintln!("{table}");
    assert!(!failed, "{table}");
}

#[test]
fn aimd_settles_where_the_service_rejects() {
    check("aimd", |bounds| Box::new(Aimd::new(bounds)), &rejecting());
}

#[test]
fn vegas_settles_near_the_knee_of_a_service_that_queues() {
    check("vegas", |bounds| Box::new(Vegas::new(bounds)), &queueing());
}

#[test]
fn vegas_settles_near_the_knee_of_a_service_that_rejects() {
    check("vegas", |bounds| Box::new(Vegas::new(bounds)), &rejecting());
}

#[test]
fn gradient_settles_near_the_knee_of_a_service_that_queues() {
    check(
        "gradient",
        |bounds| Box::new(Gradient::new(bounds)),
        &queueing(),
    );
}

#[test]
fn gradient_settles_near_the_knee_of_a_service_that_rejects() {
    check(
        "gradient",
        |bounds| Box::new(Gradient::new(bounds)),
        &rejecting(),
    );
}
