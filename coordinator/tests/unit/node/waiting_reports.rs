use super::*;
use crate::session::StreamId;
use aliquot_core::message::{Heard, Intent, ReportLine};
use aliquot_core::unit::{BudgetId, Edge, Seq};

fn caller(session: u64) -> Caller {
    Caller {
        edge: Edge {
            parent: Incarnation::new(1),
            child: Incarnation::new(session),
        },
        stream: StreamId::new(session),
    }
}

fn report(session: u64, seq: u64, lines: usize) -> Event {
    let caller = caller(session);
    let report = Report {
        edge: caller.edge,
        seq: Seq::new(seq),
        basis: Seq::new(0),
        heard: Heard::default(),
        seen: Heard::default(),
        wall_ms: 0,
        intent: Intent::Stay,
        lines: vec![ReportLine::empty(BudgetId::new(1)); lines],
        floors: Vec::new(),
    };
    Event::Report { caller, report }
}

/// Returns the session and the number of each report that is to be renewed.
fn unrenewed(waiting: &mut WaitingReports) -> Vec<(u64, u64)> {
    let reports = waiting.take_unrenewed();
    let reports = reports.map(|(caller, report)| (caller.edge.child.get(), report.seq.get()));
    reports.collect()
}

#[test]
fn long_reports_wait_with_what_follows_of_their_sessions_and_nothing_else_does() {
    let mut waiting = WaitingReports::default();
    let gone = |session| Event::Gone {
        caller: caller(session),
    };
    let (long, short) = (WaitingReports::LONG, WaitingReports::LONG - 1);
    for (event, waits) in [
        (report(1, 1, short), false),
        (report(1, 2, long), true),
        (report(2, 1, short), false),
        (report(1, 3, 0), true),
        (gone(2), false),
        (gone(1), true),
    ] {
        assert_eq!(waiting.must_wait(&event), waits, "{event:?}");
        if waits {
            waiting.push(event);
        }
    }
    assert_eq!(unrenewed(&mut waiting), [(1, 3)], "the latest of each");
    assert!(matches!(waiting.pop(), Some(Event::Report { report, .. }) if report.seq.get() == 3));
    waiting.push(report(3, 1, long));
    assert_eq!(unrenewed(&mut waiting), [(3, 1)], "each is renewed once");
    assert!(waiting.must_wait(&report(1, 4, 0)));
    while waiting.pop().is_some() {}
    assert!(waiting.is_empty() && !waiting.must_wait(&report(1, 4, 0)));
    assert_eq!(unrenewed(&mut waiting), []);
}

#[test]
fn a_later_report_takes_the_place_of_the_one_that_waits_and_is_renewed() {
    let mut waiting = WaitingReports::default();
    let long = WaitingReports::LONG;
    waiting.push(report(1, 1, long));
    waiting.push(report(2, 1, long));
    assert_eq!(unrenewed(&mut waiting), [(1, 1), (2, 1)]);
    for seq in 2..=9 {
        waiting.push(report(1, seq, long));
    }
    assert_eq!(unrenewed(&mut waiting), [(1, 9)]);
    assert_eq!(waiting.len(), 2);
    for seq in 10..=127 {
        assert!(waiting.has_room());
        waiting.push(report(1, seq, long));
    }
    assert!(!waiting.has_room(), "a session that repeats is not read on");
    assert_eq!(unrenewed(&mut waiting), [(1, 127)]);
    let popped = std::iter::from_fn(|| waiting.pop());
    let popped = popped.filter_map(|event| match event {
        Event::Report { report, .. } => Some((report.edge.child.get(), report.seq.get())),
        _ => None,
    });
    assert_eq!(popped.collect::<Vec<_>>(), [(1, 127), (2, 1)]);
    assert!(waiting.is_empty() && waiting.sessions.is_empty());
}

/// The session was resumed on another stream: what came on the former one is not for the new one to replace.
#[test]
fn a_report_replaces_none_of_another_stream() {
    let mut waiting = WaitingReports::default();
    let long = WaitingReports::LONG;
    waiting.push(report(1, 1, long));
    waiting.push(Event::Gone { caller: caller(1) });
    let Event::Report { caller, report } = report(1, 2, long) else {
        unreachable!("a report")
    };
    let caller = Caller {
        stream: StreamId::new(9),
        ..caller
    };
    waiting.push(Event::Report { caller, report });
    assert_eq!(waiting.len(), 3);
    assert_eq!(unrenewed(&mut waiting), [(1, 1), (1, 2)]);
}

#[test]
fn events_are_read_while_fewer_than_the_maximum_wait() {
    let mut waiting = WaitingReports::default();
    for session in 1..=WaitingReports::EVENTS_MAX as u64 {
        assert!(waiting.has_room());
        waiting.push(report(session, 1, 0));
    }
    assert!(!waiting.has_room());
}
