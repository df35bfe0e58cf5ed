//! Thread caches: they create no tokens and keep few from other threads.

use aliquot_client::clock::{CounterClock, HostClock, Span, Tick};
use aliquot_client::{Clock, Limit, Limiter, ManualClock};
use proptest::prelude::*;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

/// Returns the maximum number of tokens in a thread's cache for this burst.
fn batch(burst: u64) -> u64 {
    (burst / 64).min(2_048)
}

fn limiter(per_sec: u64, burst: u64) -> Limiter {
    Limiter::local(Limit::per_sec(per_sec), burst).expect("a limit")
}

/// Asks `times` times for one token. Returns how many were admitted.
fn ask(limiter: &Limiter, times: u64) -> u64 {
    let admitted = (0..times).filter(|_| limiter.try_acquire(1).is_ok());
    admitted.count() as u64
}

/// Runs `threads` threads at once that ask `times` times each.
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
        assert!(
            admitted + threads * batch(burst) >= burst,
            "{admitted} of {burst}"
        );
    }
}

#[test]
fn a_thread_that_is_gone_keeps_at_most_a_batch() {
    let (burst, limiter) = (10_000, limiter(0, 10_000));
    let gone = together(&limiter, 1, 100);
    assert_eq!(gone, 100);
    let rest = burst - gone - batch(burst);
    assert!(limiter.try_acquire(rest).is_ok(), "all at once");
    assert!(ask(&limiter, burst) <= batch(burst));
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
        // Two different clocks were read: allow for a difference of one thousandth.
        let made = u128::from(per_sec) * u128::from(passed) / 1_000_000_000;
        let most = made + made / 1_000 + u128::from(burst);
        assert!(u128::from(admitted) <= most, "{admitted} of {most}");
    }
}

#[test]
fn a_refusal_that_is_said_again_ends_when_it_said() {
    for limiter in [
        limiter(20, 200),
        limiter(20, 200).unbatched(),
        limiter(20, 5),
    ] {
        while limiter.try_acquire(1).is_ok() {}
        // Often enough for each way of refusing; the next token is 50 ms away.
        let mut waits = Vec::new();
        let deadline = HostClock.now().nanos() + 30_000_000_000;
        let again = loop {
            let asked = HostClock.now();
            match limiter.try_acquire(1) {
                Ok(_) => break asked,
                Err(refused) => {
                    let wait = refused.retry_after.expect("it is made");
                    waits.push(asked.nanos() + wait.as_nanos() as u64);
                }
            }
            assert!(asked.nanos() < deadline, "never");
        };
        // All refusals name the same instant, up to one tick of the kernel's clock earlier.
        let least = waits.into_iter().min().expect("it was refused once");
        let late = 20_000_000;
        assert!(
            again.nanos() + late >= least,
            "{} before it was said",
            least - again.nanos()
        );
    }
}

#[test]
fn a_refund_ends_cached_refusals() {
    let hour = Duration::from_secs(3_600);
    let limiter = Limiter::local(Limit::per(1, hour), 100).expect("a limit");
    let taken = limiter
        .reserve_within(100, Duration::ZERO)
        .expect("it is full");
    assert_eq!(ask(&limiter, 10_000), 0);
    assert_eq!(taken.settle(1).restored, 99);
    assert_eq!(ask(&limiter, 10_000), 99);
}

#[test]
fn without_batches_threads_admit_exactly_the_tokens_available() {
    let limiter = limiter(0, 100_000).unbatched();
    let take = || {
        let (mut admitted, mut last) = (0, None);
        while let Ok(admission) = limiter.try_acquire(1) {
            admitted += 1;
            assert!(last <= Some(admission.decided_at));
            last = Some(admission.decided_at);
        }
        admitted
    };
    let taken = thread::scope(|scope| {
        let others = [scope.spawn(take), scope.spawn(take)];
        others.map(|other| other.join().expect("no panic"))
    });
    assert_eq!(taken.iter().sum::<u64>(), 100_000);
}

/// Reservations beside a thread cache: nine times the capacity, of which one time is available.
#[test]
fn places_in_line_beside_a_batch_cost_what_they_cost() {
    let limiter = limiter(10_000, 1_000);
    assert_eq!(ask(&limiter, 100), 100);
    let later = CounterClock.now().after(Span::from_secs(1));
    let place = |_| limiter.reserve_at(1_000, later).expect("in time");
    let places: Vec<_> = (0..9).map(place).collect();
    let last = places.iter().map(|place| place.act_at()).max();
    assert!(
        last >= Some(later.after(Span::from_millis(800))),
        "{last:?}, {later:?}"
    );
    let cancelled: u64 = places.into_iter().map(|place| place.cancel()).sum();
    assert!(cancelled <= 9_000);
}

/// A step of a limit that two threads decide on, often enough to have caches.
#[derive(Clone, Copy, Debug)]
enum Change {
    Acquire(u64),
    /// The other thread asks this often.
    Other(u64),
    /// Time passes, in milliseconds.
    Idle(u64),
    Limit(u64),
    Burst(u64),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let rate = prop_oneof![0..4_u64, 0..2_000_u64, 0..1_000_000_u64];
    let change = prop_oneof![
        3 => (0..200_u64).prop_map(Change::Acquire),
        1 => (0..4_000_u64).prop_map(Change::Acquire),
        1 => (0..200_u64).prop_map(Change::Other),
        1 => (0..1_000_u64).prop_map(Change::Idle),
        2 => rate.prop_map(Change::Limit),
        1 => (128..10_000_u64).prop_map(Change::Burst),
    ];
    prop::collection::vec(change, 1..40)
}

/// A limiter, the time at which it is looked at and changed, and a thread that decides on it, too.
struct Shared {
    limiter: Limiter,
    /// The clock of a limiter without thread caches.
    manual: Option<ManualClock>,
    /// Time that passed in the readings of [`Shared::now`] alone, for a limiter with thread caches: they are of the
    /// host's clock.
    passed: Span,
    ask: mpsc::Sender<u64>,
    asked: mpsc::Receiver<u64>,
    other: thread::JoinHandle<()>,
    burst: u64,
    /// Maximum number of tokens for which there is room in the other thread's cache, and so none in the bucket.
    held_elsewhere: u64,
}

impl Shared {
    fn new(per_sec: u64, burst: u64, batched: bool) -> Self {
        let manual = (!batched).then(ManualClock::new);
        let limiter = match &manual {
            None => limiter(per_sec, burst),
            Some(clock) => {
                clock.set(CounterClock.now());
                let clock = Arc::new(clock.clone());
                Limiter::local_with(Limit::per_sec(per_sec), burst, clock).expect("a limit")
            }
        };
        let (ask_other, asks) = mpsc::channel();
        let (answers, asked) = mpsc::channel();
        let its = limiter.clone();
        let other = thread::spawn(move || {
            for times in asks {
                answers.send(ask(&its, times)).expect("it is waited for");
            }
        });
        Self {
            limiter,
            manual,
            passed: Span::ZERO,
            ask: ask_other,
            asked,
            other,
            burst,
            held_elsewhere: 0,
        }
    }

    fn now(&self) -> Tick {
        match &self.manual {
            Some(clock) => clock.now(),
            None => CounterClock.now().after(self.passed),
        }
    }

    fn idle(&mut self, ms: u64) {
        match &self.manual {
            Some(clock) => clock.advance(Duration::from_millis(ms)),
            None => self.passed = Span::from_nanos(self.passed.nanos() + ms * 1_000_000),
        }
    }

    fn ask_elsewhere(&mut self, times: u64) {
        self.ask.send(times).expect("it waits");
        self.asked.recv().expect("it answers");
        self.held_elsewhere = match self.manual {
            Some(_) => 0,
            None => batch(self.burst).max(self.held_elsewhere),
        };
    }

    /// Changes the limit, and returns the levels before and after it at one reading.
    fn set_limit(&mut self, per_sec: u64) -> (f64, f64) {
        let now = self.now();
        let before = self.limiter.tokens_at(now);
        let changed = self.limiter.set_limit_at(Limit::per_sec(per_sec), now);
        changed.expect("a limit");
        (before, self.limiter.tokens_at(now))
    }

    /// Changes the burst, and returns the level that is to be left, and that which is.
    fn set_burst(&mut self, burst: u64) -> (f64, f64) {
        let now = self.now();
        let before = self.limiter.tokens_at(now).min(burst as f64);
        self.limiter.set_burst_at(burst, now).expect("a burst");
        self.burst = burst;
        (before, self.limiter.tokens_at(now))
    }

    fn end(self) {
        drop(self.ask);
        self.other.join().expect("no panic");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A change leaves the level as it was, in the word and in the cache of the thread that makes it. As many tokens as
    /// there is room for in another thread's cache may be lost, and no more.
    #[test]
    fn the_level_stays_at_a_change(
        changes in changes(), rate in 0..1_000_000_u64, burst in 128..10_000_u64, batched in any::<bool>(),
    ) {
        let mut shared = Shared::new(rate, burst, batched);
        for change in changes {
            let (wanted, after) = match change {
                Change::Acquire(times) => {
                    ask(&shared.limiter, times);
                    continue;
                }
                Change::Other(times) => {
                    shared.ask_elsewhere(times);
                    continue;
                }
                Change::Idle(ms) => {
                    shared.idle(ms);
                    continue;
                }
                Change::Limit(rate) => shared.set_limit(rate),
                Change::Burst(burst) => shared.set_burst(burst),
            };
            let held = shared.held_elsewhere as f64;
            // The rounding of a change at these rates.
            prop_assert!(after <= wanted + 1e-3, "{} of {}, {:?}", after, wanted, change);
            prop_assert!(after >= wanted - held - 1e-3, "{} of {}, {:?}", after, wanted, change);
        }
        shared.end();
    }
}

/// Rates in units as different as these change the fixed point, whatever the other thread has in its cache.
#[test]
fn the_level_stays_when_the_fixed_point_changes() {
    for (batched, idle, elsewhere) in [
        (true, 0, 0),
        (true, 200, 0),
        (true, 200, 300),
        (false, 0, 0),
        (false, 200, 0),
        (false, 200, 300),
    ] {
        let mut shared = Shared::new(100_000, 6_400, batched);
        ask(&shared.limiter, 3_010 - elsewhere);
        shared.ask_elsewhere(elsewhere);
        shared.idle(idle);
        let held = match (batched, elsewhere) {
            (true, 300) => batch(6_400) as f64,
            _ => 0.0,
        };
        // All of it was made again in 200 ms.
        let level = if idle > 0 { 6_400.0 } else { 3_390.0 };
        for rate in [1, 1_000, 100_000, 7] {
            let (before, after) = shared.set_limit(rate);
            assert!(
                (before - held - 1e-3..=before + 1e-3).contains(&after),
                "{after} of {before} at {rate}"
            );
            assert!(
                after >= level - 2.0 * held - 1.0,
                "{after} of {level} at {rate}"
            );
        }
        shared.end();
    }
}
