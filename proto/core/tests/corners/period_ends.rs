//! The end of a quota's period, and that everything of it is given away, reach the client.

use super::leader_host::LeaderHost;
use super::setup::*;
use aliquot_core::budget::Claim;
use aliquot_core::holder::PeriodEnd;
use aliquot_core::lease::longest_reading;
use std::collections::BTreeMap;

/// A node of a quota of a hundred a minute, and a client of it.
struct Pair {
    node: Node,
    client: Client,
    answers: u64,
}

impl Pair {
    fn new() -> Self {
        let mut node = Node::new(Incarnation::new(1), Drift::default());
        assert!(node.report(at(0), 0).is_some());
        let mut pair = Self {
            node,
            client: Client::new(Drift::default()),
            answers: 0,
        };
        pair.receive(at(0), (1, 3), Some((30_000, false)));
        pair.open(at(0));
        pair
    }

    /// Opens the client's session.
    fn open(&mut self, now: Tick) {
        self.client.claim(B, Claim::default(), now);
        let edge = self.node.open_session(now).expect("a session");
        self.client.open(edge, now);
    }

    /// The leader tells the node the total that it was given in a period, and the rest of the period.
    fn receive(
        &mut self,
        now: Tick,
        (period, tokens): (u64, u64),
        rest: Option<(u64, bool)>,
    ) -> Answer {
        if self.answers > 0 {
            assert!(self.node.report(now, 0).is_some());
        }
        self.answers += 1;
        let given = given(&quota(), [0, 0, tokens, 0]);
        let mut receive = answer(edge(0, 1), self.answers, &quota(), period, given);
        receive.lease = Span::from_secs(600);
        receive.lines[0].rest = rest.map(|(millis, exhausted)| PeriodRest {
            ends_in: Span::from_millis(millis),
            exhausted,
        });
        self.node.handle_answer(&receive, now);
        receive
    }

    /// The client takes what it has, and exchanges a report and an answer. Returns what it took.
    fn exchange(&mut self, now: Tick) -> u64 {
        self.exchange_at(now, now)
    }

    /// The same, while the clocks of the node and of the client read this.
    fn exchange_at(&mut self, node: Tick, client: Tick) -> u64 {
        let took = admits(&mut self.client, &quota(), client);
        let mut of = std::mem::replace(&mut self.client, Client::new(Drift::default()));
        self.node_hears(&mut of, node, client);
        self.client = of;
        took
    }

    /// A client sends a report, and takes its answer.
    fn node_hears(&mut self, of: &mut Client, node: Tick, client: Tick) {
        let report = of.report(client, 0).expect("a report");
        self.node.handle_report(&report, node);
        self.node.tick(node);
        for output in self.node.poll_outputs() {
            if let NodeOutput::Answer(answer) = output {
                of.handle_answer(&answer, client);
            }
        }
    }

    fn end(&self) -> Option<PeriodEnd> {
        self.client.holder()?.period_end(B)
    }

    /// Returns true if the client knows the end `millis`, late by a thousandth of the rest at most, and this.
    fn knows(&self, millis: u64, exhausted: bool) -> bool {
        let end = self.end().expect("it is known");
        let late = end.at.since(at(millis));
        end.at >= at(millis)
            && late <= Span::from_millis(millis / 1_000)
            && end.exhausted == exhausted
    }
}

#[test]
fn a_client_learns_when_its_period_ends_and_when_nothing_is_left_of_it() {
    let mut pair = Pair::new();
    assert_eq!(pair.exchange(at(0)), 0);
    assert!(pair.knows(30_000, false));
    // The leader has nothing left. The node has, until the client has taken it.
    pair.receive(at(100), (1, 3), Some((29_900, true)));
    let mut taken = 0;
    for round in 2..40 {
        taken += pair.exchange(at(round * 100));
        let exhausted = pair.end().is_some_and(|end| end.exhausted);
        assert!(pair.knows(30_000, exhausted));
        assert!(taken <= 3 && (taken == 3 || !exhausted));
    }
    assert_eq!(taken, 3);
    assert!(pair.knows(30_000, true));
    // More came back to the leader.
    pair.receive(at(4_000), (1, 3), Some((26_000, false)));
    pair.exchange(at(4_100));
    assert!(pair.knows(30_000, false));
    // The next period has an end of its own.
    pair.receive(at(4_200), (1, 3), Some((25_800, true)));
    pair.exchange(at(4_300));
    assert!(pair.knows(30_000, true));
    pair.receive(at(30_000), (2, 100), Some((60_000, false)));
    pair.exchange(at(30_100));
    assert!(pair.knows(90_000, false));
}

/// An answer that arrives again may be of any age.
#[test]
fn a_repeated_answer_does_not_move_the_end_of_a_period() {
    let mut pair = Pair::new();
    let receive = pair.receive(at(1_000), (1, 3), Some((29_000, true)));
    let end = |pair: &Pair| pair.node.holder().period_end(B).expect("it is known");
    assert_eq!(end(&pair).at, at(30_000));
    pair.node.handle_answer(&receive, at(9_000));
    assert_eq!(end(&pair).at, at(30_000));
    // A leader that does not know the end, as just after an election, may have something to give.
    assert!(end(&pair).exhausted);
    pair.receive(at(9_500), (1, 3), None);
    assert_eq!((end(&pair).at, end(&pair).exhausted), (at(30_000), false));
    // A later one counts, if the clocks of the quorum were set.
    pair.receive(at(10_000), (1, 3), Some((5_000, false)));
    assert_eq!(end(&pair).at, at(15_000));
}

/// Clocks that run as fast or as slowly as the bound allows.
#[test]
fn a_client_is_never_told_a_time_before_the_end_of_the_period() {
    const REST: u64 = 1_000_000;
    let clock = |ppm: u64, true_ms: u64| Tick::from_nanos(true_ms * ppm);
    for node in [999_000, 1_000_000, 1_001_000] {
        for client in [999_000, 1_000_000, 1_001_000] {
            let mut pair = Pair::new();
            let rest = longest_reading(Span::from_millis(REST), Drift::default());
            let receive = rest.nanos() / 1_000_000;
            pair.receive(clock(node, 10), (1, 3), Some((receive, true)));
            for true_ms in (0..10).map(|round| 10 + round * 50_000) {
                pair.exchange_at(clock(node, true_ms), clock(client, true_ms));
                let end = pair.end().expect("it is known").at.nanos();
                let end = end / client;
                let most = 10 + REST + REST * 3 / 1_000 + 10;
                assert!((10 + REST..=most).contains(&end), "{node} {client}: {end}");
            }
        }
    }
}

/// The node waits for what another client holds.
#[test]
fn a_quota_of_which_a_part_comes_back_is_not_spent() {
    let mut pair = Pair::new();
    pair.receive(at(0), (1, 100), Some((30_000, true)));
    assert_eq!(pair.exchange(at(0)), 0);
    // The first client got nearly everything.
    let mut first = std::mem::replace(&mut pair.client, Client::new(Drift::default()));
    assert!(first.try_acquire_at(B, token(&quota()), at(10)).is_ok());
    pair.node_hears(&mut first, at(10), at(10));
    pair.open(at(500));
    let mut taken = 0;
    for millis in [510, 610, 710] {
        taken += pair.exchange(at(millis));
        assert!(pair.knows(30_000, false), "at {millis}");
    }
    let before = taken;
    for round in 8..80 {
        let now = at(round * 100);
        pair.node_hears(&mut first, now, now);
        taken += pair.exchange(now);
    }
    assert!(taken > before);
    // The node decides about the last one, and its replies tell when that is gone.
    let mut allotments = pair.client.allotments();
    let terms = allotments.find_map(|(_, of)| of.terms());
    assert!(terms.is_some_and(|terms| terms.central_mode), "{taken}");
    assert!(pair.knows(30_000, false));
}

/// A leader, and three nodes that want a quota.
struct Leading {
    host: LeaderHost,
    reports: u64,
    heard: BTreeMap<u64, Heard>,
    /// Whole tokens that each node wants.
    wanted: [u64; 3],
    /// True if nodes spend what they are given at once, and false if they keep it until it is recalled.
    spends: bool,
    received: BTreeMap<u64, AnswerLine>,
    /// An entry that comes into the log before the next grants.
    overtakes: Option<Command>,
}

/// A line that a node received.
struct Received {
    millis: u64,
    node: u64,
    line: AnswerLine,
}

impl Received {
    fn is_exhausted(&self) -> bool {
        self.line.rest.is_some_and(|rest| rest.exhausted)
    }

    /// Returns the whole tokens that the node was given in this period.
    fn given(&self) -> u64 {
        self.line.given.tokens.grains() / token(&quota()).grains()
    }
}

impl Leading {
    fn of(quota: Budget, wanted: [u64; 3]) -> Self {
        let mut leading = Self {
            host: LeaderHost::open(),
            reports: 0,
            heard: BTreeMap::new(),
            wanted,
            spends: false,
            received: BTreeMap::new(),
            overtakes: None,
        };
        leading.host.put(quota);
        leading
    }

    fn report(&self, node: u64, time: u64) -> Report {
        let heard = self.heard.get(&node).copied().unwrap_or_default();
        let wanted = (1..).zip(self.wanted).find(|&(id, _)| id == node);
        let wanted = wanted.map_or(0, |(_, wanted)| wanted);
        let mut report = Report {
            seq: Seq::new(self.reports),
            heard,
            seen: heard,
            wall_ms: DAWN + i64::try_from(time).expect("short"),
            ..wants(node, 1, wanted * token(&quota()).grains())
        };
        if let Some(received) = self.received.get(&node) {
            report.lines[0].period = received.period;
            match self.spends {
                true => report.lines[0].returned.spent = received.given.tokens,
                false => report.lines[0].returned.tokens = received.target.tokens,
            }
        }
        report
    }

    /// Returns the lines that the nodes receive in the next half second.
    fn next(&mut self) -> Vec<Received> {
        self.reports += 1;
        let time = self.reports * 500;
        for node in 1..=3 {
            let report = self.report(node, time);
            let LeaderHost { state, leader, .. } = &mut self.host;
            leader.handle_report(&report, state, at(time));
        }
        let mut lines = Vec::new();
        for millis in (0..5).map(|part| time + part * 100) {
            for answer in self.answers(at(millis)) {
                let node = answer.edge.child.get();
                self.heard.insert(node, answer.number);
                if let Some(&line) = answer.lines.first() {
                    self.received.insert(node, line);
                    lines.push(Received { millis, node, line });
                }
            }
        }
        lines
    }

    fn answers(&mut self, now: Tick) -> Vec<Answer> {
        let mut answers = Vec::new();
        for output in self.host.leader.tick(&self.host.state, now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let LeaderHost { state, leader, .. } = &mut self.host;
                    answers.extend(leader.acknowledged(barrier, state, now));
                }
                LeaderOutput::Propose(command) => {
                    let grants = matches!(&command, Command::Round(of) if !of.grants.is_empty());
                    if let Some(entry) = self.overtakes.take_if(|_| grants) {
                        self.host.apply(Some(&entry), now);
                    }
                    self.host.apply(Some(&command), now);
                }
            }
        }
        let LeaderHost { state, leader, .. } = &mut self.host;
        answers.extend(leader.poll_answers(state, now));
        answers
    }
}

#[test]
fn a_leader_tells_the_rest_of_a_period_by_the_clocks_of_a_quorum() {
    let mut leading = Leading::of(quota(), [100, 0, 0]);
    leading.spends = true;
    let lines = (0..150).flat_map(|_| leading.next());
    let begun = lines.filter(|of| of.node == 1 && of.line.period > PeriodId::new(0));
    let begun: Vec<_> = begun.collect();
    for Received { millis, line, .. } in &begun {
        let minute = if *millis < 60_000 { 60_000 } else { 120_000 };
        let rest = Span::from_millis(minute - millis);
        let receive = line.rest.expect("the clocks are known").ends_in;
        // It is late by the drift bound, and by the age of the reports that told the clocks.
        let most = longest_reading(rest.plus_or_max(Span::from_millis(500)), Drift::default());
        assert!((longest_reading(rest, Drift::default())..=most).contains(&receive));
    }
    let periods = |at: usize| begun[at].line.period;
    let (first, last) = (periods(0), periods(begun.len() - 1));
    assert_eq!(first.next(), Some(last));
    // Everything is given away at some time of each period, and not before.
    for period in [first, last] {
        let of = |of: &&Received| of.line.period == period;
        assert!(begun.iter().filter(of).any(Received::is_exhausted));
        let early = |of: &Received| of.is_exhausted() && of.given() < 100;
        assert!(!begun.iter().filter(of).any(early));
        // The line that gives the last of it says so, too: a client that spends it at once knows when more comes.
        let late = |of: &Received| !of.is_exhausted() && of.given() == 100;
        assert!(!begun.iter().filter(of).any(late));
    }
}

fn of_a_minute(tokens: u64) -> Budget {
    budget(|draft| draft.quota = Some(format!("{tokens}/minute").into()))
}

/// Returns true if some line says that a quota of three tokens is exhausted, while one of them comes back from the
/// second node, as the third one is given the last.
fn exhausted_while_a_part_comes_back() -> bool {
    let mut leading = Leading::of(of_a_minute(3), [1, 1, 0]);
    for _ in 0..4 {
        assert!(!leading.next().iter().any(Received::is_exhausted));
    }
    leading.wanted = [1, 0, 1];
    let lines: Vec<_> = (0..4).flat_map(|_| leading.next()).collect();
    assert!(lines.iter().any(|of| of.node == 3 && of.given() == 1));
    let early = lines.iter().any(Received::is_exhausted);
    // The returned tokens are granted to the second node, and are the last of the quota.
    leading.wanted = [1, 1, 1];
    let lines: Vec<_> = (0..4).flat_map(|_| leading.next()).collect();
    let of = |of: &Received| of.node == 2 && of.given() == 2 && of.is_exhausted();
    assert!(lines.iter().any(of));
    early
}

#[test]
fn a_leader_to_which_a_part_comes_back_does_not_call_a_quota_exhausted() {
    assert!(!exhausted_while_a_part_comes_back());
    let bug = Some(Bug::ComingBackIgnored);
    assert!(planted::with(bug, exhausted_while_a_part_comes_back));
}

/// The second node is removed while its part of the last grants is on its way into the log.
#[test]
fn a_quota_whose_last_grant_is_refused_is_not_exhausted() {
    let mut leading = Leading::of(of_a_minute(2), [0, 0, 0]);
    for _ in 0..4 {
        leading.next();
    }
    leading.wanted = [0, 1, 1];
    leading.overtakes = Some(Command::Remove {
        node: NodeId::new(2),
    });
    let lines: Vec<_> = (0..4).flat_map(|_| leading.next()).collect();
    assert!(lines.iter().any(|of| of.node == 3 && of.given() == 1));
    assert!(!lines.iter().any(|of| of.node == 2 && of.given() == 1));
    assert!(!lines.iter().any(Received::is_exhausted));
}
