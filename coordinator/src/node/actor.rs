//! The actor: one task, one loop, one clock.

mod entries;

use super::central::Central;
use super::clock_jump::ClockJumpDetector;
use super::context::Context;
use super::inbox::{Control, Forwarded, Inbox, Input, Open, Query, take_some};
use super::initial_contents::Progress;
use super::leadership::Leadership;
use super::leaving::Leaving;
use super::longest_turn::{LongestTurn, TurnTime};
use super::machine::Log;
use super::options::Options;
use super::own_node::OwnNode;
use super::peers::Peers;
use super::presence::OwnPresence;
use super::replica::Replica;
use super::reporting::Reporting;
use super::sessions::Sessions;
use super::ticks::Ticks;
use super::view::View;
use super::waiting_reports::WaitingReports;
use super::writes::Writers;
use crate::gossip;
use crate::raft::Status;
use crate::session::{self, Event};
use crate::timer;
use aliquot_core::message::{Answer, Report};
use aliquot_core::node::{Node, NodeOutput};
use aliquot_core::unit::Tick;
use aliquot_wire::gossip::{Record, Topic};
use aliquot_wire::session::NodeMessage;
use aliquot_wire::{Sealed, WireError};
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// State of one coordinator node.
///
/// Each field has one owner, which alone changes it. The actor hands every input to the owner of the state
/// that it concerns, and what the owner returns to the next one.
///
/// | field | owns |
/// |---|---|
/// | `context` | the options, the time, the status of Raft, the way to the log, the counters, the random numbers |
/// | `replica` | the replicated state, and the entries that are half applied |
/// | `leadership` | the leader's state machine, its term, and the rates of requests that nodes report |
/// | `own` | the node's state machine, which is lent to the others, and the request for an incarnation |
/// | `leaving` | the order to leave, and its callers |
/// | `reporting` | the times of this node's reports |
/// | `presence` | the presence record that was published last |
/// | `peers` | the gossip records, and the links to peers |
/// | `sessions` | the sessions, the names of their keys, their balance, and the pause between reports |
/// | `waiting_reports` | long reports of sessions that were not handled yet |
/// | `central` | the channels to home nodes, and the limit on forwarded requests |
/// | `writers` | the operators' calls that wait |
/// | `initial_contents` | the progress of the first proposals of a new cluster |
/// | `ticks` | the time of the last tick, and of the last overload |
/// | `unsettled` | the part of the outputs with which the next turn begins |
/// | `clock_jumps`, `longest_turn` | the latest readings of both clocks; the longest turns |
pub(super) struct Actor {
    context: Context,
    replica: Replica,
    leadership: Leadership,
    own: OwnNode,
    leaving: Leaving,
    reporting: Reporting,
    presence: OwnPresence,
    peers: Peers,
    sessions: Sessions,
    waiting_reports: WaitingReports,
    central: Central,
    writers: Writers,
    initial_contents: Progress,
    ticks: Ticks,
    clock_jumps: ClockJumpDetector,
    longest_turn: LongestTurn,
    /// The part of [`Actor::settle`] with which the next turn begins, if the last one left some.
    unsettled: Option<usize>,
}

/// Cause of a turn that handles no input.
const CLOCK: &str = "the clock";

impl Actor {
    /// Maximum number of inputs that are handled before the outputs that follow from them.
    const BATCH: usize = 256;

    pub(super) fn new(
        options: Options,
        control: mpsc::UnboundedSender<Control>,
        links_in: mpsc::Sender<gossip::Event>,
    ) -> Self {
        let mut context = Context::new(options, control);
        let now = context.now;
        Self {
            replica: Replica::new(),
            leadership: Leadership::new(context.options.pace),
            own: OwnNode::new(&mut context.rng),
            leaving: Leaving::default(),
            reporting: Reporting::new(now),
            presence: OwnPresence::new(now),
            peers: Peers::new(links_in, now),
            sessions: Sessions::new(context.options.session_keys, now),
            waiting_reports: WaitingReports::default(),
            central: Central::default(),
            writers: Writers::default(),
            initial_contents: Progress::default(),
            ticks: Ticks::new(now),
            clock_jumps: ClockJumpDetector::default(),
            longest_turn: LongestTurn::new(now),
            unsettled: None,
            context,
        }
    }

    pub(super) async fn run(
        mut self,
        mut control: mpsc::UnboundedReceiver<Control>,
        mut inbox: Inbox,
    ) {
        let (_never, mut status) = watch::channel(Status::default());
        let mut was_time = false;
        loop {
            let (due, open) = (self.next_due(), self.listens());
            // A due tick is run even if inputs never cease, but after each tick at least one input is
            // handled.
            was_time = due.is_zero() && !was_time;
            let cause = if was_time {
                self.time_passes(&inbox)
            } else {
                tokio::select! {
                    biased;
                    // `None` cannot come, because the actor itself holds a sender.
                    input = control.recv() => match input {
                        Some(Control::Stop) | None => break,
                        Some(Control::Raft(raft)) => {
                            status = raft.coarse_status();
                            status.mark_changed();
                            self.context.raft = Some(raft);
                            continue;
                        }
                        Some(input) => self.handle_control(input),
                    },
                    Ok(()) = status.changed() => {
                        let latest = status.borrow_and_update().clone();
                        self.context.read_clock();
                        self.follow_raft(latest);
                        "a change of the Raft status"
                    }
                    input = poll_fn(|context| inbox.poll(context, open)) => match input {
                        Input::Gone => break,
                        Input::Query(query) => {
                            self.answer(query);
                            continue;
                        }
                        input => self.handle(input, &mut inbox),
                    },
                    () = timer::sleep(due) => self.time_passes(&inbox),
                }
            };
            let settles = self.context.options.clock.now();
            self.settle(cause);
            self.turn_ends(cause, settles);
            // Messages to other nodes are sent on the same thread. Without this yield, an endless
            // stream of inputs would hold them back until the lease expires.
            tokio::task::yield_now().await;
        }
        self.sessions.clear(&session::StreamEnd::Stopping);
    }

    fn listens(&self) -> Open {
        Open {
            applying: self.replica.is_applying(),
            sessions: self.sessions.listens(self.context.now) && self.waiting_reports.has_room(),
        }
    }

    /// Returns the time until the loop must act even if no input arrives: for the next tick, a round
    /// that clients wait for, this node's report, or work on sessions and their long reports.
    fn next_due(&self) -> Duration {
        let (now, node) = (self.context.now, self.own.machine());
        let due = [
            self.leadership.machine().poll_timeout(now),
            node.and_then(|node| node.poll_timeout(now)),
            node.and_then(|_| self.reporting.urgent_at()),
            (!self.waiting_reports.is_empty()).then_some(now),
            self.unsettled.map(|_| now),
            self.peers.has_arrived().then_some(now),
            self.sessions.due(now),
        ];
        let due = due.into_iter().flatten().fold(self.next_tick(), Tick::min);
        Duration::from_nanos(due.since(now).nanos())
    }

    fn next_tick(&self) -> Tick {
        self.ticks.next(self.rests())
    }

    /// Returns true while nothing is pending.
    fn rests(&self) -> bool {
        let (now, node) = (self.context.now, self.own.machine());
        node.is_some_and(|node| node.poll_timeout(now).is_none())
            && self.leadership.machine().poll_timeout(now).is_none()
            && self.sessions.names.is_empty()
            && !self.leaving.has_begun()
    }

    fn time_passes(&mut self, inbox: &Inbox) -> &'static str {
        self.context.read_clock();
        if self.context.now >= self.next_tick() {
            self.tick(inbox.sessions.len() + self.waiting_reports.len());
        }
        CLOCK
    }

    /// Records the duration of this turn under the name of its longest part.
    fn turn_ends(&mut self, cause: &'static str, settled_from: Tick) {
        let clock = &self.context.options.clock;
        let (began, now) = (self.context.now, clock.now());
        let (held, settled) = (now.since(began), now.since(settled_from));
        let worked = clock.thread_time().minus_or_zero(self.context.thread_time);
        let cause = match settled.times_or_max(2) > held {
            true if settled_from > began => "long reports, plans and answers",
            _ => cause,
        };
        let took = TurnTime { held, worked };
        self.longest_turn.note(cause, took, now);
    }

    fn answer(&mut self, query: Query) {
        self.context.read_clock();
        if let Some(raft) = &self.context.raft {
            self.context.status.advance(&raft.status().borrow());
        }
        query(&self.view());
        self.turn_ends("an API query", self.context.now);
    }

    fn view(&self) -> View<'_> {
        View {
            now: self.context.now,
            state: self.replica.state(),
            leader: self.leadership.machine(),
            node: self.own.machine(),
            sessions: self.sessions.registry(),
            book: self.peers.book(),
            links_up: self.peers.links_up(),
            round_trips: self.peers.round_trips(),
            counts: &self.context.counts,
            traffic: self.leadership.traffic(),
            status: &self.context.status,
            longest_turn: self.longest_turn.longest(),
            keys_waiting: self.sessions.names.waiting(),
            leaving: self.leaving.has_begun(),
        }
    }
}

/// Inputs, each handed to the owner of the state that it concerns.
impl Actor {
    /// Handles an input. Returns its name, for the warning about a loop that was held for long.
    fn handle(&mut self, input: Input, inbox: &mut Inbox) -> &'static str {
        self.context.read_clock();
        match input {
            Input::Link(event) => {
                let links = &mut inbox.links;
                self.peers.handle_queued(event, links, &mut self.context);
                "messages of peers"
            }
            Input::Log(log) => self.handle_log(log),
            Input::GoOn => {
                self.apply_on();
                "entries applied"
            }
            Input::Forwarded(forwarded) => {
                self.handle_forwarded(forwarded);
                "a central request of a peer"
            }
            Input::Write(command, reply) => {
                self.writers.write(command, reply, &self.context);
                "a write"
            }
            Input::Leave(reply) => {
                self.leave(reply);
                "the order to leave"
            }
            Input::Session(event) => {
                self.handle_sessions(event, &mut inbox.sessions);
                "session events"
            }
            Input::Query(_) | Input::Gone => "nothing",
        }
    }

    fn handle_control(&mut self, input: Control) -> &'static str {
        self.context.read_clock();
        let state = self.replica.state();
        match input {
            Control::DecisionReply(decided) => {
                let client = decided.edge.child;
                self.sessions
                    .send(client, NodeMessage::DecisionReply(decided));
            }
            Control::Raft(_) | Control::Stop => {}
            Control::Barrier { barrier, held } => {
                let now = self.context.now;
                let answers = self.leadership.barrier_done(barrier, held, state, now);
                self.tell_nodes(&answers);
            }
            Control::Round {
                term,
                command,
                result,
            } => self
                .leadership
                .round_done(term, command, result, state, &self.context),
            Control::WriteFailed { request, error } => self.writers.failed(request, &error),
            Control::Instantiated { batch } => {
                self.sessions.names.landed(batch, &mut self.context);
            }
        }
        "a control message"
    }

    fn handle_log(&mut self, log: Log) -> &'static str {
        match log {
            Log::Apply { entries, reply } => {
                self.replica.begin(entries, reply);
                self.apply_on();
                "entries applied"
            }
            Log::Freeze { reply } => {
                let _ = reply.send(Ok(self.replica.state().freeze()));
                "a snapshot taken"
            }
            Log::Restore { state, reply } => {
                let _ = reply.send(Ok(self.restore(state)));
                "a snapshot restored"
            }
        }
    }

    fn handle_forwarded(&mut self, forwarded: Forwarded) {
        let (node, state) = (self.own.machine_mut(), self.replica.state());
        match forwarded {
            Forwarded::DecisionRequest(ask, reply) => {
                Central::ask_for_peer(&ask, reply, node, state, &self.context);
            }
            Forwarded::Release(release) => {
                self.central.release(&release, node, state, &self.context);
            }
        }
    }

    /// Handles queued session events: at most one batch, and no more than fit into a slice. Long reports wait.
    fn handle_sessions(&mut self, first: Event, more: &mut mpsc::Receiver<Event>) {
        let (mut reports, mut lines) = (0, 0);
        take_some(first, more, Self::BATCH, |event| {
            if let Event::Report { report, .. } = &event {
                reports += 1;
                lines += report.lines.len() as u64;
            }
            match self.waiting_reports.must_wait(&event) {
                true => self.waiting_reports.push(event),
                false => self.handle_session(event),
            }
            self.waiting_reports.has_room() && !self.context.slice_is_over()
        });
        self.sessions.note_reports(reports, lines, self.context.now);
    }

    /// Answers short reports, and renews the leases of sessions whose reports wait.
    fn renew_leases(&mut self) {
        let Some(node) = self.own.machine_mut() else {
            return;
        };
        node.answer_short(self.context.now);
        for (caller, report) in self.waiting_reports.take_unrenewed() {
            if self.sessions.is_current(caller) {
                node.renew_early(report, self.context.now);
            }
        }
    }

    /// Handles long reports, at least one, as many as fit into a slice.
    fn handle_waiting(&mut self) {
        while let Some(event) = self.waiting_reports.pop() {
            self.handle_session(event);
            if self.context.slice_is_over() {
                break;
            }
        }
    }

    fn handle_session(&mut self, event: Event) {
        let Self {
            sessions,
            central,
            context,
            ..
        } = self;
        let (node, state) = (self.own.machine_mut(), self.replica.state());
        match event {
            Event::Opening(opening) => {
                let leaving = self.leaving.has_begun();
                sessions.open(*opening, node, leaving, state, context);
            }
            Event::Intern { caller, keys } if sessions.is_current(&caller) => {
                sessions.intern(caller, keys, node, state, context);
            }
            Event::Report { caller, report } if sessions.is_current(&caller) => {
                sessions.report(caller, &report, node, state, context);
            }
            Event::DecisionRequest { caller, ask } if sessions.is_current(&caller) => {
                if let Some(decided) = central.ask(ask, node, state, context) {
                    sessions.send(decided.edge.child, NodeMessage::DecisionReply(decided));
                }
            }
            Event::Release { release } => central.release(&release, node, state, context),
            Event::Gone { caller } => sessions.gone(&caller),
            Event::Intern { .. } | Event::Report { .. } | Event::DecisionRequest { .. } => {}
        }
    }

    /// Takes in the peers' latest records, at least one, as many as fit into a slice: reports if this node leads, and answers to this
    /// incarnation.
    fn take_records(&mut self) {
        while let Some((peer, record)) = self.peers.next_arrived() {
            if let Err(error) = self.take_record(record.value()) {
                tracing::warn!(peer = peer.get(), %error, "a record was ignored: it cannot be decoded");
            }
            if self.context.slice_is_over() {
                break;
            }
        }
    }

    fn take_record(&mut self, record: &Record) -> Result<(), WireError> {
        let (incarnation, now) = (record.head.incarnation, self.context.now);
        match record.head.topic {
            Topic::Report if self.leadership.leads() => {
                self.take_report(record.report()?.value());
            }
            Topic::Report => self.leadership.note_report(incarnation, now),
            Topic::Answer if self.own.incarnation() == Some(incarnation) => {
                let (answer, state) = (record.answer()?, self.replica.state());
                self.own.hear(answer.value(), state, now);
            }
            Topic::Presence => self.sessions.balance.hear(incarnation, now),
            _ => {}
        }
        Ok(())
    }

    /// Follows a change of Raft's status: an election won or lost, or a change of members.
    fn follow_raft(&mut self, status: Status) {
        let context = &mut self.context;
        self.leadership
            .follow(&status, self.replica.state(), context);
        context.counts.leader_changes += u64::from(status.leader != context.status.leader);
        context.status = status;
        self.central.follow_members(&context.status);
        self.peers.follow_members(context);
    }

    /// Begins to leave: all tokens are handed back.
    fn leave(&mut self, reply: oneshot::Sender<()>) {
        self.depart();
        self.reporting.urge();
        self.leaving.wait(reply);
    }
}

/// Time, and the outputs that follow from inputs.
impl Actor {
    /// Does the work that depends on time alone. `waiting` is the number of queued session events.
    fn tick(&mut self, waiting: usize) {
        let (now, rests) = (self.context.now, self.rests());
        let all_heard = self.ticks.begin(rests, waiting >= Self::BATCH, now);
        let wall_ms = self.context.options.clock.wall_ms();
        let jumped = self.clock_jumps.check(now, wall_ms);
        if let Some(node) = self.own.machine_mut() {
            if jumped {
                tracing::warn!("the wall clock jumped ahead: the lease of this node has ended");
                node.clock_jumped(now);
            }
            match all_heard {
                true => node.tick(now),
                false => node.tick_behind(now),
            }
            self.reporting.log_lease_change(node.is_leased(now));
        }
        self.leadership.sample_traffic(now);
        let (leaving, state) = (self.leaving.has_begun(), self.replica.state());
        let context = &mut self.context;
        if self.leadership.machine().is_ready() {
            let creator = self.own.incarnation();
            self.initial_contents.propose(creator, state, context);
        }
        if !leaving {
            self.own.keep_joining(context);
        }
        let (node, book) = (self.own.machine(), self.peers.book());
        self.sessions.keep(node, leaving, book, state, context);
        self.publish_presence();
        if self.leaving.is_awaited() {
            self.reporting.urge();
            self.leaving.resolve(self.own.machine());
        }
    }

    fn publish_presence(&mut self) {
        let Some(node) = self.own.machine() else {
            return;
        };
        let (state, sessions) = (self.replica.state(), self.sessions.registry().connected());
        let takes_clients = !self.leaving.has_begun();
        let record = self
            .presence
            .next(node, state, sessions, takes_clients, &self.context);
        if let Some(record) = record {
            self.peers.publish(&record);
        }
    }

    /// Produces the outputs that follow from the inputs: plans, answers, reports and records.
    ///
    /// Each turn takes in records, which renew this node's lease or others', and renews the leases of sessions. Of the rest,
    /// those parts wait for the next turn that no longer fit into a slice. That turn begins with the first of them.
    ///
    /// If an input has used up the slice, all parts wait. The next turn is one of the clock then: it handles no input, and
    /// at least one part has its time.
    fn settle(&mut self, cause: &'static str) {
        self.take_records();
        let parts = [
            Self::settle_sessions,
            Self::handle_waiting,
            Self::settle_leader,
            Self::settle_node,
            Self::report_if_due,
        ];
        let from = self.unsettled.take().unwrap_or(0);
        for next in from..from + parts.len() {
            let is_first = next == from && cause == CLOCK;
            if self.context.slice_is_over() && !is_first {
                self.unsettled = Some(next % parts.len());
                break;
            }
            parts[next % parts.len()](self);
        }
        // This node's own report may just have asked the leader for urgent work.
        let now = self.context.now;
        let due = self.leadership.machine().poll_timeout(now);
        if due.is_some_and(|at| at <= now) && !self.context.slice_is_over() {
            self.settle_leader();
            self.settle_node();
        }
        self.renew_leases();
        self.send_outputs();
        self.peers.send(self.context.now);
    }

    fn settle_sessions(&mut self) {
        let (own, state) = (self.own.incarnation(), self.replica.state());
        self.sessions.settle(own, state, &mut self.context);
    }

    fn settle_leader(&mut self) {
        let state = self.replica.state();
        let answers = self.leadership.tick(state, &mut self.context);
        self.tell_nodes(&answers);
    }

    fn settle_node(&mut self) {
        if let Some(node) = self.own.machine_mut() {
            node.flush_urgent(self.context.now);
        }
    }

    /// Sends what the node's state machine has made.
    fn send_outputs(&mut self) {
        let node = self.own.machine_mut();
        for output in node.map(Node::poll_outputs).unwrap_or_default() {
            match output {
                NodeOutput::Answer(answer) => self.sessions.answer(answer, &mut self.context),
                NodeOutput::Rejoin => self.own.rejoin(&mut self.context.rng),
            }
        }
    }

    /// Reports if a regular or an urgent report is due.
    fn report_if_due(&mut self) {
        let Some(node) = self.own.machine_mut() else {
            return;
        };
        let every = self.leadership.machine().report_every();
        let Some(report) = self.reporting.next(node, every, &self.context) else {
            return;
        };
        match Sealed::seal(&report) {
            Ok(sealed) => {
                self.peers.publish(&Record::of_report(&sealed));
                self.take_report(&report);
            }
            Err(error) => tracing::error!(%error, "a report was not sent: it cannot be decoded"),
        }
    }

    /// Hands a report of this or another node to the leader, and its answer to the node.
    fn take_report(&mut self, report: &Report) {
        let (state, now) = (self.replica.state(), self.context.now);
        if let Some(answer) = self.leadership.take_report(report, state, now) {
            self.tell_node(&answer);
        }
    }

    fn tell_nodes(&mut self, answers: &[Answer]) {
        for answer in answers {
            self.tell_node(answer);
        }
    }

    /// Gives an answer to a node: to the state machine here, or to other nodes by gossip.
    fn tell_node(&mut self, answer: &Answer) {
        if self.own.incarnation() == Some(answer.edge.child) {
            let state = self.replica.state();
            return self.own.hear(answer, state, self.context.now);
        }
        match Sealed::seal(answer).map(|sealed| Record::of_answer(&sealed)) {
            Ok(record) => self.peers.publish(&record),
            Err(error) => tracing::error!(%error, "an answer was not sent: it cannot be decoded"),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/actor.rs"]
mod tests;
