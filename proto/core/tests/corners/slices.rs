//! A node that held parts of many keys is reclaimed in slices.

use super::leader_host::LeaderHost;
use super::setup::*;

const KEYS: u64 = 2_000;
const SLICE: usize = 100;

/// Two nodes report and are answered. The first one, which holds all keys, is silent.
struct Fleet {
    host: LeaderHost,
    heard: [Heard; 4],
    seq: u64,
    /// The greatest number of effects and of swept claims in one turn.
    most: usize,
}

impl Fleet {
    fn new() -> Self {
        let mut host = LeaderHost::open();
        host.put(budget(|draft| {
            draft.key = "k/*".into();
            draft.rate = Some("100/s".into());
        }));
        let keys = (0..KEYS).map(|key| format!("k/{key}")).collect();
        let creator = Some(Incarnation::new(1));
        host.apply(Some(&Command::Instantiate { keys, creator }), at(0));
        Self {
            host,
            heard: [Heard::default(); 4],
            seq: 0,
            most: 0,
        }
    }

    fn report(&mut self, now: u64) {
        self.seq += 1;
        for incarnation in [2, 3] {
            let report = wants(incarnation, self.seq, 1 << 20);
            let line = &report.lines[0];
            let lines = (1..=KEYS)
                .filter(|_| incarnation == 2)
                .map(|key| ReportLine {
                    budget: BudgetId::new(key),
                    ..line.clone()
                });
            let report = Report {
                heard: self.heard[incarnation as usize],
                seen: self.heard[incarnation as usize],
                wall_ms: DAWN + i64::try_from(now).expect("a time of the test"),
                lines: lines.collect(),
                ..report
            };
            let (leader, state) = (&mut self.host.leader, &self.host.state);
            leader.handle_report(&report, state, at(now));
        }
    }

    /// Runs one turn: what is proposed is applied in slices, with a turn of the leader between each two.
    fn turn(&mut self, now: u64) {
        let left = self.host.leader.ledger().to_sweep();
        let outputs = self.host.leader.tick(&self.host.state, at(now));
        let swept = left.saturating_sub(self.host.leader.ledger().to_sweep());
        self.most = self.most.max(swept);
        for output in outputs {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let (leader, state) = (&mut self.host.leader, &self.host.state);
                    for answer in leader.acknowledged(barrier, state, at(now)) {
                        let child = usize::try_from(answer.edge.child.get());
                        self.heard[child.expect("one of three")] = answer.number;
                    }
                }
                LeaderOutput::Propose(command) => self.apply(&command, now),
            }
        }
    }

    fn apply(&mut self, command: &Command, now: u64) {
        let host = &mut self.host;
        host.index += 1;
        loop {
            let effects = host.state.apply_slice(host.index, Some(command), SLICE);
            let Command::Round(changes) = command else {
                panic!("a leader proposes rounds");
            };
            self.most = self.most.max(effects.len().saturating_sub(changes.len()));
            let term = Term::new(1);
            let leader = &mut host.leader;
            leader.applied(term, Some(command), &effects, &host.state, at(now));
            for (budget, generation) in host.state.budgets() {
                let (whole, held) = (generation.account.whole(), generation.account.held());
                assert!(
                    held.rate <= whole.rate && held.burst <= whole.burst,
                    "{budget}"
                );
            }
            if !host.state.is_half_applied() {
                return;
            }
            let proposed = leader.tick(&host.state, at(now));
            let rounds = proposed
                .iter()
                .filter(|output| matches!(output, LeaderOutput::Propose(_)));
            assert_eq!(rounds.count(), 0, "a round between two slices");
        }
    }

    /// Returns the number of keys of which a node holds something.
    fn held_by(&self, incarnation: u64) -> usize {
        let held = |account: &aliquot_core::account::Account| {
            !account.holding(Incarnation::new(incarnation)).is_zero()
        };
        let budgets = self.host.state.budgets();
        budgets.filter(|(_, of)| held(&of.account)).count()
    }
}

/// Lets the first node be silent for four seconds.
fn silent() -> Fleet {
    let mut fleet = Fleet::new();
    assert_eq!(fleet.held_by(1), 2_000);
    for now in (0..6_000).step_by(2) {
        if now % 400 == 0 {
            fleet.report(now);
        }
        fleet.turn(now);
    }
    fleet
}

/// Nothing is over, because no book ever exceeds its whole, and nothing is stranded: the other node, which asked before
/// the reclaim, gets every key after it. No turn does more than its slice.
#[test]
fn a_node_of_many_keys_is_reclaimed_in_slices() {
    let fleet = silent();
    assert_eq!((fleet.held_by(1), fleet.held_by(2)), (0, 2_000));
    assert_eq!(fleet.host.leader.ledger().to_sweep(), 0);
    assert!(fleet.most <= 256, "{}", fleet.most);
}

#[test]
fn what_a_slice_leaves_behind_is_noticed() {
    let fleet = planted::with(Some(Bug::ReclaimedAtOnce), silent);
    assert!(fleet.most > 1_000, "{}", fleet.most);
}
