//! Cost of one decision of a bucket, without the clock.

use aliquot_core::bucket::{Accrual, Bucket, Made, admit};
use aliquot_core::share::Share;
use aliquot_core::unit::{Rate, Span, Tick, Tokens};
use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;

fn share(rate: u64, burst: u64) -> Share {
    Share {
        rate: Rate::from_grains(rate),
        burst: Tokens::from_grains(burst),
        tokens: Tokens::from_grains(burst),
    }
}

fn decisions(criterion: &mut Criterion) {
    let one = Tokens::from_grains(1);
    let start = Tick::from_nanos(1_000_000_000);

    let mut now = start;
    let mut busy = Bucket::new(share(1 << 32, 1 << 20), start);
    criterion.bench_function("bucket: admitted", |bench| {
        bench.iter(|| {
            now = now.after(Span::from_nanos(7));
            busy.try_acquire_at(black_box(one), black_box(now))
        });
    });

    let mut empty = Bucket::new(share(1, 1), start);
    criterion.bench_function("bucket: refused", |bench| {
        bench.iter(|| empty.try_acquire_at(black_box(one), black_box(start)));
    });

    let accrual = Accrual::of(Rate::from_grains(1 << 32));
    let mut nanos = 0_u64;
    criterion.bench_function("word: supply", |bench| {
        bench.iter(|| {
            nanos = nanos.wrapping_add(7);
            accrual.supply(Span::from_nanos(black_box(nanos)))
        });
    });

    let (burst, mut debt) = (Tokens::from_grains(1 << 20), 0_u64);
    criterion.bench_function("word: supply and step", |bench| {
        bench.iter(|| {
            nanos = nanos.wrapping_add(7);
            let made: Made = accrual.made(Span::from_nanos(black_box(nanos)), 0);
            if let Ok(after) = admit(debt, burst, black_box(one), made) {
                debt = after;
            }
        });
    });
}

criterion_group!(benches, decisions);
criterion_main!(benches);
