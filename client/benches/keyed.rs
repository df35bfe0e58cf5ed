//! A decision by key, and what a key costs in memory, beside governor's keyed store and a locked map.
//!
//! `cargo bench -p aliquot-client --bench keyed`; one run, medians of batches, ratios to governor's
//! default of the same run. Keys are where a request would have left them, in the cache. Memory is what the process's resident set grew by.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use aliquot_client::{Clock, HostClock, Keyed, Limit, Tick};
use governor::clock::DefaultClock;
use governor::{Quota, RateLimiter};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

const PER_SEC: u32 = 1_000_000;
const BATCHES: usize = 60;
const BATCH: usize = 16_384;

type Decide<'a> = Box<dyn FnMut(&[String]) + 'a>;

fn main() {
    // First, while nothing that was given back is there to be taken again.
    println!("| keys | contender | bytes a key |\n|---:|---|---:|");
    for keys in [1_000_000, 900_000] {
        memory(keys);
    }
    println!("\n| keys | pattern | contender | median ns | ratio |");
    println!("|---:|---|---|---:|---:|");
    for keys in [10_000, 1_000_000] {
        let names: Vec<String> = (0..keys)
            .map(|which| format!("tenant/{which:013}"))
            .collect();
        for pattern in ["uniform", "zipf"] {
            let order = order(keys, pattern);
            table(&names, pattern, &order);
        }
    }
}

/// Which key is asked for when.
fn order(keys: usize, pattern: &str) -> Vec<u32> {
    let mut rng = Pcg64::seed_from_u64(1);
    let asks = BATCHES * BATCH;
    if pattern == "uniform" {
        return (0..asks)
            .map(|_| rng.random_range(0..keys as u32))
            .collect();
    }
    // Zipf with exponent 1: the inverse of ln(k + 1) ÷ ln(keys + 1), places shuffled.
    let top = (keys as f64 + 1.0).ln();
    (0..asks)
        .map(|_| {
            let rank = ((rng.random::<f64>() * top).exp() - 1.0) as u64;
            (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys as u64) as u32
        })
        .collect()
}

fn quota() -> Quota {
    let per_sec = NonZeroU32::new(PER_SEC).expect("not zero");
    Quota::per_second(per_sec)
}

fn table(names: &[String], pattern: &str, order: &[u32]) {
    let store = Keyed::new(Limit::per_sec(PER_SEC.into()), PER_SEC.into(), names.len());
    let store = store.expect("a store");
    let governor = RateLimiter::<String, _, _, _>::dashmap(quota());
    let fast = RateLimiter::<String, _, DefaultClock>::new(
        quota(),
        governor::state::keyed::DashMapStateStore::with_hasher(
            foldhash::fast::RandomState::default(),
        ),
        DefaultClock::default(),
    );
    let map = Mutex::new(HashMap::<String, (f64, Tick)>::new());
    let contenders: [(&str, Decide<'_>); 5] = [
        (
            "governor",
            Box::new(|asks| {
                for name in asks {
                    let _ = black_box(governor.check_key(name));
                }
            }),
        ),
        (
            "governor, fast hash",
            Box::new(|asks| {
                for name in asks {
                    let _ = black_box(fast.check_key(name));
                }
            }),
        ),
        (
            "std mutex and map",
            Box::new(|asks| {
                for name in asks {
                    black_box(plain(&map, name));
                }
            }),
        ),
        (
            "aliquot",
            Box::new(|asks| {
                for name in asks {
                    let _ = black_box(store.try_acquire(name, 1));
                }
            }),
        ),
        (
            "aliquot, batches of 16",
            Box::new(|asks| {
                let mut answers = [Ok(()); 16];
                let mut asked = [("", 1); 16];
                for asks in asks.chunks(16) {
                    for (asked, name) in asked.iter_mut().zip(asks) {
                        asked.0 = name;
                    }
                    store.try_each(&asked[..asks.len()], &mut answers);
                    black_box(&answers);
                }
            }),
        ),
    ];
    measure(names, pattern, order, contenders);
}

/// Prints a row for each contender; the first is what the others are compared with.
fn measure(names: &[String], pattern: &str, order: &[u32], contenders: [(&str, Decide<'_>); 5]) {
    let mut first = None;
    for (name, mut decide) in contenders {
        // Each key once, so that nobody is measured while it makes them.
        decide(names);
        let mut took: Vec<f64> = order
            .chunks(BATCH)
            .map(|asks| {
                // A request brings its key along: it is near when it is asked for.
                let asks: Vec<String> = asks
                    .iter()
                    .map(|&which| names[which as usize].clone())
                    .collect();
                let began = HostClock.now();
                decide(&asks);
                HostClock.now().since(began).nanos() as f64 / asks.len() as f64
            })
            .collect();
        took.sort_by(f64::total_cmp);
        let median = took[took.len() / 2];
        let ratio = median / *first.get_or_insert(median);
        println!(
            "| {} | {pattern} | {name} | {median:.1} | {ratio:.2} |",
            names.len()
        );
    }
}

fn plain(map: &Mutex<HashMap<String, (f64, Tick)>>, name: &str) -> bool {
    let mut map = map.lock().expect("nobody panics");
    let now = HostClock.now();
    let per_sec = f64::from(PER_SEC);
    if let Some((level, last)) = map.get_mut(name) {
        let made = now.since(*last).nanos() as f64 * per_sec / 1e9;
        (*level, *last) = ((*level + made).min(per_sec), now);
        let admitted = *level >= 1.0;
        *level -= f64::from(u8::from(admitted));
        return admitted;
    }
    map.insert(name.to_owned(), (per_sec - 1.0, now));
    true
}

/// Bytes of the resident set, from `/proc/self/statm`.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.unwrap_or(0) * 4_096
}

fn memory(keys: usize) {
    let mut name = String::new();
    let mut name = |which: usize| {
        use std::fmt::Write;
        name.clear();
        let _ = write!(name, "tenant/{which:013}");
        name.clone()
    };
    let before = resident();
    let store = Keyed::new(Limit::per(1, Duration::from_secs(3_600)), 10, keys).expect("a store");
    let kept = (0..keys)
        .filter(|&which| store.try_acquire(&name(which), 1).is_ok())
        .count();
    let mine = resident().saturating_sub(before);
    assert!(
        kept * 10_000 >= keys * 9_999 && store.len() == kept,
        "{kept} of {keys} keys were kept"
    );
    println!("| {keys} | aliquot | {:.1} |", mine as f64 / keys as f64);
    let before = resident();
    let governor = RateLimiter::<String, _, _, _>::dashmap(quota());
    for which in 0..keys {
        let _ = governor.check_key(&name(which));
    }
    let theirs = resident().saturating_sub(before);
    println!("| {keys} | governor | {:.1} |", theirs as f64 / keys as f64);
    drop((store, governor));
}
