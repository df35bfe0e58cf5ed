//! Threads that hold a few tokens of their own: nothing is made, and little is kept from others.

use aliquot_client::{Clock, HostClock, Limit, Limiter};
use std::sync::{Arc, Barrier};
use std::thread;

/// The most tokens that a thread holds.
const BATCH: u64 = 64;

fn limiter(per_sec: u64, burst: u64) -> Limiter {
    Limiter::local(Limit::per_sec(per_sec), burst).expect("a limit")
}

/// Asks so often, and answers how many were admitted.
fn ask(limiter: &Limiter, times: u64) -> u64 {
    let admitted = (0..times).filter(|_| limiter.try_acquire(1).is_ok());
    admitted.count() as u64
}

/// So many threads at once, each asking so often.
fn together(limiter: &Limiter, threads: u64, times: u64) -> u64 {
    let start = Arc::new(Barrier::new(threads as usize));
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (limiter, start) = (limiter.clone(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                ask(&limiter, times)
            })
        })
        .collect();
    let admitted = threads.into_iter().map(|thread| thread.join());
    admitted.map(|admitted| admitted.expect("no panic")).sum()
}

#[test]
fn one_thread_gets_every_token_and_no_more() {
    for burst in [127, 128, 1_000, 6_400, 100_000] {
        let limiter = limiter(0, burst);
        for left in (0..burst).rev() {
            assert!(
                limiter.try_acquire(1).is_ok(),
                "{left} of {burst} were left"
            );
            assert!((limiter.tokens() - left as f64).abs() < 1e-3, "{left}");
        }
        assert!(limiter.try_acquire(1).is_err());
    }
}

#[test]
fn threads_get_all_but_a_batch_each_and_no_more() {
    for threads in [2, 8, 16] {
        let burst = 100_000;
        let admitted = together(&limiter(0, burst), threads, burst);
        assert!(admitted <= burst, "{admitted} of {burst}");
        assert!(admitted + threads * BATCH >= burst, "{admitted} of {burst}");
    }
}

#[test]
fn a_thread_that_is_gone_keeps_at_most_a_batch() {
    let (burst, limiter) = (10_000, limiter(0, 10_000));
    let gone = together(&limiter, 1, 100);
    assert_eq!(gone, 100);
    let rest = burst - gone - BATCH;
    assert!(limiter.try_acquire(rest).is_ok(), "all at once");
    assert!(ask(&limiter, burst) <= BATCH);
}

#[test]
fn the_whole_burst_can_be_had_after_others_held_some_of_it() {
    let limiter = limiter(1_000_000, 1_000);
    assert_eq!(together(&limiter, 2, 100), 200);
    let deadline = HostClock.now().nanos() + 30_000_000_000;
    while limiter.try_acquire(1_000).is_err() {
        assert!(HostClock.now().nanos() < deadline, "never");
        thread::yield_now();
    }
}

#[test]
fn a_limit_that_is_lowered_is_lowered_for_what_threads_hold() {
    let limiter = limiter(0, 10_000);
    assert_eq!(ask(&limiter, 100), 100);
    limiter.set_burst(0).expect("a limit");
    assert_eq!(ask(&limiter, 100), 0);
}

#[test]
fn threads_together_keep_to_the_envelope() {
    for (per_sec, burst) in [(10_000_000, 1_000_000), (1_000_000, 128), (50_000, 5_000)] {
        let began = HostClock.now();
        let limiter = limiter(per_sec, burst);
        let admitted = together(&limiter, 2, 1_000_000);
        let passed = HostClock.now().since(began).nanos();
        // The two clocks are not one: a thousandth is more than they can be apart.
        let made = u128::from(per_sec) * u128::from(passed) / 1_000_000_000;
        let most = made + made / 1_000 + u128::from(burst);
        assert!(u128::from(admitted) <= most, "{admitted} of {most}");
    }
}
