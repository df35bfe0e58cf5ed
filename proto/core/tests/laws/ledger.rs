//! Laws of the ledger: which reports are accepted, which lines are repeated, and which parts should move
//! (invariants 2, 6, 8 and 10 of `docs/invariants.md`).
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

mod changes;
mod plan;
mod world;

use super::catch;
use aliquot_core::demand::DemandCurve;
use aliquot_core::edge::Vector;
use aliquot_core::ledger::{Ledger, ReportError};
use aliquot_core::message::{BandDemand, Heard, Intent, Report, ReportLine};
use aliquot_core::planted::{self, Bug};
use aliquot_core::share::Share;
use aliquot_core::unit::{
    Band, BudgetId, Edge, Incarnation, Number, PeriodId, Rate, Seq, Span, Term, Tick, Tokens,
    Weight,
};
use catch::{catches, config};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

const TERM: Term = Term::new(7);
const LEASE: Span = Span::from_nanos(100);

fn edge(child: u64) -> Edge {
    Edge {
        parent: Incarnation::new(0),
        child: Incarnation::new(child),
    }
}

fn share(rate: u64, burst: u64, tokens: u64) -> Share {
    Share {
        rate: Rate::from_grains(rate),
        burst: Tokens::from_grains(burst),
        tokens: Tokens::from_grains(tokens),
    }
}

fn demand(units: u64) -> Vec<BandDemand> {
    let curve = DemandCurve::of(units, Weight::ONE);
    let band = Band::default();
    [BandDemand { band, curve }].into()
}

fn report(child: u64, seq: u64, heard: Heard, lines: Vec<ReportLine>) -> Report {
    Report {
        edge: edge(child),
        seq: Seq::new(seq),
        basis: Seq::new(0),
        heard,
        seen: heard,
        wall_ms: 0,
        intent: Intent::Stay,
        lines,
        floors: Vec::new(),
    }
}

/// A child that reports, and a parent that answers some of its reports.
#[derive(Clone, Copy, Debug)]
enum Talk {
    Wait(u64),
    Answer,
    /// A report that is this much newer, with an echo of this term's number, or of another term's.
    Report(u64, u64, bool),
}

fn any_talk() -> impl Strategy<Value = Vec<Talk>> {
    let talk = prop_oneof![
        3 => (0..60_u64).prop_map(Talk::Wait),
        3 => Just(Talk::Answer),
        3 => (0..3_u64, 0..12_u64, prop::bool::weighted(0.8))
            .prop_map(|(newer, heard, ours)| Talk::Report(newer, heard, ours)),
    ];
    prop::collection::vec(talk, 1..50)
}

/// A child receives answers only if the latest one that it echoed was sent less than a lease ago, or if it
/// was added less than a lease ago, and certainly if that was a tenth of a second less. An echo of an answer
/// that was never sent, or of another term, does not count.
fn only_an_echo_of_late_proves_hearing(talk: &[Talk]) -> TestCaseResult {
    const LEASE: Span = Span::from_secs(2);
    const UNIT: u64 = 20_000_000;
    let (mut ledger, mut now) = (Ledger::new(TERM), 0);
    ledger.open(edge(1), Tick::from_nanos(0));
    let (mut sent, mut heard, mut seq) = (vec![0], 0, 0);
    for &talk in talk {
        match talk {
            Talk::Wait(units) => now += units * UNIT,
            Talk::Answer => {
                let tick = Tick::from_nanos(now);
                let answer = ledger.answer(edge(1).child, tick, Seq::new(seq), LEASE, &|_| None);
                let number = Number::new(sent.len() as u64);
                prop_assert_eq!(answer.unwrap().number, Heard { term: TERM, number });
                sent.push(now);
            }
            Talk::Report(newer, number, ours) => {
                let term = if ours { TERM } else { Term::new(6) };
                let echo = Heard {
                    term,
                    number: Number::new(number),
                };
                let taken =
                    ledger.take(Tick::from_nanos(now), &report(1, seq + newer, echo, vec![]));
                if newer == 0 {
                    prop_assert_eq!(taken, Err(ReportError::Stale));
                    continue;
                }
                prop_assert_eq!(taken, Ok(()));
                seq += newer;
                if ours && (number as usize) < sent.len() {
                    heard = heard.max(number as usize);
                }
            }
        }
        let within = |nanos: u64| {
            let echoed = heard > 0 && now - sent[heard] < nanos;
            echoed || now < LEASE.nanos()
        };
        let hears = ledger.hears(edge(1).child, Tick::from_nanos(now), LEASE);
        prop_assert!(!hears || within(LEASE.nanos()));
        prop_assert!(hears || !within(LEASE.nanos() - 100_000_000));
    }
    Ok(())
}

/// Any change in a child's line causes a plan of its budget. A line without change costs nothing.
fn a_change_is_looked_at(before: &ReportLine, after: &ReportLine) -> TestCaseResult {
    let mut ledger = Ledger::new(TERM);
    let (now, heard) = (Tick::from_nanos(0), Heard::default());
    ledger.open(edge(1), now);
    ledger
        .take(now, &report(1, 1, heard, vec![before.clone()]))
        .unwrap();
    let _ = ledger.take_dirty(now);
    ledger
        .take(now, &report(1, 2, heard, vec![before.clone()]))
        .unwrap();
    prop_assert_eq!(ledger.take_dirty(now), []);
    ledger
        .take(now, &report(1, 3, heard, vec![after.clone()]))
        .unwrap();
    prop_assert_eq!(!ledger.take_dirty(now).is_empty(), after != before);
    Ok(())
}

fn any_line() -> impl Strategy<Value = ReportLine> {
    let few = || 0..2_u64;
    (few(), few(), few(), few()).prop_map(|(wanted, floor, wait, returned)| ReportLine {
        budget: BudgetId::new(1),
        period: PeriodId::new(0),
        returned: Vector::of(share(returned, 0, 0)),
        demand: demand(wanted),
        floor: share(floor, floor, 0),
        largest_wait: Tokens::from_grains(wait),
        tally: aliquot_core::message::Tally::default(),
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn only_an_echo_of_late_proves_that_a_child_hears(talk in any_talk()) {
        only_an_echo_of_late_proves_hearing(&talk)?;
    }

    #[test]
    fn whatever_changes_is_looked_at(before in any_line(), mut after in any_line()) {
        after.returned = after.returned.merge(before.returned);
        a_change_is_looked_at(&before, &after)?;
    }

    #[test]
    fn a_child_ends_with_what_the_book_gave_it_whatever_was_lost_or_overtaken(
        steps in world::any_steps(), brief in any::<bool>(),
    ) {
        world::a_child_ends_with_the_book(&steps, brief)?;
    }

    #[test]
    fn a_child_is_overdue_only_for_what_it_heard_of_and_did_not_return(
        steps in world::any_steps(), brief in any::<bool>(),
    ) {
        world::overdue_is_what_was_heard_and_kept(&steps, brief)?;
    }

    #[test]
    fn a_squatter_is_overdue_however_many_reports_are_under_way(
        flight in 0..6_usize, wobble in any::<bool>(), ahead in any::<bool>(),
    ) {
        world::a_squatter_is_overdue(flight, wobble, ahead)?;
    }

    #[test]
    fn a_parent_knows_all_that_did_not_have_to_wait_whatever_was_lost(
        steps in changes::any_steps(),
    ) {
        changes::what_does_not_wait_is_known(&steps)?;
    }

    #[test]
    fn a_plan_stays_within_the_whole_and_the_free(case in plan::any_case()) {
        plan::every_plan_fits(&case)?;
    }

    #[test]
    fn once_nothing_changes_plans_come_to_rest(case in plan::any_case()) {
        plan::plans_come_to_rest(&case)?;
    }
}

#[test]
fn no_plan_grants_to_a_child_whose_floor_comes_back_later_than_its_part() {
    let case = plan::a_floor_that_comes_back_later();
    plan::every_plan_fits(&case).unwrap();
    plan::plans_come_to_rest(&case).unwrap();
    let planted = Some(Bug::FloorsOutlastParts);
    assert!(planted::with(planted, || plan::every_plan_fits(&case)).is_err());
}

#[test]
fn the_laws_of_the_ledger_notice_what_they_should() {
    catches(Bug::EchoNotAsked, any_talk(), |talk| {
        only_an_echo_of_late_proves_hearing(&talk)
    });
    catches(
        Bug::SquattersRenewed,
        (0..6_usize, Just(false)),
        |(flight, wobble)| world::a_squatter_is_overdue(flight, wobble, false),
    );
    for bug in [Bug::LeftOutUnheard, Bug::BasisNotAsked, Bug::EndLeftOut] {
        catches(bug, changes::any_steps(), |steps| {
            changes::what_does_not_wait_is_known(&steps)
        });
    }
    catches(Bug::QuotaDealtWhole, plan::any_case(), |case| {
        plan::every_plan_fits(&case)
    });
    catches(Bug::ToldOnce, world::any_steps(), |steps| {
        world::a_child_ends_with_the_book(&steps, true)
    });
}
