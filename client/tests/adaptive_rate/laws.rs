//! Properties that every rate controller has for any observations.

use crate::{bounds, each, well};
use aliquot_client::adaptive::{
    AdaptiveRate, RateAimd, RateController, RateGradient, RateVegas, Window,
};
use aliquot_client::clock::Span;
use aliquot_client::{Clock, Limit, Limiter, ManualClock};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

fn windows() -> impl Strategy<Value = Vec<Window>> {
    let counts = (0..2_000_u64, 1..50_u64, 0..2_000_u64, 0..200_u64);
    let spans = (1..1_u64 << 36, 0..1_u64 << 34, 0..1_u64 << 34);
    let window = (counts, spans).prop_map(|(counts, spans)| {
        let (begun, cost, succeeded, failed) = counts;
        let [span, latency, usual] = [spans.0, spans.1, spans.2].map(Duration::from_nanos);
        Window {
            span,
            begun,
            asked: begun * cost,
            succeeded,
            served: succeeded * cost,
            failed,
            latency,
            error: latency / 8,
            usual,
        }
    });
    prop::collection::vec(window, 1..100)
}

fn is_used(seen: &Window, rate: f64) -> bool {
    seen.asked as f64 * 2.0 >= rate * seen.span.as_nanos() as f64 / 1e9
}

proptest! {
    #[test]
    fn all_keep_to_their_bounds_and_none_grows_by_failures_or_unused(
        seen in windows(), least in 1..50_u64, more in 0..5_000_u64, start in 0..6_000_u64,
    ) {
        let bounds = bounds(least, least + more).start(Limit::per_sec(start));
        for (name, mut controller) in each(bounds) {
            // The rate before Vegas measures again; returning to it is not growth.
            let mut had = controller.rate();
            for window in &seen {
                let before = controller.rate();
                controller.window(window);
                let rate = controller.rate();
                prop_assert!((least as f64..=(least + more) as f64).contains(&rate), "{name}: {rate}");
                prop_assert!(rate <= 2.0 * had, "{name}: {had} to {rate}");
                let failed = window.failed * 100 > window.failed + window.succeeded;
                prop_assert!(!failed || rate <= before, "{name} grew by failures: {before} to {rate}");
                prop_assert!(is_used(window, before) || rate <= had, "{name} grew unused: {had} to {rate}");
                // At most one step down per window, and no lower than nine tenths of a half.
                prop_assert!(rate >= (before * 0.4).min(before).max(0.0), "{name}: {before} to {rate}");
                had = if rate < before && name == "vegas" { had.max(before) } else { rate };
            }
        }
    }

    #[test]
    fn success_never_lowers_a_limit_that_follows_failures(seen in windows(), start in 1..1_000_u64) {
        let mut aimd = RateAimd::new(bounds(1, 1_000).start(Limit::per_sec(start)));
        for window in seen {
            let before = aimd.rate();
            aimd.window(&Window { failed: 0, ..window });
            prop_assert!(aimd.rate() >= before);
        }
    }

    /// A new rate leaves the level as it was, and so does a new burst, as far as the level fits.
    #[test]
    fn the_level_stays_when_the_rate_moves(
        calls in prop::collection::vec((1..400_u64, 1..300_u64, 0..4_u8), 20..200),
        (most, start) in (prop_oneof![2..50_u64, 2..1_000_000_u64], any::<u64>()),
        burst in 128..10_000_u64, with_burst in any::<bool>(), which in 0..3_usize,
    ) {
        let clock = ManualClock::new();
        let limiter = Limiter::local_with(Limit::ZERO, burst, Arc::new(clock.clone())).expect("a limit");
        let start = Limit::per_sec(1 + start % most);
        let bounds = bounds(1, most).start(start);
        let builder = match with_burst {
            true => AdaptiveRate::builder().burst_of(Duration::from_secs(1)).expect("a second"),
            false => AdaptiveRate::builder(),
        };
        let rate = match which {
            0 => builder.over(limiter.clone(), RateAimd::new(bounds)),
            1 => builder.over(limiter.clone(), RateVegas::new(bounds)),
            _ => builder.over(limiter.clone(), RateGradient::new(bounds)),
        }.expect("a rate");
        for (pause, times, how) in calls {
            clock.advance(Duration::from_millis(pause));
            for _ in 0..times {
                let Ok(call) = rate.try_call(1) else { break };
                let before = limiter.tokens();
                match how {
                    0 => call.failure(),
                    _ => call.success(),
                }
                let wanted = before.min(limiter.peek().burst as f64);
                let after = limiter.tokens();
                prop_assert!((after - wanted).abs() <= 1e-3, "{after} of {wanted} at {:?}", rate.limit());
            }
        }
    }

    #[test]
    fn the_limit_moves_at_most_once_a_window(
        calls in prop::collection::vec((1..400_u64, 1..900_u64, 0..10_u8), 50..300), aimd in any::<bool>(),
    ) {
        let clock = ManualClock::new();
        let limiter = Limiter::local_with(Limit::ZERO, 1_000, Arc::new(clock.clone())).expect("a limit");
        let bounds = bounds(5, 50).start(Limit::per_sec(20));
        let rate = match aimd {
            true => AdaptiveRate::over(limiter, RateAimd::new(bounds)),
            false => AdaptiveRate::over(limiter, RateGradient::new(bounds)),
        }.expect("a rate");
        let (mut moved, mut holds) = (clock.now(), rate.limit());
        let mut under_way = std::collections::VecDeque::new();
        for (pause, takes, how) in calls {
            clock.advance(Duration::from_millis(pause));
            if let Ok(call) = rate.try_call(1) {
                under_way.push_back((clock.now().after(Span::from_millis(takes)), how, call));
            }
            while let Some((_, how, call)) = under_way.pop_front_if(|(end, ..)| *end <= clock.now()) {
                match how {
                    0 => call.failure(),
                    1 => drop(call),
                    _ => call.success(),
                }
                let now = rate.limit().as_per_sec_f64();
                prop_assert!((4.999..=50.0).contains(&now), "{now}");
                if rate.limit() != holds {
                    prop_assert!(clock.now().since(moved) >= Span::from_secs(1));
                    (moved, holds) = (clock.now(), rate.limit());
                }
            }
        }
    }
}

#[test]
fn aimd_adds_half_a_root_or_its_step_and_keeps_a_part_once_for_each_window() {
    let start = bounds(1, 1_000).start(Limit::per_sec(100));
    let mut aimd = RateAimd::new(start);
    aimd.window(&well(100));
    assert_eq!(aimd.rate(), 105.0);
    // Half of the rate in use is enough to grow; less is not.
    aimd.window(&well(52));
    assert_eq!(aimd.rate(), 105.0);
    // The number of failures does not matter.
    let failed = Window {
        failed: 90,
        ..well(10)
    };
    aimd.window(&failed);
    assert_eq!(aimd.rate(), 94.5);
    // One failure in a hundred has no effect; the window counts as successful.
    aimd.window(&Window {
        failed: 1,
        ..well(99)
    });
    assert!(aimd.rate() > 94.5);
    let mut stepped = RateAimd::new(start).step(Limit::per_sec(7)).keep(0.5);
    stepped.window(&well(50));
    assert_eq!(stepped.rate(), 107.0);
    stepped.window(&failed);
    assert_eq!(stepped.rate(), 53.5);
    // A step at most doubles the rate.
    let mut wide = RateAimd::new(start).step(Limit::per_sec(900));
    wide.window(&well(100));
    assert_eq!(wide.rate(), 200.0);
}

#[test]
fn a_call_s_cost_is_no_more_calls() {
    // A hundred calls of five hundred tokens each: the square root is that of a hundred.
    let mut aimd = RateAimd::new(bounds(1, 100_000).start(Limit::per_sec(50_000)));
    let calls = Window {
        asked: 50_000,
        served: 50_000,
        ..well(100)
    };
    aimd.window(&calls);
    assert_eq!(aimd.rate(), 52_500.0);
}

#[test]
fn vegas_goes_by_the_queue_that_latency_shows() {
    let mut vegas = RateVegas::new(bounds(1, 1_000).start(Limit::per_sec(100)));
    let took = |ms, calls| Window {
        latency: Duration::from_millis(ms),
        ..well(calls)
    };
    vegas.window(&took(10, 100));
    assert_eq!(vegas.rate(), 105.0);
    // At a hundred a second, forty milliseconds above the best latency means four calls in the queue.
    vegas.window(&took(50, 100));
    assert_eq!(vegas.rate(), 105.0);
    // Ten in the queue: four too many are to drain in two seconds, and a hundred a second are served.
    vegas.window(&took(110, 100));
    assert!((vegas.rate() - 98.0).abs() < 1e-9, "{}", vegas.rate());
    // A thousand in the queue: half of the rate served.
    vegas.window(&took(10_010, 100));
    assert_eq!(vegas.rate(), 50.0);
}

#[test]
fn vegas_measures_the_best_anew_and_goes_back_to_what_it_had() {
    let mut vegas = RateVegas::new(bounds(1, 100).start(Limit::per_sec(100)));
    for _ in 0..60 {
        vegas.window(&well(100));
        assert_eq!(vegas.rate(), 100.0);
    }
    vegas.window(&well(100));
    assert_eq!(vegas.rate(), 80.0);
    // Twice as slow, for good.
    let slow = Window {
        latency: Duration::from_millis(100),
        ..well(80)
    };
    vegas.window(&slow);
    assert_eq!(vegas.rate(), 100.0);
    vegas.window(&Window {
        latency: Duration::from_millis(100),
        ..well(100)
    });
    assert_eq!(vegas.rate(), 100.0, "no queue is seen");
    // A failure while the best latency is measured counts: the former rate is not restored.
    for _ in 0..60 {
        vegas.window(&well(100));
    }
    assert_eq!(vegas.rate(), 80.0);
    vegas.window(&Window {
        failed: 9,
        ..well(80)
    });
    vegas.window(&well(80));
    assert!(vegas.rate() < 80.0, "{}", vegas.rate());
}

#[test]
fn gradient_goes_by_the_usual_and_by_what_came_back() {
    let mut gradient = RateGradient::new(bounds(1, 1_000).start(Limit::per_sec(100)));
    let took = |ms, calls| Window {
        latency: Duration::from_millis(ms),
        ..well(calls)
    };
    gradient.window(&took(15, 100));
    assert_eq!(gradient.rate(), 105.0);
    // 105 · 1.5 · 10 ÷ 16.
    gradient.window(&took(16, 100));
    assert!((gradient.rate() - 105.0 * 1.5 / 1.6).abs() < 1e-9);
    // Never lower than four fifths of the rate served.
    gradient.window(&took(1_000, 100));
    assert_eq!(gradient.rate(), 80.0);
    // If the rate was hardly used, down to twice the demand.
    gradient.window(&took(1_000, 25));
    assert_eq!(gradient.rate(), 50.0);
    gradient.window(&took(1_000, 1));
    assert_eq!(gradient.rate(), 25.0, "a half at most");
}

/// Windows of half a second, and calls of several tokens. Each row: calls, tokens of each, latency in ms after one of
/// 10 ms, and the rate by Little's law.
#[test]
fn vegas_leaves_what_drains_the_queue_in_two_windows() {
    for (calls, cost, latency, expect) in [
        // 200 a second wait 50 ms: a queue of 10, of which 6 may be. 600 are served, and 4 · 3 in a second are less.
        (100, 3, 60, 588.0),
        // 2,000 a second are served in 10 ms: 20, and a fifth of them twice may wait. Two are too many.
        (1_000, 2, 15, 3_996.0),
    ] {
        let served = calls * cost;
        let start = served * 3;
        let mut vegas = RateVegas::new(bounds(1, 100_000).start(Limit::per_sec(start)));
        let ms = Duration::from_millis;
        let seen = |latency| Window {
            span: ms(500),
            begun: calls,
            asked: served,
            succeeded: calls,
            served,
            failed: 0,
            latency: ms(latency),
            error: Duration::ZERO,
            usual: ms(10),
        };
        vegas.window(&Window {
            asked: 1,
            begun: 0,
            ..seen(10)
        });
        assert!(
            (vegas.rate() - start as f64).abs() < 1e-6,
            "no window of use"
        );
        vegas.window(&seen(latency));
        assert!(
            (vegas.rate() - expect).abs() < 1e-3,
            "{calls}: {}",
            vegas.rate()
        );
    }
}
