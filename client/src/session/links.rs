//! Links of a session: executes what [`aliquot_core::node_selection`] decides.

use super::Session;
use super::closing_link::ClosingLink;
use super::outage::Outage;
use crate::session::transport::{Event, Link};
use aliquot_core::message::Verdict;
use aliquot_core::node_selection::{
    Attempt, Connection, DialReason, Held, Phase, Step, Times, closing_report,
};
use aliquot_core::unit::{Edge, Span, Tick};
use aliquot_wire::session::{ClientMessage, Interned, NodeMessage, SessionOpen, SessionOpened};
use rand::RngExt;

impl Connection for Link {
    type Node = String;

    fn node(&self) -> &String {
        &self.address
    }
}

impl Session {
    /// Maximum silence of a link after it was dialled; then it is given up.
    const OPEN_WAIT: Span = Span::from_secs(2);
    /// A connection that was lost or is of no use is replaced within this time, at a random instant, so that
    /// clients do not all dial at once.
    const SOON: Span = Span::from_millis(10);
    /// Maximum wait for the answer that closes an unused edge. Nothing is held under it.
    const CLOSE_WAIT: Span = Span::from_millis(500);
    /// A move begins within this time, at a random instant, so that clients do not all move at once.
    const MOVE_SPREAD_MS: u64 = 200;

    /// Leaves, tries and changes nodes, as far as that is due.
    pub(super) fn roam(&mut self, now: Tick) {
        if self.closing_link.as_ref().is_some_and(|of| now >= of.until) {
            self.closing_link = None;
        }
        while let Some(step) = self.next_step(now) {
            match step {
                Step::Doubted => {
                    tracing::debug!("the node says nothing; another one is tried");
                    self.dial_within(Self::SOON, now);
                }
                Step::Left(link) => {
                    tracing::debug!(node = link.address, "the node gives no lease");
                    self.dial_within(Self::SOON, now);
                }
                Step::GivenUp(attempt) => self.close_link(attempt, now.after(Self::OPEN_WAIT), now),
                Step::Unanswered(attempt) => {
                    let secs = Self::OPEN_WAIT.nanos() / 1_000_000_000;
                    let node = &attempt.link.address;
                    let failure = format!("{node}: it opened no session within {secs} s");
                    self.failed(failure, now);
                    self.dial_within(self.selection.backoff(), now);
                }
                Step::Go(address) => self.dial(address, DialReason::Redirect, now),
                Step::Dial(reason) => {
                    let (rng, addresses) = (&mut self.rng, &self.config.addresses);
                    let draw = |count| rng.random_range(0..count);
                    if let Some(address) = self.selection.choose(addresses, draw) {
                        self.dial(address, reason, now);
                    }
                }
                Step::HandBack => {
                    self.leave(now, Self::LEAVE_WAIT, None);
                    self.report(now);
                }
                Step::Over(edge) => self.use_edge(edge, now),
            }
        }
    }

    fn next_step(&mut self, now: Tick) -> Option<Step<Link>> {
        let until = self.machine.holder().map(|holder| holder.lease().until());
        let held = Held {
            edge: self.machine.edge(),
            until: until.filter(|_| self.machine.is_leased(now)),
            phase: match &self.leaving {
                _ if self.closing => Phase::Ends,
                Some(_) => Phase::HandsBack,
                None => Phase::Serves,
            },
        };
        self.selection.step(&held, now)
    }

    fn dial(&mut self, address: String, reason: DialReason, now: Tick) {
        self.dials += 1;
        self.keys.dialled();
        let open = SessionOpen {
            labels: self.config.labels.clone(),
            keys: self.keys.names(),
            former: Vec::new(),
            resume: self
                .machine
                .edge()
                .filter(|_| reason != DialReason::Redirect),
            wants_members: self.config.wants_members,
            age: self.machine.age(now),
        };
        let outlet = self.outlet.clone();
        let link = self.dialer.dial(self.dials, address, open, outlet);
        let until = now.after(Self::OPEN_WAIT);
        self.selection.dialled(link, reason, until);
        self.opened = None;
    }

    /// Dials at a random time between half of the span and all of it from now.
    fn dial_within(&mut self, span: Span, now: Tick) {
        let nanos = span.nanos();
        let jitter = self.rng.random_range(nanos / 2..=nanos);
        self.selection.dial_at(now.after(Span::from_nanos(jitter)));
    }

    /// Handles a message from a link that is not in use: not yet, or no longer.
    pub(super) fn hear_aside(&mut self, id: u64, message: NodeMessage, now: Tick) {
        let attempt = self.selection.attempt();
        if attempt.is_some_and(|attempt| attempt.link.id == id) {
            match message {
                NodeMessage::Opened(opened) => self.opened(opened),
                NodeMessage::Interned(keys) => self.learn_later(keys),
                NodeMessage::Members(addresses) => self.selection.set_members(addresses),
                NodeMessage::Answer(_) | NodeMessage::Move(_) | NodeMessage::DecisionReply(_) => {}
            }
        } else if let Some(closing_link) = self.closing_link.as_mut().filter(|of| of.link.id == id)
        {
            match message {
                NodeMessage::Opened(opened) => {
                    closing_link.edge = Some(opened.edge);
                    self.send_close_report(now);
                }
                NodeMessage::Answer(answer) if answer.verdict == Verdict::Closed => {
                    self.closing_link = None;
                }
                _ => {}
            }
        }
    }

    /// Handles the opening of a session on the next link. The budgets' ids of that node apply once the
    /// session switches to it: until then another node may assign others.
    fn opened(&mut self, opened: SessionOpened) {
        self.machine.set_drift(opened.drift);
        self.central_requests.set_drift(opened.drift);
        self.selection.opened(opened.edge);
        self.opened = Some(opened);
    }

    fn learn_later(&mut self, keys: Vec<Interned>) {
        if let Some(opened) = &mut self.opened {
            opened.keys.extend(keys);
        }
    }

    /// Closes what an abandoned link has opened, or opens until then.
    pub(super) fn close_link(&mut self, attempt: Attempt<Link>, until: Tick, now: Tick) {
        let (link, edge) = (attempt.link, attempt.opened);
        tracing::debug!(node = link.address, "the node is not needed");
        self.opened = None;
        // One that is still being opened holds nothing yet, and ends with its stream.
        self.closing_link = Some(ClosingLink { link, edge, until });
        self.send_close_report(now);
    }

    fn send_close_report(&mut self, now: Tick) {
        let wall = self.clocks.1;
        let Some(closing_link) = &mut self.closing_link else {
            return;
        };
        let Some(edge) = closing_link.edge else {
            return;
        };
        match closing_report(edge, self.machine.edge(), now, wall) {
            Some(report) => {
                closing_link.until = now.after(Self::CLOSE_WAIT);
                self.messages += u64::from(closing_link.link.send(&ClientMessage::Report(report)));
            }
            None => self.closing_link = None,
        }
    }

    /// Switches to the next link, once the leave is answered or no longer waited for.
    pub(super) fn switch_over(&mut self, now: Tick) {
        if let Some(edge) = self.selection.switch_over(now) {
            self.use_edge(edge, now);
        }
    }

    /// Puts the next link in use. Whatever is held under another edge ends first.
    fn use_edge(&mut self, edge: Edge, now: Tick) {
        (self.failure, self.outage) = (None, None);
        if let Some(opened) = self.opened.take() {
            self.keys.ask_others(&opened.keys, now);
            self.learn(opened.keys, now);
            self.report_every = opened.report_every;
            self.selection.set_times(Times::of(opened.report_every));
        }
        if self.machine.edge() != Some(edge) {
            self.shared.set_lease(Tick::ZERO);
            self.machine.open(edge, now);
            self.keys.begin(now);
            self.ask_no_more();
        }
        self.central_requests.repeat();
        // Silence on the former connection does not count for this one.
        self.shared.unanswered_since.clear();
        tracing::debug!(%edge, "session in use");
        self.keys.forget_asked();
        // The first report goes at once.
        self.report_at = now;
    }

    /// Handles the end of a stream.
    pub(super) fn lost(&mut self, id: u64, reason: &str, now: Tick) {
        let attempt = self.selection.attempt();
        if let Some(attempt) = attempt.filter(|attempt| attempt.link.id == id) {
            let failure = format!("{}: {reason}", attempt.link.address);
            self.failed(failure, now);
            self.selection.failed();
            self.dial_within(self.selection.backoff(), now);
        } else if self.link().is_some_and(|link| link.id == id) {
            tracing::debug!(reason, "the connection is lost");
            self.selection.lost();
            if self.leaving.is_some() {
                self.left(false, now);
            }
            self.dial_within(Self::SOON, now);
        } else if self
            .closing_link
            .as_ref()
            .is_some_and(|of| of.link.id == id)
        {
            self.closing_link = None;
        }
    }

    /// Notes why no node could be reached. It is logged as a warning once a minute, unless there is a lease or a node is
    /// only starting.
    fn failed(&mut self, failure: String, now: Tick) {
        let leased = self.machine.is_leased(now);
        let outage = self.outage.get_or_insert(Outage {
            since: now,
            warned_at: None,
        });
        if !leased && outage.is_warning_due(now) {
            tracing::warn!(
                failure,
                "no session: a node could not be reached; trying on"
            );
        } else {
            tracing::debug!(failure, "a node could not be reached");
        }
        self.failure = Some(failure);
        self.show(now);
    }

    /// Handles an answer by which the node closed the edge in use.
    pub(super) fn closed(&mut self, now: Tick) {
        if self.leaving.is_some() {
            self.left(true, now);
        }
        if self.machine.edge().is_none() {
            self.ask_no_more();
            self.selection.lost();
            self.selection.dial_at(now);
            self.roam(now);
        }
    }

    /// Handles the node's request that this client move to another node.
    pub(super) fn redirect(&mut self, address: String, now: Tick) {
        if !self.closing {
            let spread = self.rng.random_range(0..=Self::MOVE_SPREAD_MS);
            let when = now.after(Span::from_millis(spread));
            self.selection.redirect(address, when);
        }
    }

    /// Handles an event of a link.
    pub(super) fn handle(&mut self, event: Event) {
        let now = self.look();
        match event {
            Event::Received(id, message) => self.hear(id, *message, now),
            Event::Lost(id, reason) => self.lost(id, &reason, now),
        }
    }
}
