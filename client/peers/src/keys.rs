//! The libraries that are compared by key.

use aliquot_client::clock::{HostClock, Tick};
use aliquot_client::{Clock, Keyed, Limit};
use governor::clock::DefaultClock;
use governor::{Quota, RateLimiter};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Mutex;

pub const PER_SEC: u32 = 1_000_000;

/// Decides once for each of these keys.
pub type Decide = Box<dyn FnMut(&[String])>;

/// Returns the order in which keys are asked for.
pub fn order(keys: usize, pattern: &str, asks: usize) -> Vec<u32> {
    let mut rng = Pcg64::seed_from_u64(1);
    if pattern == "uniform" {
        return (0..asks)
            .map(|_| rng.random_range(0..keys as u32))
            .collect();
    }
    // Zipf with exponent 1: the inverse of ln(k + 1) ÷ ln(keys + 1), with shuffled places.
    let top = (keys as f64 + 1.0).ln();
    (0..asks)
        .map(|_| {
            let rank = ((rng.random::<f64>() * top).exp() - 1.0) as u64;
            (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys as u64) as u32
        })
        .collect()
}

/// Returns a key of 20 bytes.
pub fn name(which: usize) -> String {
    format!("tenant/{which:013}")
}

pub fn quota() -> Quota {
    Quota::per_second(NonZeroU32::new(PER_SEC).expect("not zero"))
}

/// Returns all contenders by key. Ratios are relative to the first.
pub fn contenders(keys: usize) -> Vec<(&'static str, Decide)> {
    let governor = RateLimiter::<String, _, _, _>::dashmap(quota());
    let fast = RateLimiter::<String, _, DefaultClock>::new(
        quota(),
        governor::state::keyed::DashMapStateStore::with_hasher(
            foldhash::fast::RandomState::default(),
        ),
        DefaultClock::default(),
    );
    let map = Mutex::new(HashMap::<String, (f64, Tick)>::new());
    let ours = |keys| Keyed::new(Limit::per_sec(PER_SEC.into()), PER_SEC.into(), keys);
    let (one, sixteen) = (ours(keys).expect("a store"), ours(keys).expect("a store"));
    vec![
        each("governor", move |name| governor.check_key(name).is_ok()),
        each("governor, fast hash", move |name| {
            fast.check_key(name).is_ok()
        }),
        each("std mutex and map", move |name| plain(&map, name)),
        each("aliquot", move |name| one.try_acquire(name, 1).is_ok()),
        (
            "aliquot, batches of 16",
            Box::new(move |asks| by_sixteen(&sixteen, asks)),
        ),
    ]
}

/// Returns governor and rateguard, apart from the others: rateguard works in the background for as long as it
/// lives, which should not slow down the others.
pub fn rateguard(keys: usize) -> Vec<(&'static str, Decide)> {
    let governor = RateLimiter::<String, _, _, _>::dashmap(quota());
    let runtime = crate::leased::runtime();
    let guard = {
        let _entered = runtime.enter();
        crate::contenders::rateguard_of(PER_SEC, PER_SEC, keys)
    };
    vec![
        each("governor", move |name| governor.check_key(name).is_ok()),
        each("rateguard", move |name| {
            let _ = &runtime;
            guard.check(name).is_allowed()
        }),
    ]
}

fn each(name: &'static str, decide: impl Fn(&String) -> bool + 'static) -> (&'static str, Decide) {
    let decide = move |asks: &[String]| {
        for ask in asks {
            black_box(decide(ask));
        }
    };
    (name, Box::new(decide))
}

fn by_sixteen(store: &Keyed, asks: &[String]) {
    let mut answers = [Ok(()); 16];
    let mut asked = [("", 1); 16];
    for asks in asks.chunks(16) {
        for (asked, name) in asked.iter_mut().zip(asks) {
            asked.0 = name;
        }
        store.try_each(&asked[..asks.len()], &mut answers);
        black_box(&answers);
    }
}

fn plain(map: &Mutex<HashMap<String, (f64, Tick)>>, name: &str) -> bool {
    let mut map = map.lock().expect("no panic");
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
