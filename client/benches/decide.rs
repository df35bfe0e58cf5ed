//! What one decision on one key costs, beside what others are made of.
//!
//! All in one run, so that ratios mean something: `cargo bench -p aliquot-client --bench decide`.
//! The cell of a leased key is compiled in here, since nothing of it is public, and
//! is asked with the client's own clock, as a limiter does.

#![expect(
    dead_code,
    unreachable_pub,
    reason = "the cell has more than is measured here"
)]

#[path = "../src"]
mod source {
    pub(crate) mod cell;
    pub(crate) mod key;
    pub(crate) mod switch;
    pub(crate) mod sync;
    pub(crate) mod tap;
}

use aliquot_client::{Clock, HostClock, Limit, Limiter};
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use cell::{Ask, CellDecider};
use criterion::{Criterion, criterion_group, criterion_main};
use governor::{Quota, RateLimiter};
use key::Gate;
use source::{cell, key, switch, sync, tap};
use std::num::NonZeroU32;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;
use sync::AtomicU64;

/// So much that nothing is refused, and the bucket is never full.
const PER_SEC: u32 = 1_000_000_000;

/// Somebody who decides.
struct Contender {
    name: &'static str,
    decide: Arc<dyn Fn() -> bool + Send + Sync>,
}

fn contender(name: &'static str, decide: impl Fn() -> bool + Send + Sync + 'static) -> Contender {
    Contender {
        name,
        decide: Arc::new(decide),
    }
}

/// A cell under a lease that does not end, with so much a second.
fn leased(per_sec: u64, burst: u64) -> impl Fn() -> bool + Send + Sync + 'static {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("1000000000/s".into()),
        burst: Some("1000000000".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let (clock, gate) = (HostClock, Arc::new(Gate::new("a")));
    let mut decider = CellDecider::new(Arc::clone(&gate));
    let (now, grains) = (clock.now(), terms.scale.grains_per_token());
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    let share = Share {
        rate: Rate::from_grains(per_sec * grains),
        burst: Tokens::from_grains(burst * grains),
        tokens: Tokens::from_grains(burst * grains),
    };
    decider.deposit(share, now);
    let (lease, keep) = (AtomicU64::new(u64::MAX), Mutex::new(decider));
    let clock: Arc<dyn Clock> = Arc::new(clock);
    move || {
        let _ = &keep;
        let admitted = gate
            .cell
            .decide(Ask::Tokens(1), clock.now(), &lease)
            .is_ok();
        if admitted {
            gate.tally.admitted(1);
        } else {
            gate.tally.denied(1);
        }
        admitted
    }
}

/// A bucket as it is usually written.
struct Plain {
    level: f64,
    last: Tick,
}

fn mutex(per_sec: f64, burst: f64) -> impl Fn() -> bool + Send + Sync + 'static {
    let start = HostClock.now();
    let bucket = Mutex::new(Plain {
        level: burst,
        last: start,
    });
    move || {
        let mut bucket = bucket.lock().expect("nobody panics");
        let now = HostClock.now();
        let made = now.since(bucket.last).nanos() as f64 * per_sec / 1e9;
        bucket.last = now;
        bucket.level = (bucket.level + made).min(burst);
        let admitted = bucket.level >= 1.0;
        if admitted {
            bucket.level -= 1.0;
        }
        admitted
    }
}

fn contenders(per_sec: u32, burst: u32) -> Vec<Contender> {
    let quota = Quota::per_second(NonZeroU32::new(per_sec).expect("not zero"))
        .allow_burst(NonZeroU32::new(burst).expect("not zero"));
    let governor = RateLimiter::direct(quota);
    let ratelimit = ratelimit::Ratelimiter::builder(per_sec.into(), Duration::from_secs(1))
        .max_tokens(u64::from(burst.max(per_sec)))
        .initial_available(burst.into())
        .build()
        .expect("a rate limiter");
    let leaky = leaky_bucket::RateLimiter::builder()
        .max(burst as usize)
        .initial(burst as usize)
        .refill((per_sec / 1_000).max(1) as usize)
        .interval(Duration::from_millis(1))
        .build();
    let limit = Limit::per_sec(per_sec.into());
    let local = Limiter::local(limit, burst.into()).expect("a limit");
    vec![
        contender("aliquot leased", leased(per_sec.into(), burst.into())),
        contender("aliquot local", move || local.try_acquire(1).is_ok()),
        contender("governor", move || governor.check().is_ok()),
        contender("ratelimit", move || ratelimit.try_wait().is_ok()),
        contender("leaky-bucket", move || leaky.try_acquire(1)),
        contender("std mutex", mutex(per_sec.into(), burst.into())),
    ]
}

fn one_thread(criterion: &mut Criterion) {
    for Contender { name, decide } in contenders(PER_SEC, PER_SEC) {
        criterion.bench_function(&format!("admitted/{name}"), |bench| bench.iter(|| decide()));
    }
    for Contender { name, decide } in contenders(1, 1) {
        while decide() {}
        criterion.bench_function(&format!("refused/{name}"), |bench| bench.iter(|| decide()));
    }
}

fn two_threads(criterion: &mut Criterion) {
    for Contender { name, decide } in contenders(PER_SEC, PER_SEC) {
        criterion.bench_function(&format!("admitted by two threads/{name}"), |bench| {
            bench.iter_custom(|times| together(2, times, &decide));
        });
    }
}

/// How long `times` decisions take, half of them on each thread.
fn together(threads: u64, times: u64, decide: &Arc<dyn Fn() -> bool + Send + Sync>) -> Duration {
    let barrier = Arc::new(Barrier::new(threads as usize + 1));
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (barrier, decide) = (Arc::clone(&barrier), Arc::clone(decide));
            thread::spawn(move || {
                barrier.wait();
                for _ in 0..times / threads {
                    std::hint::black_box(decide());
                }
            })
        })
        .collect();
    barrier.wait();
    let began = HostClock.now();
    for worker in workers {
        worker.join().expect("nobody panics");
    }
    Duration::from_nanos(HostClock.now().since(began).nanos())
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    targets = one_thread, two_threads
}
criterion_main!(benches);
