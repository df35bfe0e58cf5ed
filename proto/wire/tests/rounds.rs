//! Every round that a leader proposes can be read, whatever the number of keys that
//! change at the same time.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_core::budget::{Budget, BudgetDraft};
use aliquot_core::command::{Changes, Command};
use aliquot_core::leader::{Leader, LeaderOutput, Pace};
use aliquot_core::message::{Heard, Intent, Report};
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::{Edge, Incarnation, NodeId, RequestId, Seq, Term, Tick};
use aliquot_wire::limits::INSTANTIATE_MAX;
use aliquot_wire::log::LogEntry;
use aliquot_wire::{Sealed, Wire};

/// More keys than the maximum number of elements of a list of a round.
const KEYS: usize = 72_000;

const LIFE: Incarnation = Incarnation::new(1);

/// The time at which the clocks start, in milliseconds: the beginning of a minute.
const DAWN: i64 = 1_767_225_600_000;

/// A cluster of one node: its state, its leader and the log between them, in bytes.
struct Cluster {
    state: State,
    leader: Leader,
    term: u64,
    seq: u64,
    heard: Heard,
    millis: u64,
    proposed: usize,
}

impl Cluster {
    fn new(template: Budget) -> Self {
        let mut cluster = Self {
            state: State::new(),
            leader: Leader::new(Pace::default()),
            term: 0,
            seq: 0,
            heard: Heard::default(),
            millis: 0,
            proposed: 0,
        };
        let node = NodeId::new(1);
        let request = RequestId::new(1);
        cluster.append(Some(Command::Join { node, request }));
        cluster.append(Some(Command::PutRule {
            request: RequestId::new(2),
            budget: template,
            creator: None,
        }));
        let keys: Vec<String> = (0..KEYS).map(|key| format!("tenant/{key}")).collect();
        for keys in keys.chunks(INSTANTIATE_MAX) {
            cluster.append(Some(Command::Instantiate {
                keys: keys.to_vec(),
                creator: None,
            }));
        }
        cluster.elect();
        cluster
    }

    fn now(&self) -> Tick {
        Tick::from_nanos(self.millis * 1_000_000)
    }

    /// Starts another leader that knows nothing yet.
    fn elect(&mut self) {
        self.term += 1;
        let now = self.now();
        self.leader = Leader::new(Pace::default());
        self.leader.elected(Term::new(self.term), &self.state, now);
        self.append(None);
    }

    /// Applies an entry as a replica that has only its bytes.
    fn append(&mut self, command: Option<Command>) {
        let sealed = Sealed::seal(&LogEntry { command }).unwrap();
        let read = LogEntry::from_bytes(sealed.into_bytes()).unwrap().command;
        let effects = self.state.apply(self.state.applied() + 1, read.as_ref());
        let (term, now) = (Term::new(self.term), self.now());
        self.leader
            .applied(term, read.as_ref(), &effects, &self.state, now);
    }

    fn report(&mut self) {
        self.seq += 1;
        let report = Report {
            edge: Edge {
                parent: State::CLUSTER,
                child: LIFE,
            },
            seq: Seq::new(self.seq),
            basis: Seq::new(0),
            heard: self.heard,
            seen: Heard::default(),
            wall_ms: DAWN + i64::try_from(self.millis).unwrap(),
            intent: Intent::Stay,
            lines: Vec::new(),
            floors: Vec::new(),
        };
        let now = self.now();
        self.leader.handle_report(&report, &self.state, now);
    }

    fn tick(&mut self) {
        let now = self.now();
        for output in self.leader.tick(&self.state, now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    for answer in self.leader.acknowledged(barrier, &self.state, now) {
                        self.heard = answer.number;
                    }
                }
                LeaderOutput::Propose(command) => {
                    if let Command::Round(changes) = &command {
                        assert!(changes.len() <= Changes::ITEMS_MAX, "{}", changes.len());
                    }
                    self.proposed += 1;
                    self.append(Some(command));
                }
            }
        }
    }

    /// Runs until a condition holds, for at most this many milliseconds.
    fn until(&mut self, within: u64, done: impl Fn(&State) -> bool) {
        let end = self.millis + within;
        let mut reported = None;
        while !done(&self.state) {
            assert!(self.millis < end, "not within {within} ms");
            if reported.is_none_or(|at| self.millis >= at + 500) {
                reported = Some(self.millis);
                self.report();
            }
            self.tick();
            let due = self.leader.poll_timeout(self.now());
            let urgent = due.is_some_and(|due| due < self.now().after(Node::TICK));
            self.millis += if urgent { 2 } else { 100 };
        }
    }
}

fn template(fill: impl FnOnce(&mut BudgetDraft)) -> Budget {
    let mut draft = BudgetDraft {
        key: "tenant/*".into(),
        ..BudgetDraft::default()
    };
    fill(&mut draft);
    draft.validate().unwrap()
}

#[test]
fn a_new_leader_ends_many_idle_instances_in_rounds_that_can_be_read() {
    let mut cluster = Cluster::new(template(|draft| draft.rate = Some("100/s".into())));
    cluster.until(1_000, |state| state.budgets().len() == KEYS);
    cluster.elect();
    cluster.until(10_000, |state| state.budgets().len() == 0);
    assert!(cluster.proposed >= KEYS / Changes::ITEMS_MAX);
}

#[test]
fn many_quotas_begin_their_periods_in_rounds_that_can_be_read() {
    let quota = template(|draft| draft.quota = Some("1000 per minute".into()));
    let mut cluster = Cluster::new(quota);
    let running = |state: &State, minutes: i64| {
        let period = u64::try_from(DAWN / 60_000 + minutes).unwrap();
        let of = |(_, of): (_, &aliquot_core::state::Generation)| of.account.period().get();
        state.budgets().map(of).all(|of| of >= period)
    };
    cluster.until(1_500, |state| running(state, 0));
    // With one second for reports, which carry the nodes' clocks.
    cluster.until(61_500, |state| running(state, 1));
}
