//! The cost of a remote decision.

use crate::calls::Calls;
use crate::contenders::{PLENTY, governor};
use crate::measure::{median, time};
use crate::redis::Redis;
use aliquot_client::{Limit, Limiter};
use std::hint::black_box;

const ROUNDS: usize = 9;

/// Prints the wall time of a decision in another process or service on this machine, relative to one in this
/// process.
pub fn table() {
    let local = Limiter::local(Limit::per_sec(PLENTY.into()), PLENTY.into()).expect("a limit");
    let peer = governor(PLENTY, PLENTY);
    let here = rounds(100_000, || {
        for _ in 0..100_000 {
            black_box(local.try_acquire(1).is_ok());
        }
    });
    let there = rounds(100_000, || {
        black_box((peer.decide)(100_000));
    });
    println!("| a decision | µs | beside aliquot local |\n|---|---:|---:|");
    let row = |name: &str, ns: f64| println!("| {name} | {:.4} | {:.0} |", ns / 1e3, ns / here);
    row("aliquot local", here);
    row("governor", there);
    match Redis::start() {
        Some(mut redis) => {
            for at_once in [1, 64] {
                let times = 200 * at_once;
                let ns = rounds(times as u64, || {
                    for _ in 0..200 {
                        assert_eq!(redis.ask(at_once), at_once, "a million at once");
                    }
                });
                row(&format!("Redis, a GCRA script, {at_once} under way"), ns);
            }
        }
        None => println!("| Redis: SKIPPED, there is no redis-server here | | |"),
    }
    let calls = Calls::start();
    for at_once in [1, 64] {
        let times = 500 * at_once;
        let ns = rounds(times as u64, || {
            assert_eq!(calls.ask(times, at_once), times, "a million at once");
        });
        row(&format!("gRPC, ShouldRateLimit, {at_once} under way"), ns);
    }
}

fn rounds(times: u64, mut work: impl FnMut()) -> f64 {
    work();
    median((0..ROUNDS).map(|_| time(times, &mut work)).collect())
}
