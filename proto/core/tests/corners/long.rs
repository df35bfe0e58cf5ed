//! Corner cases of answers with many lines.

use super::setup::*;
use aliquot_core::demand::DemandCurve;
use aliquot_core::holder::{Holder, Wants};
use aliquot_core::message::BandDemand;
use aliquot_core::unit::{Band, Weight};
use std::collections::BTreeMap;

/// Returns the demand of one client: 100/s of each of the first `budgets` budgets.
fn all(budget: &Budget, budgets: u64) -> BTreeMap<BudgetId, Wants> {
    let rate = given(budget, [100, 0, 0, 0]).rate.grains();
    let wants = || Wants {
        demand: vec![BandDemand {
            band: Band::default(),
            curve: DemandCurve::of(rate, Weight::ONE),
        }],
        ..Wants::default()
    };
    (1..=budgets)
        .map(|id| (BudgetId::new(id), wants()))
        .collect()
}

fn answers_to(node: &mut Node, client: &Holder) -> Vec<Answer> {
    let outputs = node.poll_outputs().into_iter();
    let answers = outputs.filter_map(|output| match output {
        NodeOutput::Answer(answer) if answer.edge == client.edge() => Some(answer),
        _ => None,
    });
    answers.collect()
}

/// A node that has 100/s of each of `budgets` budgets, and a client that was granted all of it and did not
/// hear of it. Another client wants as much. Returns the numbers of targets in the answers that the first
/// client gets before its next report, and in the answer to that report.
fn recalled(budgets: u64) -> (usize, usize) {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert!(node.report(at(0), 0).is_some());
    let mut gift = answer(
        edge(0, 1),
        1,
        &budget,
        0,
        given(&budget, [100, 100, 100, 0]),
    );
    gift.lease = Span::from_secs(3);
    let line = gift.lines.pop().expect("a line");
    let ids = (1..=budgets).map(BudgetId::new);
    gift.lines
        .extend(ids.map(|budget| AnswerLine { budget, ..line }));
    node.handle_answer(&gift, at(0));
    let mut clients = [(); 2].map(|()| Holder::new(node.open_session(at(0)).expect("a session")));
    let mut targets = [0, 0];
    for (step, &client) in [0, 1, 0].iter().enumerate() {
        let now = at(100 + 50 * step as u64);
        let wants = all(&budget, budgets);
        let report = clients[client].report(now, 0, wants).expect("a report");
        node.handle_report(&report, now);
        node.flush_urgent(now);
        let reported = answers_to(&mut node, &clients[0]);
        let lines = reported.iter().flat_map(|answer| &answer.lines);
        let wanted = lines.filter(|line| line.target != Vector::ZERO).count();
        if step > 0 {
            targets[step - 1] = wanted;
        }
    }
    targets.into()
}

#[test]
fn a_client_that_has_not_heard_of_many_lines_is_told_more_when_it_reports() {
    assert_eq!(recalled(16), (16, 16));
    assert_eq!(recalled(64), (0, 64));
}
