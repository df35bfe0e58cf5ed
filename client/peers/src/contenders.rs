//! The libraries that are compared on one key.

use crate::leased::Node;
use crate::measure::{Contender, contender};
use aliquot_client::clock::{HostClock, Tick};
use aliquot_client::{Clock, Limit, Limiter};
use governor::{Quota, RateLimiter};
use limitador::limit::{Context, Limit as Counted};
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use throttlecrab::PeriodicStore;

/// A limit that refuses nothing: 10⁹ a second, and as many at once.
pub const PLENTY: u32 = 1_000_000_000;

/// A textbook token bucket.
struct Plain {
    level: f64,
    last: Tick,
}

fn mutex(per_sec: f64, burst: f64) -> impl Fn() -> bool + Send + Sync + 'static {
    let bucket = Mutex::new(Plain {
        level: burst,
        last: HostClock.now(),
    });
    move || {
        let mut bucket = bucket.lock().expect("no panic");
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

/// Returns all contenders with a limit of `per_sec` and this burst. Ratios are relative to the first.
pub fn one_key(node: &Node, per_sec: u32, burst: u32) -> Vec<Contender> {
    let mut all = vec![governor(per_sec, burst)];
    all.extend(ours(node, per_sec, burst));
    all.extend(others(per_sec, burst));
    all
}

/// Returns contenders that do only parts of a decision: lower bounds on this machine for a contender that needs
/// these parts.
pub fn floors() -> Vec<Contender> {
    let clock = quanta::Clock::new();
    let (counter, swapped) = (clock.clone(), AtomicU64::new(0));
    vec![
        contender("(counter)", move || counter.raw() > 0),
        contender("(counter, then a swap)", move || {
            let now = clock.raw();
            let seen = swapped.load(Ordering::Acquire);
            let next = seen.max(now);
            let (done, found) = (Ordering::AcqRel, Ordering::Relaxed);
            swapped.compare_exchange(seen, next, done, found).is_ok()
        }),
        contender("(coarse clock)", || {
            clock_gettime(ClockId::MonotonicCoarse).tv_sec > 0
        }),
    ]
}

pub fn governor(per_sec: u32, burst: u32) -> Contender {
    let quota = Quota::per_second(NonZeroU32::new(per_sec).expect("not zero"))
        .allow_burst(NonZeroU32::new(burst).expect("not zero"));
    let governor = RateLimiter::direct(quota);
    contender("governor", move || governor.check().is_ok())
}

/// Returns this workspace's client, with and without thread caches and leases.
pub fn ours(node: &Node, per_sec: u32, burst: u32) -> Vec<Contender> {
    let local = || Limiter::local(Limit::per_sec(per_sec.into()), burst.into()).expect("a limit");
    let (batched, exact) = (local(), local().unbatched());
    let [leased, off] = node.leased(per_sec, burst);
    vec![
        contender("aliquot local", move || batched.try_acquire(1).is_ok()),
        contender("aliquot local, no batches", move || {
            exact.try_acquire(1).is_ok()
        }),
        contender("aliquot leased", move || leased.try_acquire(1).is_ok()),
        contender("aliquot leased, no batches", move || {
            off.try_acquire(1).is_ok()
        }),
    ]
}

fn others(per_sec: u32, burst: u32) -> Vec<Contender> {
    let ratelimit = ratelimit::Ratelimiter::builder(per_sec.into())
        .max_tokens(burst.into())
        .initial_available(burst.into())
        .build()
        .expect("a rate limiter");
    let leaky = leaky_bucket::RateLimiter::builder()
        .max(burst as usize)
        .initial(burst as usize)
        .refill((per_sec / 1_000).max(1) as usize)
        .interval(Duration::from_millis(1).max(Duration::from_secs(1) / per_sec))
        .build();
    let crab = Mutex::new(throttlecrab::RateLimiter::new(PeriodicStore::new()));
    let limitador = limitador::RateLimiter::new(1_000);
    limitador.add_limit(Counted::new("a", per_sec.into(), 1, [], []));
    let namespace = "a".into();
    vec![
        rateguard(per_sec, burst),
        contender("ratelimit", move || ratelimit.try_wait().is_ok()),
        contender("leaky-bucket", move || leaky.try_acquire(1)),
        contender("std mutex", mutex(per_sec.into(), burst.into())),
        contender("throttlecrab", move || {
            let mut crab = crab.lock().expect("no panic");
            let (burst, rate) = (i64::from(burst), i64::from(per_sec));
            crab.rate_limit("a", burst, rate, 1, 1, SystemTime::now())
                .is_ok_and(|(admitted, _)| admitted)
        }),
        contender("limitador", move || {
            limitador
                .check_rate_limited_and_update(&namespace, &Context::default(), 1)
                .is_ok_and(|checked| !checked.limited)
        }),
    ]
}

/// A node of its own, which is alone and so has the whole limit.
fn rateguard(per_sec: u32, burst: u32) -> Contender {
    let runtime = crate::leased::runtime();
    let guard = {
        let _entered = runtime.enter();
        rateguard_of(per_sec, burst, 4_096)
    };
    contender("rateguard", move || {
        let _ = &runtime;
        guard.check("a").is_allowed()
    })
}

/// Like [`rateguard`], for a caller within a runtime, with room for `keys` keys; further ones share one
/// bucket. Its bursts are below 2²².
pub fn rateguard_of(per_sec: u32, burst: u32, keys: usize) -> rateguard::Guard {
    const MOST: u32 = (1 << 22) - 1;
    rateguard::Guard::builder()
        .bind("127.0.0.1:0")
        .limit(per_sec)
        .burst(burst.min(MOST))
        .tracked_keys(keys)
        .spawn()
        .expect("a node on the loopback")
}
