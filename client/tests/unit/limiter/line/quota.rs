//! Quotas whose period is spent: what callers are told, and for how long.

use super::*;
use crate::http::layer::{PermitBody, RateLimitLayer};
use aliquot_core::central::Reason as Why;
use aliquot_core::holder::PeriodEnd;
use http::{Request, Response};
use tower::ServiceExt;

/// Returns a limiter that holds `held` tokens of a quota of a thousand a day. The day ends in 36,000.2 seconds.
fn daily(held: u64) -> Part {
    let mut part = Part::cold();
    part.agree(a_thousand_a_day());
    part.clock.advance(Duration::from_secs(1_000));
    part.escrow(held);
    part.ends(Duration::from_millis(36_000_200), false);
    part
}

fn a_thousand_a_day() -> Terms {
    let draft = BudgetDraft {
        key: "a".into(),
        quota: Some("1000 per day".into()),
        ..BudgetDraft::default()
    };
    Terms::from(&draft.validate().expect("a valid budget"))
}

impl Part {
    fn escrow(&mut self, tokens: u64) {
        let tokens = Tokens::from_grains(tokens * a_thousand_a_day().scale.grains_per_token());
        let part = Share {
            burst: tokens,
            tokens,
            ..Share::EMPTY
        };
        self.decider.deposit(part, self.clock.now());
    }

    fn ends(&mut self, rest: Duration, exhausted: bool) {
        let rest = Span::from_nanos(rest.as_nanos() as u64);
        let at = self.clock.now().after(rest);
        self.decider.period_ends(Some(PeriodEnd { at, exhausted }));
    }

    /// Returns the answer of a layer to one request, after the time in which a node could bring more.
    fn answer(&self) -> Response<String> {
        let service = tower::service_fn(async |_: Request<()>| {
            Ok::<_, std::convert::Infallible>(Response::new(String::new()))
        });
        let layer = RateLimitLayer::new(self.limiter.clone()).problems();
        let limited = tower_layer::Layer::layer(&layer, service);
        let mut answer = pin!(limited.oneshot(Request::new(())));
        if let Some(answer) = answer.as_mut().now_or_never() {
            let answer = answer.expect("it never fails");
            return answer.map(PermitBody::into_inner);
        }
        self.clock.advance(Duration::from_millis(250));
        let answer = answer.now_or_never().expect("that was long enough");
        let answer = answer.expect("it never fails");
        answer.map(PermitBody::into_inner)
    }
}

fn fields(answer: &Response<String>) -> [Option<&str>; 3] {
    ["ratelimit-policy", "ratelimit", "retry-after"]
        .map(|name| answer.headers().get(name)?.to_str().ok())
}

const POLICY: Option<&str> = Some("\"share\";q=1000;w=86400");

#[test]
fn a_spent_daily_quota_is_answered_with_the_end_of_the_day() {
    let mut part = daily(2);
    let ok = part.answer();
    assert_eq!(ok.status(), 200);
    assert_eq!(fields(&ok), [POLICY, Some("\"share\";r=1;t=36001"), None]);
    assert_eq!(part.answer().status(), 200);
    // The escrow is spent, and the budget has more: it may come at any time.
    let refused = part.answer();
    assert_eq!(refused.status(), 429);
    assert_eq!(
        fields(&refused),
        [POLICY, Some("\"share\";r=0;t=1"), Some("1")]
    );
    // The whole budget is given away.
    part.ends(Duration::from_millis(36_000_200), true);
    let spent = [POLICY, Some("\"share\";r=0;t=36001"), Some("36001")];
    assert_eq!(fields(&part.answer()), spent);
    // Also at once, while another caller has just waited in vain, and at the last second.
    assert_eq!(fields(&part.answer()), spent);
    part.clock.advance(Duration::from_secs(35_999));
    let refused = part.answer();
    assert_eq!(fields(&refused)[2], Some("1"));
    // The next period has an end of its own, and tokens.
    part.ends(Duration::from_secs(86_400), false);
    part.escrow(1);
    let ok = part.answer();
    assert_eq!(fields(&ok), [POLICY, Some("\"share\";r=0;t=86400"), None]);
}

/// The length of a month or a year is the usual one: the rest of the running one is told besides.
#[test]
fn the_period_of_a_quota_is_its_window() {
    for (quota, window) in [
        ("1000 per minute", 60),
        ("1000 per hour", 3_600),
        ("1000 per week", 604_800),
        ("1000 per month", 2_592_000),
        ("1000 per year", 31_536_000),
        ("1000 per 36h", 129_600),
        ("1000 per 1500ms", 2),
    ] {
        let mut part = Part::cold();
        let draft = BudgetDraft {
            key: "a".into(),
            quota: Some(quota.into()),
            ..BudgetDraft::default()
        };
        let terms = Terms::from(&draft.validate().expect("a valid budget"));
        part.agree(terms);
        let whole = Some((1_000, Some(window)));
        assert_eq!(part.limiter.whole_limit(), whole, "{quota}");
        part.agree(Terms {
            written: None,
            ..terms
        });
        assert_eq!(part.limiter.whole_limit(), Some((1_000, None)));
    }
}

#[test]
fn a_period_that_is_over_is_told_no_more() {
    let mut part = daily(0);
    part.ends(Duration::from_secs(5), true);
    let refused = part.limiter.decide(1);
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(5)));
    part.clock.advance(Duration::from_secs(5));
    let refused = part.limiter.decide(1);
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(refused.info.and_then(|info| info.reset), None);
}

#[test]
fn what_remains_of_an_escrow_and_what_was_spent_are_the_escrow() {
    let part = daily(10);
    let end = Duration::from_nanos(36_000_200_000_000);
    let mut spent = 0;
    for n in [3, 0, 4, 5, 2, 1, 1, 7] {
        let decision = part.limiter.decide(n);
        spent += decision.outcome.map_or(0, |admission| admission.tokens);
        let info = decision.info.expect("a limit");
        assert_eq!((info.remaining + spent, info.limit), (10, 1_000));
        assert_eq!((info.window, info.reset), (Some(86_400), Some(end)));
    }
    assert_eq!(spent, 10);
}

#[test]
fn a_cost_above_the_quota_is_never_admitted_in_any_period() {
    let mut part = daily(10);
    for exhausted in [false, true] {
        part.ends(Duration::from_secs(100), exhausted);
        let never = part.limiter.decide(1_001);
        assert_eq!(never.retry_after(), None);
        assert!(never.refused().is_some_and(Refused::is_never));
        let within = part.limiter.decide_within(1_001, Duration::MAX);
        let within = within.now_or_never().expect("at once");
        assert!(within.refused().is_some_and(Refused::is_never));
        // More than is held here, but not more than a day has.
        let later = part.limiter.decide(11);
        let expect = Duration::from_secs(if exhausted { 100 } else { 1 });
        assert_eq!(later.retry_after(), Some(expect));
    }
}

/// In central mode the home node says what is left, and when there is more.
#[test]
fn the_home_node_tells_what_is_left_and_when_the_period_ends() {
    let mut kept = Kept::new();
    kept.part.agree(Terms {
        central_mode: true,
        ..a_thousand_a_day()
    });
    kept.part.ends(Duration::from_secs(500), true);
    let limiter = kept.part.limiter.clone();
    let mut asks = pin!(limiter.decide_within(2, Duration::MAX));
    assert!(asks.as_mut().now_or_never().is_none());
    let now = kept.part.clock.now();
    let grant = Grant {
        asked_at: now,
        heard_at: now,
        period: PeriodId::new(1),
        left: Some(7),
        booking: None,
    };
    let call = kept.asked().expect("nothing is held here");
    assert!(call.reply.send(Answer::Admitted(grant)).is_ok());
    let admitted = asks.now_or_never().expect("an answer");
    assert!(admitted.is_admitted());
    let info = admitted.info.expect("the home told it");
    let rest = Some(Duration::from_secs(500));
    assert_eq!((info.limit, info.remaining, info.reset), (1_000, 7, rest));
    assert_eq!(info.window, Some(86_400));
    assert_eq!(limiter.whole_limit(), Some((1_000, Some(86_400))));
    let mut asks = pin!(limiter.decide_within(8, Duration::MAX));
    assert!(asks.as_mut().now_or_never().is_none());
    let spent = Answer::Refused {
        reason: Why::Spent,
        // By the node's clock. The client's own has a margin for drift as well, and both are told as one.
        retry_after: Some(Span::from_millis(499_500)),
        left: Some(7),
    };
    let call = kept.asked().expect("nothing is held here");
    assert!(call.reply.send(spent).is_ok());
    let refused = asks.now_or_never().expect("an answer");
    assert_eq!(refused.retry_after(), rest);
    assert_eq!(refused.info.map(|info| info.remaining), Some(7));
    // Repeated without a question, with the same wait.
    let again = limiter.decide_within(9, Duration::MAX).now_or_never();
    assert_eq!(again.and_then(|again| again.retry_after()), rest);
    // A cost above the quota is refused for good.
    let never = limiter.decide_within(1_001, Duration::MAX).now_or_never();
    let never = never.expect("nothing is asked");
    assert!(never.refused().is_some_and(Refused::is_never), "{never:?}");
    assert_eq!(never.retry_after(), None);
    let look = limiter.decide_within(0, Duration::MAX).now_or_never();
    let look = look.expect("nothing is asked");
    assert!(look.is_admitted());
    assert_eq!(look.info.map(|info| info.remaining), Some(7));
}

/// An answer may be hours old where only a share that was given back decided since.
#[test]
fn a_look_asks_again_where_a_share_decides() {
    let mut kept = Kept::new();
    kept.part.agree(a_thousand_a_day());
    let limiter = kept.part.limiter.clone();
    limiter.key_state.home.has_left(Some(7));
    let mut looks = pin!(limiter.decide_within(0, Duration::MAX));
    assert!(looks.as_mut().now_or_never().is_none());
    let told = Answer::Refused {
        reason: Why::ExceedsBurst(1_000),
        retry_after: None,
        left: Some(900),
    };
    let call = kept.asked().expect("a look");
    assert!(call.reply.send(told).is_ok());
    let look = looks.now_or_never().expect("an answer");
    assert!(look.is_admitted());
    assert_eq!(look.info.map(|info| info.remaining), Some(900));
    // A node that has nothing yet does not know what is left. The share that it gets then tells.
    let mut looks = pin!(limiter.decide_within(0, Duration::MAX));
    assert!(looks.as_mut().now_or_never().is_none());
    let call = kept.asked().expect("a look");
    let unknown = Answer::Refused {
        reason: Why::ExceedsBurst(1_000),
        retry_after: None,
        left: None,
    };
    assert!(call.reply.send(unknown).is_ok());
    assert!(looks.as_mut().now_or_never().is_none());
    kept.part.escrow(500);
    let look = looks.now_or_never().expect("a share came");
    assert_eq!(look.info.map(|info| info.remaining), Some(500));
}

#[test]
fn a_home_node_that_does_not_answer_in_time_leaves_it_undecided() {
    let mut kept = Kept::new();
    kept.part.agree(Terms {
        central_mode: true,
        ..a_thousand_a_day()
    });
    let limiter = kept.part.limiter.clone();
    let most = Duration::from_millis(20);
    let mut asks = pin!(limiter.decide_within(1, most));
    assert!(asks.as_mut().now_or_never().is_none());
    assert!(kept.asked().is_some());
    kept.part.clock.advance(most);
    let late = asks.now_or_never().expect("in time");
    assert_eq!(late.refused().map(|no| no.reason), Some(Reason::Undecided));
    let at_once = limiter.decide_within(1, Duration::ZERO).now_or_never();
    let at_once = at_once.expect("no node is asked");
    assert_eq!(
        at_once.refused().map(|no| no.reason),
        Some(Reason::Undecided)
    );
    assert!(kept.asked().is_none());
}
