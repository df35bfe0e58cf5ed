//! Keys that many clients of a node share: the number of lines that each of them costs.

use super::setup::*;
use std::collections::VecDeque;

/// A client, its keys, and the messages that are under way to it.
struct Caller {
    client: Client,
    /// Keys that have not been admitted yet.
    missing: Vec<BudgetId>,
    /// Time of its first request.
    begins: u64,
    report_at: u64,
    /// A long report that was not answered yet, and when the next one is sent all the same.
    unanswered: Option<(Seq, u64)>,
    answers: VecDeque<(u64, Answer)>,
}

/// Lines that were sent, in messages of each direction.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    reports: usize,
    report_lines: usize,
    answers: usize,
    answer_lines: usize,
}

struct Crowd {
    node: Node,
    callers: Vec<Caller>,
    reports: VecDeque<(u64, Report)>,
    sent: Sent,
    one_way: u64,
    budget: Budget,
    node_time: std::time::Duration,
    client_time: std::time::Duration,
}

const STEP: u64 = 5;
const LINES: usize = 1_024;

impl Crowd {
    fn new(clients: usize, keys: u64, one_way: u64, apart: u64) -> Self {
        let budget = budget(|draft| {
            draft.rate = Some("1000/s".into());
            draft.burst = Some("1000".into());
        });
        let mut node = Node::new(Incarnation::new(1), Drift::default());
        assert!(node.report(at(0), 0).is_some());
        let whole = given(&budget, [1_000, 1_000, 1_000, 0]);
        let mut all = answer(edge(0, 1), 1, &budget, 0, whole);
        let line = all.lines[0];
        let ids = (1..=keys).map(BudgetId::new);
        all.lines = ids.clone().map(|budget| AnswerLine { budget, ..line }).collect();
        all.lease = Span::from_secs(100_000);
        node.handle_answer(&all, at(0));
        let callers = (0..clients).map(|place| {
            let mut client: Client = Client::new(Drift::default());
            client.open(node.open_session(at(0)).expect("a session"), at(0));
            for id in ids.clone() {
                client.claim(id, Claim::default(), at(0));
            }
            Caller {
                client,
                missing: ids.clone().collect(),
                begins: place as u64 * apart,
                report_at: place as u64 * 200 / clients as u64 / STEP * STEP,
                unanswered: None,
                answers: VecDeque::new(),
            }
        });
        Self {
            callers: callers.collect(),
            node,
            reports: VecDeque::new(),
            sent: Sent::default(),
            one_way,
            budget,
            node_time: Default::default(),
            client_time: Default::default(),
        }
    }

    fn step(&mut self, ms: u64) {
        let now = at(ms);
        let one = token(&self.budget);
        let begun = std::time::Instant::now();
        for caller in &mut self.callers {
            while caller.answers.front().is_some_and(|(at, _)| *at <= ms) {
                let (_, answer) = caller.answers.pop_front().expect("one");
                caller.unanswered = caller.unanswered.filter(|(seq, _)| *seq > answer.taken);
                caller.client.handle_answer(&answer, now);
            }
            let part = ms / 10 % 100;
            if ms % 10 == 0 && ms >= caller.begins {
                let client = &mut caller.client;
                caller.missing.retain(|key| {
                    key.get() % 100 != part || client.try_acquire_at(*key, one, now).is_err()
                });
            }
            if caller.unanswered.is_some_and(|(_, until)| until > ms) {
                continue;
            }
            if ms < caller.report_at && !(ms % 20 == 0 && caller.client.is_urgent(now)) {
                continue;
            }
            caller.client.limit_report(LINES);
            let report = caller.client.report(now, 0).expect("a report");
            caller.report_at = ms + 200;
            let long = report.lines.len() >= 64;
            caller.unanswered = long.then_some((report.seq, ms + 600));
            self.sent.reports += 1;
            self.sent.report_lines += report.lines.len();
            self.reports.push_back((ms + self.one_way, report));
        }
        self.client_time += begun.elapsed();
        let begun = std::time::Instant::now();
        while self.reports.front().is_some_and(|(at, _)| *at <= ms) {
            let (_, report) = self.reports.pop_front().expect("one");
            self.node.handle_report(&report, now);
        }
        if ms % 20 == 0 {
            self.node.tick(now);
        }
        self.node.flush_urgent(now);
        let _ = self.node.take_report_urgent();
        let outputs = self.node.poll_outputs();
        self.node_time += begun.elapsed();
        for output in outputs {
            let NodeOutput::Answer(answer) = output else {
                panic!("the incarnation is over");
            };
            self.sent.answers += 1;
            self.sent.answer_lines += answer.lines.len();
            let place = answer.edge.child.get() as usize - 1;
            self.callers[place].answers.push_back((ms + self.one_way, answer));
        }
    }

    fn missing(&self) -> usize {
        self.callers.iter().map(|of| of.missing.len()).sum()
    }
}

fn print_lines() {
    let number = |name: &str, usual: u64| {
        std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
    };
    for clients in [1, 4, 8, 16, 33, 66] {
        let (keys, one_way) = (number("KEYS", 300), number("WAY", 10));
        let mut crowd = Crowd::new(clients, keys, one_way, number("APART", 0));
        let mut known = None;
        let last = number("SECS", 12) * 1_000;
        for ms in (0..last).step_by(STEP as usize) {
            crowd.step(ms);
            if known.is_none() && crowd.missing() == 0 {
                known = Some((ms, crowd.sent));
            }
        }
        let pairs = clients as f64 * keys as f64;
        let lines = |sent: Sent| (sent.report_lines as f64 / pairs, sent.answer_lines as f64 / pairs);
        let (at, then) = known.unwrap_or((0, Sent::default()));
        if std::env::var("WHY").is_ok() {
            for (place, caller) in crowd.callers.iter().enumerate() {
                for key in caller.missing.iter().take(2) {
                    let id = Incarnation::new(place as u64 + 1);
                    let child = crowd.node.ledger().child(id).expect("a child");
                    println!("{place} {key:?} {:#?}\n{:?}", child.claims.get(key), crowd.node.account(*key).map(|of| of.counters(id)));
                    println!("free {:?}", crowd.node.account(*key).map(|of| of.free()));
                    println!("holder {:?} {:?}", caller.client.holder().map(|of| of.holding(*key)), caller.client.allotment(*key));
                    for other in 1..=clients as u64 {
                        let id = Incarnation::new(other);
                        let claim = crowd.node.ledger().child(id).and_then(|of| of.claims.get(key));
                        println!("{other}: {:?} demand {:?} target {:?}", crowd.node.account(*key).map(|of| of.counters(id).holding(of.kind())), claim.map(|of| of.demand().to_vec()), claim.map(|of| (of.returned(), of.target())));
                    }
                }
            }
        }
        println!(
            "{clients} clients: known at {at} ms, lines a pair {:.1?} then, {:.1?} at the end, missing {}; node {:.1} us a pair, clients {:.1}",
            lines(then), lines(crowd.sent), crowd.missing(),
            crowd.node_time.as_secs_f64() * 1e6 / pairs, crowd.client_time.as_secs_f64() * 1e6 / pairs,
        );
    }
}

#[test]
#[ignore = "prints"]
fn lines_of_each_pair() {
    print_lines();
    println!("before:");
    planted::with(Some(Bug::CrowdDividedAnew), print_lines);
}
