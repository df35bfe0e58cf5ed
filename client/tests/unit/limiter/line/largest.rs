//! The largest waiting cost, as reported: burst may be moved here for it from other parts. And the budget's limit,
//! as told to callers.

use super::*;
use aliquot_core::client::Decider;

/// Returns the tokens waited for, and the largest cost among them.
fn told(part: &mut Part) -> (u64, u64) {
    let observed = part.decider.observed().expect("a limit that is dealt");
    let tokens = |grains| grains / terms().scale.grains_per_token();
    (tokens(observed.waiting), tokens(observed.waiting_largest))
}

#[test]
fn a_large_cost_is_reported_for_as_long_as_it_waits_and_no_longer() {
    let mut part = Part::of(1, 10);
    let limiter = part.limiter.clone();
    assert!(limiter.try_acquire(10).is_ok());
    let waits = |n| {
        let mut waits = Box::pin(limiter.acquire(n));
        assert!(waits.as_mut().now_or_never().is_none());
        waits
    };
    let small = [waits(3), waits(2)];
    let large = waits(9);
    assert_eq!(told(&mut part), (14, 9));
    drop(large);
    assert_eq!(told(&mut part), (5, 3), "the line goes on without it");
    let large = [waits(7), waits(7)];
    let [first, second] = large;
    drop(first);
    assert_eq!(told(&mut part), (12, 7), "another one as large waits");
    drop((small, second));
    assert_eq!(told(&mut part), (0, 0));
}

/// The limit of the budget is 1,000/s with a burst of 100, and a tenth of it is held here.
#[test]
fn a_caller_learns_the_limit_of_the_budget_and_what_is_left_of_the_share() {
    let mut part = Part::of(100, 10);
    assert!(part.limiter.try_acquire(4).is_ok());
    let info = part.limiter.describe().expect("a limit");
    assert_eq!((info.limit, info.window), (1_000, Some(1)));
    assert_eq!(info.remaining, 6);
    // Four tokens of the share, at 100/s, up to what its rate loses by rounding.
    let reset = info.reset.expect("a time").as_nanos();
    assert!((40_000_000..40_001_000).contains(&reset), "{reset}");
    // A node that sends the rate alone, and a node that sends none.
    part.agree(Terms {
        written: None,
        ..terms()
    });
    let info = part.limiter.describe().expect("a limit");
    assert_eq!((info.limit, info.window), (1_000, Some(1)));
    part.agree(Terms {
        rate: Rate::ZERO,
        written: None,
        ..terms()
    });
    let info = part.limiter.describe().expect("a limit");
    assert_eq!((info.limit, info.window), (100, Some(1)));
}

/// Returns a limiter of a budget that was written so, of which a fifth is held here, and its terms.
fn written(rate: &str, burst: u64) -> (Part, Terms) {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some(rate.into()),
        burst: Some(burst.into()),
        ..BudgetDraft::default()
    };
    let budget = draft.validate().expect("a valid budget");
    let (mut part, terms) = (Part::cold(), Terms::from(&budget));
    part.agree(terms);
    let share = Share {
        rate: Rate::from_grains(budget.whole().rate.grains() / 5),
        burst: Tokens::from_grains(budget.whole().burst.grains() / 5),
        tokens: Tokens::ZERO,
    };
    part.decider.deposit(share, part.clock.now());
    (part, terms)
}

/// The rate alone is that of 20 in 12 seconds, and of many other words.
#[test]
fn a_leased_limit_is_told_as_its_author_wrote_it() {
    for (rate, burst, expect, by_rate) in [
        ("100/min", 20, (100, Some(60)), (20, Some(12))),
        ("100/min", 100, (100, Some(60)), (100, Some(60))),
        ("5 per 2m", 5, (5, Some(120)), (5, Some(120))),
        ("3000/h", 10, (3_000, Some(3_600)), (10, Some(12))),
        (
            "1 per 10 days",
            5,
            (5, Some(4_320_000)),
            (5, Some(4_320_000)),
        ),
        // More at once than the words allow.
        ("10/s", 100, (100, Some(10)), (100, Some(10))),
        ("0/s", 5, (5, None), (5, None)),
    ] {
        let (mut part, terms) = written(rate, burst);
        let told = |part: &Part| {
            let info = part.limiter.describe().expect("a limit");
            assert_eq!(part.limiter.whole_limit(), Some((info.limit, info.window)));
            (info.limit, info.window)
        };
        assert_eq!(told(&part), expect, "{rate}, burst {burst}");
        // In central mode by the home node alone, and by no share.
        part.agree(Terms {
            central_mode: true,
            ..terms
        });
        let home = part.limiter.describe_home(Some(2)).expect("a limit");
        assert_eq!(
            (home.limit, home.window, home.remaining),
            (expect.0, expect.1, 2)
        );
        // A node of an earlier version.
        part.agree(Terms {
            written: None,
            ..terms
        });
        if rate != "0/s" {
            assert_eq!(told(&part), by_rate, "{rate}, burst {burst}");
        }
    }
}

#[test]
fn a_cost_above_the_budget_is_never_served_and_one_above_the_share_may_be() {
    let part = Part::of(100, 10);
    let never = part.limiter.try_acquire(101).expect_err("too much");
    assert_eq!(never.excess, Excess::of(101, 100));
    assert_eq!((never.is_never(), never.retry_after), (true, None));
    let later = part.limiter.try_acquire(11).expect_err("more than is held");
    assert_eq!((later.reason, later.excess), (Reason::ExceedsBurst, None));
    let would = part.limiter.would_admit(101).expect_err("too much");
    assert_eq!(would, never);
    let waits = part.limiter.acquire(101).now_or_never();
    assert_eq!(waits.expect("at once"), Err(never));
}

/// However much a caller asks for in vain, the session asks for no larger part on its account.
#[test]
fn a_cost_above_the_budget_asks_for_no_larger_part() {
    let mut part = Part::of(100, 10);
    let lacked = |part: &mut Part| {
        let observed = part.decider.observed().expect("a limit that is dealt");
        observed.denied_largest / terms().scale.grains_per_token()
    };
    for n in [101, 1_000_000] {
        let limiter = &part.limiter;
        assert!(limiter.try_acquire(n).expect_err("too much").is_never());
        assert!(limiter.check(n).now_or_never().expect("at once").is_err());
        assert!(limiter.acquire(n).now_or_never().expect("at once").is_err());
        assert!(limiter.reserve(n).is_err());
        assert_eq!(lacked(&mut part), 0, "{n}");
    }
    assert!(part.limiter.try_acquire(100).is_err());
    assert_eq!(lacked(&mut part), 100, "the budget has as much");
    assert_eq!(lacked(&mut part), 0, "it is told once");
}

/// A client that holds nothing of a budget yet knows its limit.
#[test]
fn a_limit_of_which_nothing_is_held_is_reported_with_nothing_left() {
    let mut part = Part::cold();
    assert_eq!(part.limiter.describe(), None, "nothing is known");
    part.agree(terms());
    let info = part.limiter.describe().expect("the limit is known");
    assert_eq!((info.limit, info.window), (1_000, Some(1)));
    assert_eq!((info.remaining, info.reset), (0, None));
    let refused = part.limiter.decide(1);
    assert!(!refused.is_admitted());
    assert_eq!(refused.info, Some(info));
}

/// Returns a part with one permit, of a budget of five.
fn one_permit() -> Part {
    let draft = BudgetDraft {
        key: "a".into(),
        concurrency: Some("5".into()),
        ..BudgetDraft::default()
    };
    let terms = Terms::from(&draft.validate().expect("a valid budget"));
    let mut part = Part::cold();
    let now = part.clock.now();
    part.decider.agree(&terms, Span::from_secs(60), now);
    part.decider.admit_by(Right::Leased, PeriodId::new(0), now);
    part.decider.gain(Tokens::from_grains(1), now);
    part
}

#[test]
fn a_wait_for_a_leased_permit_is_counted() {
    let part = one_permit();
    let watch = crate::observe::watch::Watch::new();
    let limiter = watch.limiter("jobs", part.limiter.clone());
    let held = limiter.try_permit().expect("one is held here");
    let mut waits = pin!(limiter.permit());
    assert!(waits.as_mut().now_or_never().is_none());
    part.clock.advance(Duration::from_millis(300));
    drop(held);
    let served = waits.as_mut().now_or_never().expect("it is free");
    assert!(served.is_ok());
    let waits = watch.figures()[0].waits;
    assert_eq!(
        (waits.count(), waits.total),
        (1, Duration::from_millis(300))
    );
}

#[test]
fn a_leased_permit_that_is_waited_for_is_not_taken_by_a_later_caller() {
    let part = one_permit();
    let limiter = &part.limiter;
    let held = limiter.try_permit().expect("one is held here");
    let mut waits = pin!(limiter.permit());
    assert!(waits.as_mut().now_or_never().is_none());
    drop(held);
    // It is free, and the waiting caller has not run yet.
    assert_eq!(limiter.peek().level, 1);
    for _ in 0..2 {
        let refused = limiter.try_permit().expect_err("another caller waits");
        assert_eq!(refused.reason, Reason::Permits);
        let decision = limiter.decide_permit();
        assert_eq!(
            decision.refused().map(|no| no.reason),
            Some(Reason::Permits)
        );
    }
    let served = waits.as_mut().now_or_never().expect("it is free");
    drop(served.expect("a permit"));
    assert!(limiter.try_permit().is_ok(), "no caller waits any more");
}
