//! The actor: one task, one loop, one clock.

use super::central::Homes;
use super::counts::Counts;
use super::inbox::{Inbox, Input, Open, take_some};
use super::leadership::Leadership;
use super::longest_turn::{LongestTurn, SLICE};
use super::machine::Log;
use super::options::Options;
use super::replica::Applying;
use super::report_coalescer::ReportCoalescer;
use super::sessions::PendingKeys;
use super::traffic::Traffic;
use super::view::View;
use super::writes::Writers;
use crate::gossip::{self, Book, Link};
use crate::raft::{ProposeError, Raft, Status};
use crate::session::{self, Rebalancer, Registry};
use crate::timer;
use aliquot_core::central::{DecisionReply, DecisionRequest, Release};
use aliquot_core::leadership::Barrier;
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::{Incarnation, NodeId, RequestId, Span, Term, Tick};
use aliquot_wire::session::NodeMessage;
use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Inputs that must not wait behind those of clients.
pub(super) enum Control {
    /// The Raft log has been opened.
    Raft(Raft),
    /// The home node's decision on a client's request, or a refusal if it did not answer.
    DecisionReply(DecisionReply),
    /// The proposal of a batch of new keys has ended, whether or not it was taken.
    Instantiated { batch: u64 },
    /// The actor must stop.
    Stop,
    /// The barrier has ended. `held` is true if a quorum acknowledged it.
    Barrier { barrier: Barrier, held: bool },
    /// The proposal of a round, made in `term`, has ended.
    Round {
        term: Term,
        command: Bytes,
        result: Result<(), ProposeError>,
    },
    /// An operator's command was not taken, or its fate is unknown.
    WriteFailed {
        request: RequestId,
        error: ProposeError,
    },
}

/// Central requests that a peer forwarded.
pub(super) enum Forwarded {
    /// A request for a decision.
    DecisionRequest(DecisionRequest, oneshot::Sender<DecisionReply>),
    /// Permits that a client returns.
    Release(Release),
}

/// State of one coordinator node: the replica, the state machines, the connections and the clock.
pub(super) struct Actor {
    pub(super) options: Options,
    pub(super) control: mpsc::UnboundedSender<Control>,
    pub(super) raft: Option<Raft>,
    pub(super) status: Status,
    pub(super) state: State,
    pub(super) leadership: Leadership,
    pub(super) node: Option<Node>,
    pub(super) join: super::joining::Joining,
    pub(super) book: Book,
    pub(super) links: BTreeMap<NodeId, Link>,
    pub(super) links_in: mpsc::Sender<gossip::Event>,
    pub(super) sessions: Registry,
    pub(super) pending: PendingKeys,
    pub(super) rebalancer: Rebalancer,
    pub(super) traffic: Traffic,
    pub(super) counts: Counts,
    pub(super) writers: Writers,
    /// Entries of which only a part is applied so far.
    pub(super) applying: Option<Applying>,
    longest_turn: LongestTurn,
    clock_jumps: super::clock_jump::ClockJumpDetector,
    pub(super) homes: Homes,
    pub(super) initial_contents: super::initial_contents::Progress,
    pub(super) send_times: super::reporting::SendTimes,
    /// Set once this node was told to leave. It never serves clients again.
    pub(super) departs: bool,
    /// Callers that wait until this node has left.
    pub(super) leaving: Vec<oneshot::Sender<()>>,
    pub(super) rng: StdRng,
    report_coalescer: ReportCoalescer,
    ticked: Tick,
    /// The last time at which this node had more work than it could do.
    behind: Option<Tick>,
    pub(super) now: Tick,
}

impl Actor {
    /// Time between two ticks.
    const TICK: Span = Span::from_millis(20);

    /// Time between two ticks while nothing is pending.
    const REST: Span = Span::from_millis(100);

    /// A tick that is later than this shows that the node is overloaded.
    const LATE: Span = Span::from_millis(300);

    /// Time after an overload during which no session is ended for silence: a message that the client
    /// sent in time may still be unread in a socket.
    const CAUGHT_UP: Span = Span::from_secs(2);

    /// Maximum number of inputs that are handled before the outputs that follow from them.
    const BATCH: usize = 256;

    pub(super) fn new(
        options: Options,
        control: mpsc::UnboundedSender<Control>,
        links_in: mpsc::Sender<gossip::Event>,
    ) -> Self {
        let now = options.clock.now();
        let mut rng = StdRng::seed_from_u64(options.seed);
        Self {
            control,
            raft: None,
            status: Status::default(),
            state: State::new(),
            leadership: Leadership::new(options.pace),
            node: None,
            join: super::joining::Joining::new(&mut rng),
            book: Book::new(Incarnation::default()),
            links: BTreeMap::new(),
            links_in,
            sessions: Registry::new(options.session_keys),
            pending: PendingKeys::default(),
            rebalancer: Rebalancer::new(Incarnation::default()),
            traffic: Traffic::default(),
            counts: Counts::default(),
            writers: Writers::new(),
            applying: None,
            longest_turn: LongestTurn::new(now),
            clock_jumps: super::clock_jump::ClockJumpDetector::default(),
            homes: Homes::default(),
            initial_contents: super::initial_contents::Progress::default(),
            send_times: super::reporting::SendTimes::new(now),
            departs: false,
            leaving: Vec::new(),
            rng,
            report_coalescer: ReportCoalescer::new(now),
            ticked: now,
            behind: None,
            now,
            options,
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
                            self.raft = Some(raft);
                            continue;
                        }
                        Some(input) => self.handle_control(input),
                    },
                    Ok(()) = status.changed() => {
                        let latest = status.borrow_and_update().clone();
                        self.read_clock();
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
            let settles = self.options.clock.now();
            self.settle();
            self.turn_ends(cause, settles);
            // Messages to other nodes are sent on the same thread. Without this yield, an endless
            // stream of inputs would hold them back until the lease expires.
            tokio::task::yield_now().await;
        }
        self.sessions.clear(&session::Refused::Stopping);
    }

    fn listens(&self) -> Open {
        Open {
            applying: self.applying.is_some(),
            sessions: self.now >= self.report_coalescer.next() && self.pending.has_room(),
        }
    }

    fn time_passes(&mut self, inbox: &Inbox) -> &'static str {
        self.read_clock();
        if self.now >= self.next_tick() {
            self.tick(inbox.sessions.len());
        }
        "the clock"
    }

    /// Handles an input. Returns its name, for the warning about a loop that was held for long.
    fn handle(&mut self, input: Input, inbox: &mut Inbox) -> &'static str {
        self.read_clock();
        match input {
            Input::Link(event) => {
                self.handle_gossip(event);
                "a peer's message"
            }
            Input::Log(log) => self.handle_log(log),
            Input::GoOn => {
                self.apply_on();
                "entries applied"
            }
            Input::Forwarded(forwarded) => {
                self.take_forwarded(forwarded);
                "a central request of a peer"
            }
            Input::Write(command, reply) => {
                self.write(command, reply);
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

    fn handle_log(&mut self, log: Log) -> &'static str {
        match log {
            Log::Apply { entries, reply } => {
                self.applying = Some(Applying::new(entries, reply));
                self.apply_on();
                "entries applied"
            }
            Log::Freeze { reply } => {
                let _ = reply.send(Ok(self.state.freeze()));
                "a snapshot taken"
            }
            Log::Restore { state, reply } => {
                let _ = reply.send(Ok(self.restore(state)));
                "a snapshot restored"
            }
        }
    }

    fn answer(&mut self, query: super::handle::Query) {
        self.read_clock();
        if let Some(raft) = &self.raft {
            self.status.advance(&raft.status().borrow());
        }
        query(&self.view());
        self.turn_ends("an API query", self.now);
    }

    /// Records the duration of this turn under the name of its longest part.
    fn turn_ends(&mut self, cause: &'static str, settled_from: Tick) {
        let now = self.options.clock.now();
        let (took, settled) = (now.since(self.now), now.since(settled_from));
        let cause = match settled.times_or_max(2) > took {
            true if settled_from > self.now => "planning and reporting",
            _ => cause,
        };
        self.longest_turn.note(cause, took, now);
    }

    /// Returns true if the current work has used up its slice of the turn.
    pub(super) fn slice_is_over(&self) -> bool {
        self.options.clock.now().since(self.now) >= SLICE
    }

    /// Handles queued session events: at most one batch, and no more than fit into a slice.
    fn handle_sessions(
        &mut self,
        first: session::Event,
        more: &mut mpsc::Receiver<session::Event>,
    ) {
        let (mut reports, mut lines) = (0, 0);
        take_some(first, more, Self::BATCH, |event| {
            if let session::Event::Report { report, .. } = &event {
                reports += 1;
                lines += report.lines.len() as u64;
            }
            self.handle_session(event);
            !self.slice_is_over()
        });
        self.report_coalescer.note(reports, lines, self.now);
    }

    /// Reads the clock once for all inputs that are handled together. Ticks never go back.
    fn read_clock(&mut self) {
        self.now = self.now.max(self.options.clock.now());
    }

    /// Returns the time until the loop must act even if no input arrives: for the next tick, a round
    /// that clients wait for, this node's report, keys that wait to be looked up, or the end of the
    /// pause in which client reports are collected.
    fn next_due(&self) -> Duration {
        let round = self.leadership.machine().urgent_at();
        let reports = Some(self.report_coalescer.next()).filter(|&at| at > self.now);
        let names = self.pending.is_behind().then_some(self.now);
        let urgent = [round, self.urgent_report_at(), reports, names]
            .into_iter()
            .flatten();
        let due = urgent.fold(self.next_tick(), Tick::min);
        Duration::from_nanos(due.since(self.now).nanos())
    }

    fn next_tick(&self) -> Tick {
        let node = self.node.as_ref();
        let rests = node.is_some_and(|node| node.is_at_rest(self.now))
            && self.leadership.machine().is_at_rest()
            && self.pending.is_empty()
            && !self.departs;
        self.ticked
            .after(if rests { Self::REST } else { Self::TICK })
    }

    fn take_forwarded(&mut self, forwarded: Forwarded) {
        match forwarded {
            Forwarded::DecisionRequest(ask, reply) => self.ask_for_peer(&ask, reply),
            Forwarded::Release(release) => self.release(&release),
        }
    }

    fn handle_control(&mut self, input: Control) -> &'static str {
        self.read_clock();
        match input {
            Control::DecisionReply(told) => {
                let client = told.edge.child;
                self.sessions.send(client, NodeMessage::DecisionReply(told));
            }
            Control::Raft(_) | Control::Stop => {}
            Control::Barrier { barrier, held } => self.barrier_done(barrier, held),
            Control::Round {
                term,
                command,
                result,
            } => self.round_done(term, command, result),
            Control::WriteFailed { request, error } => self.write_failed(request, &error),
            Control::Instantiated { batch } => self.batch_landed(batch),
        }
        "a control message"
    }

    /// Does the work that depends on time alone. `waiting` is the number of queued session events.
    fn tick(&mut self, waiting: usize) {
        if waiting >= Self::BATCH || self.now.since(self.next_tick()) >= Self::LATE {
            self.behind = Some(self.now);
        }
        let behind = self.behind.map(|at| self.now.since(at));
        let all_heard = behind.is_none_or(|since| since >= Self::CAUGHT_UP);
        self.ticked = self.now;
        let jumped = self
            .clock_jumps
            .check(self.now, self.options.clock.wall_ms());
        if let Some(node) = &mut self.node {
            if jumped {
                tracing::warn!("the wall clock jumped ahead: the lease of this node has ended");
                node.clock_jumped(self.now);
            }
            match all_heard {
                true => node.tick(self.now),
                false => node.tick_behind(self.now),
            }
            self.send_times.log_lease_change(node.is_leased(self.now));
        }
        self.traffic.sample(self.now);
        self.propose_initial_contents();
        self.keep_joining();
        self.keep_sessions();
        self.publish_presence();
        self.keep_leaving();
    }

    /// Produces the outputs that follow from the inputs: plans, answers, reports and records.
    fn settle(&mut self) {
        self.name_more();
        self.refresh_names();
        self.ask_for_keys();
        self.tick_leader();
        self.settle_node();
        self.report_if_due();
        // This node's own report may just have asked the leader for urgent work.
        let urgent = self.leadership.machine().urgent_at();
        if urgent.is_some_and(|at| at <= self.now) {
            self.tick_leader();
            self.settle_node();
        }
        self.send_gossip();
    }

    fn settle_node(&mut self) {
        if let Some(node) = &mut self.node {
            node.flush_urgent(self.now);
        }
        self.drain_node();
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            state: &self.state,
            leader: self.leadership.machine(),
            node: self.node.as_ref(),
            sessions: &self.sessions,
            book: &self.book,
            links_up: self.links.values().filter(|link| link.is_up()).count(),
            counts: &self.counts,
            traffic: &self.traffic,
            status: &self.status,
            longest_turn: self.longest_turn.longest(),
            keys_waiting: self.pending.waiting(),
            leaving: self.departs,
        }
    }
}
