//! The leader's side of the actor: elections, barriers, rounds and answers to nodes.

use super::context::{Context, entry};
use super::inbox::Control;
use super::traffic::Traffic;
use crate::gossip::Book;
use crate::raft::{ProposeError, Status};
use crate::timer;
use aliquot_budgets::zones::{Iana, zone_error};
use aliquot_core::command::{Changes, Command};
use aliquot_core::leader::{Leader, LeaderOutput, Pace};
use aliquot_core::leadership::Barrier;
use aliquot_core::message::{Answer, Report};
use aliquot_core::planted::{self, Bug};
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, Incarnation, Term, Tick};
use aliquot_wire::gossip::Topic;
use bytes::Bytes;
use std::time::Duration;

/// The leader's state machine, and what is kept beside it.
///
/// After an election, the machine is ready to lead once an entry of its own term is applied
/// (`Leader::is_ready`). The answers that the methods return go to nodes.
#[derive(Debug)]
pub(super) struct Leadership {
    machine: Leader,
    leads: Option<Term>,
    /// Time of the last election that this node won.
    elected: Tick,
    /// True once the reports received before this leader was ready were taken in.
    warm: bool,
    traffic: Traffic,
}

impl Leadership {
    /// Number of report intervals after an election within which every node has reported to the new
    /// leader.
    const SETTLING: u64 = 3;

    pub(super) fn new(pace: Pace) -> Self {
        Self {
            machine: Leader::new(pace).in_zones(&Iana),
            leads: None,
            elected: Tick::ZERO,
            warm: false,
            traffic: Traffic::default(),
        }
    }

    pub(super) const fn machine(&self) -> &Leader {
        &self.machine
    }

    pub(super) const fn leads(&self) -> bool {
        self.leads.is_some()
    }

    /// Returns the rates of requests, as far as this node knows them.
    pub(super) const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Follows a change of Raft's status: an election won or lost.
    pub(super) fn follow(&mut self, status: &Status, state: &State, context: &Context) {
        let leads = status.leads.then(|| Term::new(status.term));
        if leads == self.leads {
            return;
        }
        if self.leads.is_some() {
            self.machine.deposed();
        }
        // A node that does not lead receives only a part of the reports.
        self.traffic.begin();
        (self.leads, self.warm) = (leads, false);
        if let Some(term) = leads {
            tracing::info!(term = term.get(), "elected");
            self.elected = context.now;
            warn_of_unknown_zones(state);
            self.machine.elected(term, state, context.now);
            // The entry that begins the term may have been applied before this node learned that it
            // leads. This proposal ensures that another entry of the term follows.
            self.propose_changes(Command::Round(Changes::default()), state, context);
        }
    }

    /// Follows an entry that was applied to `state`.
    pub(super) fn applied(
        &mut self,
        term: Term,
        command: Option<&Command>,
        effects: &[Effect],
        state: &State,
        now: Tick,
    ) {
        self.machine.applied(term, command, effects, state, now);
        if !self.warm && self.machine.is_ready() {
            tracing::info!(at = now.nanos(), "ready to lead");
        }
    }

    /// Takes in the latest report of every node once this leader is ready. Each report builds on what an
    /// earlier leader knew, so that the answer asks the node for all of its demand.
    pub(super) fn warm_up(&mut self, book: &Book, state: &State, now: Tick) -> Vec<Answer> {
        if self.warm || !self.machine.is_ready() {
            return Vec::new();
        }
        self.warm = true;
        let records = book.records();
        let reports = records.filter(|record| record.value().head.topic == Topic::Report);
        let reports = reports.filter_map(|record| record.value().report().ok());
        reports
            .filter_map(|report| self.take_report(report.value(), state, now))
            .collect()
    }

    /// Makes the plans, rounds and barriers that are due.
    pub(super) fn tick(&mut self, state: &State, context: &mut Context) -> Vec<Answer> {
        self.learn_earlier(context);
        for output in self.machine.tick(state, context.now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    context.counts.barriers += 1;
                    self.start_barrier(barrier, context);
                }
                LeaderOutput::Propose(command) => {
                    context.counts.rounds += 1;
                    self.propose_changes(command, state, context);
                }
            }
        }
        self.machine.poll_answers(state, context.now)
    }

    /// Learns how long ago earlier leaders can have confirmed anything, once a quorum has answered.
    fn learn_earlier(&mut self, context: &Context) {
        let (Some(term), Some(raft)) = (self.leads, &context.raft) else {
            return;
        };
        let quiet = raft.quiet_before(term.get());
        // The clock is read last: the later the time, the longer this leader waits.
        let until = quiet.map(|quiet| context.options.clock.now().before(quiet));
        self.machine.learn_earlier(until);
    }

    /// Notes the silences of a snapshot that was restored.
    pub(super) fn restored(&mut self, state: &State, now: Tick) {
        self.machine.follow_silences(state, now);
    }

    /// Computes the rates of requests, if that is due.
    pub(super) fn sample_traffic(&mut self, now: Tick) {
        self.traffic.sample(now);
    }

    /// Notes a report that another node leads.
    pub(super) fn note_report(&mut self, incarnation: Incarnation, now: Tick) {
        self.traffic.note(incarnation, now);
    }

    /// Takes in a node's report, and answers it if this node leads.
    pub(super) fn take_report(
        &mut self,
        report: &Report,
        state: &State,
        now: Tick,
    ) -> Option<Answer> {
        self.traffic.note(report.edge.child, now);
        self.leads?;
        self.traffic.hear(report);
        self.machine.handle_report(report, state, now)
    }

    /// Drops everything about a budget that has ended.
    pub(super) fn forget(&mut self, budget: BudgetId) {
        self.traffic.forget(budget);
    }

    /// Starts a barrier, which begins after every report that it covers has arrived.
    ///
    /// A barrier can fail at once, for example while this leader transfers its leadership. The failure
    /// is therefore reported after a pause: the reports that it covered wait for the next barrier, and
    /// retries without a pause would keep the processor busy.
    ///
    /// Shortly after an election, leases are nearly over, so that the barrier does not wait for a
    /// heartbeat.
    fn start_barrier(&self, barrier: Barrier, context: &Context) {
        const AGAIN: Duration = Duration::from_millis(20);
        let (Some(raft), Some(term)) = (&context.raft, self.leads) else {
            return;
        };
        let settled = context.options.pace.report.times_or_max(Self::SETTLING);
        let asked = match context.now.since(self.elected) < settled {
            true => raft.barrier(term.get()),
            false => raft.heartbeat_barrier(term.get()),
        };
        let control = context.control.clone();
        tokio::spawn(async move {
            let held = planted::is(Bug::BarrierUnasked) || asked.await.is_ok();
            if !held {
                timer::sleep(AGAIN).await;
            }
            // If the actor is gone, nothing waits for this.
            let _ = control.send(Control::Barrier { barrier, held });
        });
    }

    /// Handles the end of a barrier.
    pub(super) fn barrier_done(
        &mut self,
        barrier: Barrier,
        held: bool,
        state: &State,
        now: Tick,
    ) -> Vec<Answer> {
        if held {
            return self.machine.acknowledged(barrier, state, now);
        }
        self.machine.failed(barrier);
        Vec::new()
    }

    /// Proposes a round. A round that no replica could read would stop all of them for good. Such a
    /// round is not proposed, and the next ones are half as large.
    fn propose_changes(&mut self, command: Command, state: &State, context: &Context) {
        match entry(command) {
            Ok(command) => self.propose_round_after(command, Duration::ZERO, context),
            Err(error) => {
                tracing::error!(%error, "a round was not proposed: it cannot be decoded");
                self.machine.halve(state, context.now);
            }
        }
    }

    fn propose_round_after(&self, command: Bytes, delay: Duration, context: &Context) {
        let (Some(raft), Some(term)) = (context.raft.clone(), self.leads) else {
            return;
        };
        let control = context.control.clone();
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
        state: &State,
        context: &Context,
    ) {
        match result {
            Ok(()) | Err(ProposeError::Stopped) => {}
            Err(_) if self.leads != Some(term) => {}
            Err(error @ ProposeError::TooLarge { .. }) => {
                tracing::error!(%error, "a round was not taken");
                self.machine.halve(state, context.now);
            }
            Err(ProposeError::NotLeader { .. }) => {
                self.machine.refused(state, context.now);
                // A leader that no quorum has acknowledged yet also refuses. The first entry of its
                // term must be applied before it is ready, so it is proposed again.
                if !self.machine.is_ready() {
                    self.propose_round_after(command, Duration::from_millis(50), context);
                }
            }
            Err(_) => self.propose_round_after(command, Duration::from_millis(100), context),
        }
    }
}

/// Warns of quotas in time zones that this version does not have. While it leads, none of their periods begins.
fn warn_of_unknown_zones(state: &State) {
    for (_, rule) in state.rules() {
        if let Some(error) = zone_error(&rule.budget) {
            tracing::warn!(
                key = %rule.budget.key(),
                zone = error.value,
                "this version does not know the time zone of a quota: no further period of it begins under this leader"
            );
        }
    }
}
