//! Pacers and meters in several processes between which the share moves.

use super::{PROCESSES, Process, SECOND, WHOLE, terms, tokens};
use crate::limiter::refused::Reason;
use crate::local::shape::{Meter, Pacer};
use aliquot_core::client::Decider;
use aliquot_core::share::Share;
use aliquot_core::unit::{Rate, Span, Tick};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const BILLION: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Asks for `n`, or books a turn; cancels the turn if `cancels`.
    Acquire {
        who: usize,
        n: u64,
        cancels: bool,
    },
    /// Moves `n` tokens of the burst and `n` tokens per second.
    Move {
        from: usize,
        to: usize,
        n: u64,
    },
    Lapse {
        who: usize,
        to: usize,
    },
    Return {
        who: usize,
    },
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let who = 0..PROCESSES;
    let op = prop_oneof![
        12 => (who.clone(), 1..4_u64, prop::bool::weighted(0.2))
            .prop_map(|(who, n, cancels)| Op::Acquire { who, n, cancels }),
        2 => (who.clone(), who.clone(), 1..=WHOLE)
            .prop_map(|(from, to, n)| Op::Move { from, to, n }),
        1 => (who.clone(), who.clone()).prop_map(|(who, to)| Op::Lapse { who, to }),
        1 => who.prop_map(|who| Op::Return { who }),
    ];
    let gap = prop_oneof![4 => Just(0_u64), 3 => 0..300_u64, 1 => 0..2_500_u64];
    prop::collection::vec((gap, op), 1..120)
}

/// Returns a share of `n` tokens per second with capacity for `n` tokens, `held` of which are there.
fn part(n: u64, held: u64) -> Share {
    Share {
        rate: Rate::from_grains(tokens(n).grains()),
        burst: tokens(n),
        tokens: tokens(held),
    }
}

/// Returns a fleet whose first process holds everything.
fn fleet() -> Vec<Process> {
    let mut fleet: Vec<_> = (0..PROCESSES as u64).map(Process::new).collect();
    let at = fleet[0].at(0);
    fleet[0].decider.deposit(part(WHOLE, WHOLE), at);
    fleet
}

/// Moves a share. Returns true if a process has a lower rate than before.
fn deal(fleet: &mut [Process], op: Op, ms: u64) -> bool {
    let (share, to) = match op {
        Op::Move { from, to, n } if !fleet[from].lapsed && !fleet[to].lapsed && from != to => {
            let Share { rate, burst, .. } = part(n, 0);
            let at = fleet[from].at(ms);
            (fleet[from].decider.withdraw(rate, burst, at), to)
        }
        Op::Lapse { who, to } if !fleet[who].lapsed && !fleet[to].lapsed && who != to => {
            (fleet[who].lapse(ms), to)
        }
        Op::Return { who } if fleet[who].lapsed => {
            fleet[who].come_back(ms);
            return false;
        }
        _ => return false,
    };
    let at = fleet[to].at(ms);
    fleet[to].decider.deposit(share, at);
    !share.rate.is_zero()
}

fn rate_of(process: &Process, ms: u64) -> u64 {
    let share = process.decider.share_at(process.at(ms));
    share.rate.grains() / terms().scale.grains_per_token()
}

/// A turn that was used: its process, when it was booked, and when it is due, in nanoseconds since the
/// beginning.
#[derive(Clone, Copy, Debug)]
struct Used {
    who: usize,
    booked: u64,
    due: u64,
}

/// The turns that one process was promised.
struct Queue {
    pacer: Pacer,
    /// The first tick that may be booked.
    next: u64,
}

impl Queue {
    /// Books a turn and checks that it is the next one by the present share; `None` if there is none.
    fn book(
        &mut self,
        process: &Process,
        (queue, cancels): (u64, bool),
        ms: u64,
    ) -> Result<Option<u64>, TestCaseError> {
        let (at, rate) = (process.at(ms), rate_of(process, ms));
        let since = |tick: Tick| tick.nanos() - process.offset;
        let booked = self.pacer.book_at(at);
        if process.lapsed || rate == 0 {
            let reason = match process.lapsed {
                true => Reason::Lapsed,
                false => Reason::NoShare,
            };
            prop_assert_eq!(booked.map_err(|no| no.reason).err(), Some(reason));
            return Ok(None);
        }
        let interval = process.limiter.token_every_at(at).expect("a share");
        // Up to a nanosecond more, since the supply of a time is rounded down.
        prop_assert!(matches!(interval - BILLION.div_ceil(rate), 0 | 1));
        let wait = self.next.saturating_sub(since(at));
        let turn = match booked {
            Ok(turn) => turn,
            Err(refused) => {
                prop_assert!(wait > queue * interval, "refused, {} before", wait);
                let wait = refused.retry_after.expect("a wait").as_nanos() as u64;
                let then = self.pacer.book_at(at.after(Span::from_nanos(wait)));
                prop_assert!(then.is_ok_and(|turn| turn.cancel()));
                return Ok(None);
            }
        };
        prop_assert!(wait <= queue * interval, "booked, {} before", wait);
        let due = since(turn.at());
        prop_assert_eq!(due, self.next.max(since(at)), "first come, first served");
        if cancels {
            prop_assert!(turn.cancel(), "no turn was booked after it");
            self.next = due;
            return Ok(None);
        }
        self.next = due + interval;
        Ok(Some(due))
    }
}

/// Finds a window with more turns than `R · t`, plus one for each process, plus the queue and one for each
/// time that the rate of a process was lowered.
fn too_many(used: &[Used], lowered: &[u64], queue: u64) -> Option<String> {
    let mut used = used.to_vec();
    used.sort_by_key(|turn| turn.due);
    for (first, from) in used.iter().enumerate() {
        let (mut booked, mut whose) = (u64::MAX, [false; PROCESSES]);
        for (count, to) in (1..).zip(&used[first..]) {
            booked = booked.min(to.booked);
            whose[to.who] = true;
            let processes = whose.iter().filter(|is| **is).count() as u64;
            let lowered = lowered.iter().filter(|&&at| booked <= at && at <= to.due);
            let most = processes + (queue + 1) * lowered.count() as u64;
            if count * BILLION > WHOLE * (to.due - from.due) + most * BILLION {
                let (from, to) = (from.due, to.due);
                return Some(format!("{count} from {from} to {to}, and not {most} more"));
            }
        }
    }
    None
}

/// Returns the turns that the fleet used, and when the rate of a process was lowered.
fn paced(ops: &[(u64, Op)], queue: u64) -> Result<(Vec<Used>, Vec<u64>), TestCaseError> {
    let (mut fleet, mut now) = (fleet(), 0);
    let pacer = |process: &Process| Queue {
        pacer: Pacer::over(&process.limiter, queue).expect("a pacer"),
        next: 0,
    };
    let mut queues: Vec<_> = fleet.iter().map(pacer).collect();
    let (mut used, mut lowered) = (Vec::new(), Vec::new());
    for &(gap, op) in ops {
        now += gap;
        let at = now * 1_000_000;
        lowered.extend(deal(&mut fleet, op, now).then_some(at));
        if let Op::Acquire { who, cancels, .. } = op {
            let due = queues[who].book(&fleet[who], (queue, cancels), now)?;
            let turn = |due| Used {
                who,
                booked: at,
                due,
            };
            used.extend(due.map(turn));
        }
    }
    Ok((used, lowered))
}

/// Pours, and checks that the outcome is the one that the share demands. Returns true if it was not refused.
fn pour(process: &Process, meter: &Meter, n: u64, ms: u64) -> Result<bool, TestCaseError> {
    let at = process.at(ms);
    let level = meter.level_at(at);
    let burst = process.decider.share_at(at).burst;
    let capacity = burst.grains() as f64 / terms().scale.grains_per_token() as f64;
    let over = level + n as f64 - capacity;
    let poured = meter.try_pour_at(n, at).map_err(|refused| refused.reason);
    match poured {
        Ok(()) => {
            let rise = meter.level_at(at) - level;
            prop_assert!(!process.lapsed && over < 1e-6 && (rise - n as f64).abs() < 1e-6);
        }
        // Fractions that were rounded off are not available.
        Err(Reason::Throttled) => prop_assert!(over > -1e-6),
        Err(Reason::Lapsed) => prop_assert!(process.lapsed),
        Err(Reason::NoShare) => prop_assert!(burst.is_zero()),
        Err(reason) => prop_assert!(reason == Reason::ExceedsBurst && n as f64 > capacity),
    }
    Ok(poured.is_ok())
}

/// In any window all meters together take in at most what one meter of the whole budget would.
fn poured(ops: &[(u64, Op)]) -> TestCaseResult {
    let (mut fleet, mut now) = (fleet(), 0);
    let meter = |process: &Process| Meter::over(process.limiter.clone());
    let meters: Vec<_> = fleet.iter().map(meter).collect();
    // In thousandths, since `WHOLE` of them leak per millisecond.
    let mut whole = 0_u64;
    for &(gap, op) in ops {
        now += gap;
        whole = whole.saturating_sub(gap * WHOLE);
        deal(&mut fleet, op, now);
        if let Op::Acquire { who, n, .. } = op
            && pour(&fleet[who], &meters[who], n, now)?
        {
            whole += n * 1_000;
            prop_assert!(whole <= WHOLE * 1_000, "{} thousandths at {}", whole, now);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn turns_of_a_fleet_are_spaced_by_its_share_however_that_moves(
        ops in ops(), queue in 0..5_u64,
    ) {
        let (used, lowered) = paced(&ops, queue)?;
        prop_assert_eq!(too_many(&used, &lowered, queue), None);
    }

    #[test]
    fn meters_of_a_fleet_admit_as_one_would_however_shares_move(ops in ops()) {
        poured(&ops)?;
    }
}

/// Turns that are booked keep their ticks, and the process that has the rate now books as many.
#[test]
fn a_lowered_pacer_keeps_its_queue() {
    let ask = |who| {
        let (n, cancels) = (1, false);
        (0, Op::Acquire { who, n, cancels })
    };
    let (from, to, n) = (0, 1, WHOLE);
    let mut ops = vec![ask(from); 6];
    ops.push((0, Op::Move { from, to, n }));
    ops.extend([ask(to); 6]);
    let (used, lowered) = paced(&ops, 5).expect("no law is broken");
    let end = SECOND.as_nanos() as u64;
    let within = used.iter().filter(|turn| turn.due < end);
    assert_eq!(within.count() as u64, 2 * WHOLE);
    // One for each process and one for each change would be exceeded.
    assert!(too_many(&used, &lowered, 0).is_some());
    assert_eq!(too_many(&used, &lowered, 5), None);
}
