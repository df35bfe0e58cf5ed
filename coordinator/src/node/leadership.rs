//! The leader's side of the actor: elections, barriers, rounds and answers to nodes.

use super::actor::{Actor, Control};
use crate::raft::{ProposeError, Status};
use crate::timer;
use aliquot_core::command::{Changes, Command};
use aliquot_core::leader::{Leader, LeaderOutput, Pace};
use aliquot_core::leadership::Barrier;
use aliquot_core::message::Answer;
use aliquot_core::planted::{self, Bug};
use aliquot_core::unit::{Term, Tick};
use aliquot_wire::gossip::{Record, Topic};
use aliquot_wire::log::LogEntry;
use aliquot_wire::{Sealed, WireError};
use bytes::Bytes;
use std::time::Duration;

/// The leader's state machine, and what the actor keeps beside it.
///
/// After an election, the machine is ready to lead once an entry of its own term is applied
/// (`Leader::is_ready`).
#[derive(Debug)]
pub(super) struct Leadership {
    machine: Leader,
    leads: Option<Term>,
    /// Time of the last election that this node won.
    elected: Tick,
    /// True once the reports received before this leader was ready were taken in.
    warm: bool,
}

impl Leadership {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            machine: Leader::new(pace),
            leads: None,
            elected: Tick::default(),
            warm: false,
        }
    }

    pub(super) const fn machine(&self) -> &Leader {
        &self.machine
    }

    pub(super) const fn leads(&self) -> bool {
        self.leads.is_some()
    }

    pub(super) const fn machine_mut(&mut self) -> &mut Leader {
        &mut self.machine
    }
}

impl Actor {
    /// Number of report intervals after an election within which every node has reported to the new
    /// leader.
    const SETTLING: u64 = 3;

    /// Follows a change of Raft's status: an election won or lost, or a change of members.
    pub(super) fn follow_raft(&mut self, status: Status) {
        let leads = status.leads.then(|| Term::new(status.term));
        if leads != self.leadership.leads {
            if self.leadership.leads.is_some() {
                self.leadership.machine.deposed();
            }
            // A node that does not lead receives only a part of the reports.
            self.traffic.begin();
            (self.leadership.leads, self.leadership.warm) = (leads, false);
            if let Some(term) = leads {
                tracing::info!(term = term.get(), "elected");
                self.leadership.elected = self.now;
                self.leadership.machine.elected(term, &self.state, self.now);
                // The entry that begins the term may have been applied before this node learned that it
                // leads. This proposal ensures that another entry of the term follows.
                self.propose_changes(Command::Round(Changes::default()));
            }
        }
        self.counts.leader_changes += u64::from(status.leader != self.status.leader);
        self.status = status;
        self.follow_members();
    }

    /// Takes in the latest report of every node once this leader is ready. Each report builds on what an
    /// earlier leader knew, so that the answer asks the node for all of its demand.
    pub(super) fn warm_up(&mut self) {
        if self.leadership.warm || !self.leadership.machine.is_ready() {
            return;
        }
        self.leadership.warm = true;
        let records = self.book.records();
        let reports = records.filter(|record| record.value().head.topic == Topic::Report);
        let reports: Vec<_> = reports
            .filter_map(|record| record.value().report().ok())
            .collect();
        for report in reports {
            self.lead_report(report.value());
        }
    }

    pub(super) fn tick_leader(&mut self) {
        let outputs = self.leadership.machine.tick(&self.state, self.now);
        for output in outputs {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    self.counts.barriers += 1;
                    self.start_barrier(barrier);
                }
                LeaderOutput::Propose(command) => {
                    self.counts.rounds += 1;
                    self.propose_changes(command);
                }
            }
        }
        for answer in self.leadership.machine.poll_answers(&self.state, self.now) {
            self.tell_node(&answer);
        }
    }

    /// Takes in a node's report, and answers it if this node leads.
    pub(super) fn lead_report(&mut self, report: &aliquot_core::message::Report) {
        self.traffic.note(report.edge.child, self.now);
        if self.leadership.leads.is_none() {
            return;
        }
        self.traffic.hear(report);
        let machine = &mut self.leadership.machine;
        if let Some(answer) = machine.handle_report(report, &self.state, self.now) {
            self.tell_node(&answer);
        }
    }

    /// Starts a barrier, which begins after every report that it covers has arrived.
    ///
    /// A barrier can fail at once, for example while this leader transfers its leadership. The failure
    /// is therefore reported after a pause: the reports that it covered wait for the next barrier, and
    /// retries without a pause would keep the processor busy.
    ///
    /// Shortly after an election, leases are nearly over, so that the barrier does not wait for a
    /// heartbeat.
    fn start_barrier(&self, barrier: Barrier) {
        const AGAIN: Duration = Duration::from_millis(20);
        let (Some(raft), Some(term)) = (&self.raft, self.leadership.leads) else {
            return;
        };
        let settled = self.options.pace.report.times_or_max(Self::SETTLING);
        let asked = match self.now.since(self.leadership.elected) < settled {
            true => raft.barrier(term.get()),
            false => raft.heartbeat_barrier(term.get()),
        };
        let control = self.control.clone();
        tokio::spawn(async move {
            let held = planted::is(Bug::BarrierUnasked) || asked.await.is_ok();
            if !held {
                timer::sleep(AGAIN).await;
            }
            // If the actor is gone, nothing waits for this.
            let _ = control.send(Control::Barrier { barrier, held });
        });
    }

    pub(super) fn barrier_done(&mut self, barrier: Barrier, held: bool) {
        if !held {
            self.leadership.machine.failed(barrier);
            return;
        }
        let machine = &mut self.leadership.machine;
        for answer in machine.acknowledged(barrier, &self.state, self.now) {
            self.tell_node(&answer);
        }
    }

    /// Proposes a round. A round that no replica could read would stop all of them for good. Such a
    /// round is not proposed, and the next ones are half as large.
    fn propose_changes(&mut self, command: Command) {
        match entry(command) {
            Ok(command) => self.propose_round_after(command, Duration::ZERO),
            Err(error) => {
                tracing::error!(%error, "a round was not proposed: it cannot be decoded");
                self.leadership.machine.halve(&self.state, self.now);
            }
        }
    }

    fn propose_round_after(&self, command: Bytes, delay: Duration) {
        let (Some(raft), Some(term)) = (self.raft.clone(), self.leadership.leads) else {
            return;
        };
        let control = self.control.clone();
        tokio::spawn(async move {
            if !delay.is_zero() {
                timer::sleep(delay).await;
            }
            let proposed = raft.propose_in(term.get(), command.clone()).await;
            let result = proposed.map(drop);
            let _ = control.send(Control::Round {
                term,
                command,
                result,
            });
        });
    }

    /// Handles the end of a round's proposal.
    ///
    /// A round that certainly was not appended is taken back. A round whose fate is unknown is proposed
    /// again: its counters are absolute, so that a repeat changes nothing. A round of another term is
    /// dropped.
    pub(super) fn round_done(
        &mut self,
        term: Term,
        command: Bytes,
        result: Result<(), ProposeError>,
    ) {
        match result {
            Ok(()) | Err(ProposeError::Stopped) => {}
            Err(_) if self.leadership.leads != Some(term) => {}
            Err(error @ ProposeError::TooLarge { .. }) => {
                tracing::error!(%error, "a round was not taken");
                self.leadership.machine.halve(&self.state, self.now);
            }
            Err(ProposeError::NotLeader { .. }) => {
                self.leadership.machine.refused(&self.state, self.now);
                // A leader that no quorum has acknowledged yet also refuses. The first entry of its
                // term must be applied before it is ready, so it is proposed again.
                if !self.leadership.machine.is_ready() {
                    self.propose_round_after(command, Duration::from_millis(50));
                }
            }
            Err(_) => self.propose_round_after(command, Duration::from_millis(100)),
        }
    }

    /// Gives an answer to a node: to the state machine here, or to other nodes by gossip.
    fn tell_node(&mut self, answer: &Answer) {
        let incarnation = answer.edge.child;
        if let Some(node) = self
            .node
            .as_mut()
            .filter(|node| node.incarnation() == incarnation)
        {
            let ended = |budget| self.state.has_ended(budget);
            node.handle_answer_but(answer, self.now, ended);
            return;
        }
        match Sealed::seal(answer).map(|sealed| Record::of_answer(&sealed)) {
            Ok(record) => self.publish(&record),
            Err(error) => tracing::error!(%error, "an answer was not sent: it cannot be decoded"),
        }
    }
}

impl Leadership {
    /// Logs once when this leader is ready.
    pub(super) fn log_when_ready(&self, now: Tick) {
        if !self.warm && self.machine.is_ready() {
            tracing::info!(at = now.nanos(), "ready to lead");
        }
    }
}

/// Encodes a command as the log carries it, and reads it back once. An entry that cannot be read would
/// be committed all the same, and would stop every replica.
///
/// # Errors
///
/// The reader's error. The command must not be proposed.
pub(super) fn entry(command: Command) -> Result<Bytes, WireError> {
    let entry = LogEntry {
        command: Some(command),
    };
    Sealed::seal(&entry).map(Sealed::into_bytes)
}
