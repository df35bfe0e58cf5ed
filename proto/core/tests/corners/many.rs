//! Corner cases of very many budgets: more than a message has lines, and budgets that have ended.

use super::haste::whole;
use super::setup::*;
use aliquot_core::command::Ending;
use aliquot_core::holder::{Holder, Wants};
use std::collections::BTreeMap;

/// A leader, a node that has joined as incarnation 1, and clients that want every budget.
struct Cluster {
    state: State,
    leader: Leader,
    node: Node,
    clients: Vec<Holder>,
    reported: Tick,
    index: u64,
    term: u64,
}

impl Cluster {
    /// Number of budgets that each client claims.
    const EACH: u64 = 12_500;

    /// Returns a cluster with `budgets` budgets, which the leader has just learned of.
    fn new(budgets: u64) -> Self {
        let mut cluster = Self {
            state: State::new(),
            leader: Leader::new(Pace::default()),
            node: Node::new(Incarnation::new(1), Drift::default()),
            clients: Vec::new(),
            reported: at(0),
            index: 0,
            term: 0,
        };
        for node in 1..=3 {
            cluster.log(&Command::Join {
                node: NodeId::new(node),
                request: RequestId::new(node),
            });
        }
        cluster.log(&Command::PutRule {
            request: RequestId::new(9),
            budget: budget(|draft| {
                draft.key = "key/*".into();
                draft.rate = Some("100/s".into());
            }),
            creator: None,
        });
        let keys: Vec<String> = (1..=budgets).map(|key| format!("key/{key}")).collect();
        for keys in keys.chunks(10_000) {
            let keys = keys.to_vec();
            cluster.log(&Command::Instantiate {
                keys,
                creator: None,
            });
        }
        for first in (1..=budgets).step_by(Self::EACH as usize) {
            let edge = cluster.node.open_session(at(0)).expect("a session");
            let mut client = Holder::new(edge);
            let wants = first..=(first + Self::EACH - 1).min(budgets);
            let wants = wants.map(|id| (BudgetId::new(id), wanted(1 << 30)));
            let report = client.report(at(0), 0, wants.collect()).expect("a report");
            cluster.node.handle_report(&report, at(0));
            cluster.clients.push(client);
        }
        cluster
    }

    fn log(&mut self, command: &Command) {
        self.index += 1;
        let effects = self.state.apply(self.index, Some(command));
        for ended in effects.iter().filter_map(|effect| effect.ended()) {
            self.node.forget(ended);
        }
        let (term, command) = (Term::new(self.term), Some(command));
        self.leader
            .applied(term, command, &effects, &self.state, at(0));
    }

    /// Makes another leader ready, which has received nothing.
    fn elect(&mut self, now: Tick) {
        self.term += 1;
        self.index += 1;
        // A new leader asks every node, and the node answers at once.
        self.reported = at(0);
        self.leader.elected(Term::new(self.term), &self.state, now);
        let effects = self.state.apply(self.index, None);
        self.leader
            .applied(Term::new(self.term), None, &effects, &self.state, now);
    }

    /// Exchanges all reports and answers at once.
    fn step(&mut self, now: Tick) {
        for client in &mut self.clients {
            if let Some(report) = client.report(now, 0, BTreeMap::new()) {
                assert!(report.lines.len() <= ReportLine::LINES_MAX);
                self.node.handle_report(&report, now);
            }
        }
        self.node.tick(now);
        for output in self.node.poll_outputs() {
            let NodeOutput::Answer(answer) = output else {
                panic!("the incarnation is over");
            };
            assert!(answer.lines.len() <= AnswerLine::LINES_MAX);
            let client = self.clients.iter_mut();
            for client in client.filter(|client| client.edge() == answer.edge) {
                client.handle_answer(now, &answer);
            }
        }
        let due = now.since(self.reported) >= Span::from_millis(450);
        if self.node.take_report_urgent() || due {
            self.reported = now;
            let report = self.node.report(now, DAWN).expect("a report");
            assert!(report.lines.len() <= ReportLine::LINES_MAX);
            let answer = self.leader.handle_report(&report, &self.state, now);
            self.hear(answer, now);
        }
        self.lead(now);
    }

    fn lead(&mut self, now: Tick) {
        for output in self.leader.tick(&self.state, now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let answers = self.leader.acknowledged(barrier, &self.state, now);
                    self.hear(answers, now);
                }
                LeaderOutput::Propose(command) => {
                    self.index += 1;
                    let effects = self.state.apply(self.index, Some(&command));
                    let (term, command) = (Term::new(self.term), Some(&command));
                    self.leader
                        .applied(term, command, &effects, &self.state, now);
                }
            }
        }
        let answers = self.leader.poll_answers(&self.state, now);
        self.hear(answers, now);
    }

    fn hear(&mut self, answers: impl IntoIterator<Item = Answer>, now: Tick) {
        for answer in answers {
            assert!(answer.lines.len() <= AnswerLine::LINES_MAX);
            if answer.edge == self.node.holder().edge() {
                let ended = |budget| self.state.has_ended(budget);
                self.node.handle_answer_but(&answer, now, ended);
            }
        }
    }

    /// Returns the number of budgets for which the leader knows the node's demand.
    fn known(&self) -> usize {
        let child = self.leader.ledger().child(Incarnation::new(1));
        child.map_or(0, |child| {
            let claims = child.claims.values();
            claims.filter(|claim| !claim.demand().is_empty()).count()
        })
    }

    fn held(&self) -> usize {
        let holder = self.node.holder();
        let held = holder.counters().map(|(budget, _)| holder.holding(budget));
        held.filter(|held| !held.is_zero()).count()
    }
}

pub(crate) fn wanted(units: u64) -> Wants {
    let band = BandDemand {
        band: Band::default(),
        curve: aliquot_core::demand::DemandCurve::of(units, Weight::ONE),
    };
    Wants {
        demand: vec![band],
        ..Wants::default()
    }
}

/// The node's lines take a dozen reports and its grants as many answers. Neither its lease nor one of a later
/// leader waits for that.
#[test]
fn a_node_with_fifty_thousand_keys_keeps_its_lease_through_all_their_lines() {
    const KEYS: usize = 50_000;
    let mut cluster = Cluster::new(KEYS as u64);
    cluster.elect(at(0));
    let step = 20;
    let mut now = 0;
    let mut until = |cluster: &mut Cluster, what: &str, done: fn(&Cluster) -> bool| {
        let begin = now;
        while !done(cluster) {
            cluster.step(at(now));
            assert!(
                now == 0 || cluster.node.is_leased(at(now)),
                "no lease after {now} ms"
            );
            now += step;
            assert!(now < begin + 4_000, "{what}: {} known", cluster.known());
        }
        now
    };
    until(&mut cluster, "asking", |cluster| cluster.known() == KEYS);
    let given = until(&mut cluster, "giving", |cluster| cluster.held() == KEYS);
    cluster.elect(at(given));
    assert_eq!(cluster.known(), 0);
    let received = until(&mut cluster, "asking anew", |of| of.known() == KEYS);
    assert!(received - given <= 1_000, "{} ms", received - given);
}

/// An urgent line does not wait behind fifty thousand lines of other budgets.
#[test]
fn demand_that_begins_is_in_the_next_report_whatever_else_is_to_be_said() {
    let mut holder = Holder::new(edge(0, 1));
    let idle = (1..=50_000).map(|id| (BudgetId::new(id), wanted(0)));
    let first = holder.report(at(0), 0, idle.collect()).expect("a report");
    assert_eq!(first.lines.len(), ReportLine::LINES_MAX / 4 * 3);
    let taken = Answer {
        edge: edge(0, 1),
        number: Heard {
            term: Term::new(1),
            number: Number::new(1),
        },
        answers: Seq::new(1),
        taken: Seq::new(1),
        lease: Span::from_secs(3),
        verdict: Verdict::Open,
        lines: Vec::new(),
    };
    holder.handle_answer(at(1), &taken);
    assert!(holder.has_more(), "others wait");
    // Room for urgent lines is kept whatever else is under way.
    let none = BTreeMap::new();
    let bulk = holder.report(at(1), 0, none).expect("a report");
    assert!(bulk.lines.len() <= ReportLine::LINES_MAX && !bulk.lines.is_empty());
    let begins: BTreeMap<_, _> = (49_000..49_100)
        .map(|id| (BudgetId::new(id), wanted(7)))
        .collect();
    let next = holder.report(at(2), 0, begins.clone()).expect("a report");
    let sent_lines = |budget: &BudgetId| next.lines.iter().any(|line| line.budget == *budget);
    assert!(begins.keys().all(sent_lines));
}

/// Renewals of leases wait while a node makes its report. So one report sums a part of what has changed, and the
/// next goes on at once.
#[test]
fn a_report_sums_a_bounded_number_of_claims_however_many_have_changed() {
    const PART: usize = Node::SUMS_MAX;
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let mut client = Holder::new(node.open_session(at(0)).expect("a session"));
    let wants = (1..=PART as u64 * 3).map(|id| (BudgetId::new(id), wanted(7)));
    let report = client.report(at(0), 0, wants.collect()).expect("a report");
    assert_eq!(report.lines.len(), PART * 3);
    node.handle_report(&report, at(0));
    assert!(node.take_report_urgent(), "demand begins");
    // None is acknowledged, so lines that were sent are repeated, as many as a report may have.
    let all = Node::LINES_MAX;
    for (sent_lines, goes_on) in [(PART, true), (all, true), (all, false), (all, false)] {
        let report = node.report(at(1), DAWN).expect("a report");
        assert_eq!(report.lines.len(), sent_lines);
        assert_eq!(node.take_report_urgent(), goes_on);
    }
}

/// Number of keys of the session that [`lapsed`] closes.
const LAPSED_KEYS: u64 = 1_000;

fn lapsed_keys() -> impl Iterator<Item = BudgetId> + Clone {
    (1..=LAPSED_KEYS).map(BudgetId::new)
}

/// Returns the number of keys of which an open edge of the session holds something.
fn held_by(node: &Node, session: Incarnation) -> u64 {
    let accounts = lapsed_keys().filter_map(|id| node.account(id));
    let held = accounts.filter(|account| !account.holding(session).is_zero());
    held.count() as u64
}

/// A node whose only session was granted parts of many keys of this budget, and was closed just now because its lease
/// was over. Returns the node, the session, and the time in milliseconds.
fn lapsed(budget: &Budget, whole: Vector) -> (Node, Incarnation, u64) {
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let edge = node.open_session(at(0)).expect("a session");
    let mut client = Holder::new(edge);
    let wants = lapsed_keys().map(|id| (id, wanted(7))).collect();
    let report = client.report(at(0), 0, wants).expect("a report");
    node.handle_report(&report, at(0));
    let report = node.report(at(0), DAWN).expect("a report");
    let grants = lapsed_keys().map(|id| AnswerLine {
        budget: id,
        period: PeriodId::new(0),
        given: whole,
        target: Vector::ZERO,
        terms: Terms::from(budget),
        rest: None,
    });
    let mut answer = answer(report.edge, report.seq.get(), budget, 0, Vector::ZERO);
    answer.lines = grants.collect();
    node.handle_answer(&answer, at(0));
    for turn in 0..20 {
        node.flush_urgent(at(turn));
    }
    assert_eq!(held_by(&node, edge.child), LAPSED_KEYS);
    // It says nothing until its lease is over, and the node has a lease meanwhile.
    let mut now = 0;
    while node.ledger().child(edge.child).is_some() {
        now += 400;
        assert!(now < 20_000, "it is closed some time");
        let report = node.report(at(now), DAWN).expect("a report");
        let renewal = Answer {
            answers: report.seq,
            taken: report.seq,
            number: Heard {
                number: Number::new(100 + now),
                ..answer.number
            },
            lines: Vec::new(),
            ..answer.clone()
        };
        node.handle_answer(&renewal, at(now));
        node.tick(at(now));
    }
    (node, edge.child, now)
}

/// Renewals of leases wait while a node frees the parts of a session that has ended. So it frees some of them at a time,
/// and none of them is used by another session before.
#[test]
fn the_parts_of_a_closed_session_are_freed_some_at_a_time() {
    let budget = rate(ExpiryDraft::Word("deny".into()));
    let (mut node, session, now) = lapsed(&budget, whole(&budget));
    let mut left = held_by(&node, session);
    assert!(
        left < LAPSED_KEYS && left > LAPSED_KEYS / 2,
        "{left} are left"
    );
    while left > 0 {
        assert_eq!(node.poll_timeout(at(now)), Some(at(now)), "it goes on");
        node.flush_urgent(at(now));
        let before = std::mem::replace(&mut left, held_by(&node, session));
        assert!(left < before && before - left <= 200, "{before} to {left}");
    }
    node.flush_urgent(at(now));
    assert_ne!(node.poll_timeout(at(now)), Some(at(now)), "all is freed");
}

/// Permits of a closed session stay booked for as long as one may be held, whichever of them are freed first.
#[test]
fn permits_of_a_closed_session_are_kept_for_their_time_and_then_free() {
    let budget = budget(|draft| {
        draft.concurrency = Some("10".into());
        draft.max_hold = Some("5s".into());
    });
    let (mut node, session, now) = lapsed(&budget, given(&budget, [0, 10, 0, 0]));
    while held_by(&node, session) > 0 {
        node.flush_urgent(at(now));
    }
    let kept = |node: &Node| {
        let accounts = lapsed_keys().filter_map(|id| node.account(id));
        accounts.filter(|account| account.keeps(session)).count() as u64
    };
    assert_eq!(kept(&node), LAPSED_KEYS);
    node.tick(at(now + 10_000));
    assert_eq!(kept(&node), 0);
}

/// Returns an answer that repeats the grant of the first budget.
fn late_answer(node: &Node) -> Answer {
    let holder = node.holder();
    let line = AnswerLine {
        budget: B,
        period: PeriodId::new(0),
        given: holder.counters_of(B).expect("it was given").given,
        target: Vector::ZERO,
        terms: *holder.terms(B).expect("it was given"),
        rest: None,
    };
    Answer {
        edge: holder.edge(),
        number: Heard {
            term: Term::new(1),
            number: Number::new(1 << 40),
        },
        answers: holder.lease().last_sent(),
        taken: Seq::new(0),
        lease: Span::from_secs(3),
        verdict: Verdict::Open,
        lines: vec![line],
    }
}

/// Applies an entry by which all of the first budget came back and it ended.
fn end(cluster: &mut Cluster) {
    let counters = cluster.node.holder().counters_of(B);
    let back = Movement {
        child: Incarnation::new(1),
        budget: B,
        period: PeriodId::new(0),
        total: counters.expect("it was given").given,
    };
    let ends = Ending {
        budget: B,
        full: true,
    };
    let round = |releases: Vec<Movement>, endings: Vec<Ending>| {
        Command::Round(Changes {
            round: Round::new(1 << 40),
            releases,
            endings,
            ..Changes::default()
        })
    };
    cluster.log(&round(vec![back], Vec::new()));
    cluster.log(&round(Vec::new(), vec![ends]));
    assert!(cluster.state.budget(B).is_none());
}

/// Ends the first budget, which the node gave back, and delivers everything under way afterwards. Returns
/// true for each of the node, the leader and the client that still has any state of it.
fn after_the_end() -> [bool; 3] {
    let mut cluster = Cluster::new(2);
    cluster.elect(at(0));
    for round in 0..20 {
        cluster.step(at(round * 100));
    }
    assert_eq!((cluster.known(), cluster.held()), (2, 2));
    let client = &mut cluster.clients[0];
    let mut late_client = client
        .report(at(2_000), 0, [(B, wanted(9))].into())
        .expect("one");
    late_client.seq = Seq::new(1 << 40);
    let mut late_report = wants(1, 1, 1 << 33);
    late_report.seq = Seq::new(1 << 40);
    // The client's claim ends, and its part comes back.
    for round in 20..60 {
        let now = at(round * 100);
        let client = &mut cluster.clients[0];
        client.retire(B);
        let held = client.holding(B);
        client.give_back(B, held).expect("it is held");
        cluster.step(now);
    }
    let (now, late_answer) = (at(6_000), late_answer(&cluster.node));
    end(&mut cluster);
    let ended = |budget| cluster.state.has_ended(budget);
    let (node, leader) = (&mut cluster.node, &mut cluster.leader);
    node.handle_answer_but(&late_answer, now, ended);
    node.handle_report_under(&late_client, now, |_| None, ended);
    leader.handle_report(&late_report, &cluster.state, now);
    cluster.clients[0].forget(B);
    [
        node.remembered().contains(&B),
        leader.ledger().remembered().any(|id| id == B),
        cluster.clients[0].remembered().any(|id| id == B),
    ]
}

#[test]
fn nothing_is_remembered_of_a_budget_that_has_ended_whatever_comes_late() {
    assert_eq!(after_the_end(), [false; 3]);
    let [node, leader, _] = planted::with(Some(Bug::EndForgotten), after_the_end);
    assert!(node && leader, "what comes late is taken");
}

#[test]
fn what_was_not_followed_is_swept() {
    let mut cluster = Cluster::new(3);
    cluster.elect(at(0));
    for round in 0..20 {
        cluster.step(at(round * 100));
    }
    let third = BudgetId::new(3);
    assert_eq!(cluster.node.remembered().len(), 3);
    cluster.node.sweep(|budget| budget != third);
    assert_eq!(cluster.node.remembered(), [third].into());
    cluster.node.sweep(|_| true);
    assert!(cluster.node.remembered().is_empty());
}

/// Shorter reports leave out what can wait, and go on with it once they are answered.
#[test]
fn a_limited_report_has_the_urgent_lines_first_and_the_others_follow() {
    let mut holder = Holder::new(edge(0, 1));
    let wants = (1..=1_000).map(|id| (BudgetId::new(id), wanted(u64::from(id > 900))));
    let mut wants: BTreeMap<_, _> = wants.collect();
    let mut sent_lines = std::collections::BTreeSet::new();
    for seq in 1..=6 {
        holder.limit_report(256);
        let report = holder.report(at(seq), 0, std::mem::take(&mut wants));
        let lines = report.expect("a report").lines;
        assert!(lines.len() <= 256, "{}", lines.len());
        let urgent = |line: &ReportLine| line.budget > BudgetId::new(900);
        assert_eq!(lines.iter().any(urgent), seq == 1);
        sent_lines.extend(lines.iter().map(|line| line.budget));
        let taken = Answer {
            edge: edge(0, 1),
            number: Heard {
                term: Term::new(1),
                number: Number::new(seq),
            },
            answers: Seq::new(seq),
            taken: Seq::new(seq),
            lease: Span::from_secs(3),
            verdict: Verdict::Open,
            lines: Vec::new(),
        };
        holder.handle_answer(at(seq), &taken);
        assert_eq!(holder.has_more(), sent_lines.len() < 1_000);
    }
    assert_eq!(sent_lines.len(), 1_000);
}

/// Answers every report of a holder. Returns the lines of these reports until the holder has nothing more to say.
fn all_lines(holder: &mut Holder, from: u64) -> Vec<Vec<ReportLine>> {
    let mut reports = Vec::new();
    for number in from.. {
        let report = holder.report(at(number), 0, BTreeMap::new());
        let report = report.expect("a report");
        let known = number > from;
        assert_eq!(report.basis > Seq::new(0), known);
        let number = Heard {
            term: Term::new(2),
            number: Number::new(number),
        };
        reports.push(report.lines);
        holder.handle_answer(at(number.number.get()), &taken(number, report.seq));
        if !holder.has_more() {
            break;
        }
    }
    reports
}

fn taken(number: Heard, seq: Seq) -> Answer {
    Answer {
        edge: edge(0, 1),
        number,
        answers: seq,
        taken: seq,
        lease: Span::from_secs(3),
        verdict: Verdict::Open,
        lines: Vec::new(),
    }
}

/// Renewals of leases wait while lines are queued. So a report queues a part of them, and the next goes on at once.
#[test]
fn what_another_parent_must_know_is_queued_in_parts_and_what_is_wanted_comes_first() {
    const KEYS: u64 = 50_000;
    const WANTED: u64 = 100;
    let mut holder = Holder::new(edge(0, 1));
    let wants = (1..=KEYS).map(|id| (BudgetId::new(id), wanted(9)));
    holder.report(at(0), 0, wants.collect()).expect("a report");
    let idle = (1..=KEYS - WANTED).map(|id| (BudgetId::new(id), wanted(0)));
    holder.report(at(0), 0, idle.collect()).expect("a report");
    // Another parent has received nothing.
    let number = |number| Heard {
        term: Term::new(2),
        number: Number::new(number),
    };
    holder.handle_answer(at(1), &taken(number(1), Seq::new(2)));
    let lost = Answer {
        taken: Seq::new(0),
        ..taken(number(2), Seq::new(2))
    };
    holder.handle_answer(at(2), &lost);
    assert!(holder.has_more() && holder.is_waiting(BudgetId::new(KEYS)));
    let reports = all_lines(&mut holder, 3);
    let wanted = |line: &ReportLine| line.budget > BudgetId::new(KEYS - WANTED);
    let first = reports.iter().position(|lines| lines.iter().any(wanted));
    let first = first.expect("what is wanted");
    assert!((4..=8).contains(&first), "{first}");
    assert!(reports[..first].iter().all(Vec::is_empty));
    let told: std::collections::BTreeSet<_> =
        reports.iter().flatten().map(|of| of.budget).collect();
    assert_eq!(told.len() as u64, KEYS);
    assert!(!holder.is_waiting(BudgetId::new(1)));
}

/// A report of which nothing is sent yet is answered with the next barrier. What is queued after it does not wait for
/// that.
#[test]
fn a_node_goes_on_queueing_without_an_answer() {
    const KEYS: u64 = 20_000;
    let mut cluster = Cluster::new(KEYS);
    cluster.elect(at(0));
    let mut now = 0;
    let mut until = |cluster: &mut Cluster, done: &dyn Fn(&Cluster) -> bool| {
        while !done(cluster) {
            now += 20;
            cluster.step(at(now));
            assert!(now < 10_000, "{} known", cluster.known());
        }
        now
    };
    let then = until(&mut cluster, &|cluster| cluster.held() as u64 == KEYS);
    for (client, first) in cluster.clients.iter_mut().zip([1, Cluster::EACH + 1]) {
        let keys = first..=(first + Cluster::EACH - 1).min(KEYS);
        let idle = keys.map(|id| (BudgetId::new(id), Wants::default()));
        let report = client.report(at(then), 0, idle.collect());
        let report = report.expect("a report");
        cluster.node.handle_report(&report, at(then));
    }
    let then = until(&mut cluster, &|cluster| cluster.known() == 0);
    cluster.elect(at(then));
    let last = BudgetId::new(KEYS);
    let then = until(&mut cluster, &|of| of.node.holder().is_waiting(last));
    for more in [true, true, false] {
        let report = cluster.node.report(at(then), DAWN).expect("a report");
        assert_eq!(report.lines.is_empty(), more, "{}", report.lines.len());
        assert_eq!(cluster.node.take_report_urgent(), more);
    }
}
