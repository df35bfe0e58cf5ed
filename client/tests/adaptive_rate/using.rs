//! The public API of adaptive rates.

use crate::bounds;
use aliquot_client::adaptive::{
    AdaptiveRate, AdaptiveRateBuilder, RateAimd, RateBounds, RateCall, RateController, Window,
};
use aliquot_client::observe::{Mode, Watch};
use aliquot_client::shape::ShapeError;
use aliquot_client::{Client, Limit, LimitError, Limiter, ManualClock, Reason};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn limiter(clock: &ManualClock, burst: u64) -> Limiter {
    Limiter::local_with(Limit::per_sec(7), burst, Arc::new(clock.clone())).expect("a limit")
}

/// Returns a rate that starts at ten a second with a burst of twenty, and is halved by a failure.
fn ten(clock: &ManualClock, builder: AdaptiveRateBuilder) -> (Limiter, AdaptiveRate) {
    let limiter = limiter(clock, 20);
    let aimd = RateAimd::new(bounds(1, 100).start(Limit::per_sec(10))).keep(0.5);
    let rate = builder.over(limiter.clone(), aimd).expect("a rate");
    (limiter, rate)
}

/// Makes this many calls, one after the other, a tenth of a second each.
fn calls(clock: &ManualClock, rate: &AdaptiveRate, calls: u64, end: impl Fn(RateCall)) {
    for _ in 0..calls {
        let call = rate.try_call(1).expect("a token");
        clock.advance(SECOND / 10);
        end(call);
    }
}

#[test]
fn every_handle_of_an_adaptive_limiter_sees_its_rate() {
    let clock = ManualClock::new();
    let (limiter, rate) = ten(&clock, AdaptiveRate::builder());
    assert_eq!((limiter.peek().rate, limiter.peek().burst), (10, 20));
    calls(&clock, &rate, 9, RateCall::success);
    assert_eq!(limiter.peek().rate, 10, "the window is not over");
    calls(&clock, &rate, 1, RateCall::success);
    // Plus half the square root of ten.
    let held = rate.limit().as_per_sec_f64();
    assert!((11.58..=11.59).contains(&held), "{held}");
    assert_eq!(limiter.limit(), Some(rate.limit()));
    calls(&clock, &rate, 10, RateCall::failure);
    assert_eq!((limiter.peek().rate, limiter.peek().burst), (5, 20));
}

#[test]
fn calls_without_an_outcome_change_nothing() {
    let clock = ManualClock::new();
    let (_, rate) = ten(&clock, AdaptiveRate::builder());
    calls(&clock, &rate, 100, drop);
    assert_eq!(rate.limit().as_per_sec_f64(), 10.0);
}

#[test]
fn a_rate_that_is_hardly_used_stays() {
    let clock = ManualClock::new();
    let (_, rate) = ten(&clock, AdaptiveRate::builder());
    calls(&clock, &rate, 300, RateCall::success);
    let held = rate.limit();
    // Above twenty, ten calls a second are less than half of the rate.
    let per_sec = held.as_per_sec_f64();
    assert!((20.0..=22.3).contains(&per_sec), "{per_sec}");
    for _ in 0..30 {
        calls(&clock, &rate, 1, RateCall::success);
        clock.advance(SECOND);
    }
    assert_eq!(rate.limit(), held);
}

#[test]
fn a_slow_rate_is_as_fine_as_a_clock() {
    let clock = ManualClock::new();
    let rate = AdaptiveRate::over(limiter(&clock, 1), Says(vec![1.0 / 60.0])).expect("a rate");
    let error = 1.0 - rate.limit().as_per_sec_f64() * 60.0;
    assert!((0.0..1e-10).contains(&error), "{error}");
}

#[test]
fn failures_of_calls_begun_before_a_decrease_are_ignored() {
    let clock = ManualClock::new();
    let (_, rate) = ten(&clock, AdaptiveRate::builder());
    let began: Vec<_> = (0..6).map(|_| rate.try_call(1).expect("a token")).collect();
    for call in began {
        clock.advance(2 * SECOND);
        call.failure();
        assert_eq!(rate.limit().as_per_sec_f64(), 5.0);
    }
    let call = rate.try_call(1).expect("a token");
    clock.advance(2 * SECOND);
    call.failure();
    assert_eq!(rate.limit().as_per_sec_f64(), 2.5);
}

#[test]
fn windows_are_as_long_as_calls_usually_are_and_until_enough_is_heard() {
    let clock = ManualClock::new();
    let (_, rate) = ten(&clock, AdaptiveRate::builder());
    // Nine calls in ten seconds are not significant yet.
    for _ in 0..9 {
        let call = rate.try_call(5).expect("tokens");
        clock.advance(SECOND);
        call.success();
    }
    assert_eq!(rate.limit().as_per_sec_f64(), 10.0);
    let call = rate.try_call(5).expect("tokens");
    clock.advance(SECOND);
    call.success();
    // Fifty tokens in ten seconds are half of the rate, and a hundred tokens are twenty such calls.
    let held = rate.limit().as_per_sec_f64();
    assert!((11.11..=11.12).contains(&held), "{held}");

    // If calls take three seconds, so do windows.
    let (_, rate) = ten(&clock, AdaptiveRate::builder());
    let three = |how: fn(RateCall)| {
        let began: Vec<_> = (0..10).map(|_| rate.try_call(2).expect("tokens")).collect();
        clock.advance(3 * SECOND);
        began.into_iter().for_each(how);
    };
    three(RateCall::success);
    let held = rate.limit();
    assert!(held.as_per_sec_f64() > 10.0);
    calls(&clock, &rate, 25, RateCall::success);
    assert_eq!(rate.limit(), held);
    calls(&clock, &rate, 5, RateCall::success);
    assert!(rate.limit().as_per_sec_f64() > held.as_per_sec_f64());
}

#[derive(Debug)]
struct Says(Vec<f64>);

impl RateController for Says {
    fn rate(&self) -> f64 {
        self.0[0]
    }

    fn window(&mut self, _: &Window) {
        self.0.rotate_left(1);
    }
}

#[test]
fn little_is_not_set_until_it_adds_up_and_nonsense_never() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, 20);
    let says = Says(vec![
        100.0,
        101.0,
        101.9,
        102.0,
        100.5,
        f64::NAN,
        -1.0,
        f64::INFINITY,
        0.25,
    ]);
    let rate = AdaptiveRate::over(limiter.clone(), says).expect("a rate");
    let mut held = vec![];
    for _ in 0..8 {
        calls(&clock, &rate, 10, RateCall::success);
        held.push(rate.limit().as_per_sec_f64());
    }
    let wanted = [100.0, 100.0, 102.0, 102.0, 102.0, 102.0, 102.0, 0.25];
    assert_eq!(held, wanted);
    // A limit that is set directly holds for a window.
    limiter.set_limit(Limit::per_sec(50)).expect("a limit");
    limiter.set_burst(50).expect("a burst");
    clock.advance(SECOND);
    calls(&clock, &rate, 10, RateCall::success);
    assert_eq!(rate.limit().as_per_sec_f64(), 100.0);
}

#[test]
fn the_burst_follows_if_it_is_to() {
    let clock = ManualClock::new();
    let builder = AdaptiveRate::builder()
        .burst_of(SECOND / 2)
        .expect("a span");
    let (limiter, rate) = ten(&clock, builder);
    assert_eq!((limiter.peek().burst, limiter.tokens()), (5, 5.0));
    for burst in [2, 1, 1] {
        clock.advance(SECOND);
        rate.try_call(1).expect("a token").failure();
        assert_eq!(limiter.peek().burst, burst);
    }
    let refused = rate.try_call(2).expect_err("more than there can be");
    assert_eq!(refused.reason, Reason::ExceedsBurst);
}

#[test]
fn a_window_is_as_long_as_it_is_to_be() {
    let clock = ManualClock::new();
    let builder = AdaptiveRate::builder().window(SECOND / 5).expect("a span");
    let (_, rate) = ten(&clock, builder);
    calls(&clock, &rate, 1, RateCall::failure);
    assert_eq!(rate.limit().as_per_sec_f64(), 10.0);
    calls(&clock, &rate, 1, RateCall::failure);
    assert_eq!(rate.limit().as_per_sec_f64(), 5.0);
}

#[tokio::test]
async fn a_call_waits_in_line_and_that_is_no_latency() {
    let clock = ManualClock::new();
    let (limiter, rate) = ten(&clock, AdaptiveRate::builder());
    limiter.try_acquire(20).expect("all of it");
    let refused = rate.call_within(1, SECOND / 100).await.map(drop);
    assert_eq!(refused.expect_err("not so soon").reason, Reason::Throttled);
    let (call, ()) = tokio::join!(rate.call_within(1, SECOND), async { clock.advance(SECOND) });
    call.expect("a token")
        .failure_at(aliquot_client::Clock::now(&clock));
    assert_eq!(rate.limit().as_per_sec_f64(), 5.0);
    let (call, ()) = tokio::join!(rate.call(10), async { clock.advance(2 * SECOND) });
    call.expect("tokens").success();
}

#[test]
fn modes_are_the_limiter_s() {
    let clock = ManualClock::new();
    let (limiter, rate) = ten(&clock, AdaptiveRate::builder());
    rate.set_mode(Mode::DryRun);
    let began: Vec<_> = (0..25)
        .map(|_| rate.try_call(1).expect("let through"))
        .collect();
    assert_eq!(
        (limiter.mode(), rate.mode_stats().let_through),
        (Mode::DryRun, 5)
    );
    clock.advance(SECOND);
    // The controller learns from these calls as from others.
    began.into_iter().for_each(RateCall::failure);
    assert_eq!(rate.limit().as_per_sec_f64(), 5.0);
    rate.set_mode(Mode::Freeze);
    let refused = rate.try_call(1).map(drop).expect_err("frozen");
    assert_eq!(
        (refused.reason, rate.mode_stats().frozen),
        (Reason::Frozen, 1)
    );
    rate.set_mode(Mode::Bypass);
    assert!((0..100).all(|_| rate.try_call(1).is_ok()));
}

#[test]
fn a_watch_shows_the_rate_and_counts_refusals() {
    let clock = ManualClock::new();
    let (_, rate) = ten(&clock, AdaptiveRate::builder());
    let watch = Watch::new();
    watch.register("search", &rate);
    assert!(rate.try_call(21).is_err());
    let component = watch.components().remove(0);
    assert_eq!(component.state.to_string(), "limit 10.000 a second");
    assert_eq!(component.reasons, [(Reason::ExceedsBurst, 1)]);
    assert_eq!(
        format!("{rate:?}"),
        format!("AdaptiveRate {{ limit: {:?} }}", rate.limit())
    );
}

#[test]
fn bounds_and_settings_name_what_is_wrong() {
    let per_sec = Limit::per_sec;
    let rows = [
        (per_sec(0), per_sec(5)),
        (per_sec(6), per_sec(5)),
        (per_sec(6), Limit::UNLIMITED),
        (per_sec(6), per_sec(2_000_000_000_000)),
        (Limit::every(86_401 * SECOND), per_sec(5)),
    ];
    for (least, most) in rows {
        let wanted = LimitError::RateBounds {
            least: least.as_per_sec_f64(),
            most: most.as_per_sec_f64(),
        };
        assert_eq!(
            RateBounds::new(least, most),
            Err(wanted),
            "{least:?}, {most:?}"
        );
    }
    let error = RateBounds::new(per_sec(6), per_sec(5)).expect_err("the wrong way round");
    let says = "rate bounds: 6 to 5 tokens a second; in this order, one a day to 10¹² a second are allowed";
    assert_eq!(error.to_string(), says);
    assert!(RateBounds::new(Limit::every(86_400 * SECOND), per_sec(1_000_000_000_000)).is_ok());

    let builder = AdaptiveRate::builder();
    let hysteresis = builder.hysteresis(51).map(drop);
    assert_eq!(hysteresis, Err(LimitError::Hysteresis { percent: 51 }));
    assert!(builder.hysteresis(50).is_ok());
    let window = builder
        .window(SECOND / 2_000)
        .map(drop)
        .expect_err("too short");
    assert_eq!(
        window.to_string(),
        "window: 500µs; 1ms to a year are allowed"
    );
    let burst = builder.burst_of(Duration::ZERO).map(drop);
    assert!(matches!(burst, Err(ShapeError::Span { what: "burst", .. })));
}

#[tokio::test]
async fn only_local_rates_can_be_adapted() {
    let aimd = || RateAimd::new(bounds(1, 10));
    let permits = Limiter::local_permits(5).expect("permits");
    let led = AdaptiveRate::over(permits.clone(), aimd()).map(drop);
    assert_eq!(led, Err(LimitError::Permits));
    assert_eq!(permits.peek().burst, 5);
    let client = Client::connect(["127.0.0.1:9"]).expect("a client");
    let leased = client.limiter("a").expect("a limiter");
    let led = AdaptiveRate::over(leased, aimd()).map(drop);
    assert_eq!(led, Err(LimitError::NotOwn { what: "this key" }));

    let clock = ManualClock::new();
    for (says, wanted) in [(f64::INFINITY, true), (-2.0, false)] {
        let led = AdaptiveRate::over(limiter(&clock, 3), Says(vec![says])).map(drop);
        assert_eq!(led, Err(LimitError::NoRate { per_sec: says }), "{wanted}");
    }
    let builder = AdaptiveRate::builder().burst_of(86_400 * 360 * SECOND);
    let most = RateBounds::new(
        Limit::per_sec(1_000_000_000_000),
        Limit::per_sec(1_000_000_000_000),
    );
    let over = builder
        .expect("a span")
        .over(limiter(&clock, 3), RateAimd::new(most.expect("bounds")));
    assert!(matches!(over.map(drop), Err(LimitError::Burst { .. })));
}
