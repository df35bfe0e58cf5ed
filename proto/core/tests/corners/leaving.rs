//! Clients that hand everything back.

use super::setup::*;

/// Returns the whole tokens a second that a leave has returned, and those that the report after a later answer has.
fn returned_across(bug: Option<Bug>) -> [u64; 2] {
    planted::with(bug, || {
        let budget = rate(ExpiryDraft::Word("deny".into()));
        let mut client = leased(&budget, 0, given(&budget, [100, 100, 0, 0]));
        client.leave(at(10));
        let leave = client.report(at(10), 0).expect("a report");
        assert_eq!(leave.intent, Intent::Leave);
        assert!(!client.owes_report());
        // It was sent before the leave arrived.
        let more = given(&budget, [120, 110, 0, 0]);
        client.handle_answer(&answer(edge(1, 1), 1, &budget, 0, more), at(11));
        let owes = client.owes_report();
        assert_eq!(admits(&mut client, &budget, at(11)), 0, "it has left");
        let last = client.report(at(11), 0).expect("a report");
        let grains = budget.scale().grains_per_token();
        let rate = |report: &Report| {
            let line = report.lines.first();
            line.map_or(0, |line| line.returned.rate.grains() / grains)
        };
        assert_eq!(owes, rate(&last) > 100, "what was returned is to be said");
        [rate(&leave), rate(&last)]
    })
}

#[test]
fn a_grant_that_crosses_a_leave_is_returned_at_once() {
    assert_eq!(returned_across(None), [100, 120]);
    assert_eq!(returned_across(Some(Bug::LateGrantKept)), [100, 100]);
}
