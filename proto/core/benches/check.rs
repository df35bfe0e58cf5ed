//! Cost of judging one event.

use aliquot_core::check::{Envelope, LaggedEnvelope, Limit, Limits};
use aliquot_core::unit::{Drift, Rate, Span, Tick, Tokens};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

const EVENTS: u64 = 100_000;

fn limit() -> Limit {
    Limit::new(
        Rate::from_grains(3_456_000_000),
        Tokens::from_grains(691_200_000),
    )
}

/// Admissions about as fast as the limit allows, a few at each instant.
fn events() -> Vec<(Tick, Tokens)> {
    (0..EVENTS)
        .map(|event| {
            let instant = event / 4 * 4_000_000;
            (Tick::from_nanos(instant), Tokens::from_grains(3_456_000))
        })
        .collect()
}

fn envelope(criterion: &mut Criterion) {
    let events = events();
    let mut group = criterion.benchmark_group("check");
    group.throughput(Throughput::Elements(EVENTS));
    group.bench_function("envelope", |bench| {
        bench.iter(|| {
            let mut envelope = Envelope::new(limit(), Drift::default());
            for &(at, cost) in black_box(&events) {
                envelope.admit(at, cost);
            }
            envelope.report()
        });
    });
    group.bench_function("lagged envelope", |bench| {
        bench.iter(|| {
            let limits = Limits::new(Tick::from_nanos(0), limit(), Span::from_secs(3));
            let mut envelope = LaggedEnvelope::new(limits, Drift::default());
            for &(at, cost) in black_box(&events) {
                envelope.admit(at, cost);
            }
            envelope.report()
        });
    });
    group.finish();
}

criterion_group!(benches, envelope);
criterion_main!(benches);
