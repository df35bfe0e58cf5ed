//! Memory that one key takes in each machine that knows it. Run one of these alone: what is resident belongs to the process.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use super::setup::*;
use aliquot_core::holder::{Holder, Wants};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const KEYS: u64 = 100_000;
/// Number of keys of one session.
const EACH: u64 = 10_000;
/// Number of keys in one message.
const LINES: u64 = 2_500;
/// Number of reports after which everything is known and divided.
const ROUNDS: usize = 40;
const NODE: Incarnation = Incarnation::new(1);

fn resident() -> u64 {
    const PAGE: u64 = 4_096;
    let has_line = std::fs::read_to_string("/proc/self/statm").expect("a Linux machine");
    let pages = has_line
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok());
    PAGE * pages.unwrap_or(0_u64)
}

/// Prints the bytes for each key that `make` leaves resident, and returns what it made.
fn measured<T>(of: &str, make: impl FnOnce() -> T) -> T {
    let before = resident();
    let made = make();
    println!("{of}: {} bytes for each key", (resident() - before) / KEYS);
    made
}

/// Returns a state with all keys as instances of one template, each granted to the first node.
fn state() -> State {
    let mut state = State::new();
    for node in 1..=3 {
        let join = Command::Join {
            node: NodeId::new(node),
            request: RequestId::new(node),
        };
        state.apply(node, Some(&join));
    }
    let put = Command::PutRule {
        request: RequestId::new(9),
        budget: template(),
        creator: None,
    };
    state.apply(4, Some(&put));
    for (index, first) in (5..).zip((1..=KEYS).step_by(1_000)) {
        let keys = (first..first + 1_000).map(|key| format!("k/{key:06}"));
        let instantiate = Command::Instantiate {
            keys: keys.collect(),
            creator: Some(NODE),
        };
        state.apply(index, Some(&instantiate));
    }
    state
}

fn template() -> Budget {
    budget(|draft| {
        draft.key = "k/*".into();
        draft.rate = Some("100/s".into());
        draft.burst = Some("100".into());
    })
}

/// Returns the keys in parts of `most`.
fn parts(keys: RangeInclusive<u64>, most: u64) -> impl Iterator<Item = Vec<BudgetId>> {
    let last = *keys.end();
    let firsts = keys.step_by(most.try_into().expect("a number"));
    firsts.map(move |first| {
        let part = first..=last.min(first + most - 1);
        part.map(BudgetId::new).collect()
    })
}

fn demand(tokens: u64) -> Vec<BandDemand> {
    wants(1, 1, tokens << 20).lines.remove(0).demand
}

/// Returns an answer that confirms report `seq`, with a grant of each of these budgets.
fn grants(edge: Edge, seq: Seq, budgets: &[BudgetId]) -> Answer {
    let whole = template();
    let given = given(&whole, [80, 80, 80, 0]);
    let line = answer(edge, seq.get(), &whole, 0, given).lines.remove(0);
    let lines = budgets.iter().map(|&budget| AnswerLine { budget, ..line });
    Answer {
        lease: Span::from_secs(3),
        lines: lines.collect(),
        ..answer(edge, seq.get(), &whole, 0, given)
    }
}

/// Returns the holder of a session that wants each of its keys and is granted each.
fn client(session: u64) -> Holder {
    let edge = edge(1, session + 1);
    let mut holder = Holder::new(edge);
    for budgets in parts(session * EACH + 1..=(session + 1) * EACH, LINES) {
        let wants = budgets.iter().map(|&budget| {
            let wants = Wants {
                demand: demand(50),
                ..Wants::default()
            };
            (budget, wants)
        });
        let report = holder.report(at(0), 0, wants.collect()).expect("a report");
        holder.handle_answer(at(1), &grants(edge, report.seq, &budgets));
    }
    let last = holder.report(at(2), 0, BTreeMap::new()).expect("a report");
    holder.handle_answer(at(3), &grants(edge, last.seq, &[]));
    holder
}

/// Returns a report of these budgets with a demand for each, which echoes all answers so far.
fn report(edge: Edge, seq: u64, heard: Heard, budgets: &[BudgetId]) -> Report {
    let line = wants(1, 1, 50 << 20).lines.remove(0);
    let lines = budgets.iter().map(|&budget| ReportLine {
        budget,
        ..line.clone()
    });
    Report {
        edge,
        seen: heard,
        heard,
        lines: lines.collect(),
        wall_ms: DAWN,
        ..wants(1, seq, 0)
    }
}

/// Returns the home of all keys: it was granted each, and its sessions hold them.
fn home() -> Node {
    let mut node = Node::new(NODE, Drift::default());
    let mut now = 0;
    let reported = |node: &mut Node, now: u64, budgets: &[BudgetId]| {
        let report = node.report(at(now), DAWN).expect("a report");
        let answer = grants(report.edge, report.seq, budgets);
        node.handle_answer(&answer, at(now));
    };
    for budgets in parts(1..=KEYS, LINES) {
        reported(&mut node, now, &budgets);
    }
    let sessions = (0..KEYS / EACH).map(|_| node.open_session(at(now)).expect("a session"));
    let sessions: Vec<Edge> = sessions.collect();
    let mut echoed = BTreeMap::new();
    for round in 0..ROUNDS {
        now += 200;
        for (first, &edge) in (0..).step_by(EACH as usize).zip(&sessions) {
            let mut parts = parts(first + 1..=first + EACH, LINES);
            let lines = parts.nth(round).unwrap_or_default();
            let heard = echoed.get(&edge).copied().unwrap_or_default();
            let report = report(edge, round as u64 + 1, heard, &lines);
            node.handle_report(&report, at(now));
        }
        node.tick(at(now));
        for output in node.poll_outputs() {
            if let NodeOutput::Answer(answer) = output {
                echoed.insert(answer.edge, answer.number);
            }
        }
        reported(&mut node, now, &[]);
    }
    node
}

/// Returns a leader to whom the home of all keys has reported each.
fn leader(state: &mut State) -> Leader {
    let term = Term::new(1);
    let mut leader = Leader::new(Pace::default());
    leader.elected(term, state, at(0));
    let mut index = KEYS;
    let effects = state.apply(index, None);
    leader.applied(term, None, &effects, state, at(0));
    let (mut now, mut seq, mut echoed) = (0, 0, Heard::default());
    let edge = edge(0, 1);
    let idle = [const { Vec::new() }; ROUNDS];
    for budgets in parts(1..=KEYS, LINES).chain(idle) {
        now += 100;
        seq += 1;
        let has_line = report(edge, seq, echoed, &budgets);
        leader.handle_report(&has_line, state, at(now));
        for other in 2..=3 {
            let idle = report(self::edge(0, other), seq, Heard::default(), &[]);
            leader.handle_report(&idle, state, at(now));
        }
        let mut answers = Vec::new();
        for output in leader.tick(state, at(now)) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    answers.extend(leader.acknowledged(barrier, state, at(now)));
                }
                LeaderOutput::Propose(command) => {
                    index += 1;
                    let effects = state.apply(index, Some(&command));
                    leader.applied(term, Some(&command), &effects, state, at(now));
                }
            }
        }
        answers.extend(leader.poll_answers(state, at(now)));
        for answer in answers.iter().filter(|answer| answer.edge == edge) {
            echoed = answer.number;
        }
    }
    leader
}

/// Number of sessions that share keys, and number of keys that all of them share.
const SHARING: u64 = 100;
const SHARED: u64 = KEYS / SHARING;

/// Returns a node and the holders of its sessions, which share all keys. The first sessions gave back some of their parts.
fn sharing() -> (Node, Vec<Holder>) {
    let mut node = Node::new(NODE, Drift::default());
    let keys: Vec<BudgetId> = (1..=SHARED).map(BudgetId::new).collect();
    let report = node.report(at(0), DAWN).expect("a report");
    node.handle_answer(&grants(report.edge, report.seq, &keys), at(0));
    let sessions = (0..SHARING).map(|_| node.open_session(at(0)).expect("a session"));
    let mut clients: Vec<Holder> = sessions.map(Holder::new).collect();
    for round in 0..ROUNDS as u64 {
        let now = 200 * (round + 1);
        for (client, has_begun) in clients
            .iter_mut()
            .zip((0..).map(|client| client / 10 <= round))
        {
            let owing: Vec<BudgetId> = client.owing().collect();
            for budget in owing {
                let owed = client.owed(budget).meet(client.holding(budget));
                client
                    .give_back(budget, owed)
                    .expect("a part that it holds");
            }
            let wants = keys.iter().filter(|_| has_begun).map(|&budget| {
                let demand = demand(50);
                (
                    budget,
                    Wants {
                        demand,
                        ..Wants::default()
                    },
                )
            });
            let report = client
                .report(at(now), 0, wants.collect())
                .expect("a report");
            node.handle_report(&report, at(now));
        }
        for turn in 0..10 {
            let now = at(now + turn * 20);
            node.tick(now);
            node.flush_urgent(now);
            for output in node.poll_outputs() {
                if let NodeOutput::Answer(answer) = output {
                    let client = clients
                        .iter_mut()
                        .find(|client| client.edge() == answer.edge);
                    client.expect("a client").handle_answer(now, &answer);
                }
            }
            let report = node.report(now, DAWN).expect("a report");
            node.handle_answer(&grants(report.edge, report.seq, &[]), now);
        }
    }
    (node, clients)
}

#[test]
#[ignore = "prints the bytes that a key takes; nothing is judged"]
fn a_key_of_many_sessions_takes_so_many_bytes() {
    let of = "a shared key's session, at the node and in the client";
    let (node, clients) = measured(of, sharing);
    let claims = || {
        node.ledger()
            .children()
            .flat_map(|child| child.claims.iter())
    };
    assert_eq!(claims().count() as u64, KEYS);
    let returned = claims().filter(|(_, claim)| !claim.returned().is_zero());
    let held = clients.iter().flat_map(Holder::counters);
    println!(
        "{} are granted something, and {} returned something",
        held.count(),
        returned.count()
    );
}

#[test]
#[ignore = "prints the bytes that a key takes; nothing is judged"]
fn a_key_takes_so_many_bytes() {
    let mut state = measured("the replicated state", state);
    let clients = measured("a client's holder", || {
        (0..KEYS / EACH).map(client).collect::<Vec<_>>()
    });
    let node = measured("the home node's ledger and holder", home);
    let leader = measured("the leader's ledger", || leader(&mut state));
    let held = clients.iter().flat_map(Holder::counters);
    assert_eq!(held.count() as u64, KEYS);
    let claimed = |ledger: &Ledger| ledger.children().map(|of| of.claims.len()).sum::<usize>();
    let claims = [node.ledger(), leader.ledger()].map(claimed);
    assert_eq!(claims, [KEYS as usize; 2]);
    let sessions = (1..=KEYS).filter_map(|key| node.account(BudgetId::new(key)));
    let dealt = sessions.filter(|account| !account.is_clear()).count();
    println!(
        "{dealt} keys are dealt to sessions, {} budgets in the state",
        state.budgets().len()
    );
}
