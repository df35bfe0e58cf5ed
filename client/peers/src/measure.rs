//! Measurement: medians of rounds, and the tail of single calls.

use aliquot_client::Clock;
use aliquot_client::clock::HostClock;
use std::hint::black_box;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, Barrier};
use std::thread;

/// Makes this many decisions. Returns how many were admitted.
pub type Decide = Arc<dyn Fn(u64) -> u64 + Send + Sync>;

/// A library to be measured.
#[derive(Clone)]
pub struct Contender {
    pub name: &'static str,
    pub decide: Decide,
}

/// Returns a contender that makes one decision at a time. The loop is compiled around the decision, with a
/// compiler barrier between decisions. Answers are only added up: passing each one through memory would add
/// two nanoseconds on some processors.
pub fn contender(
    name: &'static str,
    decide: impl Fn() -> bool + Send + Sync + 'static,
) -> Contender {
    let decide = move |times: u64| {
        let mut admitted = 0;
        for _ in 0..times {
            admitted += u64::from(decide());
            compiler_fence(Ordering::SeqCst);
        }
        admitted
    };
    Contender {
        name,
        decide: Arc::new(decide),
    }
}

/// Runs `work` once, and returns the nanoseconds per decision.
pub fn time(times: u64, mut work: impl FnMut()) -> f64 {
    let began = HostClock.now();
    work();
    HostClock.now().since(began).nanos() as f64 / times as f64
}

/// The median of the time that a contender took in each round, and of its ratio to the first contender in the
/// same round.
pub struct Took {
    pub nanos: f64,
    pub ratio: f64,
}

/// Runs rounds in which each contender works once, in turn, so that other load on the machine slows down all
/// contenders alike.
pub fn by_turns<W: FnMut(usize) -> f64>(
    contenders: usize,
    rounds: usize,
    mut work: W,
) -> Vec<Took> {
    let mut took = vec![Vec::with_capacity(rounds); contenders];
    for _ in 0..rounds {
        for (which, took) in took.iter_mut().enumerate() {
            took.push(work(which));
        }
    }
    let first = took[0].clone();
    let one = |took: Vec<f64>| {
        let ratios = took.iter().zip(&first).map(|(took, first)| took / first);
        Took {
            ratio: median(ratios.collect()),
            nanos: median(took),
        }
    };
    took.into_iter().map(one).collect()
}

/// Returns the median.
pub fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Returns the 50th, 99th, 99.9th and 99.99th percentiles of single calls, in ns, including a pair of cycle
/// counter readings. Times are counted in a histogram rather than recorded in a list: each new page of a list
/// would slow down one call in 512 by a page fault, which is more than all but a few calls take.
pub fn tail(calls: usize, mut call: impl FnMut()) -> [f64; 4] {
    /// In counts of the cycle counter; longer calls count as this long.
    const LONGEST: usize = 1 << 16;
    let clock = quanta::Clock::new();
    let mut took = vec![0_u32; LONGEST + 1];
    for _ in 0..calls {
        let began = clock.raw();
        call();
        let counts = clock.raw().wrapping_sub(began);
        took[(counts as usize).min(LONGEST)] += 1;
    }
    // Converts a thousand counts, since the result is a whole number.
    let nanos = |raw: usize| clock.delta_as_nanos(0, raw as u64 * 1_000) as f64 / 1_000.0;
    [5_000, 9_900, 9_990, 9_999].map(|part| {
        let mut left = calls / 10_000 * part;
        let longest = took.iter().position(|&so_many| {
            left = left.saturating_sub(so_many as usize);
            left == 0
        });
        nanos(longest.unwrap_or(LONGEST))
    })
}

/// Pins this thread to one processor, where the system allows it.
#[cfg(target_os = "linux")]
fn stay_on(which: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    let may = sched_getaffinity(None).expect("this thread is there");
    let processors: Vec<_> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| may.is_set(cpu))
        .collect();
    let mut here = CpuSet::new();
    here.set(processors[which % processors.len()]);
    sched_setaffinity(None, &here).expect("it was one of its own");
}

#[cfg(not(target_os = "linux"))]
const fn stay_on(_: usize) {}

/// Returns the wall time per decision for `times` decisions, divided among the threads. Each thread decides
/// `warm` times before the clock starts. Threads are pinned to processors: two threads on one processor for
/// the milliseconds that this takes would not run in parallel.
pub fn together(threads: u64, times: u64, warm: u64, decide: &Decide) -> f64 {
    let (ready, go) = (
        Arc::new(Barrier::new(threads as usize + 1)),
        Arc::new(Barrier::new(threads as usize + 1)),
    );
    let workers: Vec<_> = (0..threads)
        .map(|which| {
            let (ready, go, decide) = (Arc::clone(&ready), Arc::clone(&go), Arc::clone(decide));
            thread::spawn(move || {
                stay_on(which as usize);
                black_box(decide(warm));
                ready.wait();
                go.wait();
                black_box(decide(times / threads));
            })
        })
        .collect();
    ready.wait();
    let began = HostClock.now();
    go.wait();
    for worker in workers {
        worker.join().expect("no panic");
    }
    HostClock.now().since(began).nanos() as f64 / times as f64
}
