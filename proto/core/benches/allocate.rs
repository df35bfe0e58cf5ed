//! Time to divide a capacity, and to add and compress curves.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]

use aliquot_core::allocate::{
    Claimant, Scratch, Terms, Warm, allocate_into, water_fill, water_fill_into,
};
use aliquot_core::demand::{DemandCurve, Level, WEIGHT_ONE, level_among};
use aliquot_core::unit::{Band, Weight};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use std::hint::black_box;

/// Demands and weights of `count` claimants who together want twice the capacity.
fn world(count: usize) -> (u64, Vec<u64>, Vec<u64>) {
    let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(42);
    let demands: Vec<u64> = (0..count)
        .map(|_| random.random_range(1..1_u64 << 32))
        .collect();
    let weights = (0..count)
        .map(|_| random.random_range(1..10_u64) * WEIGHT_ONE)
        .collect();
    (demands.iter().sum::<u64>() / 2, demands, weights)
}

/// The same answer the ordinary way: sort the claimants by `d/w`, then walk up.
fn by_sorting(capacity: u64, demands: &[u64], weights: &[u64]) -> Vec<u64> {
    let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let mut order: Vec<(u64, u64, usize)> = (0..demands.len())
        .map(|i| (demands[i], weights[i], i))
        .collect();
    order.sort_unstable_by(|a, b| wide(a.0, b.1).cmp(&wide(b.0, a.1)));
    let mut parts = vec![0; demands.len()];
    let (mut left, mut open) = (capacity, weights.iter().sum::<u64>());
    let mut met = 0;
    for &(demand, weight, i) in &order {
        if wide(demand, open) > wide(left, weight) {
            break;
        }
        parts[i] = demand;
        left -= demand;
        open -= weight;
        met += 1;
    }
    let level = left;
    let mut remainders = Vec::with_capacity(order.len() - met);
    for &(_, weight, i) in &order[met..] {
        let product = wide(level, weight);
        let part = (product / u128::from(open)) as u64;
        remainders.push((std::cmp::Reverse(product % u128::from(open)), i));
        parts[i] = part;
        left -= part;
    }
    remainders.sort_unstable();
    for &(_, i) in remainders.iter().take(left as usize) {
        parts[i] += 1;
    }
    parts
}

/// The level alone, by sorting.
fn level_by_sorting(capacity: u64, demands: &[u64], weights: &[u64]) -> Level {
    let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let mut order: Vec<(u64, u64)> = demands
        .iter()
        .copied()
        .zip(weights.iter().copied())
        .collect();
    order.sort_unstable_by(|a, b| wide(a.0, b.1).cmp(&wide(b.0, a.1)));
    let (mut left, mut open) = (capacity, weights.iter().sum::<u64>());
    for &(demand, weight) in &order {
        if wide(demand, open) > wide(left, weight) {
            return Level::new(left, open);
        }
        left -= demand;
        open -= weight;
    }
    Level::FULL
}

fn dividing(c: &mut Criterion) {
    for count in [10, 100, 1_000, 10_000] {
        let (capacity, demands, weights) = world(count);
        let (parts, level) = water_fill(capacity, &demands, &weights, None);
        assert_eq!(parts, by_sorting(capacity, &demands, &weights));
        let mut group = c.benchmark_group("allocate");
        group.throughput(Throughput::Elements(count as u64));
        assert_eq!(level, level_by_sorting(capacity, &demands, &weights));
        group.bench_function(BenchmarkId::new("level_sort", count), |b| {
            b.iter(|| level_by_sorting(capacity, black_box(&demands), &weights));
        });
        let mut step = 0;
        group.bench_function(BenchmarkId::new("level_newton_warm", count), |b| {
            b.iter(|| {
                step = (step + 7) % 100;
                let capacity = capacity - capacity / 10_000 * step;
                level_among(capacity, black_box(&demands), &weights, Some(level))
            });
        });
        group.bench_function(BenchmarkId::new("sort", count), |b| {
            b.iter(|| by_sorting(capacity, black_box(&demands), &weights));
        });
        group.bench_function(BenchmarkId::new("newton_cold", count), |b| {
            b.iter(|| water_fill(capacity, black_box(&demands), &weights, None));
        });
        let (mut scratch, mut parts) = (Scratch::default(), Vec::new());
        // Each time the capacity has moved by up to 1 % since the level was found.
        let mut step = 0;
        group.bench_function(BenchmarkId::new("newton_warm", count), |b| {
            b.iter(|| {
                step = (step + 7) % 100;
                let capacity = capacity - capacity / 10_000 * step;
                let demands = black_box(&demands);
                water_fill_into(
                    capacity,
                    demands,
                    &weights,
                    Some(level),
                    &mut scratch,
                    &mut parts,
                )
            });
        });
        let claimants: Vec<Claimant> = demands
            .iter()
            .zip(&weights)
            .map(|(&demand, &weight)| {
                let weight = Weight::new((weight / WEIGHT_ONE) as u32).unwrap();
                Claimant::new(Band::default(), DemandCurve::of(demand, weight))
            })
            .collect();
        let mut warm = Warm::default();
        group.bench_function(BenchmarkId::new("claimants_warm", count), |b| {
            let mut step = 0;
            b.iter(|| {
                step = (step + 7) % 100;
                let capacity = capacity - capacity / 10_000 * step;
                let claimants = black_box(&claimants);
                allocate_into(capacity, claimants, Terms::default(), &mut warm, &mut parts);
            });
        });
        group.finish();
    }
}

fn curves(c: &mut Criterion) {
    let curve = |count| {
        let (_, demands, weights) = world(count);
        let weight = |weight| Weight::new((weight / WEIGHT_ONE) as u32).unwrap();
        let single = |(&d, &w)| DemandCurve::of(d, weight(w));
        let singles = demands.iter().zip(&weights).map(single);
        singles.fold(DemandCurve::EMPTY, |sum, one| sum.plus(&one).unwrap())
    };
    let (hundred, thousand) = (curve(100), curve(1_000));
    let near = Some(thousand.level_for(thousand.total() / 2, None));
    let (one, two) = (thousand.compress(32, near), hundred.compress(32, near));
    let mut group = c.benchmark_group("curve");
    group.bench_function("add_32_to_32", |b| b.iter(|| black_box(&one).plus(&two)));
    group.bench_function("add_1_to_1000", |b| {
        let one = DemandCurve::of(1 << 31, Weight::ONE);
        b.iter(|| black_box(&thousand).plus(&one));
    });
    group.bench_function("compress_1000_to_32", |b| {
        b.iter(|| black_box(&thousand).compress(32, near));
    });
    group.finish();
}

criterion_group!(benches, dividing, curves);
criterion_main!(benches);
