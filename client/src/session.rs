//! The session task of a client: it sends reports, handles answers, and changes nodes.
//!
//! ```text
//!            opened               lease over, or handed back
//!  dialling ────────► attempt ───────────────────────────────► link in use
//!     ▲                  │ the node in use answers again             │ silent, lost, closed, move
//!     │                  ▼                                           │
//!     │             closing link                                     │
//!     └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! An edge with a lease stays in use until the lease ends, whatever becomes of its connection. Meanwhile
//! another link is dialled and opened, so that its first report can go as soon as nothing is held under the
//! old edge. If a node still has the old edge, or the old node answers again after a silence, the session
//! continues under it: nothing was lost, and the link opened elsewhere is closed. [`aliquot_core::node_selection`]
//! decides which of these happens when.

pub(crate) mod builder;
mod central_requests;
pub(crate) mod client;
mod closing_link;
pub(crate) mod config;
pub(crate) mod connection_error;
mod decisions;
mod environment;
pub(crate) mod error;
mod key_claims;
mod keys;
mod leaving;
mod links;
mod outage;
mod outage_rule;
mod report_pace;
pub(crate) mod tls;
pub(crate) mod transport;

use crate::bucket::BucketDecider;
use crate::limiter::session_requests::SessionRequest;
use crate::limiter::shared::{Command, SessionId, Shared, Status};
use crate::local::debounce::{Debounce, Last, Rules};
use crate::session::config::{Config, REPORT_EVERY};
use crate::session::transport::{Dialer, Event, Link};
use aliquot_core::client::Client as Machine;
use aliquot_core::node_selection::{NodeSelection, Times};
use aliquot_core::unit::{Drift, Span, Tick};
use aliquot_wire::session::{ClientMessage, NodeMessage, SessionOpened};
use central_requests::CentralRequests;
use closing_link::ClosingLink;
use keys::Keys;
use outage::Outage;
use outage_rule::OutageRule;
use rand::rngs::StdRng;
use report_pace::ReportPace;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Channels by which callers reach the session.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The session ends when the last sender is dropped.
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) requests: mpsc::UnboundedReceiver<SessionRequest>,
}

/// A leave that was sent and is not answered yet.
#[derive(Debug)]
struct Leaving {
    until: Tick,
    reply: Option<oneshot::Sender<bool>>,
}

/// The session task: owns the client state machine, the connections and the keys.
#[derive(Debug)]
pub(crate) struct Session {
    config: Config,
    shared: Arc<Shared>,
    machine: Machine<BucketDecider>,
    keys: Keys,
    dialer: Dialer,
    rng: StdRng,
    inbox: Inbox,
    central_requests: CentralRequests,
    messages: u64,
    reports: u64,
    events: mpsc::Receiver<Event>,
    /// Sender for the events of new links.
    outlet: mpsc::Sender<Event>,
    /// Chooses nodes: the link in use, and the one that is tried.
    selection: NodeSelection<Link>,
    /// The answer of the node that is tried to the session's opening.
    opened: Option<SessionOpened>,
    /// The link that was given up last, while it is being closed.
    closing_link: Option<ClosingLink>,
    leaving: Option<Leaving>,
    closing: bool,
    /// Reason why the last connection failed or ended, until a session is opened.
    failure: Option<String>,
    /// Time without a node that opens a session; `None` while one does.
    outage: Option<Outage>,
    outage_rule: OutageRule,
    dials: u64,
    report_every: Span,
    report_at: Tick,
    /// Rate limit of urgent reports: at most one in each gap.
    urgent_debounce: Debounce<Last<()>>,
    /// No urgent report is sent before this.
    urgent_at: Tick,
    /// Pace and length of reports while there is much to say.
    report_pace: ReportPace,
    clocks: (Tick, i64),
    pid: u32,
}

impl Session {
    /// Minimum distance of two urgent reports.
    const URGENT_GAP: Duration = Duration::from_millis(1);
    /// Added to that distance for each line of the first report: the time that a line costs its receiver.
    const URGENT_GAP_PER_LINE: Span = Span::from_nanos(20_000);
    /// Interval at which refused demand is noticed while any budget is wanted, and at which it is looked at
    /// while it is not served.
    const LOOK_AGAIN: Span = Span::from_millis(20);
    /// Interval at which refused demand is noticed while no budget is wanted. It is longer, since each look
    /// of an idle client wakes a processor.
    const LOOK_AT_REST: Span = Span::from_millis(50);
    /// Interval at which the end of demand is noticed: other clients wait for what is no longer wanted.
    const LOOK_WHILE_WANTED: Span = Span::from_millis(100);
    /// Maximum advance of the wall clock over the boot clock between two looks. More is taken for a pause
    /// that the boot clock did not count.
    const JUMP_MS: i64 = 1_000;
    /// Maximum time between two looks at the clocks.
    const LOOK_EVERY: Span = Span::from_millis(250);

    pub(crate) fn new(
        config: Config,
        shared: Arc<Shared>,
        dialer: Dialer,
        inbox: Inbox,
        rng: StdRng,
    ) -> Self {
        let (now, wall) = (shared.clock.now(), shared.clock.wall_ms());
        let (outlet, events) = mpsc::channel(256);
        let mut machine = Machine::new(Drift::default());
        machine.begin_process(now);
        let outage_rule = OutageRule::of(config.outage_rule, now);
        Self {
            config,
            machine,
            keys: Keys::default(),
            dialer,
            rng,
            inbox,
            central_requests: CentralRequests::new(now),
            messages: 0,
            reports: 0,
            events,
            outlet,
            selection: NodeSelection::new(Times::of(REPORT_EVERY), now),
            opened: None,
            closing_link: None,
            leaving: None,
            closing: false,
            failure: None,
            outage: None,
            outage_rule,
            dials: 0,
            report_every: REPORT_EVERY,
            report_at: now,
            urgent_debounce: Debounce::new(Rules::throttle(Self::URGENT_GAP)),
            urgent_at: now,
            report_pace: ReportPace::new(),
            clocks: (now, wall),
            pid: std::process::id(),
            shared,
        }
    }

    /// Runs until the client is closed or its last handle is dropped.
    pub(crate) async fn run(mut self) {
        loop {
            let now = self.look();
            self.advance_links(now);
            if self.advance(now) {
                return;
            }
            let until = self.next_look(now);
            let notice = if self.machine.wants_any() {
                Self::LOOK_AGAIN
            } else {
                Self::LOOK_AT_REST
            };
            tokio::select! {
                biased;
                Some(event) = self.events.recv() => self.handle(event),
                command = self.inbox.commands.recv(), if !self.closing => self.obey(command),
                Some(request) = self.inbox.requests.recv() => self.run_all(request),
                () = self.shared.wake.notified() => {}
                () = self.shared.rest(until, notice) => {}
            }
        }
    }

    /// Reads the clocks. Ends the lease after a fork, or after a pause that the boot clock missed.
    fn look(&mut self) -> Tick {
        self.shared.align();
        let (now, wall) = (self.shared.clock.now(), self.shared.clock.wall_ms());
        let (then, wall_then) = self.clocks;
        let passed = i64::try_from(now.since(then).nanos() / 1_000_000).unwrap_or(i64::MAX);
        self.clocks = (now, wall);
        if std::process::id() != self.pid {
            self.pid = std::process::id();
            self.shared.set_lease(Tick::ZERO);
            self.machine.forked();
            self.machine.begin_process(now);
            self.ask_no_more();
            self.selection.forked(now);
            (self.opened, self.closing_link) = (None, None);
        } else if wall.saturating_sub(wall_then) > passed.saturating_add(Self::JUMP_MS) {
            tracing::warn!("the clock missed a pause: the lease is taken for over");
            self.shared.set_lease(Tick::ZERO);
            self.machine.clock_jumped(now);
            self.ask_no_more();
        }
        self.machine.tick(now);
        now
    }

    /// Takes in new keys, and leaves, tries and changes nodes, as far as that is due at `now`.
    fn advance_links(&mut self, now: Tick) {
        if !self.closing {
            self.begin_outage_rule(now);
        }
        self.look_at_keys(now);
        self.obey_modes(now);
        if self
            .leaving
            .as_ref()
            .is_some_and(|leaving| now >= leaving.until)
        {
            self.left(false, now);
        }
        self.roam(now);
    }

    /// Does everything else that is due at `now`. Returns true if the session has ended.
    fn advance(&mut self, now: Tick) -> bool {
        if self.closing && self.leaving.is_none() && self.closing_link.is_none() {
            return true;
        }
        self.intern(now);
        self.report_if_due(now);
        self.tend_requests(now);
        self.show(now);
        false
    }

    fn next_look(&mut self, now: Tick) -> Tick {
        let mut at = now.after(Self::LOOK_EVERY);
        let mut also = |tick: Tick| at = at.min(tick.max(now));
        if self.may_report() {
            // Until then it is not known whether anything is urgent.
            let unseen = Some(self.urgent_at).filter(|at| *at > now);
            let urgent = self.urgent_debounce.due().or(unseen);
            let urgent = urgent.map(|due| due.max(self.urgent_at));
            let answer_due = self.answer_due();
            let report_at = self.report_at.max(answer_due);
            also(urgent.map_or(report_at, |at| at.max(answer_due)));
            if self.may_ask()
                && let Some(at) = self.keys.next_ask()
            {
                also(at);
            }
            also(report_at);
            if self.shared.is_wanted() {
                also(now.after(Self::LOOK_AGAIN));
            } else if self.machine.wants_any() {
                also(now.after(Self::LOOK_WHILE_WANTED));
            }
        }
        if let Some(at) = self.central_requests.next_look()
            && self.link().is_some()
        {
            also(at);
        }
        if let Some(at) = self.selection.due().filter(|_| !self.closing) {
            also(at);
        }
        if let Some(at) = self.outage_rule.due().filter(|_| !self.closing) {
            also(at);
        }
        if let Some(closing_link) = &self.closing_link {
            also(closing_link.until);
        }
        if let Some(leaving) = &self.leaving {
            also(leaving.until);
        }
        if let Some(holder) = self.machine.holder()
            && self.machine.is_leased(now)
        {
            also(holder.lease().until());
        }
        // Timers have millisecond resolution: at least one, so that a look that is due is never a busy wait.
        at.max(now.after(Span::from_millis(1)))
    }

    /// Returns the link in use.
    fn link(&self) -> Option<&Link> {
        self.selection.link()
    }

    /// Copies the state machine's lease to where decisions read it.
    fn mirror_lease(&mut self, now: Tick) {
        let until = match self.machine.holder() {
            Some(holder) if self.machine.is_leased(now) && !holder.is_leaving() => {
                holder.lease().until()
            }
            _ => Tick::ZERO,
        };
        if until > Tick::ZERO {
            self.end_outage_rule(now);
        }
        if self.shared.set_lease(until) && until > Tick::ZERO {
            // Waiting callers were woken by a share that came before the lease it is held under.
            self.machine.deciders_mut().for_each(|of| of.leased());
        }
    }

    fn may_report(&self) -> bool {
        self.link().is_some() && self.machine.edge().is_some()
    }

    fn report_if_due(&mut self, now: Tick) {
        if !self.may_report() || self.leaving.is_some() {
            return;
        }
        self.see_asked();
        if now < self.answer_due() {
            return;
        }
        // Before that, the keys that were used need no look: a report examines them anyway.
        let may_be_urgent = now >= self.urgent_at;
        if may_be_urgent && now < self.report_at && self.machine.is_urgent(now) {
            self.request_urgent(now);
        }
        if now >= self.report_at || (may_be_urgent && self.urgent_debounce.poll(now).is_some()) {
            self.report(now);
        }
    }

    /// Returns the time before which no report is sent, because there is much to say and the last one has no answer.
    fn answer_due(&self) -> Tick {
        self.report_pace.due(self.link().map(|link| link.id))
    }

    /// Asks for a report soon. The debouncer always has room for that.
    fn request_urgent(&mut self, now: Tick) {
        let _ = self.urgent_debounce.push((), now);
    }

    /// Sends a report, if the connection keeps up.
    fn report(&mut self, now: Tick) {
        self.see_asked();
        let Some(link) = self.selection.link() else {
            return;
        };
        if !link.has_room() {
            self.report_at = now.after(self.report_every);
            return;
        }
        self.shared.unwant();
        self.machine.limit_report(self.report_pace.lines_max());
        if let Some(report) = self.machine.report(now, self.clocks.1) {
            // New demand and capacity that is wanted back are urgent. Without them a report says only that
            // this client is there, so it may come half as often.
            let rests = report.lines.is_empty() && !self.machine.wants_any();
            let pause = self.report_every.times_or_max(1 + u64::from(rests));
            let pause = self.machine.report_within(self.report_every, pause, now);
            let lines = u64::try_from(report.lines.len()).unwrap_or(u64::MAX);
            self.urgent_at = now.after(Self::URGENT_GAP_PER_LINE.times_or_max(lines));
            let sent = (report.seq, report.lines.len());
            self.report_pace.sent(link.id, sent, self.report_every, now);
            let sent = u64::from(link.send(&ClientMessage::Report(report)));
            self.messages += sent;
            self.reports += sent;
            // Whatever caused this report, the next urgent one keeps its distance from it.
            self.request_urgent(now);
            self.urgent_debounce.flush(now);
            self.report_at = now.after(pause);
        }
    }

    fn hear(&mut self, id: u64, message: NodeMessage, now: Tick) {
        self.messages += 1;
        if self.link().is_none_or(|link| link.id != id) {
            self.hear_aside(id, message, now);
            return;
        }
        self.selection.heard(now);
        match message {
            NodeMessage::Opened(_) => {}
            NodeMessage::DecisionReply(reply) => self.handle_decision_reply(&reply, now),
            NodeMessage::Interned(keys) => self.learn(keys, now),
            NodeMessage::Answer(answer) => {
                self.report_pace
                    .answered(answer.taken, answer.lines.len(), now);
                self.machine.handle_answer(&answer, now);
                self.mirror_lease(now);
                let pause = self.report_at.since(now);
                let due = self.machine.report_within(self.report_every, pause, now);
                self.report_at = self.report_at.min(now.after(due));
                if self.machine.edge().is_none() {
                    self.closed(now);
                } else if self.leaving.is_some() && self.machine.owes_report() {
                    // The leave did not return everything: a grant crossed it, or it had no room for every key. What is not
                    // returned stays booked until the lease of this session ends.
                    self.report(now);
                }
            }
            NodeMessage::Move(address) => self.redirect(address, now),
            NodeMessage::Members(addresses) => self.selection.set_members(addresses),
        }
    }

    fn show(&mut self, now: Tick) {
        self.mirror_lease(now);
        self.shared.set_status(Status {
            node: self.link().map(|link| link.address.clone()),
            session: self.machine.edge().map(SessionId::of),
            failure: self.failure.clone(),
            messages: self.messages,
            reports: self.reports,
            ..Status::default()
        });
    }
}

#[cfg(test)]
#[path = "../tests/unit/session.rs"]
mod tests;
