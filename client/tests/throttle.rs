//! The throttle against its formula, and against a backend of fixed capacity.

use aliquot_client::adaptive::{Criticality, Throttle};
use aliquot_client::clock::Tick;
use aliquot_client::observe::Mode;
use aliquot_client::{LimitError, Reason};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

fn at(ms: u64) -> Tick {
    Tick::from_nanos(1_000_000_000_000 + ms * 1_000_000)
}

/// The formula, in floating point.
fn formula(requests: u64, accepts: u64, k: f64) -> f64 {
    ((requests as f64 - k * accepts as f64) / (requests as f64 + 1.0)).max(0.0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn it_is_the_formula(requests in 0..1_500_u64, part in 0..=100_u64, percent in 100..400_u32) {
        let criticality = Criticality::Critical;
        let builder = Throttle::builder().multiplier(criticality, percent).expect("in range");
        let throttle = builder.build();
        let accepts = requests * part / 100;
        for index in 0..requests {
            // The largest draw is not rejected by any probability below one.
            let attempt = throttle.attempt_at(criticality, at(index), u64::MAX).expect("drawn so");
            if index < accepts {
                attempt.accepted_at(at(index));
            }
        }
        let shown = throttle.stats_at(criticality, at(requests));
        prop_assert_eq!((shown.requests, shown.accepts), (requests, accepts));
        let p = formula(requests, accepts, f64::from(percent) / 100.0);
        let rejected = shown.rejected as f64 / 4_294_967_296.0;
        prop_assert!((p - rejected).abs() < 1e-9, "{} and {}", p, rejected);
        // A draw just below is rejected, and the one at it is not.
        let draw = |rejected: u64| throttle.attempt_at(criticality, at(requests), rejected << 32);
        if let Some(below) = shown.rejected.checked_sub(1) {
            prop_assert_eq!(draw(below).expect_err("below").reason, Reason::Shed);
        }
        let shown = throttle.stats_at(criticality, at(requests));
        prop_assert!(draw(shown.rejected).is_ok());
    }
}

#[test]
fn calls_two_minutes_old_are_forgotten() {
    let throttle = Throttle::new();
    let of = Criticality::Sheddable;
    for second in 0..300 {
        let _ = throttle.attempt_at(of, at(second * 1_000), u64::MAX);
    }
    let known = throttle.stats_at(of, at(299_000)).requests;
    assert!((115..=120).contains(&known), "{known}");
    assert_eq!(throttle.stats_at(of, at(299_000 + 120_000)).requests, 0);
}

/// For each criticality, offers `each` calls a second to a backend of this capacity. Returns how many reached
/// it in the last second.
fn offered(of: &[Criticality], capacity: u64, each: u64) -> Vec<u64> {
    let throttle = Throttle::new();
    let mut rng = Pcg64::seed_from_u64(7);
    let mut last = vec![0; of.len()];
    for second in 0..240_u64 {
        last.fill(0);
        let mut room = capacity;
        // The backend rejects the least critical calls first: it serves the others before.
        for (index, &criticality) in of.iter().enumerate().rev() {
            for call in 0..each {
                let now = at(second * 1_000 + call * 1_000 / each);
                if let Ok(attempt) = throttle.attempt_at(criticality, now, rng.random()) {
                    last[index] += 1;
                    if room > 0 {
                        room -= 1;
                        attempt.accepted_at(now);
                    }
                }
            }
        }
    }
    last
}

#[test]
fn a_backend_hears_of_about_k_times_what_it_takes() {
    // Ten times too much: 1,000 a second for a capacity of 100.
    let reached = offered(&[Criticality::Critical], 100, 1_000)[0];
    assert!((150..=250).contains(&reached), "{reached}");
}

#[test]
fn critical_calls_are_not_throttled_for_sheddable_ones() {
    let of = [Criticality::Sheddable, Criticality::CriticalPlus];
    let reached = offered(&of, 300, 300);
    assert_eq!(reached[1], 300);
    assert!(reached[0] < 10, "{reached:?}");
}

#[test]
fn a_backend_that_takes_nothing_hears_of_one_now_and_then_and_recovers() {
    let throttle = Throttle::builder().seed(1).build();
    let of = Criticality::Critical;
    let mut rng = Pcg64::seed_from_u64(3);
    let mut second = 0;
    let mut live = |takes: bool, seconds: u64| {
        let mut reached = 0;
        for _ in 0..seconds {
            second += 1;
            for call in 0..100 {
                let now = at(second * 1_000 + call * 10);
                if let Ok(attempt) = throttle.attempt_at(of, now, rng.random()) {
                    reached += 1;
                    if takes {
                        attempt.accepted_at(now);
                    }
                }
            }
        }
        reached
    };
    live(false, 240);
    let probes = live(false, 1_000);
    assert!((1..1_000).contains(&probes), "{probes} of 100,000");
    // One in two minutes is accepted, then some: nine minutes until none is rejected.
    assert!(live(true, 300) < 10_000);
    live(true, 500);
    assert_eq!(live(true, 100), 10_000);
}

#[test]
fn its_own_draws_are_even_and_its_settings_checked() {
    let throttle = Throttle::builder().seed(5).build();
    let of = Criticality::SheddablePlus;
    let passed = (0..2_000).filter(|_| throttle.attempt(of).is_ok()).count();
    // Nothing is ever accepted: p = n ÷ (n + 1), so about the logarithm of n pass.
    assert!((2..30).contains(&passed), "{passed}");
    assert_eq!(throttle.stats(of).requests, 2_000);
    for percent in [0, 99, 10_001] {
        let built = Throttle::builder().multiplier(of, percent);
        assert_eq!(built.err(), Some(LimitError::Multiplier { percent }));
    }
}

#[test]
fn a_throttles_mode_overrides_it_and_a_freeze_is_no_failure() {
    let throttle = Throttle::new();
    let of = Criticality::Critical;
    let rejected = |throttle: &Throttle| throttle.attempt_at(of, at(1), 0).err();
    let _ = throttle.attempt_at(of, at(0), u64::MAX);
    assert_eq!(rejected(&throttle).map(|no| no.reason), Some(Reason::Shed));
    throttle.set_mode(Mode::Freeze);
    assert_eq!(
        rejected(&throttle).map(|no| no.reason),
        Some(Reason::Frozen)
    );
    assert_eq!(throttle.stats_at(of, at(1)).requests, 2);
    throttle.set_mode(Mode::DryRun);
    for _ in 0..9 {
        let attempt = throttle
            .attempt_at(of, at(1), 0)
            .expect("it is let through");
        attempt.accepted_at(at(1));
    }
    // The throttle learns from the calls that were let through.
    let shown = throttle.stats_at(of, at(1));
    assert_eq!((shown.requests, shown.accepts, shown.rejected), (11, 9, 0));
    let mode_stats = throttle.mode_stats();
    assert_eq!(mode_stats.frozen, 1);
    assert!(
        (1..9).contains(&mode_stats.let_through),
        "until it is spared no more"
    );
}
