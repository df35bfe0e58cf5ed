use super::*;

const TICK: Span = Span::from_millis(100);

fn at(millis: u64) -> Tick {
    Tick::ZERO.after(Span::from_millis(millis))
}

fn wanted(admitted: u64, denied: u64, waiting: u64) -> Observed {
    Observed {
        admitted,
        denied,
        waiting,
        waiting_once: 0,
        waiting_largest: waiting,
        denied_largest: 0,
    }
}

fn fresh() -> Estimator {
    Estimator::new(TICK, u64::MAX, at(0))
}

#[test]
fn demand_is_what_was_wanted_and_jumps_up_at_once() {
    let mut estimator = fresh();
    assert_eq!(estimator.rate_at(at(10)), 0);
    estimator.observe(wanted(3, 5, 2), at(10));
    assert_eq!(estimator.rate_at(at(10)), 25, "so few may be a chance");
    estimator.observe(wanted(0, 90, 2), at(20));
    assert_eq!(estimator.rate_at(at(20)), 1_000);
}

#[test]
fn a_single_request_is_a_demand_and_soon_a_small_one() {
    let mut estimator = fresh();
    estimator.observe(wanted(0, 1, 0), at(0));
    assert_eq!(estimator.rate_at(at(0)), 3);
    assert_eq!(estimator.rate_at(at(1_000)), 1);
    let silent = at(100).after(TICK.times_or_max(Estimator::SILENT_TICKS));
    assert_eq!(estimator.rate_at(silent), 0);
}

/// The estimate `silent` ticks after a stream of `rate` per tick ended.
fn after(rate: u64, silent: u64) -> u64 {
    let mut estimator = fresh();
    for tick in 0..20 {
        estimator.observe(wanted(rate, 0, 0), at(tick * 100));
    }
    estimator.rate_at(at((20 + silent) * 100))
}

#[test]
fn a_stream_that_ends_is_forgotten_as_soon_as_that_can_be_told() {
    assert_eq!(after(80, 0), 800);
    assert_eq!(after(80, 1), 0);
    assert!(after(5, 1) > 40, "one silent tick may be an accident");
    assert_eq!(after(5, 4), 0);
    assert!(after(1, 8) > 5, "a thin stream has gaps");
    assert!(after(1, 30) < 5);
    let lingers = || planted::with(Some(Bug::EndedStreamLingers), || after(80, 3));
    assert!(lingers() > 600);
}

/// Observations every 70 ms, which is not a tick. Each is spread over the time since the last one and no
/// further, so the time after the end of a stream counts as silent.
#[test]
fn an_untimed_stream_is_over_two_ticks_after_it_ended() {
    let mut estimator = fresh();
    for look in 1..=40 {
        estimator.observe_since(wanted(70, 140, 0), at(look * 70));
    }
    let steady = estimator.rate_at(at(2_800));
    assert!((2_900..3_100).contains(&steady), "{steady}");
    // It ended ten milliseconds after the last observation.
    estimator.observe_since(wanted(0, 30, 0), at(2_870));
    for look in 42..=44 {
        estimator.observe_since(wanted(0, 0, 0), at(look * 70));
    }
    assert_eq!(estimator.rate_at(at(3_100)), 0);
}

#[test]
fn untimed_requests_are_all_counted() {
    let mut estimator = fresh();
    estimator.observe_since(wanted(0, 20, 0), at(20));
    estimator.observe_since(wanted(0, 400, 0), at(420));
    // In the first tick 20 and 80, in three of them 100 each, and 20 are left for the next.
    assert_eq!(estimator.rate_at(at(420)), 1_000);
    assert_eq!(estimator.sample(), 20);
}

/// Requests in a tick by chance: each of 1,000 callers comes with a chance of `mean`/1,000.
fn by_chance(random: &mut u64, mean: u64) -> u64 {
    let mut next = || {
        *random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (*random >> 33) % 1_000
    };
    (0..1_000).map(|_| u64::from(next() < mean)).sum()
}

/// Mean of the estimates of a stream by chance, and mean of the amount by which they are too high, both
/// in thousandths of its rate.
fn estimates(mean: u64) -> (u64, u64) {
    let (mut estimator, mut random) = (fresh(), 1);
    let (mut sum, mut high) = (0, 0);
    for tick in 0..4_000 {
        let count = by_chance(&mut random, mean);
        estimator.observe(wanted(count, 0, 0), at(tick * 100));
        let rate = estimator.rate_at(at(tick * 100 + 100));
        if tick >= 1_000 {
            sum += rate;
            high += rate.saturating_sub(mean * 10);
        }
    }
    (sum / (30 * mean), high / (30 * mean))
}

#[test]
fn chance_moves_the_estimate_neither_up_nor_down() {
    for (mean, most) in [(1, 75), (2, 50), (15, 20), (100, 10)] {
        let (estimate, high) = estimates(mean);
        assert!(estimate.abs_diff(1_000) <= most, "{mean}: {estimate}");
        assert!(high <= most, "{mean}: {high} too high");
    }
}

/// Number of ticks until the estimate stays within two fifths of the new rate.
fn follows(from: u64, to: u64) -> u64 {
    let (mut estimator, mut random) = (fresh(), 7);
    let mut last = 0;
    for tick in 0..200 {
        let mean = if tick < 100 { from } else { to };
        let count = by_chance(&mut random, mean);
        estimator.observe(wanted(count, 0, 0), at(tick * 100));
        let rate = estimator.rate_at(at(tick * 100 + 99));
        if rate.abs_diff(to * 10) > to * 4 {
            last = tick;
        }
    }
    last - 99
}

#[test]
fn a_great_change_is_followed_in_a_tick_or_two_and_a_small_one_in_a_second_or_two() {
    for (from, to, ticks) in [(1, 100, 2), (100, 10, 10), (100, 200, 3), (15, 30, 15)] {
        let followed = follows(from, to);
        assert!(followed <= ticks, "{from} to {to}: {followed} ticks");
    }
}

#[test]
fn large_requests_are_told_from_a_change_by_how_ticks_differ() {
    let (mut estimator, mut random) = (fresh(), 3);
    let (mut least, mut most) = (u64::MAX, 0);
    for tick in 0..1_000 {
        let count = 100 * by_chance(&mut random, 5);
        estimator.observe(wanted(count, 0, 0), at(tick * 100));
        let rate = estimator.rate_at(at(tick * 100 + 100));
        if tick >= 100 {
            (least, most) = (least.min(rate), most.max(rate));
        }
    }
    assert!(least > 2_000 && most < 10_000, "{least} to {most} of 5,000");
}

#[test]
fn what_is_observed_seldom_is_spread_over_the_time_since() {
    let mut estimator = fresh();
    for look in 1..40 {
        estimator.observe_since(wanted(50, 0, 0), at(look * 250));
        let rate = estimator.rate_at(at(look * 250));
        if look > 10 {
            assert!((185..=215).contains(&rate), "{rate}");
        }
    }
}

#[test]
fn those_who_wait_count_in_every_tick_in_which_they_are_seen() {
    let mut estimator = Estimator::new(TICK, 1_000, at(0));
    for millis in [0, 100, 200, 300, 400, 500] {
        estimator.observe(wanted(0, 0, 80), at(millis));
        assert_eq!(estimator.rate_at(at(millis)), 800);
    }
    assert_eq!(estimator.largest_waiting_at(at(600)), 80);
    assert_eq!(estimator.largest_waiting_at(at(700)), 0);
    assert_eq!(estimator.rate_at(at(700)), 0);
}

/// The estimate of a stream of 40 per tick of which 60 wait for a moment at any time.
fn with_a_line_of_60(observe: fn(&mut Estimator, Observed, Tick)) -> u64 {
    let mut estimator = fresh();
    for tick in 0..40 {
        let observed = Observed {
            admitted: if tick == 0 { 0 } else { 40 },
            waiting_once: 60,
            ..Observed::default()
        };
        observe(&mut estimator, observed, at(tick * 100));
    }
    estimator.rate_at(at(3_900))
}

#[test]
fn those_who_wait_for_a_moment_count_once() {
    for observe in [Estimator::observe, Estimator::observe_since] {
        let once = with_a_line_of_60(observe);
        assert!((400..=410).contains(&once), "{once}");
        let again = || with_a_line_of_60(observe);
        let again = planted::with(Some(Bug::WaitsCountedAgain), again);
        assert!(again > 900, "{again}");
    }
    let mut estimator = fresh();
    let first = Observed {
        waiting_once: 30,
        waiting_largest: 30,
        ..Observed::default()
    };
    estimator.observe(first, at(10));
    assert!(estimator.rate_at(at(10)) > 0, "it is wanted at once");
    assert_eq!(estimator.largest_waiting_at(at(10)), 30);
}

#[test]
fn a_cost_is_lacked_for_nine_seconds_after_it_waited() {
    let mut estimator = fresh();
    let waits = Observed {
        waiting: 30,
        waiting_largest: 30,
        ..Observed::default()
    };
    estimator.observe_since(waits, at(10));
    // It still waits, though no report has confirmed that; later it no longer does.
    estimator.observe_calm(at(20_000));
    estimator.observe_since(Observed::default(), at(20_000));
    assert_eq!(estimator.lacked_at(at(28_900)), 30);
    assert_eq!(estimator.lacked_at(at(29_100)), 0);
}

#[test]
fn no_report_passes_the_bound() {
    let mut estimator = Estimator::new(TICK, 1_000, at(0));
    estimator.observe(wanted(0, 0, 4_000), at(0));
    assert_eq!(estimator.rate_at(at(0)), 1_000);
    assert_eq!(estimator.largest_waiting_at(at(150)), 4_000);
    estimator.observe(wanted(u64::MAX, u64::MAX, u64::MAX), at(200));
    assert_eq!(estimator.rate_at(at(200)), 1_000);
}

#[test]
fn a_clock_that_steps_back_lets_no_time_pass() {
    let mut estimator = Estimator::new(TICK, u64::MAX, at(1_000));
    estimator.observe(wanted(40, 0, 0), at(1_000));
    assert_eq!(estimator.rate_at(at(0)), 400);
    estimator.observe_since(wanted(40, 0, 0), at(0));
    assert_eq!(estimator.rate_at(at(1_000)), 800);
}
