//! Corner cases of renewals of leases beside reports and answers of thousands of lines.

use super::setup::*;
use aliquot_core::demand::DemandCurve;
use aliquot_core::holder::{Holder, Wants};
use aliquot_core::lease::child_span;
use std::collections::BTreeMap;

/// Number of budgets: fewer than fit into a report and an answer.
const KEYS: u64 = 3_000;

/// Returns a node that has a lease of three seconds from 0, and holds 100/s of each budget.
fn node() -> Node {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert!(node.report(at(0), DAWN).is_some());
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let whole = given(&budget, [100, 100, 0, 0]);
    let mut first = answer(edge(0, 1), 1, &budget, 0, whole);
    let line = first.lines[0];
    let line = |id| AnswerLine {
        budget: BudgetId::new(id),
        ..line
    };
    (first.lease, first.lines) = (Span::from_secs(3), (1..=KEYS).map(line).collect());
    node.handle_answer(&first, at(0));
    assert!(node.is_leased(at(0)));
    node
}

fn open(node: &mut Node) -> Holder {
    Holder::new(node.open_session(at(0)).expect("a session"))
}

/// Returns the client's report with a demand for this many budgets.
fn report(client: &mut Holder, budgets: u64, now: Tick) -> Report {
    let band = || BandDemand {
        band: Band::default(),
        curve: DemandCurve::of(7, Weight::ONE),
    };
    let wants = |id| {
        let wants = Wants {
            demand: vec![band()],
            ..Wants::default()
        };
        (BudgetId::new(id), wants)
    };
    let wants: BTreeMap<_, _> = (1..=budgets).map(wants).collect();
    client.report(now, 0, wants).expect("a report")
}

/// Returns the answers that one call makes.
fn flush(node: &mut Node, now: Tick) -> Vec<Answer> {
    node.flush_urgent(now);
    let answers = node.poll_outputs().into_iter().map(|output| match output {
        NodeOutput::Answer(answer) => answer,
        NodeOutput::Rejoin => panic!("the incarnation is over"),
    });
    answers.collect()
}

/// However many long answers are due, one call makes few of them, and none of the short ones waits for a later call.
#[test]
fn short_answers_come_first_and_long_ones_a_few_at_a_time() {
    let mut node = node();
    let mut clients: Vec<_> = (0..8).map(|_| open(&mut node)).collect();
    for (nth, client) in clients.iter_mut().enumerate() {
        let budgets = if nth % 2 == 0 { KEYS } else { 0 };
        node.handle_report(&report(client, budgets, at(1)), at(1));
    }
    let mut long = Vec::new();
    for call in 0..4 {
        assert_eq!(node.poll_timeout(at(1)), Some(at(1)), "before call {call}");
        let answers = flush(&mut node, at(1));
        let (more, short): (Vec<_>, Vec<_>) = answers
            .into_iter()
            .partition(|answer| !answer.lines.is_empty());
        let renewed = short.iter().filter(|answer| !answer.lease.is_zero());
        assert_eq!(renewed.count(), if call == 0 { 4 } else { 0 });
        assert_eq!(more.len(), 1, "long answers of call {call}");
        long.extend(more.iter().map(|answer| answer.edge.child.get()));
    }
    assert_eq!(long, [1, 3, 5, 7]);
    assert_eq!(node.poll_timeout(at(1)), Some(at(1).after(Node::TICK)));
    assert!(flush(&mut node, at(1)).is_empty());
}

#[test]
fn a_node_is_called_at_once_for_answers_soon_for_changes_and_seldom_at_rest() {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert_eq!(node.poll_timeout(at(0)), Some(at(0).after(Node::TICK)));
    assert!(node.report(at(0), DAWN).is_some());
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut leased = answer(edge(0, 1), 1, &budget, 0, given(&budget, [0; 4]));
    (leased.lease, leased.lines) = (Span::from_secs(3), Vec::new());
    node.handle_answer(&leased, at(0));
    node.tick(at(0));
    assert_eq!(node.poll_timeout(at(0)), None);
    let mut client = open(&mut node);
    node.handle_report(&report(&mut client, 0, at(1)), at(1));
    assert_eq!(node.poll_timeout(at(1)), Some(at(1)));
    assert_eq!(flush(&mut node, at(1)).len(), 1);
    assert_eq!(node.poll_timeout(at(1)), None);
    // Without a lease there is a new one to ask for.
    let late = at(3_001);
    assert_eq!(node.poll_timeout(late), Some(late.after(Node::TICK)));
}

#[test]
fn a_report_that_waits_renews_its_lease_and_everything_else_follows() {
    let mut node = node();
    let mut client = open(&mut node);
    let first = report(&mut client, 5, at(1));
    node.renew_early(&first, at(1));
    let answers = flush(&mut node, at(1));
    let [early] = answers.as_slice() else {
        panic!("one answer: {answers:?}");
    };
    assert_eq!(
        (early.number.number, early.taken),
        (Number::new(0), Seq::new(0))
    );
    assert!(early.answers == first.seq && early.lines.is_empty());
    client.handle_answer(at(2), early);
    let until = client.lease().until();
    assert!(until > at(2_900) && until <= node.holder().lease().until());
    let known = node.ledger().child(Incarnation::new(1)).expect("a session");
    assert!(known.seq() == Seq::new(0) && known.claims.is_empty());
    // Its session is not ended while the report waits.
    node.tick(at(2_500));
    node.handle_report(&first, at(2_500));
    let answers = flush(&mut node, at(2_500));
    assert_eq!((answers[0].taken, answers[0].lines.len()), (first.seq, 5));
    client.handle_answer(at(2_501), &answers[0]);
    assert_eq!(client.lease().until(), until, "the longer lease counts");
}

#[test]
fn nothing_is_renewed_early_that_was_taken_or_that_leaves() {
    let mut node = node();
    let mut client = open(&mut node);
    let first = report(&mut client, 1, at(1));
    let mut other = first.clone();
    other.edge = edge(1, 9);
    node.renew_early(&other, at(1));
    node.handle_report(&first, at(1));
    assert_eq!(flush(&mut node, at(1)).len(), 1);
    node.renew_early(&first, at(2));
    let mut leaves = report(&mut client, 1, at(2));
    leaves.intent = Intent::Leave;
    node.renew_early(&leaves, at(2));
    assert!(flush(&mut node, at(2)).is_empty());
}

/// Returns the lease that a client of this age has after each of its reports, in milliseconds from the report. Each
/// report comes at a time, and has a number of lines.
fn leases(reports: &[(u64, u64)]) -> Vec<u64> {
    let mut node = node();
    let edge = node.open_session_aged(Span::from_secs(1), at(0));
    let mut client = Holder::new(edge.expect("a session"));
    let mut leases = Vec::new();
    for &(ms, lines) in reports {
        let now = at(ms);
        let report = report(&mut client, lines, now);
        // A long report waits.
        node.renew_early(&report, now);
        let answers = flush(&mut node, now);
        client.handle_answer(now, &answers[0]);
        node.handle_report(&report, now);
        for answer in flush(&mut node, now) {
            client.handle_answer(now, &answer);
        }
        leases.push(client.lease().until().since(now).nanos() / 1_000_000);
    }
    leases
}

/// Returns true if a client that was silent as its budget was planned is granted a part as soon as it reports.
fn is_granted_after_silence() -> bool {
    let (mut node, late) = (node(), at(1_200));
    let mut client = open(&mut node);
    node.handle_report(&report(&mut client, 1, at(0)), at(0));
    // One tick plans a thousand keys.
    (0..3).for_each(|_| node.tick(late));
    assert_eq!(node.poll_outputs().len(), 1);
    node.handle_report(&report(&mut client, 1, late), late);
    let answers = flush(&mut node, late);
    let mut lines = answers.iter().flat_map(|answer| &answer.lines);
    lines.any(|line| !line.given.is_zero())
}

/// On a busy machine, clients are silent for a second now and then, and there may be urgent plans all the time. A key
/// that was planned without such a client would wait for all of them.
#[test]
fn a_client_that_was_silent_is_planned_for_as_soon_as_it_reports() {
    assert!(is_granted_after_silence());
    let last = planted::with(Some(Bug::SkippedPlannedLast), is_granted_after_silence);
    assert!(!last);
}

/// Returns the rest of a young client's lease in milliseconds, after its first report and after it asked for this many
/// keys 100 ms later.
fn lease_with_keys(keys: usize) -> [u64; 2] {
    let mut node = node();
    let opened = node.open_session_aged(Span::from_secs(2), at(0));
    let mut client = Holder::new(opened.expect("a session"));
    node.handle_report(&report(&mut client, 1, at(0)), at(0));
    [at(0), at(100)].map(|now| {
        if now > at(0) {
            node.note_keys(client.edge().child, keys, now);
        }
        for answer in flush(&mut node, now) {
            client.handle_answer(now, &answer);
        }
        client.lease().until().since(at(0)).nanos() / 1_000_000
    })
}

/// A young client that asks for many keys is busy with them next, and might not report in time.
#[test]
fn a_young_session_that_asks_for_many_keys_has_a_whole_lease_at_once() {
    let rest = Span::from_millis(2_900);
    let whole = child_span(rest, Drift::default()).nanos() / 1_000_000;
    assert_eq!(lease_with_keys(32), [499; 2]);
    assert_eq!(lease_with_keys(33), [499, whole]);
}

/// The lease of a young process ends soon. One that cannot report often enough would lose it again and again.
#[test]
fn a_young_session_that_says_much_or_comes_late_has_a_whole_lease() {
    let whole = |ms: u64| {
        let rest = Span::from_millis(3_000 - ms);
        child_span(rest, Drift::default()).nanos() / 1_000_000
    };
    assert_eq!(leases(&[(1, 1), (251, 1), (501, 32)]), [499; 3]);
    assert_eq!(leases(&[(1, 33), (100, 0)]), [whole(1), whole(100)]);
    let late = [(1, 1), (252, 1), (300, 1), (400, 1)];
    assert_eq!(
        leases(&late),
        [499, whole(252), whole(300), whole(400)],
        "half of the lease was over"
    );
    let first = [(900, 1), (1_000, 1)];
    assert_eq!(leases(&first), [499; 2], "the first is never late");
}
