//! A ready leader, with its log.

use super::setup::*;

pub(crate) struct LeaderHost {
    pub(crate) state: State,
    pub(crate) leader: Leader,
    pub(crate) index: u64,
}

impl LeaderHost {
    pub(crate) fn apply(&mut self, command: Option<&Command>, now: Tick) {
        self.index += 1;
        let effects = self.state.apply(self.index, command);
        let term = Term::new(1);
        self.leader
            .applied(term, command, &effects, &self.state, now);
    }

    /// Returns nodes 1 to 3 with incarnations 1 to 3, and a ready leader.
    pub(crate) fn open() -> Self {
        let mut host = Self {
            state: State::new(),
            leader: Leader::new(Pace::default()),
            index: 0,
        };
        for node in 1..=3 {
            host.join(node);
        }
        host.leader.elected(Term::new(1), &host.state, at(0));
        host.apply(None, at(0));
        host
    }

    pub(crate) fn join(&mut self, node: u64) {
        let join = Command::Join {
            node: NodeId::new(node),
            request: RequestId::new(self.index + 1_000),
        };
        self.apply(Some(&join), at(0));
    }

    pub(crate) fn put(&mut self, budget: Budget) {
        let put = Command::PutRule {
            request: RequestId::new(1),
            budget,
            creator: None,
        };
        self.apply(Some(&put), at(0));
    }

    pub(crate) fn report(&mut self, incarnation: u64, wall_ms: i64, now: Tick) {
        let report = Report {
            edge: edge(0, incarnation),
            seq: Seq::new(1),
            basis: Seq::new(0),
            heard: Heard::default(),
            seen: Heard::default(),
            wall_ms,
            intent: Intent::Stay,
            lines: Vec::new(),
            floors: Vec::new(),
        };
        assert!(
            self.leader
                .handle_report(&report, &self.state, now)
                .is_none()
        );
    }

    /// Takes report `seq` of the first incarnation, with a demand in grains a second.
    pub(crate) fn ask(&mut self, seq: u64, demand: u64, now: Tick) {
        let report = wants(1, seq, demand);
        self.leader.handle_report(&report, &self.state, now);
    }

    pub(crate) fn rounds(&mut self, now: Tick) -> Vec<Changes> {
        let outputs = self.leader.tick(&self.state, now);
        let rounds = outputs.into_iter().filter_map(|output| match output {
            LeaderOutput::Propose(Command::Round(changes)) => Some(changes),
            _ => None,
        });
        rounds.collect()
    }
}
