//! The connection of a client's session: selects a node, connects, and moves to other nodes.

use super::World;
use super::event::Message;
use super::host::Dialled;
use crate::mark::Mark;
use crate::scenario::Lease;
use aliquot_core::node_selection::{
    Attempt, Connection, DialReason, Held, Phase, Step, closing_report,
};
use aliquot_core::unit::{Edge, Span, Tick};

impl World {
    /// Number of attempts that a client without a session makes at its home node before it tries others.
    const HOME_TRIES: u32 = 8;

    const OPEN_WAIT: Span = Span::from_nanos(Lease::OPEN_WAIT);
    /// Maximum time that a client waits, before it moves, for the old node to take what it hands back.
    pub(super) const LEAVE_WAIT: Span = Span::from_millis(200);

    /// Takes all steps that are due: leaves a node, connects to one, or changes over.
    pub(super) fn roam(&mut self, of: usize, now: Tick) {
        let service = &mut self.services[of];
        if service.moves_at.is_some_and(|at| now >= at) {
            self.switch_over(of, now);
        }
        while let Some(step) = self.next_step(of, now) {
            match step {
                Step::Doubted => {
                    self.observer.marks.hit(Mark::NodeSilent);
                    self.dial_within(of, Span::from_millis(10), now);
                }
                Step::Left(_) => {
                    self.observer.marks.hit(Mark::NodeGaveNoLease);
                    self.dial_within(of, Span::from_millis(10), now);
                }
                Step::GivenUp(attempt) => {
                    self.observer.marks.hit(Mark::NodeTrustedAgain);
                    self.give_up(of, &attempt, now);
                }
                // Another node may answer.
                Step::Unanswered(_) => self.observer.marks.hit(Mark::DialUnanswered),
                Step::Dial(reason) => {
                    let node = self.choose(of);
                    self.dial(of, node, reason, now);
                }
                Step::Go(node) => self.dial(of, node, DialReason::Redirect, now),
                Step::HandBack => {
                    let service = &mut self.services[of];
                    service.moves_at = Some(now.after(Self::LEAVE_WAIT));
                    service.moved = service.client.is_leased(now).then_some(self.now);
                    service.client.leave(now);
                    if let Some(old) = service.link() {
                        self.report_now(of, old, now);
                    }
                }
                Step::Over(edge) => self.go_on_under(of, edge, now),
            }
        }
    }

    fn next_step(&mut self, of: usize, now: Tick) -> Option<Step<Dialled>> {
        let service = &mut self.services[of];
        let holder = service.client.holder();
        let until = holder.map(|holder| holder.lease().until());
        let held = Held {
            edge: service.client.edge(),
            until: until.filter(|_| service.client.is_leased(now)),
            phase: match service.moves_at {
                _ if service.leaving => Phase::Ends,
                Some(_) => Phase::HandsBack,
                None => Phase::Serves,
            },
        };
        service.selection.step(&held, now)
    }

    /// Selects a node. A client without an edge tries its home node a number of times. Otherwise the node of
    /// its present edge comes first, if the connection was just lost.
    fn choose(&mut self, of: usize) -> usize {
        let home = self.hosts.homes.get(of).copied().unwrap_or(0);
        let nodes: Vec<usize> = (0..self.hosts.nodes).collect();
        let mut draw = self.choice(of);
        let service = &mut self.services[of];
        // A node that has just started will serve soon.
        if service.client.edge().is_none() && service.selection.failures() < Self::HOME_TRIES {
            return home;
        }
        let chosen = service.selection.choose(&nodes, |count| draw.index(count));
        chosen.unwrap_or(home)
    }

    fn dial(&mut self, of: usize, node: usize, reason: DialReason, now: Tick) {
        let nonce = self.choice(of).next();
        let there = &self.nodes[node];
        let refused = match there.process.up {
            true => there.node.is_none() || there.departs,
            false => there.process.refuses,
        };
        let service = &mut self.services[of];
        let line = Dialled { node, nonce };
        let until = now.after(Self::OPEN_WAIT);
        service.selection.dialled(line, reason, until);
        // A machine without the process refuses at once. So does a node that has not joined, or that leaves.
        if refused {
            self.observer.marks.hit(Mark::DialRefused);
            self.back_off(of, now);
            return;
        }
        let resume = service
            .client
            .edge()
            .filter(|_| reason != DialReason::Redirect);
        let age = service.client.age(now).unwrap_or_default();
        let open = Message::Open { nonce, resume, age };
        self.send(self.hosts.nodes + of, node, open);
    }

    fn back_off(&mut self, of: usize, now: Tick) {
        let selection = &mut self.services[of].selection;
        selection.failed();
        selection.dial_at(now.after(selection.backoff()));
    }

    /// Handles the loss of a connection that was not in use yet.
    pub(super) fn lose_attempt(&mut self, of: usize, from: usize, now: Tick) {
        let attempt = self.services[of].selection.attempt();
        if attempt.is_some_and(|attempt| attempt.link.node == from) {
            self.observer.marks.hit(Mark::ConnectionReset);
            self.back_off(of, now);
        }
    }

    /// Handles a node's request to move: to the node already being tried, or to a random one.
    pub(super) fn send_away(&mut self, of: usize, from: usize, now: Tick) {
        self.observer.marks.hit(Mark::ClientAskedToMove);
        let others: Vec<usize> = (0..self.hosts.nodes).filter(|&node| node != from).collect();
        let mut draw = self.choice(of);
        let selection = &mut self.services[of].selection;
        let spare = selection.attempt().map(|attempt| *attempt.link.node());
        let spare = spare.filter(|&node| node != from);
        let any = others.get(draw.index(others.len().max(1))).copied();
        if let Some(node) = spare.or(any) {
            selection.redirect(node, now);
            self.go_on(of);
        }
    }

    /// Handles a session that a node has opened, for the present attempt or for an earlier one.
    pub(super) fn session_opened(
        &mut self,
        (from, of): (usize, usize),
        opened: (u64, Edge),
        now: Tick,
    ) {
        let (nonce, edge) = opened;
        let service = &mut self.services[of];
        let attempt = service.selection.attempt();
        if attempt.is_some_and(|attempt| attempt.link.nonce == nonce) {
            service.selection.opened(edge);
            self.go_on(of);
            return;
        }
        self.observer.marks.hit(Mark::OpenedLate);
        self.close_unused(of, from, edge, now);
    }

    /// Gives up an attempt and closes its session, if it has opened one. A session that opens later is closed
    /// then.
    pub(super) fn give_up(&mut self, of: usize, attempt: &Attempt<Dialled>, now: Tick) {
        if let Some(edge) = attempt.opened {
            self.close_unused(of, attempt.link.node, edge, now);
        }
    }

    fn close_unused(&mut self, of: usize, node: usize, edge: Edge, now: Tick) {
        let service = &self.services[of];
        let wall = service.clock.wall_ms(self.now);
        if let Some(report) = closing_report(edge, service.client.edge(), now, wall) {
            self.send(self.hosts.nodes + of, node, Message::ClientReport(report));
        }
    }

    /// Changes over to the new node, once the old one has what was handed back or the wait is over.
    pub(super) fn switch_over(&mut self, of: usize, now: Tick) {
        let service = &mut self.services[of];
        service.moves_at = None;
        if let Some(edge) = service.selection.switch_over(now) {
            self.go_on_under(of, edge, now);
        }
    }

    fn go_on_under(&mut self, of: usize, edge: Edge, now: Tick) {
        let service = &mut self.services[of];
        if service.client.edge() == Some(edge) {
            self.observer.marks.hit(Mark::SessionResumed);
        } else {
            let moved = service.client.edge().is_some();
            self.observer.marks.hit_if(moved, Mark::SessionMoved);
            service.client.open(edge, now);
            self.end_requests(of);
        }
        self.services[of].report_at = now;
    }

    /// Handles the loss of the connection or the closing of its edge.
    pub(super) fn lose_link(&mut self, of: usize, now: Tick) {
        let requests = self.services[of].requests.pending() > 0;
        self.observer
            .marks
            .hit_if(requests, Mark::LinkLostDuringRequest);
        self.services[of].selection.lost();
        self.dial_within(of, Span::from_millis(10), now);
    }

    /// Schedules an attempt to connect, at a random time between half of the span and all of it from now.
    pub(super) fn dial_within(&mut self, of: usize, span: Span, now: Tick) {
        let jitter = self.choice(of).range(span.nanos() / 2, span.nanos());
        let selection = &mut self.services[of].selection;
        selection.dial_at(now.after(Span::from_nanos(jitter)));
        self.look_within(of, jitter);
    }
}
