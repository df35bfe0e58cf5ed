//! Callers that wait for a leased part, and callers that need not begin to; with a manual clock.
//!
//! They stand here because they hand a share to a limiter without a session, which is not public.

use super::super::{Limiter, Settled};
use crate::bucket::BucketDecider;
use crate::clock::{Clock, ManualClock, Source};
use crate::limiter::key_state::KeyState;
use crate::limiter::refused::{Admission, Excess, Reason, Refused};
use crate::limiter::session_requests::{Answer, DecisionCall, Grant, SessionRequest};
use crate::limiter::shared::{ClockPolicy, Handle, Shared};
use crate::local::breaker::Circuit;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use futures_util::FutureExt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

mod lapse;
mod largest;
mod modes;
mod probe;
mod quota;

/// A limiter that holds a part of a budget of 1,000/s with a burst of 100.
struct Part {
    limiter: Limiter,
    decider: BucketDecider,
    clock: ManualClock,
}

fn terms() -> Terms {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("1000/s".into()),
        burst: Some("100".into()),
        ..BudgetDraft::default()
    };
    Terms::from(&draft.validate().expect("a valid budget"))
}

impl Part {
    /// A limiter whose budget is not known.
    fn cold() -> Self {
        let clock = ManualClock::new();
        let handle = Handle::detached(Arc::new(clock.clone()));
        Self::with(handle, clock)
    }

    fn with(handle: Handle, clock: ManualClock) -> Self {
        let key_state = Arc::new(KeyState::new("a"));
        handle.shared.set_lease(Tick::NEVER);
        Self {
            decider: BucketDecider::new(Arc::clone(&key_state)),
            limiter: Limiter::new(key_state, handle),
            clock,
        }
    }

    /// A part with this rate and burst, full.
    fn of(per_sec: u64, burst: u64) -> Self {
        let mut part = Self::cold();
        part.agree(terms());
        part.deposit(per_sec, burst);
        part
    }

    fn agree(&mut self, terms: Terms) {
        let now = self.clock.now();
        self.decider.agree(&terms, Span::ZERO, now);
        self.decider.admit_by(Right::Leased, PeriodId::new(0), now);
    }

    fn deposit(&mut self, per_sec: u64, burst: u64) {
        let grains = terms().scale.grains_per_token();
        let burst = Tokens::from_grains(burst * grains);
        let share = Share {
            rate: Rate::from_grains(per_sec * grains),
            burst,
            tokens: burst,
        };
        self.decider.deposit(share, self.clock.now());
    }
}

fn reason(outcome: Option<Result<Admission, Refused>>) -> Option<Reason> {
    outcome.map(|outcome| outcome.expect_err("it cannot be").reason)
}

#[test]
fn more_than_the_whole_burst_is_refused_at_once_and_more_than_the_part_is_waited_for() {
    let mut part = Part::of(100, 10);
    let limiter = part.limiter.clone();
    let at_once = |n| limiter.acquire(n).now_or_never();
    assert_eq!(reason(at_once(101)), Some(Reason::ExceedsBurst));
    let most = Duration::from_millis(1);
    let within = limiter.acquire_within(101, most).now_or_never();
    assert_eq!(reason(within), Some(Reason::ExceedsBurst));
    // A larger part is waited for, up to one second.
    let mut waits = pin!(limiter.acquire(100));
    assert!(waits.as_mut().now_or_never().is_none());
    part.clock.advance(Duration::from_millis(999));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(
        reason(at_once(101)),
        Some(Reason::ExceedsBurst),
        "even while callers wait"
    );
    part.deposit(900, 90);
    let served = waits.as_mut().now_or_never().expect("the rest has come");
    assert_eq!(served.map(|admission| admission.tokens), Ok(100));
}

#[test]
fn tokens_that_no_node_brings_are_waited_for_at_most_a_second() {
    let part = Part::of(100, 10);
    let mut waits = pin!(part.limiter.acquire(11));
    assert!(waits.as_mut().now_or_never().is_none());
    part.clock.advance(Duration::from_millis(1_000));
    assert_eq!(
        reason(waits.as_mut().now_or_never()),
        Some(Reason::ExceedsBurst)
    );
}

#[test]
fn a_wait_for_more_than_the_burst_ends_once_the_burst_is_known() {
    let mut part = Part::cold();
    let limiter = part.limiter.clone();
    // A handle without a session has a cold wait of zero, and a caller that names a time waits as long.
    assert_eq!(
        reason(limiter.acquire(101).now_or_never()),
        Some(Reason::Cold)
    );
    let mut waits = pin!(limiter.acquire_within(101, Duration::from_secs(1)));
    assert!(waits.as_mut().now_or_never().is_none());
    part.clock.advance(Duration::from_secs(1));
    assert_eq!(reason(waits.as_mut().now_or_never()), Some(Reason::Cold));
    part.agree(Terms {
        largest: Tokens::ZERO,
        ..terms()
    });
    part.deposit(100, 10);
    // While the largest cost is not known, a large one waits.
    let mut waits = pin!(limiter.acquire(101));
    assert!(waits.as_mut().now_or_never().is_none());
    part.agree(terms());
    assert_eq!(
        reason(waits.as_mut().now_or_never()),
        Some(Reason::ExceedsBurst)
    );
}

#[test]
fn a_wait_that_cannot_meet_its_deadline_fails_at_once() {
    let part = Part::of(100, 10);
    let limiter = part.limiter.clone();
    assert!(limiter.try_acquire(10).is_ok());
    let within = |n, millis| limiter.acquire_within(n, Duration::from_millis(millis));
    let late = within(5, 49).now_or_never();
    assert_eq!(reason(late), Some(Reason::Throttled));
    // Rounding is against the caller, so a wait is a little longer than 50 ms.
    let mut first = pin!(within(5, 51));
    assert!(first.as_mut().now_or_never().is_none());
    // Time makes 5 tokens in 50 ms, but the first caller gets these.
    let refused = within(5, 99).now_or_never().expect("at once");
    let refused = refused.expect_err("too late");
    assert_eq!(refused.reason, Reason::Throttled);
    let wait = refused.retry_after.expect("a wait").as_millis();
    assert!((100..102).contains(&wait), "{wait}");
    let mut second = pin!(within(5, 102));
    assert!(second.as_mut().now_or_never().is_none());
    part.clock.advance(Duration::from_millis(51));
    let served = |of: Option<Result<Admission, Refused>>| of.is_some_and(|of| of.is_ok());
    assert!(served(first.as_mut().now_or_never()));
    assert!(second.as_mut().now_or_never().is_none());
    part.clock.advance(Duration::from_millis(51));
    assert!(served(second.as_mut().now_or_never()));
}

/// A caller that waited for `n` tokens of a part of 100/s with a burst of 50, and settles for `cost` after
/// `then` happened to the part.
fn settled(n: u64, cost: u64, then: impl FnOnce(&mut Part)) -> (Settled, u64) {
    let mut part = Part::of(100, 50);
    assert!(part.limiter.try_acquire(50).is_ok());
    let limiter = part.limiter.clone();
    let mut waits = pin!(limiter.acquire_to_settle(n));
    assert!(waits.as_mut().now_or_never().is_none());
    // Rounding is against the caller.
    let made = Duration::from_millis(10 * n) + Duration::from_micros(1);
    part.clock.advance(made);
    let call = waits.now_or_never().expect("made").expect("served");
    assert_eq!((call.tokens(), call.delay()), (n, Duration::ZERO));
    then(&mut part);
    let settled = call.settle(cost);
    let now = part.clock.now();
    let missing = limiter.missing_at(now).ceil() as u64;
    (settled, missing)
}

#[test]
fn tokens_waited_for_are_settled_in_their_share() {
    let back = |restored| Settled { restored, taken: 0 };
    assert_eq!(settled(20, 5, |_| {}), (back(15), 35));
    let more = Settled {
        restored: 0,
        taken: 15,
    };
    assert_eq!(settled(20, 35, |_| {}), (more, 65));
    // The end or the renewal of a lease does not change what was taken.
    let lapsed = |part: &mut Part| {
        let now = part.clock.now();
        part.decider.admit_by(Right::Never, PeriodId::new(0), now);
    };
    assert_eq!(settled(20, 5, lapsed), (back(15), 35));
    // Forty of the fifty missing tokens went with the recalled part, so the remaining ten can be put back.
    let recalled = |part: &mut Part| {
        let (now, grains) = (part.clock.now(), terms().scale.grains_per_token());
        let burst = Tokens::from_grains(40 * grains);
        part.decider.withdraw(Rate::ZERO, burst, now);
    };
    let (settled_so, missing) = settled(20, 0, recalled);
    assert!(
        (9..=10).contains(&(settled_so.restored + missing)),
        "{settled_so:?}, {missing} missing"
    );
}

#[test]
fn nothing_is_put_back_under_another_edge_and_nothing_owed_to_it() {
    let nothing = Settled {
        restored: 0,
        taken: 0,
    };
    let another = |part: &mut Part| {
        let now = part.clock.now();
        part.decider.replace(Share::EMPTY, now);
        part.deposit(100, 50);
    };
    for cost in [0, 35] {
        assert_eq!(settled(20, cost, another), (nothing, 0));
    }
}

/// A request granted by the home node turns out to cost more, before or after the budget is dealt again.
#[test]
fn debt_to_a_home_is_charged_to_the_next_share() {
    for late in [false, true] {
        let mut part = Part::of(100, 50);
        part.agree(Terms {
            central_mode: true,
            ..terms()
        });
        let dealt = |part: &mut Part| part.agree(terms());
        let owe = |part: &Part| {
            let now = part.clock.now();
            assert_eq!(part.limiter.owe_at_home(30, now), 30);
        };
        match late {
            true => {
                dealt(&mut part);
                owe(&part);
            }
            false => {
                owe(&part);
                assert_eq!(part.limiter.missing_at(part.clock.now()), 0.0);
                dealt(&mut part);
            }
        }
        assert_eq!(part.limiter.missing_at(part.clock.now()).ceil(), 30.0);
        dealt(&mut part);
        assert_eq!(part.limiter.missing_at(part.clock.now()).ceil(), 30.0);
        // A part that owes tokens already owes these as well.
        owe(&part);
        owe(&part);
        assert_eq!(part.limiter.missing_at(part.clock.now()).ceil(), 90.0);
    }
}

/// A part of a budget in central mode, and the questions to its home node.
struct Kept {
    part: Part,
    shared: Arc<Shared>,
    requests: mpsc::UnboundedReceiver<SessionRequest>,
}

impl Kept {
    const HURRY: Duration = Duration::from_millis(1);

    fn new() -> Self {
        let (clock, (outlet, requests)) = (ManualClock::new(), mpsc::unbounded_channel());
        let source = Source::Other(Arc::new(clock.clone()));
        let cold = Duration::from_millis(50);
        let shared = Arc::new(Shared::new(source, ClockPolicy::Exact, cold, 0, outlet));
        let (commands, _) = mpsc::channel(1);
        let handle = Handle {
            shared: Arc::clone(&shared),
            commands,
        };
        let mut part = Part::with(handle, clock);
        part.agree(Terms {
            central_mode: true,
            ..terms()
        });
        Self {
            part,
            shared,
            requests,
        }
    }

    /// Receives the next question, as a session does.
    fn asked(&mut self) -> Option<DecisionCall> {
        let call = std::iter::from_fn(|| self.requests.try_recv().ok());
        let mut call = call.filter_map(|request| match request {
            SessionRequest::Decide(call) => Some(call),
            _ => None,
        });
        let call = call.next()?;
        self.shared.unanswered_since.asked(self.part.clock.now());
        Some(call)
    }

    /// Asks, and gives up before an answer can arrive. Returns true if the home node was asked at all.
    fn hurry(&mut self) -> bool {
        let limiter = self.part.limiter.clone();
        let mut waits = pin!(limiter.acquire_within(1, Self::HURRY));
        let outcome = waits.as_mut().now_or_never();
        let call = self.asked();
        let asked = call.is_some();
        assert_eq!(outcome.is_none(), asked, "who does not ask does not wait");
        self.part.clock.advance(Self::HURRY);
        let outcome = outcome.or_else(|| waits.now_or_never());
        assert_eq!(reason(outcome), Some(Reason::Undecided));
        asked
    }

    fn circuit(&self) -> Circuit {
        self.shared.breaker.circuit()
    }
}

#[test]
fn a_caller_that_leaves_early_is_no_failure_of_the_home() {
    let mut kept = Kept::new();
    for _ in 0..2_000 {
        assert!(kept.hurry());
        // The answer arrives all the same.
        kept.shared.unanswered_since.clear();
    }
    assert_eq!(kept.circuit(), Circuit::Closed);
}

#[test]
fn unanswered_callers_in_a_hurry_open_the_breaker() {
    let mut kept = Kept::new();
    for _ in 0..699 {
        assert!(kept.hurry());
    }
    assert_eq!(kept.circuit(), Circuit::Closed);
    (0..8).for_each(|_| assert!(kept.hurry()));
    assert!(matches!(kept.circuit(), Circuit::Open(_)));
    assert!(!kept.hurry());
    // The trial gives up, too, so the next one comes later still.
    kept.part.clock.advance(Duration::from_millis(200));
    assert!(kept.hurry() && !kept.hurry());
    kept.part.clock.advance(Duration::from_millis(200));
    assert!(!kept.hurry());
    kept.part.clock.advance(Duration::from_millis(200));
    // Now an answer arrives, after its caller has gone. The next caller gives up without a result, so another
    // may try at once.
    kept.shared.unanswered_since.clear();
    assert!(kept.hurry() && kept.hurry());
    // And one caller is answered in time.
    let limiter = kept.part.limiter.clone();
    let mut waits = pin!(limiter.acquire_within(1, Kept::HURRY));
    assert!(waits.as_mut().now_or_never().is_none());
    let now = kept.part.clock.now();
    let grant = Grant {
        asked_at: now,
        heard_at: now,
        period: PeriodId::new(0),
        left: None,
        booking: None,
    };
    let call = kept.asked().expect("a question");
    let told = call.reply.send(Answer::Admitted(grant));
    assert!(told.is_ok() && waits.now_or_never().is_some_and(|of| of.is_ok()));
    assert_eq!(kept.circuit(), Circuit::Closed);
}
