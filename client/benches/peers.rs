//! What one decision on one key costs, side by side with what others are made of, in one run.
//!
//! `cargo bench -p aliquot-client --bench peers` prints the tables; `-- count NAME TIMES` only decides so often, for
//! who counts instructions: the difference of two counts is the decisions'. The cell of a leased key is compiled in
//! here, since nothing of it is public, and is asked as a limiter asks it.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(dead_code, reason = "the cell has more than is measured here")]

#[path = "../src"]
mod source {
    pub(crate) mod cell;
    pub(crate) mod clock;
    pub(crate) mod key;
    pub(crate) mod sync;
}

use aliquot_client::{Limit, Limiter};
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use cell::CellDecider;
use clock::{Clock, HostClock};
use governor::{Quota, RateLimiter};
use key::Gate;
use source::{cell, clock, key, sync};
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;
use sync::AtomicU64;

/// So much that nothing is refused: 10⁹ a second, and as much at once.
const PER_SEC: u32 = 1_000_000_000;
const ROUNDS: usize = 21;
const ROUND: u64 = 100_000;
const PAIRS: usize = 200_000;

type Decide = Arc<dyn Fn(u64) -> u64 + Send + Sync>;

/// Somebody who decides: so often, and answers how many were admitted.
struct Contender {
    name: &'static str,
    decide: Decide,
}

fn contender(name: &'static str, decide: impl Fn() -> bool + Send + Sync + 'static) -> Contender {
    let decide = move |times: u64| (0..times).map(|_| u64::from(black_box(decide()))).sum();
    Contender {
        name,
        decide: Arc::new(decide),
    }
}

/// A cell under a lease that does not end soon, asked as `Limiter::try_acquire` does.
fn leased(per_sec: u64, burst: u64, strict: bool) -> impl Fn() -> bool + Send + Sync + 'static {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("1000000000/s".into()),
        burst: Some("1000000000".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let gate = Arc::new(Gate::new("a"));
    let mut decider = CellDecider::new(Arc::clone(&gate));
    let (now, grains) = (HostClock.now(), terms.scale.grains_per_token());
    decider.agree(&terms, Span::ZERO, now);
    decider.admit_by(Right::Leased, PeriodId::new(0), now);
    let share = Share {
        rate: Rate::from_grains(per_sec * grains),
        burst: Tokens::from_grains(burst * grains),
        tokens: Tokens::from_grains(burst * grains),
    };
    decider.deposit(share, now);
    HostClock::align();
    let until = now.after(Span::from_secs(36_000)).nanos();
    let (lease, keep) = (AtomicU64::new(until), Mutex::new(decider));
    move || {
        let _ = &keep;
        let me = sync::become_somebody();
        let purse = gate.cell.purse(me);
        if let Some(coins) = purse.coins_of(me, 1) {
            let ends = lease.load(sync::Ordering::Acquire);
            if !strict || HostClock::latest().nanos() < ends {
                purse.spend(coins, 1);
                return true;
            }
        }
        if let Some(until) = gate.cell.dry_until(me)
            && HostClock::bounds().1 < until
        {
            purse.denied();
            return false;
        }
        let clock = || HostClock.now();
        let (now, took) = gate.cell.decide_and_fill(me, 1, &lease, clock);
        if let Ok(took) = took {
            gate.tally.admitted(took.spent);
            return true;
        }
        gate.cell.note_dry(me, now, HostClock::bounds().0);
        gate.tally.denied(1);
        false
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

fn local(per_sec: u64, burst: u64) -> Limiter {
    Limiter::local(Limit::per_sec(per_sec), burst).expect("a limit")
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
    let (rate, full) = (u64::from(per_sec), u64::from(burst));
    let (batched, exact) = (local(rate, full), local(rate, full).unbatched());
    vec![
        contender("governor", move || governor.check().is_ok()),
        contender("aliquot local", move || batched.try_acquire(1).is_ok()),
        contender("aliquot local, unbatched", move || {
            exact.try_acquire(1).is_ok()
        }),
        contender("aliquot leased, strict", leased(rate, full, true)),
        contender("aliquot leased, relaxed", leased(rate, full, false)),
        contender("ratelimit", move || ratelimit.try_wait().is_ok()),
        contender("leaky-bucket", move || leaky.try_acquire(1)),
        contender("std mutex", mutex(per_sec.into(), burst.into())),
    ]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, name, times] = &args[..]
        && mode == "count"
    {
        let times = times.parse().expect("a number of decisions");
        let all = contenders(PER_SEC, PER_SEC);
        let found = all.iter().find(|contender| contender.name == name);
        let found = found.expect("a contender of that name");
        println!("{} admitted", (found.decide)(times));
        return;
    }
    println!("| contender | admitted ns | ratio | p99.9 ns | refused ns | ratio |");
    println!("|---|---:|---:|---:|---:|---:|");
    one_thread();
    for threads in [2, 8, 16] {
        println!(
            "\n| {threads} threads, one key | ns of wall time a decision | ratio |\n|---|---:|---:|"
        );
        together_all(threads);
    }
    println!("\n| saturated by two threads | admitted | of R·t + B |\n|---|---:|---:|");
    saturated();
}

/// Medians, and the tail by pairs of readings of the cycle counter.
fn one_thread() {
    let empty = tail(|| {});
    let (mut first, refused) = (None, contenders(1, 1));
    for (contender, refuser) in contenders(PER_SEC, PER_SEC).iter().zip(&refused) {
        // The bucket's one token, and what the second makes.
        (refuser.decide)(1_000);
        let (ns, no) = (median(&contender.decide), median(&refuser.decide));
        let p999 = tail(|| {
            black_box((contender.decide)(1));
        });
        let (one, other) = *first.get_or_insert((ns, no));
        println!(
            "| {} | {ns:.1} | {:.2} | {:.0} | {no:.1} | {:.2} |",
            contender.name,
            ns / one,
            (p999 - empty).max(0.0),
            no / other
        );
    }
    println!("\nThe empty pair's p99.9 is {empty:.0} ns.");
}

fn median(decide: &Decide) -> f64 {
    decide(ROUND);
    let mut took: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = HostClock.now();
            black_box(decide(ROUND));
            HostClock.now().since(began).nanos() as f64 / ROUND as f64
        })
        .collect();
    took.sort_by(f64::total_cmp);
    took[ROUNDS / 2]
}

/// The 99.9th percentile of single calls, in ns, with the pair of readings around them.
fn tail(mut call: impl FnMut()) -> f64 {
    let clock = quanta::Clock::new();
    let mut took: Vec<u64> = (0..PAIRS)
        .map(|_| {
            let began = clock.raw();
            call();
            clock.delta_as_nanos(began, clock.raw())
        })
        .collect();
    took.sort_unstable();
    took[PAIRS * 999 / 1_000] as f64
}

fn together_all(threads: u64) {
    let mut first = None;
    for contender in contenders(PER_SEC, PER_SEC) {
        let mut took: Vec<f64> = (0..7)
            .map(|_| together(threads, ROUND * 4, &contender.decide))
            .collect();
        took.sort_by(f64::total_cmp);
        let ns = took[took.len() / 2];
        let ratio = ns / *first.get_or_insert(ns);
        println!("| {} | {ns:.2} | {ratio:.2} |", contender.name);
    }
}

/// Wall time for each of `times` decisions, as many on each thread.
fn together(threads: u64, times: u64, decide: &Decide) -> f64 {
    let barrier = Arc::new(Barrier::new(threads as usize + 1));
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (barrier, decide) = (Arc::clone(&barrier), Arc::clone(decide));
            thread::spawn(move || {
                barrier.wait();
                black_box(decide(times / threads));
            })
        })
        .collect();
    barrier.wait();
    let began = HostClock.now();
    for worker in workers {
        worker.join().expect("nobody panics");
    }
    HostClock.now().since(began).nanos() as f64 / times as f64
}

/// Ten million a second, asked for by two threads as fast as they can, for ten seconds.
fn saturated() {
    const RATE: u64 = 10_000_000;
    const BURST: u64 = RATE / 10;
    let limiter = Arc::new(local(RATE, BURST));
    let limit = Arc::clone(&limiter);
    let clock = clock::CounterClock;
    let began = clock.now();
    let until = began.after(Span::from_secs(10));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let limit = Arc::clone(&limit);
            thread::spawn(move || {
                let (mut admitted, mut asked) = (0_u64, 0_u64);
                while asked % 1_024 != 0 || clock::CounterClock.now() < until {
                    asked += 1;
                    admitted += u64::from(limit.try_acquire(1).is_ok());
                }
                (admitted, asked)
            })
        })
        .collect();
    let (mut admitted, mut asked) = (0, 0);
    for worker in workers {
        let (mine, all) = worker.join().expect("nobody panics");
        (admitted, asked) = (admitted + mine, asked + all);
    }
    let passed = clock.now().since(began).nanos();
    let most = u128::from(RATE) * u128::from(passed) / 1_000_000_000 + u128::from(BURST);
    assert!(u128::from(admitted) <= most, "{admitted} of {most}");
    let part = f64::from(u32::try_from(admitted).unwrap_or(u32::MAX)) / most as f64;
    println!(
        "| aliquot local, {:.1} times the limit asked for | {admitted} | {part:.6} |",
        asked as f64 / (RATE * 10) as f64
    );
}
