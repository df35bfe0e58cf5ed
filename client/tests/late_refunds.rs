//! A refund that is delayed just after it read the clock: other threads decide meanwhile at later readings,
//! and none of them finds more than if the refunded tokens had never been taken.

use aliquot_client::clock::Tick;
use aliquot_client::combined::Combine;
use aliquot_client::observe::Switched;
use aliquot_client::shape::Meter;
use aliquot_client::{Clock, Combined, Keyed, Limit, Limiter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A clock that can delay its next reader.
#[derive(Default)]
struct HoldsUp {
    now: AtomicU64,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl std::fmt::Debug for HoldsUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a clock")
    }
}

impl Clock for HoldsUp {
    fn now(&self) -> Tick {
        let now = self.now.load(Ordering::Acquire);
        let meanwhile = self.meanwhile.lock().expect("no panic").take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        Tick::from_nanos(now)
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

const SECOND: u64 = 1_000_000_000;

/// Delays the clock's next reader for eight seconds, at the end of which `meanwhile` runs.
fn hold_up(clock: &Arc<HoldsUp>, meanwhile: impl FnOnce() + Send + 'static) {
    let same = Arc::clone(clock);
    *clock.meanwhile.lock().expect("no panic") = Some(Box::new(move || {
        same.now.fetch_add(8 * SECOND, Ordering::AcqRel);
        meanwhile();
    }));
}

fn limiter() -> (Arc<HoldsUp>, Limiter) {
    let clock = Arc::new(HoldsUp::default());
    clock.now.store(100 * SECOND, Ordering::Release);
    let limiter = Limiter::local_with(Limit::per_sec(1), 10, Arc::clone(&clock) as _);
    (clock, limiter.expect("a limit"))
}

/// Ten of ten were taken, eight replenished since, and five of those taken: a full bucket would have five
/// left.
fn is_lawful(limiter: &Limiter, back: u64) {
    assert_eq!((limiter.tokens(), back), (5.0, 2));
}

#[test]
fn a_reservation_that_is_put_back_late_makes_nothing() {
    for settles in [false, true] {
        let (clock, limiter) = limiter();
        let all = limiter.reserve(10).expect("it is full");
        let other = limiter.clone();
        hold_up(&clock, move || assert!(other.try_acquire(5).is_ok()));
        let back = match settles {
            true => all.settle(0).restored,
            false => all.cancel(),
        };
        is_lawful(&limiter, back);
    }
}

#[test]
fn layers_that_put_back_late_make_nothing() {
    type Wrap = fn(Limiter) -> Box<dyn Combine>;
    let wraps: [Wrap; 3] = [
        |limiter| Box::new(limiter),
        |limiter| Box::new(Meter::over(limiter)),
        |limiter| Box::new(Switched::new(limiter)),
    ];
    for wrap in wraps {
        let (clock, limiter) = limiter();
        let tier = wrap(limiter.clone());
        let charge = Combined::of_any([("one", &*tier)]).try_acquire(10);
        let charge = charge.expect("it is full");
        let other = limiter.clone();
        hold_up(&clock, move || assert!(other.try_acquire(5).is_ok()));
        is_lawful(&limiter, charge.settle(0).restored);
    }
}

#[test]
fn a_key_that_is_put_back_late_makes_nothing() {
    let clock = Arc::new(HoldsUp::default());
    let store = Keyed::builder(Limit::per_sec(1), 10, 10).clock(Arc::clone(&clock) as _);
    let store = Arc::new(store.build().expect("a store"));
    let key = store.bucket("key");
    let charge = Combined::of([("key", &key)]).try_acquire(10);
    let charge = charge.expect("it is full");
    let other = Arc::clone(&store);
    hold_up(&clock, move || assert!(other.try_acquire("key", 5).is_ok()));
    let back = charge.settle(0).restored;
    assert_eq!((store.tokens_at("key", store.now()), back), (5, 2));
}

/// A change of the fixed-point scale voids the charges before it, and none after it.
#[test]
fn a_charge_after_a_change_of_scale_can_be_put_back() {
    let (_, limiter) = limiter();
    let before = limiter.reserve(2).expect("it is full");
    // No grain of the scale of one second divides a rate of one in seven.
    let slower = Limit::per(1, std::time::Duration::from_secs(7));
    limiter.set_limit(slower).expect("a limit");
    let after = limiter.reserve(3).expect("eight are left");
    assert_eq!((before.cancel(), after.cancel()), (0, 3));
    assert_eq!(limiter.tokens(), 8.0);
}
