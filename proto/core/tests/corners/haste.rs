//! Corners of those who wait, and of those who leave.

use super::setup::*;

fn whole(budget: &Budget) -> Vector {
    given(budget, [100, 100, 100, 0])
}

fn answers(node: &mut Node) -> Vec<Answer> {
    let outputs = node.poll_outputs().into_iter();
    let answers = outputs.filter_map(|output| match output {
        NodeOutput::Answer(answer) => Some(answer),
        NodeOutput::Rejoin => None,
    });
    answers.collect()
}

#[test]
fn a_newcomer_is_served_before_the_next_tick_and_the_leader_hears_of_it() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, _old) = node_with_client(&budget, whole(&budget));
    let _ = node.take_news();
    let now = at(600);
    let mut newcomer = Client::new(Drift::default());
    newcomer.claim(B, Claim::default(), now);
    newcomer.open(node.open_session(now).expect("a session"), now);
    assert_eq!(admits(&mut newcomer, &budget, now), 0);
    node.handle_report(&newcomer.report(now, 0).expect("a report"), now);
    node.hurry(now);
    assert!(node.take_news(), "demand that begins is news");
    assert!(!node.take_news(), "and is said once");
    let told = answers(&mut node);
    let mine = told.iter().filter(|of| Some(of.edge) == newcomer.edge());
    assert!(mine.count() > 0, "the newcomer is answered without a tick");
    assert!(
        told.iter()
            .any(|answer| Some(answer.edge) != newcomer.edge()),
        "and the other is asked for its part of it"
    );
}

#[test]
fn a_wobble_of_demand_is_no_news() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    let _ = node.take_news();
    for millis in [600, 700, 800] {
        let now = at(millis);
        admits(&mut client, &budget, now);
        node.handle_report(&client.report(now, 0).expect("a report"), now);
        assert!(!node.ledger().is_urgent(), "at {now:?}");
        node.hurry(now);
        assert!(!node.take_news(), "at {now:?}");
    }
}

#[test]
fn a_node_that_leaves_has_left_when_its_last_client_has_and_the_leader_heard_of_it() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    node.leave(at(600));
    let before = node.report(at(610), 0).expect("a report");
    assert_eq!(before.intent, Intent::Leave);
    assert!(
        !node.holder().holding(B).is_zero(),
        "the client still holds"
    );
    client.leave(at(620));
    node.handle_report(&client.report(at(620), 0).expect("a report"), at(620));
    let after = node.report(at(630), 0).expect("a report");
    assert!(node.holder().holding(B).is_zero(), "all of it is returned");
    assert!(!node.has_left(), "nobody has heard of it yet");
    let mut heard = answer(edge(0, 1), before.seq.get(), &budget, 0, whole(&budget));
    heard.number.number = Number::new(50);
    node.handle_answer(&heard, at(640));
    assert!(!node.has_left(), "of this report, nobody has");
    heard.answers = after.seq;
    heard.number.number = Number::new(51);
    node.handle_answer(&heard, at(650));
    assert!(node.has_left());
}

/// What a node frees when a client's former life at another node reports here
/// under the same name: all that the client of that name holds.
fn freed_by_a_stranger() -> bool {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    let mut stranger = client.report(at(600), 0).expect("a report");
    stranger.edge.parent = Incarnation::new(7);
    for line in &mut stranger.lines {
        line.returned = whole(&budget);
    }
    let before = node.account(B).expect("a book").held();
    node.handle_report(&stranger, at(600));
    node.account(B).expect("a book").held() != before
}

#[test]
fn a_report_to_another_parent_frees_nothing() {
    assert!(!freed_by_a_stranger());
    assert!(planted::with(
        Some(Bug::ReportNotFenced),
        freed_by_a_stranger
    ));
}
