//! Corner cases of clients that wait, and of clients that leave.

use super::setup::*;
use aliquot_core::demand::DemandCurve;
use aliquot_core::holder::{Holder, Wants};
use aliquot_core::message::BandDemand;
use aliquot_core::unit::{Band, Weight};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn whole(budget: &Budget) -> Vector {
    given(budget, [100, 100, 100, 0])
}

pub(crate) fn answers(node: &mut Node) -> Vec<Answer> {
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
    let _ = node.take_report_urgent();
    let now = at(600);
    let mut newcomer = Client::new(Drift::default());
    newcomer.claim(B, Claim::default(), now);
    newcomer.open(node.open_session(now).expect("a session"), now);
    assert_eq!(admits(&mut newcomer, &budget, now), 0);
    node.handle_report(&newcomer.report(now, 0).expect("a report"), now);
    node.flush_urgent(now);
    assert!(node.take_report_urgent(), "demand that begins is news");
    assert!(!node.take_report_urgent(), "and is said once");
    let received = answers(&mut node);
    let mine = received
        .iter()
        .filter(|of| Some(of.edge) == newcomer.edge());
    assert!(mine.count() > 0, "the newcomer is answered without a tick");
    assert!(
        received
            .iter()
            .any(|answer| Some(answer.edge) != newcomer.edge()),
        "and the other is asked for its part of it"
    );
}

/// Returns the rate that a newcomer is granted, before the next tick, of what another client gave back for
/// it.
fn passed_on_at_once() -> Rate {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    let mut newcomer = Client::new(Drift::default());
    newcomer.claim(B, Claim::default(), at(600));
    let edge = node.open_session(at(600)).expect("a session");
    newcomer.open(edge, at(600));
    assert_eq!(admits(&mut newcomer, &budget, at(600)), 0);
    for (millis, asks) in [(600, true), (610, false)] {
        let now = at(millis);
        let who = if asks { &mut newcomer } else { &mut client };
        node.handle_report(&who.report(now, 0).expect("a report"), now);
        node.flush_urgent(now);
        for answer in answers(&mut node) {
            match answer.edge == edge {
                true => newcomer.handle_answer(&answer, now),
                false => client.handle_answer(&answer, now),
            }
        }
    }
    let mut allotments = newcomer.allotments();
    allotments.next().map_or(Rate::ZERO, |(_, allotment)| {
        allotment.share_at(at(610)).rate
    })
}

#[test]
fn returned_parts_go_at_once_to_clients_that_lack_them() {
    assert!(passed_on_at_once() > Rate::ZERO);
    let late = planted::with(Some(Bug::ReturnsWait), passed_on_at_once);
    assert_eq!(late, Rate::ZERO);
}

#[test]
fn a_wobble_of_demand_is_no_news() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    let _ = node.take_report_urgent();
    for millis in [600, 700, 800] {
        let now = at(millis);
        admits(&mut client, &budget, now);
        node.handle_report(&client.report(now, 0).expect("a report"), now);
        assert!(!node.ledger().is_urgent(), "at {now:?}");
        node.flush_urgent(now);
        assert!(!node.take_report_urgent(), "at {now:?}");
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
    node.flush_urgent(at(620));
    let after = node.report(at(630), 0).expect("a report");
    assert!(node.holder().holding(B).is_zero(), "all of it is returned");
    assert!(!node.has_left(), "the leader has not heard of it yet");
    let mut heard = answer(edge(0, 1), before.seq.get(), &budget, 0, whole(&budget));
    heard.number.number = Number::new(50);
    node.handle_answer(&heard, at(640));
    assert!(!node.has_left(), "nor of this report");
    heard.answers = after.seq;
    heard.number.number = Number::new(51);
    node.handle_answer(&heard, at(650));
    assert!(node.has_left());
}

/// Returns true if a node frees the part of a client because a former incarnation at another node, with the
/// same number, reports here.
fn freed_by_a_stranger() -> bool {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    let mut stranger = client.report(at(600), 0).expect("a report");
    stranger.edge.parent = Incarnation::new(7);
    stranger.lines = vec![ReportLine {
        returned: whole(&budget),
        ..ReportLine::empty(B)
    }];
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

/// A thousand sessions whose parts all change at once: each is told, but not all at one instant, and a client
/// that reports is answered however many others wait. Invariant 13.
#[test]
fn a_node_tells_thousands_of_sessions_one_after_the_other() {
    const SESSIONS: u64 = 1_000;
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut first) = node_with_client(&budget, given(&budget, [100, 5_000, 5_000, 0]));
    let now = at(600);
    first.leave(now);
    node.handle_report(&first.report(now, 0).expect("a report"), now);
    let _ = answers(&mut node);
    let mut waiting = BTreeSet::new();
    let mut clients = Vec::new();
    for _ in 0..SESSIONS {
        let mut client = Client::new(Drift::default());
        client.claim(B, Claim::default(), now);
        client.open(node.open_session(now).expect("a session"), now);
        assert_eq!(admits(&mut client, &budget, now), 0);
        node.handle_report(&client.report(now, 0).expect("a report"), now);
        waiting.insert(client.edge().expect("an edge").child);
        clients.push(client);
    }
    node.flush_urgent(now);
    let answered: BTreeSet<_> = answers(&mut node).iter().map(|of| of.edge.child).collect();
    assert!(waiting.is_subset(&answered), "who reported is answered");
    let more = given(&budget, [100, 10_000, 10_000, 0]);
    let mut gift = answer(edge(0, 1), 1, &budget, 0, more);
    (gift.lease, gift.number.number) = (Span::from_secs(3), Number::new(50));
    node.handle_answer(&gift, at(610));
    let mut most = 0;
    for step in 1..100 {
        let now = at(600 + step * 20);
        node.tick(now);
        let received = answers(&mut node);
        most = most.max(received.len());
        waiting.retain(|&client| received.iter().all(|answer| answer.edge.child != client));
        if step == 2 {
            assert!(!waiting.is_empty(), "all were told at once");
            let now = at(600 + step * 20 + 1);
            let report = clients[999].report(now, 0).expect("a report");
            node.handle_report(&report, now);
            node.flush_urgent(now);
            let edge = report.edge;
            assert!(answers(&mut node).iter().any(|answer| answer.edge == edge));
        }
    }
    assert!(most <= 500, "{most} were told at once");
    // Whole tokens are divided: some clients may have what they had.
    let left = waiting.len();
    assert!(left < 100, "{left} heard nothing");
}

/// While a node has unread reports, its clients do not count as silent.
#[test]
fn a_node_that_is_behind_ends_no_session() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let all = whole(&budget);
    let (mut node, client) = node_with_client(&budget, all);
    let incarnation = client.edge().expect("an edge").child;
    let report = node.report(at(2_000), 0).expect("a report");
    let mut renewed = answer(edge(0, 1), report.seq.get(), &budget, 0, all);
    renewed.lease = Span::from_secs(3);
    node.handle_answer(&renewed, at(2_000));
    let is_open = |node: &Node| node.ledger().child(incarnation).is_some();
    node.tick_behind(at(4_000));
    assert!(node.is_leased(at(4_000)) && is_open(&node));
    node.tick(at(4_000));
    assert!(!is_open(&node), "its client's lease was over");
}

/// If most clients fall silent at once, the node itself probably cannot read. A single silent client is gone.
#[test]
fn many_that_fall_silent_together_are_given_time() {
    const SESSIONS: usize = 300;
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let all = whole(&budget);
    let (mut node, first) = node_with_client(&budget, all);
    let mut clients = vec![first];
    let renew = |node: &mut Node, ms: u64| {
        let report = node.report(at(ms), 0).expect("a report");
        let mut renewed = answer(edge(0, 1), report.seq.get(), &budget, 0, all);
        renewed.lease = Span::from_secs(3);
        renewed.number.number = Number::new(ms);
        node.handle_answer(&renewed, at(ms));
    };
    renew(&mut node, 2_000);
    for _ in 1..SESSIONS {
        let mut client = Client::new(Drift::default());
        client.claim(B, Claim::default(), at(2_000));
        client.open(node.open_session(at(2_000)).expect("a session"), at(2_000));
        clients.push(client);
    }
    let talk = |node: &mut Node, clients: &mut [Client], now: Tick| {
        for client in &mut *clients {
            node.handle_report(&client.report(now, 0).expect("a report"), now);
        }
        node.flush_urgent(now);
        for answer in answers(node) {
            let mut of = clients.iter_mut();
            if let Some(client) = of.find(|client| client.edge() == Some(answer.edge)) {
                client.handle_answer(&answer, now);
            }
        }
    };
    talk(&mut node, &mut clients, at(2_000));
    let incarnation = |client: &Client| client.edge().expect("an edge").child;
    let open = |node: &Node, clients: &[Client]| {
        let incarnations = clients.iter().map(incarnation);
        incarnations
            .filter(|of| node.ledger().child(*of).is_some())
            .count()
    };
    // All but one report again: that one is closed.
    talk(&mut node, &mut clients[1..], at(3_500));
    renew(&mut node, 3_500);
    talk(&mut node, &mut clients[1..], at(3_600));
    node.tick(at(5_500));
    assert_eq!(open(&node, &clients), SESSIONS - 1);
    // All are silent: the node waits, but not for ever.
    for second in 6..15 {
        renew(&mut node, second * 1_000);
        node.tick(at(second * 1_000));
        assert_eq!(open(&node, &clients), SESSIONS - 1, "after {second} s");
    }
    for second in 15..25 {
        renew(&mut node, second * 1_000);
        node.tick(at(second * 1_000));
    }
    assert_eq!(open(&node, &clients), 0);
}

/// If demand ends here, a client at another node may wait for the part.
#[test]
fn the_leader_hears_at_once_that_a_demand_is_over() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    for ms in (500..2_300).step_by(2) {
        let _ = client.try_acquire_at(B, token(&budget), at(ms));
    }
    let mut report_urgent = |client: &mut Client, ms: u64| {
        let report = client.report(at(ms), 0).expect("a report");
        node.handle_report(&report, at(ms));
        node.flush_urgent(at(ms));
        node.take_report_urgent()
    };
    assert!(report_urgent(&mut client, 2_300), "a demand began");
    for ms in (2_300..2_400).step_by(2) {
        let _ = client.try_acquire_at(B, token(&budget), at(ms));
    }
    assert!(!report_urgent(&mut client, 2_400), "it goes on");
    assert!(report_urgent(&mut client, 2_700), "it is over");
}

/// A line without news.
pub(crate) const SILENT: ReportLine = ReportLine::empty(B);

/// Two sessions at a node that has 100/s: one wants `beside`/s, the other 20/s and later `wanted`/s. Returns
/// the number of unsolicited answers after that, and the number of lines of the answer to the next report.
fn told_of_a_demand_for(wanted: u64, beside: u64) -> (usize, usize) {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert!(node.report(at(0), 0).is_some());
    let mut first = answer(edge(0, 1), 1, &budget, 0, whole(&budget));
    first.lease = Span::from_secs(3);
    node.handle_answer(&first, at(0));
    let mut clients = [(); 2].map(|()| {
        let mut client = Client::new(Drift::default());
        client.claim(B, Claim::default(), at(0));
        client.open(node.open_session(at(0)).expect("a session"), at(0));
        client
    });
    let say = |node: &mut Node, client: &mut Client, wanted: u64, now: Tick| {
        let mut report = client.report(now, 0).expect("a report");
        let (band, demand) = (Band::default(), given(&budget, [wanted, 0, 0, 0]));
        let curve = DemandCurve::of(demand.rate.grains(), Weight::default());
        report.lines.truncate(1);
        let line = report.lines.pop().unwrap_or(SILENT);
        report.lines.push(ReportLine {
            demand: vec![BandDemand { band, curve }],
            ..line
        });
        node.handle_report(&report, now);
        node.flush_urgent(now);
        let (received, others): (Vec<Answer>, Vec<Answer>) = answers(node)
            .into_iter()
            .partition(|answer| Some(answer.edge) == client.edge());
        let mut lines = 0;
        for answer in received {
            client.handle_answer(&answer, now);
            lines += answer.lines.len();
        }
        (others.len(), lines)
    };
    let mut now = at(0);
    for _ in 0..20 {
        now = now.after(Span::from_millis(100));
        for (client, wanted) in clients.iter_mut().zip([beside, 20]) {
            say(&mut node, client, wanted, now);
        }
        node.tick(now);
        answers(&mut node);
    }
    let (mut unasked, _) = say(&mut node, &mut clients[1], wanted, now);
    for _ in 0..4 {
        now = now.after(Span::from_millis(100));
        node.tick(now);
        unasked += answers(&mut node).len();
    }
    let (_, lines) = say(&mut node, &mut clients[0], beside, now);
    (unasked, lines)
}

#[test]
fn of_a_wobble_a_client_hears_with_its_next_report_and_of_more_at_once() {
    assert_eq!(told_of_a_demand_for(20, 80), (0, 0));
    assert_eq!(told_of_a_demand_for(22, 80), (0, 1));
    let (unasked, _) = told_of_a_demand_for(60, 80);
    assert!(unasked > 0, "who has what the other lacks is asked for it");
    // There is enough for both: moving a small part of the rest would help neither.
    assert_eq!(told_of_a_demand_for(21, 40), (0, 0));
}

#[test]
fn who_lacks_nothing_is_left_what_it_has_when_another_wants_less() {
    assert_eq!(told_of_a_demand_for(0, 80), (0, 0));
    let restless = || planted::with(Some(Bug::HeadroomRestless), || told_of_a_demand_for(0, 80));
    assert_ne!(restless(), (0, 0));
}

/// The demand in the report of a holder of a rate at a time, if it has a line, after it wanted 800 until 100 ms.
fn reported(held: u64, wanted: u64, millis: u64) -> Option<u64> {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut holder = Holder::new(edge(1, 1));
    let wants = |demand| {
        let demand = vec![BandDemand {
            band: Band::default(),
            curve: DemandCurve::of(demand, Weight::ONE),
        }];
        BTreeMap::from([(
            B,
            Wants {
                demand,
                ..Wants::default()
            },
        )])
    };
    let mut received = |demand, now| {
        let report = holder.report(now, 0, wants(demand)).expect("a report");
        let rate = Rate::from_grains(held);
        let given = Vector {
            rate,
            ..Vector::ZERO
        };
        let known = answer(edge(1, 1), report.seq.get(), &budget, 0, given);
        holder.handle_answer(now, &known);
        let line = report.lines.first();
        line.map(|line| line.demand.iter().map(|of| of.curve.total()).sum())
    };
    assert_eq!(received(800, at(100)), Some(800));
    assert_eq!(received(800, at(150)), None);
    received(wanted, at(200));
    received(wanted, at(millis))
}

/// The estimate of a single request falls for ten seconds, in as many steps as there are reports.
#[test]
fn a_small_change_of_a_sparse_demand_is_reported_once_a_second() {
    let waits = |held, demand| {
        assert_eq!(reported(held, demand, 1_000), None);
        assert_eq!(reported(held, demand, 1_100), Some(demand));
    };
    let is_sent_at_once = |held, demand| assert_eq!(reported(held, demand, 1_100), None);
    [500, 1_500]
        .into_iter()
        .for_each(|demand| waits(1_000, demand));
    [400, 1_600, 0]
        .into_iter()
        .for_each(|demand| is_sent_at_once(1_000, demand));
    // The parent knows that something is wanted of which nothing is held.
    [100, 1_600].into_iter().for_each(|demand| waits(0, demand));
    is_sent_at_once(0, 0);
    // However much it changes, it is little of what is held, and fades until it is over.
    assert_eq!(reported(100_000, 1_600, 12_000), None);
    assert_eq!(reported(100_000, 1_600, 12_100), Some(1_600));
    is_sent_at_once(100_000, 0);
    let never = || reported(1_000, 500, 9_000);
    assert_eq!(planted::with(Some(Bug::SmallFallUnsaid), never), None);
}

/// Returns the number of lines in the reports of a second, one in each tenth of it, of a holder whose demand for 1,200
/// budgets fell a little.
fn small_updates() -> Vec<usize> {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let mut holder = Holder::new(edge(1, 1));
    let mut lines = Vec::new();
    for step in 1..=40 {
        let now = at(step * 100);
        let demand = vec![BandDemand {
            band: Band::default(),
            curve: DemandCurve::of(if step <= 20 { 800 } else { 700 }, Weight::ONE),
        }];
        let wants = Wants {
            demand,
            ..Wants::default()
        };
        let all = (1..=150).map(|id| (BudgetId::new(id), wants.clone()));
        let report = holder.report(now, 0, all.collect()).expect("a report");
        lines.push(report.lines.len());
        let mut known = answer(edge(1, 1), report.seq.get(), &budget, 0, Vector::ZERO);
        let first = known.lines[0];
        known.lines = (1..=150)
            .map(|id| AnswerLine {
                budget: BudgetId::new(id),
                ..first
            })
            .collect();
        holder.handle_answer(now, &known);
    }
    lines.split_off(20)
}

/// New keys would wait behind them.
#[test]
fn a_report_updates_a_bounded_number_of_lines_that_changed_a_little() {
    let lines = small_updates();
    let all: usize = lines.iter().sum();
    assert!(lines.iter().all(|&lines| lines <= 100), "{lines:?}");
    assert_eq!(all, 150, "{lines:?}");
    let unbounded = planted::with(Some(Bug::UpdatesUnbounded), small_updates);
    assert!(unbounded.contains(&150), "{unbounded:?}");
}

/// Returns the lines that a client reports for one request within 15 seconds while it holds a rate, with a report
/// every 200 ms: the time of each, and its demand.
fn lines_of_a_request(held: u64) -> Vec<(u64, u64)> {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let held = given(&budget, [held, held, held, 0]);
    let mut client = leased(&budget, 0, held);
    let mut lines = Vec::new();
    for step in 1..=75 {
        let now = at(step * 200);
        if step == 10 {
            let taken = client.try_acquire_at(B, token(&budget), now);
            assert!(taken.is_ok());
        }
        let report = client.report(now, 0).expect("a report");
        let demands = report.lines.iter().map(demand_in);
        lines.extend(demands.map(|demand| (step * 200, demand)));
        let known = answer(edge(1, 1), report.seq.get(), &budget, 0, held);
        client.handle_answer(&known, now);
    }
    lines
}

fn demand_in(line: &ReportLine) -> u64 {
    line.demand.iter().map(|of| of.curve.total()).sum()
}

#[test]
fn a_request_costs_few_lines_until_it_is_forgotten() {
    let lines = lines_of_a_request(10).len();
    assert!(lines <= 4, "{lines}");
}

/// A single request is remembered as a small demand, which is little of 100 a second.
#[test]
fn a_request_that_is_little_of_what_is_held_costs_no_line_for_each_fall() {
    let lines = lines_of_a_request(100);
    let after: Vec<_> = lines.iter().filter(|(ms, _)| *ms >= 2_000).collect();
    assert!(after.len() <= 4, "{lines:?}");
    let begins = |(ms, demand): &&(u64, u64)| *ms <= 3_200 && *demand > 0;
    assert!(after.iter().any(begins), "{lines:?}");
    let ends = |(ms, demand): &&(u64, u64)| (12_000..13_000).contains(ms) && *demand == 0;
    assert!(after.last().is_some_and(ends), "{lines:?}");
}

/// A client that lacks something learns how little is wanted with the first part that is returned.
#[test]
fn a_part_that_is_recalled_is_returned_with_the_demand_of_that_time() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let held = given(&budget, [100, 100, 100, 0]);
    let mut client = leased(&budget, 0, held);
    let mut demand = Vec::new();
    for step in 1..=30 {
        let now = at(step * 200);
        if step == 10 {
            assert!(client.try_acquire_at(B, token(&budget), now).is_ok());
        }
        let report = client.report(now, 0).expect("a report");
        demand.extend(report.lines.iter().map(demand_in));
        let mut known = answer(edge(1, 1), report.seq.get(), &budget, 0, held);
        if step >= 29 {
            known.lines[0].target = given(&budget, [50, 50, 0, 0]);
        }
        client.handle_answer(&known, now);
    }
    let (last, before) = (demand.pop(), demand.pop());
    assert!(last < before && last > Some(0), "{before:?}, {last:?}");
}

/// Returns true if the fall of a client's demand from this rate to nothing is urgent to its node, which gave it 100/s
/// of 100/s and so has nothing for others.
fn end_is_urgent(demand: u64) -> bool {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, mut client) = node_with_client(&budget, whole(&budget));
    let mut say = |demand: u64, ms: u64| {
        let rate = given(&budget, [demand, 0, 0, 0]).rate.grains();
        let mut report = client.report(at(ms), 0).expect("a report");
        report.lines = vec![ReportLine {
            demand: vec![BandDemand {
                band: Band::default(),
                curve: DemandCurve::of(rate, Weight::ONE),
            }],
            ..SILENT
        }];
        node.handle_report(&report, at(ms));
        node.flush_urgent(at(ms));
        node.take_report_urgent()
    };
    say(demand, 600);
    say(0, 800)
}

#[test]
fn the_end_of_a_demand_is_urgent_unless_it_was_little_of_what_is_held() {
    assert!(end_is_urgent(50));
    assert!(!end_is_urgent(5));
}

/// Returns true if a report is urgent to a node with which a client spent this many of its ten tokens.
fn spending_is_urgent(spent: u64) -> bool {
    let budget = quota();
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    assert!(node.report(at(0), 0).is_some());
    let mut first = answer(edge(0, 1), 1, &budget, 1, given(&budget, [0, 0, 50, 0]));
    first.lease = Span::from_secs(3);
    node.handle_answer(&first, at(0));
    let edge = node.open_session(at(0)).expect("a session");
    let mut say = |seq: u64, spent: u64| {
        let mut report = Report {
            edge,
            ..wants(1, seq, 10 * token(&budget).grains())
        };
        report.lines[0].period = PeriodId::new(1);
        report.lines[0].returned.spent = given(&budget, [0, 0, spent, 0]).tokens;
        node.handle_report(&report, at(seq * 100));
        let urgent = node.take_report_urgent() && node.ledger().is_urgent();
        node.tick(at(seq * 100));
        let _ = node.poll_outputs();
        urgent
    };
    assert!(say(1, 0), "demand begins");
    assert!(!say(2, 0));
    say(3, spent)
}

/// A caller waits for the next part for less time than there is between usual reports.
#[test]
fn spending_half_of_a_part_of_a_quota_between_two_reports_is_urgent() {
    assert!(!spending_is_urgent(4));
    assert!(spending_is_urgent(6));
    let bug = Some(Bug::RunningOutUnsaid);
    assert!(!planted::with(bug, || spending_is_urgent(6)));
}

/// A caller may only look at a key, which is no demand, and still waits for the terms of its budget.
#[test]
fn the_first_claim_on_a_budget_waits_for_no_interval() {
    let budget = quota();
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let _ = node.report(at(0), 0).expect("a report");
    let mut alone = answer(edge(0, 1), 1, &budget, 0, Vector::ZERO);
    (alone.lease, alone.lines) = (Span::from_secs(3), Vec::new());
    node.handle_answer(&alone, at(0));
    let _ = node.report(at(0), 0).expect("a report");
    let _ = node.take_report_urgent();
    let claims = |node: &mut Node, ms: u64| {
        let mut client = Client::new(Drift::default());
        client.claim(B, Claim::default(), at(ms));
        client.open(node.open_session(at(ms)).expect("a session"), at(ms));
        assert!(client.is_urgent(at(ms)));
        node.handle_report(&client.report(at(ms), 0).expect("a report"), at(ms));
        node.flush_urgent(at(ms));
        assert_eq!(answers(node).len(), 1, "it has a lease, and no terms");
        node.take_report_urgent()
    };
    // A moment after the last report, whose lines are summed at intervals.
    assert!(claims(&mut node, 1));
    let report = node.report(at(2), 0).expect("a report");
    assert_eq!(report.lines.len(), 1, "it says that there is a claim");
    assert!(!claims(&mut node, 3), "the leader was asked already");
    let mut known = answer(edge(0, 1), report.seq.get(), &budget, 0, Vector::ZERO);
    (known.lease, known.number.number) = (Span::from_secs(3), Number::new(50));
    node.handle_answer(&known, at(4));
    node.flush_urgent(at(4));
    let told = answers(&mut node);
    assert_eq!(told.len(), 2, "both clients are told");
    assert!(told.iter().all(|answer| answer.lines.len() == 1));
}
