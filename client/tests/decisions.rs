//! The figures that a decision returns belong to it: they are those of a model, and those of the very word that it
//! swapped.

use aliquot_client::clock::{Span, Tick};
use aliquot_client::combined::{Combine, Receipt};
use aliquot_client::limiter::LimitInfo;
use aliquot_client::shape::{FixedWindow, Meter, Pacer, SlidingCounter, SlidingLog};
use aliquot_client::{Combined, Decision, Keyed, Limit, Limiter, ManualClock, Reason, Refused};
use futures_util::FutureExt;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::sync::Arc;
use std::time::Duration;

const START: Tick = Tick::from_nanos(1 << 40);

fn clock() -> Arc<ManualClock> {
    let clock = ManualClock::new();
    clock.set(START);
    Arc::new(clock)
}

/// Rates from one token in ten days to thousands a second, whole and fractional.
fn rates() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        (1..5_000_u64).prop_map(|tokens| (tokens, 1_000_000_000)),
        (1..50_u64, 1..100_000_000_000_u64),
        (1..20_u64, 1_000_000_000..864_000_000_000_000_u64),
    ]
    .prop_filter("within the range of rates", |&(tokens, nanos)| {
        u128::from(nanos) <= u128::from(tokens) * 864_000_000_000_000
    })
}

/// A token bucket in real numbers.
struct Model {
    per_nano: f64,
    burst: f64,
    level: f64,
    /// Tokens made so far, full or not: the rounding of the rate adds up over these.
    made: f64,
    at: Tick,
}

impl Model {
    fn new((tokens, nanos): (u64, u64), burst: u64) -> Self {
        Self {
            per_nano: tokens as f64 / nanos as f64,
            burst: burst as f64,
            level: burst as f64,
            made: 0.0,
            at: START,
        }
    }

    fn advance(&mut self, now: Tick) {
        let made = now.since(self.at).nanos() as f64 * self.per_nano;
        self.made += made;
        self.level = (self.level + made).min(self.burst);
        self.at = now;
    }

    fn tolerance(&self) -> f64 {
        1e-7 * (self.burst + self.made) + 1e-9
    }

    fn check_wait(&self, wait: Duration, tokens: f64) -> Result<(), TestCaseError> {
        let (wait, expect) = (wait.as_nanos() as f64, tokens / self.per_nano);
        let off = (wait - expect).abs();
        let most = self.tolerance() / self.per_nano + 1e-6 * expect + 2.0;
        prop_assert!(off <= most, "{wait} ns instead of {expect} for {tokens}");
        Ok(())
    }

    /// Follows a decision on `n` tokens, and compares its figures.
    fn follow<T>(&mut self, n: u64, decision: &Decision<T>) -> Result<(), TestCaseError> {
        let (cost, tolerance) = (n as f64, self.tolerance());
        match &decision.outcome {
            Ok(_) => {
                prop_assert!(self.level >= cost - tolerance, "{} has no {n}", self.level);
                self.level -= cost;
            }
            Err(refused) if cost > self.burst => {
                prop_assert!(refused.is_never() && refused.retry_after.is_none());
            }
            Err(refused) => {
                prop_assert_eq!(refused.reason, Reason::Throttled);
                prop_assert!(self.level < cost + tolerance, "{} has {n}", self.level);
                let wait = refused.retry_after.expect("the rate is not zero");
                self.check_wait(wait, (cost - self.level).max(0.0))?;
            }
        }
        let info = decision.info.expect("there is a limit");
        let remaining = info.remaining as f64;
        prop_assert!(
            remaining <= self.level.max(0.0) + tolerance
                && remaining > self.level - 1.0 - tolerance,
            "{remaining} remain of {}",
            self.level
        );
        let reset = info.reset.expect("the rate is not zero");
        self.check_wait(reset, self.burst - self.level)
    }
}

/// Asks by `decide` and compares all figures with the model.
fn against_the_model(
    (rate, burst): ((u64, u64), u64),
    asks: &[(f64, u64)],
    decide: impl Fn(u64, Tick) -> Decision<()>,
) -> Result<(), TestCaseError> {
    let mut model = Model::new(rate, burst);
    let fill = burst as f64 * rate.1 as f64 / rate.0 as f64;
    // Rates are exact to one part in 10⁸ if the bucket fills within ten years.
    prop_assume!(fill < 3e17);
    let mut now = START;
    for &(part, cost) in asks {
        now = now.after(Span::from_nanos(((part * fill) as u64).min(1 << 50)));
        model.advance(now);
        let n = cost % (burst + 2);
        model.follow(n, &decide(n, now))?;
    }
    Ok(())
}

/// Gaps in parts of the time in which the bucket fills, and costs.
fn asks() -> impl Strategy<Value = Vec<(f64, u64)>> {
    let gap = prop_oneof![Just(0.0), 0.0..0.2_f64, 0.0..2.0_f64];
    prop::collection::vec((gap, any::<u64>()), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_figures_of_a_bucket_are_a_models(rate in rates(), burst in 1..500_u64, asks in asks()) {
        let limit = Limit::per(rate.0, Duration::from_nanos(rate.1));
        let limiter = Limiter::local_with(limit, burst, clock()).expect("a limit");
        against_the_model((rate, burst), &asks, |n, now| limiter.decide_at(n, now).map(|_| ()))?;
        let meter = Meter::over(Limiter::local_with(limit, burst, clock()).expect("a limit"));
        against_the_model((rate, burst), &asks, |n, now| meter.decide_at(n, now).map(|_| ()))?;
        let store = Keyed::builder(limit, burst, 16).clock(clock()).seed(7).build().expect("a store");
        let key = store.bucket("user/7");
        against_the_model((rate, burst), &asks, |n, now| key.decide_at(n, now).map(|_| ()))?;
    }

    /// A limit that makes nothing: what remains and what was spent are the burst.
    #[test]
    fn without_a_rate_what_remains_and_what_was_spent_are_the_burst(
        burst in 1..100_u64, costs in prop::collection::vec(0..20_u64, 1..40),
    ) {
        let limiter = Limiter::local_with(Limit::ZERO, burst, clock()).expect("a limit");
        let mut spent = 0;
        for n in costs {
            let decision = limiter.decide(n);
            spent += decision.outcome.map_or(0, |admission| admission.tokens);
            let info = decision.info.expect("there is a limit");
            prop_assert_eq!((info.remaining + spent, info.limit, info.reset), (burst, burst, None));
            prop_assert_eq!(decision.retry_after(), None);
        }
    }

    /// The use of a window and the rest of it are its limit, and a refused caller that waits is admitted.
    #[test]
    fn the_figures_of_windows_are_a_models(
        limit in 1..20_u64, asks in prop::collection::vec((0..400_u64, 0..8_u64), 1..40),
    ) {
        let second = Duration::from_secs(1);
        let fixed = FixedWindow::with_clock(limit, second, clock()).expect("a window");
        let log = SlidingLog::with_clock(limit, second, clock()).expect("a log");
        let counter = SlidingCounter::with_clock(limit, second, clock()).expect("a counter");
        let (mut fixed_used, mut log_used) = (Vec::new(), Vec::new());
        let mut now = START;
        for (gap, n) in asks {
            now = now.after(Span::from_millis(gap));
            let within = |used: &[(Tick, u64)], from: u64| -> u64 {
                let inside = used.iter().filter(|(at, _)| at.nanos() > from);
                inside.map(|(_, n)| n).sum()
            };
            let index = now.nanos() / second.as_nanos() as u64;
            let decision = fixed.decide_at(n, now);
            if decision.is_admitted() {
                fixed_used.push((now, n));
            }
            let used = within(&fixed_used, (index * second.as_nanos() as u64).saturating_sub(1));
            prop_assert_eq!(figures(&decision), (limit, limit - used));
            let fixed_refused = decision.retry_after();
            let decision = log.decide_at(n, now);
            if decision.is_admitted() {
                log_used.push((now, n));
            }
            let used = within(&log_used, now.nanos() - second.as_nanos() as u64);
            prop_assert_eq!(figures(&decision), (limit, limit - used));
            let log_refused = decision.retry_after();
            let (decision, after) = (counter.decide_at(n, now), counter.info_at(now));
            prop_assert_eq!(decision.info, after);
            for (limit, refused) in [(&fixed as &dyn Combine, fixed_refused), (&log, log_refused)] {
                let Some(wait) = refused.filter(|_| n > 0) else { continue };
                let wait = wait.as_nanos() as u64;
                prop_assert!(limit.peek_at(n, now.after(Span::from_nanos(wait))).is_ok());
                prop_assert!(limit.peek_at(n, now.after(Span::from_nanos(wait - 1))).is_err());
            }
        }
    }

    /// A pacer has one turn at a time, and says when the next one is due.
    #[test]
    fn the_figures_of_a_pacer_are_a_models(
        interval in 1..2_000_000_000_u64, asks in prop::collection::vec((0..2_000_000_000_u64, 0..4_u64), 1..40),
    ) {
        let pacer = Pacer::with_clock(Duration::from_nanos(interval), 0, clock()).expect("a pacer");
        let (mut now, mut next) = (START, 0);
        for (gap, n) in asks {
            now = now.after(Span::from_nanos(gap));
            let decision = pacer.decide_at(n, now);
            prop_assert_eq!(decision.is_admitted(), next <= now.nanos());
            if decision.is_admitted() {
                next = now.nanos() + n * interval;
            }
            let wait = Duration::from_nanos(next.saturating_sub(now.nanos()));
            let info = decision.info.expect("a pacer");
            prop_assert_eq!((info.remaining, info.reset), (u64::from(wait.is_zero()), Some(wait)));
            if !decision.is_admitted() {
                prop_assert_eq!(decision.retry_after(), Some(wait));
            }
        }
    }
}

fn figures(decision: &Decision<Receipt>) -> (u64, u64) {
    let info = decision.info.expect("a window");
    (info.limit, info.remaining)
}

/// Four threads take all tokens of a limit that makes none. If each admission has the figures of its own swap, each
/// number of remaining tokens occurs once.
fn each_remaining_is_reported_once(tokens: u64, decide: impl Fn() -> Decision<()> + Sync) {
    let state = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut state = Vec::new();
                    loop {
                        let decision = decide();
                        let left = decision.info.expect("there is a limit").remaining;
                        match decision.outcome {
                            Ok(()) => state.push(left),
                            Err(_) => return (state, left),
                        }
                    }
                })
            })
            .collect();
        let threads = threads.into_iter().map(|thread| thread.join());
        let threads = threads.map(|state| state.expect("no panic"));
        threads.fold(Vec::new(), |mut all, (state, last)| {
            assert_eq!(last, 0, "a refusal found nothing");
            all.extend(state);
            all
        })
    });
    let mut state = state;
    state.sort_unstable();
    assert!(state.into_iter().eq(0..tokens));
}

#[test]
fn each_decision_has_the_figures_that_it_left_itself() {
    const TOKENS: u64 = 20_000;
    let limiter = Limiter::local_with(Limit::ZERO, TOKENS, clock()).expect("a limit");
    each_remaining_is_reported_once(TOKENS, || limiter.decide(1).map(|_| ()));
    // Permits that are not released.
    let permits = Limiter::local_permits(TOKENS).expect("permits");
    each_remaining_is_reported_once(TOKENS, || permits.decide_permit().map(std::mem::forget));
    let permits = Limiter::local_permits(TOKENS).expect("permits");
    each_remaining_is_reported_once(TOKENS, || {
        let at_once = permits.decide_permit_within(Duration::ZERO);
        let at_once = at_once.now_or_never().expect("nothing is waited for");
        at_once.map(std::mem::forget)
    });
    let store = Keyed::builder(Limit::ZERO, TOKENS, 16).clock(clock());
    let store = store.seed(7).build().expect("a store");
    let key = store.bucket("user/7");
    each_remaining_is_reported_once(TOKENS, || key.decide_at(1, START).map(|_| ()));
    let window = FixedWindow::with_clock(TOKENS, Duration::from_secs(1), clock());
    let window = window.expect("a window");
    each_remaining_is_reported_once(TOKENS, || window.decide_at(1, START).map(|_| ()));
    let counter = SlidingCounter::with_clock(TOKENS, Duration::from_secs(1), clock());
    let counter = counter.expect("a counter");
    each_remaining_is_reported_once(TOKENS, || counter.decide_at(1, START).map(|_| ()));
    let log = SlidingLog::with_clock(TOKENS, Duration::from_secs(1), clock()).expect("a log");
    each_remaining_is_reported_once(TOKENS, || log.decide_at(1, START).map(|_| ()));
}

/// Permits in flight and those that remain are all there are, and a refusal finds none.
#[test]
fn a_decision_on_a_permit_tells_what_it_left() {
    let limiter = Limiter::local_permits(3).expect("permits");
    let state = || {
        let decision = limiter.decide_permit();
        let info = decision.info.expect("there is a limit");
        assert_eq!((info.limit, info.window, info.reset), (3, None, None));
        (decision.outcome.ok(), info.remaining)
    };
    let (first, left) = state();
    assert_eq!((first.is_some(), left), (true, 2));
    let held = [state(), state()];
    assert_eq!(held.each_ref().map(|(_, left)| *left), [1, 0]);
    let (none, left) = state();
    assert_eq!((none.is_none(), left), (true, 0));
    drop(first);
    assert_eq!(state().1, 0);
    drop(held);
    assert_eq!(state().1, 2);
}

#[test]
fn several_limits_answer_with_the_one_that_decides() {
    let limiter = |per_sec, burst| {
        Limiter::local_with(Limit::per_sec(per_sec), burst, clock()).expect("a limit")
    };
    let (wide, narrow, slow) = (limiter(100, 50), limiter(10, 5), limiter(1, 8));
    let limits = Combined::of([("wide", &wide), ("narrow", &narrow), ("slow", &slow)]);
    let state = |n| {
        let decision = limits.decide(n);
        let (name, LimitInfo { remaining, .. }) = decision.info.expect("all are known");
        let refused = decision.outcome.err().map(|no| (no.limit, no.refused));
        (name, remaining, refused)
    };
    // The fewest tokens left.
    assert_eq!(state(2), ("narrow", 3, None));
    // `narrow` refuses, and `wide` before it is as if it had not been asked.
    let refused = Refused {
        retry_after: Some(Duration::from_millis(200)),
        ..Refused::from(Reason::Throttled)
    };
    assert_eq!(state(5), ("narrow", 3, Some(("narrow", refused))));
    assert_eq!(wide.decide(0).info.map(|info| info.remaining), Some(48));
    // Both refuse, and `slow` for longer.
    let (name, remaining, refused) = state(7);
    let (limit, refused) = refused.expect("neither has as many");
    assert_eq!((name, limit, remaining), ("narrow", "narrow", 3));
    assert!(refused.is_never());
    assert_eq!(state(3), ("narrow", 0, None));
    assert_eq!(state(1).0, "narrow");
    assert_eq!(state(4).2.map(|(limit, _)| limit), Some("slow"));
    assert_eq!((state(4).0, state(4).1), ("slow", 3));
}

#[test]
fn a_cost_of_nothing_looks_and_takes_nothing() {
    let limiter = Limiter::local_with(Limit::per_sec(1), 3, clock()).expect("a limit");
    assert!(limiter.decide(2).is_admitted());
    for _ in 0..3 {
        let look = limiter.decide(0);
        assert!(look.is_admitted());
        assert_eq!(look.info.map(|info| info.remaining), Some(1));
    }
    let open = Limiter::local_with(Limit::UNLIMITED, 0, clock()).expect("a limit");
    assert_eq!(open.decide(5).info, None, "there is no limit in force");
}

#[test]
fn what_is_taken_here_is_what_a_decision_would_take() {
    let clock = clock();
    let limiter = || Limiter::local_with(Limit::per_sec(10), 5, clock.clone()).expect("a limit");
    let (decided, taken) = (limiter(), limiter());
    for n in [0, 2, 4, 3, 1, 6, 0] {
        let (decision, here) = (decided.decide(n), taken.take_here(n));
        let admitted = decision.outcome.is_ok();
        let here = here.map(|(receipt, info)| (receipt.tokens(), info));
        assert_eq!(here, admitted.then_some((n, decision.info)), "{n} tokens");
        clock.advance(Duration::from_millis(30));
    }
    assert_eq!(decided.tokens(), taken.tokens());
}
