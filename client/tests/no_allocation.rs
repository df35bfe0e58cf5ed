//! No decision allocates: neither an admission nor a refusal, of any shape.

use aliquot_client::adaptive::{Criticality, Throttle};
use aliquot_client::breaker::{Attempt, Breaker};
use aliquot_client::combined::Combine;
use aliquot_client::observe::{Mode, Switched, Watch};
use aliquot_client::shape::{FixedWindow, Meter, Pacer, SlidingCounter, SlidingLog};
use aliquot_client::{Combined, Keyed, Limit, Limiter};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Decides often enough for both outcomes, and counts allocations.
#[track_caller]
fn check(name: &str, mut decide: impl FnMut() -> bool) {
    // Once before, so that anything made at the first use exists.
    decide();
    let mut answers = [0_u32; 2];
    let made = allocation_counter::measure(|| {
        for _ in 0..100 {
            answers[usize::from(decide())] += 1;
        }
    });
    assert_eq!(made.count_total, 0, "{name}");
    assert!(answers.iter().all(|&n| n > 0), "{name}: {answers:?}");
}

fn limiter(burst: u64) -> Limiter {
    Limiter::local(Limit::per(1, 3_600 * SECOND), burst).expect("a limit")
}

#[test]
fn limiters() {
    let bucket = limiter(50);
    check("try_acquire", || bucket.try_acquire(1).is_ok());
    let bucket = limiter(50);
    check("reserve", || {
        bucket.reserve_within(1, Duration::ZERO).is_ok()
    });
    let bucket = limiter(50);
    check("take_here", || bucket.take_here(1).is_some());
    let bucket = limiter(50);
    check("reserve and settle", || {
        bucket
            .reserve_within(2, Duration::ZERO)
            .map(|taken| taken.settle(1))
            .is_ok()
    });
    let bucket = limiter(50);
    let mut asked = 0;
    check("would_admit", || {
        asked += 1;
        bucket.would_admit(asked).is_ok()
    });
    let permits = Limiter::local_permits(50).expect("permits");
    let mut held = Vec::with_capacity(200);
    check("try_permit", || {
        let permit = permits.try_permit();
        let taken = permit.is_ok();
        held.extend(permit);
        taken
    });
}

#[test]
fn batches() {
    let bucket = limiter(6_400);
    bucket.try_acquire(1).expect("a full bucket");
    let mut admitted = 0;
    let made = allocation_counter::measure(|| {
        for _ in 0..10_000 {
            admitted += u32::from(bucket.try_acquire(1).is_ok());
        }
    });
    assert_eq!((made.count_total, admitted), (0, 6_399));
}

#[test]
fn shapes() {
    let window = FixedWindow::new(50, 3_600 * SECOND).expect("a window");
    check("fixed window", || window.try_acquire(1).is_ok());
    let counter = SlidingCounter::new(50, 3_600 * SECOND).expect("a counter");
    check("sliding counter", || counter.try_acquire(1).is_ok());
    let log = SlidingLog::new(50, 3_600 * SECOND).expect("a log");
    check("sliding log", || log.try_acquire(1).is_ok());
    let meter = Meter::over(limiter(50));
    check("meter", || meter.try_pour(1).is_ok());
    let pacer = Pacer::new(3_600 * SECOND, 50).expect("a pacer");
    check("pacer", || pacer.book().is_ok());
}

#[test]
fn modes_watches_and_breakers_allocate_nothing() {
    let bucket = limiter(50);
    bucket.set_mode(Mode::DryRun);
    let mut asked = 0;
    check("dry run", || {
        assert!(bucket.try_acquire(1).is_ok());
        asked += 1;
        asked > 50
    });
    let bucket = limiter(50);
    let mut asked = 0;
    check("freeze and thaw", || {
        asked += 1;
        bucket.set_mode(Mode::ALL[3 * (asked % 2)]);
        bucket.try_acquire(1).is_ok()
    });
    let shadow = Switched::shadow(limiter(50));
    check("shadow", || {
        let receipt = shadow.take_at(1, shadow.now()).expect("it refuses nothing");
        receipt.tokens() == 1
    });
    let watched = Watch::sampling(1).limiter("watched", limiter(50));
    check("watched", || watched.try_acquire(1).is_ok());
    let breaker = Breaker::new(50, SECOND);
    check("breaker", || {
        let tried = breaker.try_call();
        let leave = tried.is_ok();
        tried.into_iter().for_each(Attempt::failure);
        leave
    });
    let throttle = Throttle::builder().seed(1).build();
    check("throttle", || {
        throttle.attempt(Criticality::Sheddable).is_ok()
    });
}

#[test]
fn layers() {
    let (user, tenant, whole) = (limiter(20), limiter(50), limiter(80));
    let layers = Combined::of([("user", &user), ("tenant", &tenant), ("whole", &whole)]);
    check("layers", || layers.try_acquire(1).is_ok());
}

#[test]
fn keys() {
    let store = Keyed::new(Limit::per(1, 3_600 * SECOND), 1, 1_000).expect("a store");
    let keys: Vec<String> = (0..50).map(|key| format!("tenant/{key}")).collect();
    let mut asked = 0;
    check("keyed, new and old", || {
        asked += 1;
        store.try_acquire(&keys[asked % 50], 1).is_ok()
    });
    let long = "x".repeat(100);
    store.try_acquire(&long, 1).expect("a new key");
    let made = allocation_counter::measure(|| assert!(store.try_acquire(&long, 1).is_err()));
    assert_eq!(made.count_total, 0);
    let asked: Vec<(&str, u64)> = keys.iter().map(|key| (key.as_str(), 1)).collect();
    let mut answers = vec![Ok(()); asked.len()];
    let made = allocation_counter::measure(|| store.try_each(&asked, &mut answers));
    assert_eq!(made.count_total, 0);
}
