//! The actor: one task, one loop, one clock.

use super::counts::Counts;
use super::desk::Pending;
use super::gathering::Gathering;
use super::office::Office;
use super::options::Options;
use super::questions::Homes;
use super::spawn::Ears;
use super::traffic::Traffic;
use super::view::View;
use super::writes::Writers;
use crate::gossip::{self, Book, Link};
use crate::raft::{Committed, MachineError, Outcome, ProposeError, Raft, Status};
use crate::session::{self, Registry, Spread};
use crate::timer;
use aliquot_core::central::{Ask, Release, Told};
use aliquot_core::leadership::Barrier;
use aliquot_core::node::Node;
use aliquot_core::state::State;
use aliquot_core::unit::{Incarnation, NodeId, RequestId, Span, Term, Tick};
use aliquot_wire::session::NodeMessage;
use bytes::Bytes;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// What must not wait behind clients.
pub(super) enum Control {
    /// Committed entries, in order.
    Apply {
        entries: Vec<Committed>,
        reply: oneshot::Sender<Result<Vec<Outcome>, MachineError>>,
    },
    /// A snapshot of the state is wanted.
    Snapshot {
        reply: oneshot::Sender<Result<Bytes, MachineError>>,
    },
    /// The state becomes that of a snapshot.
    Restore {
        index: u64,
        bytes: Bytes,
        reply: oneshot::Sender<Result<(), MachineError>>,
    },
    /// The log is there.
    Raft(Raft),
    /// The home answered a client's question.
    Told(Told),
    /// Nothing more is to be done.
    Stop,
    /// A quorum acknowledged the barrier, or did not.
    Barrier { barrier: Barrier, held: bool },
    /// What became of the proposal of this term's round.
    Round {
        term: Term,
        command: Bytes,
        result: Result<(), ProposeError>,
    },
    /// An operator's command did not come to be applied, or nobody knows.
    WriteFailed {
        request: RequestId,
        error: ProposeError,
    },
}

/// What a peer passed on.
pub(super) enum Passed {
    /// A question.
    Ask(Ask, oneshot::Sender<Told>),
    /// Permits that come back.
    Release(Release),
}

/// Everything that one node is.
pub(super) struct Actor {
    pub(super) options: Options,
    pub(super) control: mpsc::UnboundedSender<Control>,
    pub(super) raft: Option<Raft>,
    pub(super) status: Status,
    pub(super) state: State,
    pub(super) office: Office,
    pub(super) node: Option<Node>,
    pub(super) join: super::speech::Joining,
    pub(super) book: Book,
    pub(super) links: BTreeMap<NodeId, Link>,
    pub(super) links_in: mpsc::Sender<gossip::Event>,
    pub(super) sessions: Registry,
    pub(super) pending: Pending,
    pub(super) spread: Spread,
    pub(super) traffic: Traffic,
    pub(super) counts: Counts,
    pub(super) writers: Writers,
    jumps: super::jump::Jumps,
    pub(super) homes: Homes,
    pub(super) founding: super::founding::Progress,
    pub(super) pace: super::speech::Rhythm,
    /// Whether this node was told to leave: it never serves again.
    pub(super) departs: bool,
    /// Who waits for it to have left.
    pub(super) leaving: Vec<oneshot::Sender<()>>,
    pub(super) rng: StdRng,
    gathering: Gathering,
    ticked: Tick,
    /// When this node last had more to do than it could.
    behind: Option<Tick>,
    pub(super) now: Tick,
}

impl Actor {
    /// The time between two looks at the clock's business.
    const TICK: Span = Span::from_millis(20);

    /// The same while nothing is going on.
    const REST: Span = Span::from_millis(100);

    /// A look that is later than this shows that the node has more to do than it can.
    const LATE: Span = Span::from_millis(300);

    /// For so long afterwards it ends nobody's session: what a client said in time may still
    /// be in a socket.
    const CAUGHT_UP: Span = Span::from_secs(2);

    /// So many inputs are taken before what follows from them is done.
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
            office: Office::new(options.pace),
            node: None,
            join: super::speech::Joining::new(&mut rng),
            book: Book::new(Incarnation::default()),
            links: BTreeMap::new(),
            links_in,
            sessions: Registry::new(options.session_keys),
            pending: Pending::default(),
            spread: Spread::new(Incarnation::default()),
            traffic: Traffic::default(),
            counts: Counts::default(),
            writers: Writers::new(),
            jumps: super::jump::Jumps::default(),
            homes: Homes::default(),
            founding: super::founding::Progress::default(),
            pace: super::speech::Rhythm::new(now),
            departs: false,
            leaving: Vec::new(),
            rng,
            gathering: Gathering::new(now),
            ticked: now,
            behind: None,
            now,
            options,
        }
    }

    pub(super) async fn run(mut self, mut ears: Ears) {
        let (_never, mut status) = watch::channel(Status::default());
        loop {
            let due = self.next_due();
            tokio::select! {
                biased;
                // Handles are gone with the process that held them.
                input = ears.control.recv() => match input {
                    Some(Control::Stop) | None => {
                        self.sessions.clear(&session::Refused::Stopping);
                        return;
                    }
                    Some(Control::Raft(raft)) => {
                        status = raft.standing();
                        status.mark_changed();
                        self.raft = Some(raft);
                    }
                    Some(input) => {
                        self.look_at_the_clock();
                        self.handle_control(input);
                    }
                },
                Ok(()) = status.changed() => {
                    let latest = status.borrow_and_update().clone();
                    self.look_at_the_clock();
                    self.follow_raft(latest);
                }
                () = timer::sleep(due) => {
                    self.look_at_the_clock();
                    if self.now >= self.next_tick() {
                        self.tick(ears.sessions.len());
                    }
                }
                Some(question) = ears.questions.recv() => {
                    self.look_at_the_clock();
                    if let Some(raft) = &self.raft {
                        self.status.advance(&raft.status().borrow());
                    }
                    question(&self.view());
                    continue;
                }
                Some(event) = ears.links.recv() => {
                    self.look_at_the_clock();
                    self.hear(event);
                }
                Some(passed) = ears.central.recv() => {
                    self.look_at_the_clock();
                    self.take_passed(passed);
                }
                Some((command, reply)) = ears.writes.recv() => self.write(command, reply),
                Some(reply) = ears.leave.recv() => {
                    self.look_at_the_clock();
                    self.leave(reply);
                }
                event = ears.sessions.recv(), if self.now >= self.gathering.next() => match event {
                    Some(event) => self.hear_sessions(event, &mut ears.sessions),
                    None => return,
                },
            }
            self.settle();
            // What it says to the others travels on the same thread. Inputs that never end would
            // keep it there until the lease is over.
            tokio::task::yield_now().await;
        }
    }

    /// What sessions said: of what waits, a batch.
    fn hear_sessions(&mut self, first: session::Event, more: &mut mpsc::Receiver<session::Event>) {
        self.look_at_the_clock();
        let (mut reports, mut lines) = (0, 0);
        let rest = std::iter::from_fn(|| more.try_recv().ok());
        for event in std::iter::once(first).chain(rest).take(Self::BATCH) {
            if let session::Event::Report { report, .. } = &event {
                reports += 1;
                lines += report.lines.len() as u64;
            }
            self.handle_session(event);
        }
        self.gathering.took(reports, lines, self.now);
    }

    /// One reading for everything that is handled together. Ticks never go back.
    fn look_at_the_clock(&mut self) {
        self.now = self.now.max(self.options.clock.now());
    }

    /// For how long there is nothing to do unless something comes in: until the clock's
    /// business, a round that is waited for, this node's report, or reports that gathered.
    fn next_due(&self) -> Duration {
        let round = self.office.machine().urgent_at();
        let gathered = Some(self.gathering.next()).filter(|&at| at > self.now);
        let urgent = [round, self.news_at(), gathered].into_iter().flatten();
        let due = urgent.fold(self.next_tick(), Tick::min);
        Duration::from_nanos(due.since(self.now).nanos())
    }

    fn next_tick(&self) -> Tick {
        let node = self.node.as_ref();
        let rests = node.is_some_and(|node| node.is_at_rest(self.now))
            && self.office.machine().is_at_rest()
            && self.pending.is_empty()
            && !self.departs;
        self.ticked
            .after(if rests { Self::REST } else { Self::TICK })
    }

    fn take_passed(&mut self, passed: Passed) {
        match passed {
            Passed::Ask(ask, reply) => self.ask_for_peer(&ask, reply),
            Passed::Release(release) => self.release(&release),
        }
    }

    fn handle_control(&mut self, input: Control) {
        match input {
            Control::Apply { entries, reply } => {
                let outcomes = self.apply(entries);
                let _ = reply.send(outcomes);
            }
            Control::Snapshot { reply } => {
                let _ = reply.send(self.snapshot());
            }
            Control::Restore {
                index,
                bytes,
                reply,
            } => {
                let _ = reply.send(self.restore(index, bytes));
            }
            Control::Told(told) => {
                let client = told.edge.child;
                self.sessions.send(client, NodeMessage::Told(told));
            }
            Control::Raft(_) | Control::Stop => {}
            Control::Barrier { barrier, held } => self.barrier_done(barrier, held),
            Control::Round {
                term,
                command,
                result,
            } => self.round_done(term, command, result),
            Control::WriteFailed { request, error } => self.write_failed(request, &error),
        }
    }

    /// What time alone brings about, while so many events of sessions wait.
    fn tick(&mut self, waiting: usize) {
        if waiting >= Self::BATCH || self.now.since(self.next_tick()) >= Self::LATE {
            self.behind = Some(self.now);
        }
        let behind = self.behind.map(|at| self.now.since(at));
        let all_heard = behind.is_none_or(|since| since >= Self::CAUGHT_UP);
        self.ticked = self.now;
        let jumped = self.jumps.look(self.now, self.options.clock.wall_ms());
        if let Some(node) = &mut self.node {
            if jumped {
                tracing::warn!("the wall clock ran ahead: the lease of this node is over");
                node.clock_jumped(self.now);
            }
            match all_heard {
                true => node.tick(self.now),
                false => node.tick_behind(self.now),
            }
            self.pace.look_at_lease(node.is_leased(self.now));
        }
        self.traffic.sample(self.now);
        self.keep_founding();
        self.keep_joining();
        self.keep_asking();
        self.keep_sessions();
        self.keep_company();
        self.keep_leaving();
    }

    /// Does what follows from the inputs: plans, answers, reports, records.
    fn settle(&mut self) {
        self.refresh_names();
        self.tick_leader();
        self.settle_node();
        self.report_if_due();
        // The leader's own node may just have spoken for somebody who waits.
        let urgent = self.office.machine().urgent_at();
        if urgent.is_some_and(|at| at <= self.now) {
            self.tick_leader();
            self.settle_node();
        }
        self.tell_peers();
    }

    fn settle_node(&mut self) {
        if let Some(node) = &mut self.node {
            node.hurry(self.now);
        }
        self.drain_node();
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            now: self.now,
            state: &self.state,
            leader: self.office.machine(),
            node: self.node.as_ref(),
            sessions: &self.sessions,
            book: &self.book,
            counts: &self.counts,
            traffic: &self.traffic,
            status: &self.status,
            leaving: self.departs,
        }
    }
}
