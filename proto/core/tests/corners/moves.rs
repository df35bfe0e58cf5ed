//! Demand that moves among callers while its total stays.

use super::haste::{SILENT, answers, whole};
use super::setup::*;
use aliquot_core::demand::DemandCurve;
use aliquot_core::holder::{Holder, Wants};
use aliquot_core::message::BandDemand;
use aliquot_core::unit::Band;
use std::collections::BTreeMap;

fn by_callers(budget: &Budget, callers: &[u64]) -> Vec<BandDemand> {
    let rate = |tokens: &u64| given(budget, [*tokens, 0, 0, 0]).rate.grains();
    let demands: Vec<u64> = callers.iter().map(rate).collect();
    vec![BandDemand {
        band: Band::default(),
        curve: DemandCurve::of_callers(&demands),
    }]
}

/// Returns true if a report that callers want these tokens per second after those before makes that of their node to
/// the leader urgent. The node has 100/s, and gave all of it to their client.
fn move_is_urgent(before: &[u64], after: &[u64]) -> bool {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    let mut say = |callers: &[u64], ms: u64| {
        let mut report = client.report(at(ms), 0).expect("a report");
        report.lines = vec![ReportLine {
            demand: by_callers(&budget, callers),
            ..SILENT
        }];
        node.handle_report(&report, at(ms));
        let urgent = node.take_report_urgent();
        node.tick(at(ms));
        for answer in answers(&mut node) {
            client.handle_answer(&answer, at(ms));
        }
        urgent
    };
    say(before, 600);
    assert!(!say(before, 800), "it is known");
    say(after, 1_000)
}

/// Of two callers that want 100 each, both take 50. If one wants 190, another client may have 40 of these.
#[test]
fn a_demand_that_moves_among_callers_is_urgent_to_their_node() {
    let (even, uneven) = ([100, 100], [190, 10]);
    assert!(move_is_urgent(&even, &uneven), "others may have more");
    assert!(move_is_urgent(&uneven, &even), "others must have less");
    assert!(!move_is_urgent(&even, &[110, 90]));
    let bug = Some(Bug::MovesUnseen);
    assert!(!planted::with(bug, || move_is_urgent(&even, &uneven)));
    assert!(!planted::with(bug, || move_is_urgent(&uneven, &even)));
}

/// Returns true if the next report tells that callers, who want few of the tokens that are held, want these per second
/// after those before.
fn move_is_reported(before: &[u64], after: &[u64]) -> bool {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut holder = Holder::new(edge(1, 1));
    let mut say = |callers: &[u64], ms: u64| {
        let wants = Wants {
            demand: by_callers(&budget, callers),
            ..Wants::default()
        };
        let wants = BTreeMap::from([(B, wants)]);
        let report = holder.report(at(ms), 0, wants).expect("a report");
        let known = answer(edge(1, 1), report.seq.get(), &budget, 0, whole(&budget));
        holder.handle_answer(at(ms), &known);
        !report.lines.is_empty()
    };
    assert!(say(before, 100), "demand begins");
    say(before, 300);
    assert!(!say(before, 500), "it is known");
    say(after, 700)
}

#[test]
fn a_small_demand_that_moves_among_callers_does_not_wait() {
    assert!(move_is_reported(&[4, 4], &[7, 1]));
    assert!(!move_is_reported(&[4, 4], &[4, 3]), "a small fall waits");
    let bug = Some(Bug::MovesUnseen);
    assert!(!planted::with(bug, || move_is_reported(&[4, 4], &[7, 1])));
}
