//! Windows in several processes between which the share moves.
//!
//! They stand here because they hand a share to a limiter without a session, which is not public.

mod paced;

use super::{FixedWindow, Pacer, ShapeError, SlidingCounter, SlidingLog};
use crate::bucket::BucketDecider;
use crate::clock::{ManualClock, Source};
use crate::limiter::Limiter;
use crate::limiter::combined::combine::Combine;
use crate::limiter::key_state::KeyState;
use crate::limiter::refused::{Reason, Refused};
use crate::limiter::shared::{ClockPolicy, Handle, Shared};
use crate::observe::switch::Mode;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::client::{Decider, Right};
use aliquot_core::message::Terms;
use aliquot_core::share::Share;
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const PROCESSES: usize = 3;
const WHOLE: u64 = 6;

/// A process whose clock differs from the others'.
struct Process {
    shared: Arc<Shared>,
    key_state: Arc<KeyState>,
    limiter: Limiter,
    decider: BucketDecider,
    offset: u64,
    lapsed: bool,
    log: SlidingLog,
    counter: SlidingCounter,
    fixed: FixedWindow,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Acquire {
        who: usize,
        n: u64,
    },
    Move {
        from: usize,
        to: usize,
        n: u64,
    },
    Report {
        who: usize,
    },
    /// The lease of `who` ends: all that it holds goes to `to`, and it learns of that later.
    Lapse {
        who: usize,
        to: usize,
    },
    /// The process has a new edge, and holds nothing.
    Return {
        who: usize,
    },
}

fn tokens(n: u64) -> Tokens {
    Tokens::from_grains(n * terms().scale.grains_per_token())
}

fn terms() -> Terms {
    let draft = BudgetDraft {
        key: "a".into(),
        rate: Some("6/s".into()),
        burst: Some(WHOLE.to_string().into()),
        ..BudgetDraft::default()
    };
    Terms::from(&draft.validate().expect("a valid budget"))
}

impl Process {
    fn new(which: u64) -> Self {
        let offset = 1_000_000_000_000 + which * 333_000_000;
        let key_state = Arc::new(KeyState::new("a"));
        let mut decider = BucketDecider::new(Arc::clone(&key_state));
        let clock = ManualClock::new();
        let now = Tick::from_nanos(offset);
        clock.set(now);
        decider.agree(&terms(), Span::ZERO, now);
        decider.admit_by(Right::Leased, PeriodId::new(0), now);
        let handle = Handle::with(Source::Other(Arc::new(clock)), ClockPolicy::Exact);
        let shared = Arc::clone(&handle.shared);
        shared.set_lease(Tick::NEVER);
        let limiter = Limiter::new(Arc::clone(&key_state), handle);
        Self {
            log: SlidingLog::over(&limiter, WHOLE, SECOND).expect("a log"),
            counter: SlidingCounter::over(&limiter, SECOND).expect("a counter"),
            fixed: FixedWindow::over(&limiter, SECOND).expect("a window"),
            shared,
            key_state,
            limiter,
            decider,
            offset,
            lapsed: false,
        }
    }

    fn at(&self, ms: u64) -> Tick {
        Tick::from_nanos(self.offset + ms * 1_000_000)
    }

    fn gain(&mut self, n: u64, ms: u64) {
        let part = Share {
            rate: Rate::ZERO,
            burst: tokens(n),
            tokens: Tokens::ZERO,
        };
        self.decider.deposit(part, self.at(ms));
    }

    /// Gives up to `n` away. Returns how many.
    fn lose(&mut self, n: u64, ms: u64) -> u64 {
        let part = self.decider.withdraw(Rate::ZERO, tokens(n), self.at(ms));
        part.burst.grains() / terms().scale.grains_per_token()
    }

    /// Ends the process's lease; its share now belongs to another process.
    fn lapse(&mut self, ms: u64) -> Share {
        self.lapsed = true;
        self.shared.set_lease(self.at(ms));
        let held = self.decider.share_at(self.at(ms));
        Share {
            tokens: Tokens::ZERO,
            ..held
        }
    }

    /// Gives the process a new edge and a lease.
    fn come_back(&mut self, ms: u64) {
        self.lapsed = false;
        self.decider.replace(Share::EMPTY, self.at(ms));
        self.shared.set_lease(Tick::NEVER);
    }
}

fn fleet() -> Vec<Process> {
    let mut all: Vec<_> = (0..PROCESSES as u64).map(Process::new).collect();
    all[0].gain(WHOLE, 0);
    all
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let op = prop_oneof![
        6 => (0..PROCESSES, 1..4_u64).prop_map(|(who, n)| Op::Acquire { who, n }),
        2 => (0..PROCESSES, 0..PROCESSES, 1..=WHOLE)
            .prop_map(|(from, to, n)| Op::Move { from, to, n }),
        2 => (0..PROCESSES).prop_map(|who| Op::Report { who }),
        1 => (0..PROCESSES, 0..PROCESSES).prop_map(|(who, to)| Op::Lapse { who, to }),
        1 => (0..PROCESSES).prop_map(|who| Op::Return { who }),
    ];
    let gap = prop_oneof![3 => Just(0_u64), 3 => 0..300_u64, 1 => 0..1_500_u64];
    prop::collection::vec((gap, op), 1..150)
}

/// Returns what each of the shapes admits, all processes together: (ms, n).
fn live(ops: &[(u64, Op)]) -> [Vec<(u64, u64)>; 3] {
    let (mut fleet, mut now) = (fleet(), 0);
    let mut taken: [Vec<(u64, u64)>; 3] = Default::default();
    for &(gap, op) in ops {
        now += gap;
        match op {
            Op::Move { from, to, .. } | Op::Lapse { who: from, to }
                if fleet[from].lapsed || fleet[to].lapsed => {}
            Op::Lapse { who, to } if who == to => {}
            Op::Lapse { who, to } => {
                let share = fleet[who].lapse(now);
                let at = fleet[to].at(now);
                fleet[to].decider.deposit(share, at);
            }
            Op::Return { who } if fleet[who].lapsed => fleet[who].come_back(now),
            Op::Return { .. } => {}
            Op::Move { from, to, n } => {
                let n = fleet[from].lose(n, now);
                fleet[to].gain(n, now);
            }
            Op::Report { who } => {
                let at = fleet[who].at(now);
                fleet[who].decider.cancel_overheld(at);
            }
            Op::Acquire { who, n } => {
                let process = &fleet[who];
                let at = process.at(now);
                let answers = [
                    process.log.try_acquire_at(n, at),
                    process.counter.try_acquire_at(n, at),
                    process.fixed.try_acquire_at(n, at),
                ];
                for (taken, answer) in taken.iter_mut().zip(answers) {
                    taken.extend(answer.is_ok().then_some((now, n)));
                }
            }
        }
    }
    taken
}

/// Returns the maximum in any window of a second, open at its end.
fn most_in_a_second(taken: &[(u64, u64)]) -> u64 {
    let from = |first: usize| {
        let end = taken[first].0 + 1_000;
        let within = taken[first..].iter().take_while(|(ms, _)| *ms < end);
        within.map(|(_, n)| n).sum()
    };
    (0..taken.len()).map(from).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_fleet_keeps_to_the_bound_of_one_however_its_share_moves(ops in ops()) {
        let [log, counter, fixed] = live(&ops).map(|taken| most_in_a_second(&taken));
        prop_assert!(log <= WHOLE, "the log: {log}");
        prop_assert!(counter < 2 * WHOLE, "the counter: {counter}");
        prop_assert!(fixed <= 2 * WHOLE, "the window: {fixed}");
    }
}

/// Moves the whole share to the next process as soon as it is used up. Returns the maximum in a second.
fn handed_on(rest: u64) -> u64 {
    let mut fleet = fleet();
    let (mut now, mut taken) = (5_000, Vec::new());
    for (from, to) in [(0, 1), (1, 2)] {
        for who in [from, to] {
            let at = fleet[who].at(now);
            fleet[who].decider.cancel_overheld(at);
        }
        let used = fleet[from].log.try_acquire_at(WHOLE, fleet[from].at(now));
        taken.extend(used.is_ok().then_some((now, WHOLE)));
        let n = fleet[from].lose(WHOLE, now);
        fleet[to].gain(n, now);
        now += rest;
    }
    most_in_a_second(&taken)
}

#[test]
fn a_moved_share_is_not_used_twice_in_one_window() {
    assert_eq!([0, 1, 999].map(handed_on), [WHOLE; 3]);
}

#[test]
fn a_lost_share_counts_no_more_and_a_gained_one_counts_a_window_later() {
    let mut process = Process::new(0);
    let limit = |process: &Process, ms| process.fixed.try_acquire_at(3, process.at(ms)).is_ok();
    process.gain(3, 0);
    assert!(!limit(&process, 900));
    process.decider.cancel_overheld(process.at(1_000));
    assert!(limit(&process, 1_000));
    assert_eq!(process.lose(1, 2_500), 1);
    let refused = process.fixed.try_acquire_at(3, process.at(3_000));
    assert_eq!(refused.map_err(|no| no.reason), Err(Reason::ExceedsBurst));
    assert!(process.fixed.try_acquire_at(2, process.at(3_000)).is_ok());
}

/// No window counts what another right admits, so afterwards the share counts as one that arrives.
#[test]
fn a_share_that_another_right_used_meanwhile_counts_a_window_later() {
    let fixed = |process: &Process, ms| {
        let asked = process.fixed.try_acquire_at(3, process.at(ms));
        asked.map_err(|no| no.reason)
    };
    for right in [Right::Never, Right::Forever, Right::Open] {
        let mut process = Process::new(0);
        process.gain(3, 0);
        process.decider.cancel_overheld(process.at(1_000));
        let mut admit_by = |right, ms| {
            let at = process.at(ms);
            process.decider.admit_by(right, PeriodId::new(0), at);
        };
        admit_by(right, 1_100);
        admit_by(Right::Leased, 1_200);
        assert!(fixed(&process, 2_100).is_err(), "{right:?}");
        process.decider.cancel_overheld(process.at(2_200));
        assert_eq!(fixed(&process, 2_200), Ok(()), "{right:?}");
    }
}

#[test]
fn nothing_is_admitted_without_a_lease() {
    let mut process = Process::new(0);
    process.gain(3, 0);
    process.decider.cancel_overheld(process.at(1_500));
    assert!(process.log.try_acquire_at(1, process.at(1_500)).is_ok());
    process.shared.set_lease(process.at(1_600));
    let no = |answer: Result<(), Refused>| answer.map_err(|no| no.reason);
    let answer = process.log.try_acquire_at(1, process.at(1_600));
    assert_eq!(no(answer), Err(Reason::Lapsed));
    process
        .decider
        .admit_by(Right::Open, PeriodId::new(0), process.at(1_700));
    let answer = process.counter.try_acquire_at(1, process.at(1_700));
    assert_eq!(no(answer), Err(Reason::Lapsed));
}

#[test]
fn windows_over_a_share_obey_its_limiter_s_mode_and_its_client_s() {
    type Set = fn(&Process, Mode);
    let sets: [Set; 2] = [
        |process, mode| process.limiter.set_mode(mode),
        |process, mode| process.key_state.switch.set_client(mode),
    ];
    for set in sets {
        let process = Process::new(0);
        let at = process.at(0);
        let tiers: [&dyn Combine; 3] = [&process.log, &process.counter, &process.fixed];
        for (tier, count) in tiers.into_iter().zip(1..) {
            let no = |answer: Result<(), Refused>| answer.err().map(|no| no.reason);
            let take = || tier.take_at(2, at).map(|receipt| receipt.tokens());
            set(&process, Mode::Enforce);
            assert_eq!(no(take().map(|_| ())), Some(Reason::NoShare));
            for mode in [Mode::DryRun, Mode::Bypass] {
                set(&process, mode);
                assert_eq!(tier.peek_at(2, at), Ok(()));
                assert_eq!(take(), Ok(0), "nothing is taken of what is not there");
            }
            set(&process, Mode::Freeze);
            assert_eq!(no(tier.peek_at(2, at)), Some(Reason::Frozen));
            assert_eq!(no(take().map(|_| ())), Some(Reason::Frozen));
            let mode_stats = process.limiter.mode_stats();
            assert_eq!(
                (mode_stats.let_through, mode_stats.tokens),
                (2 * count, 4 * count)
            );
            assert_eq!(mode_stats.frozen, count);
            // Refused twice, and let through once by a dry run, which also counts as demand; a bypass does
            // not.
            assert_eq!(process.limiter.totals(), [0, 6 * count, 0]);
        }
    }
}

#[test]
fn a_window_does_not_owe_what_a_mode_let_through() {
    let mut process = Process::new(0);
    process.gain(3, 0);
    process.decider.cancel_overheld(process.at(1_000));
    process.limiter.set_mode(Mode::DryRun);
    let take = |process: &Process, n| {
        let receipt = process.fixed.take_at(n, process.at(1_000));
        receipt
            .map(|receipt| receipt.tokens())
            .map_err(|no| no.reason)
    };
    assert_eq!([2, 2].map(|n| take(&process, n)), [Ok(2), Ok(0)]);
    // A frozen limiter refuses, even if tokens are available.
    process.limiter.set_mode(Mode::Freeze);
    assert_eq!(take(&process, 1), Err(Reason::Frozen));
    process.limiter.set_mode(Mode::Enforce);
    assert_eq!(
        [1, 1].map(|n| take(&process, n)),
        [Ok(1), Err(Reason::Throttled)]
    );
}

#[test]
fn a_pacer_over_a_share_has_its_limiter_s_mode() {
    let process = Process::new(0);
    let pacer = Pacer::over(&process.limiter, 100).expect("a pacer");
    let turn = || pacer.book_at(process.at(7)).map(|turn| turn.at());
    pacer.set_mode(Mode::Bypass);
    assert_eq!(turn(), Ok(process.at(7)));
    process.limiter.set_mode(Mode::Freeze);
    assert_eq!(turn().map_err(|no| no.reason), Err(Reason::Frozen));
    assert_eq!(
        (pacer.mode_stats().let_through, pacer.mode_stats().frozen),
        (1, 1)
    );
}

#[test]
fn a_limit_of_a_process_s_own_is_no_share() {
    let own = Limiter::local(crate::Limit::per_sec(1), 1).expect("a limit");
    assert_eq!(
        FixedWindow::over(&own, SECOND).err(),
        Some(ShapeError::NotLeased)
    );
    let over = Process::new(0).fixed;
    assert_eq!(over.set_limit(1), Err(ShapeError::Shared));
}

#[test]
fn turns_are_as_far_apart_as_the_share_makes_tokens() {
    let mut process = Process::new(0);
    let pacer = Pacer::over(&process.limiter, 100).expect("a pacer");
    let refused = pacer.book_at(process.at(0)).map_err(|no| no.reason);
    assert_eq!(refused.err(), Some(Reason::NoShare));
    let rate = |per_sec: u64| Share {
        rate: Rate::from_grains(per_sec * terms().scale.grains_per_token()),
        burst: tokens(1),
        tokens: Tokens::ZERO,
    };
    process.decider.deposit(rate(2), process.at(0));
    // In whole milliseconds: the nanoseconds per token are rounded up.
    let turn = |process: &Process, ms| {
        let booked = pacer.book_at(process.at(ms))?;
        Ok(booked.at().since(process.at(0)).nanos() / 1_000_000)
    };
    assert_eq!(turn(&process, 0), Ok(0));
    assert_eq!(turn(&process, 0), Ok(500));
    // A booked turn keeps its tick, and later ones follow the share at their booking.
    process.decider.deposit(rate(2), process.at(100));
    assert_eq!(turn(&process, 100), Ok(1_000));
    assert_eq!(turn(&process, 100), Ok(1_250));
    process.shared.set_lease(process.at(200));
    let refused = turn(&process, 200).map_err(|no: Refused| no.reason);
    assert_eq!(refused, Err(Reason::Lapsed));
}
