//! The service of a node for its clients: sessions, budget ids of keys, central decisions, and
//! leaving.

use super::World;
use super::event::Message;
use crate::mark::Mark;
use aliquot_core::central::{DecisionReply, DecisionRequest, Outcome};
use aliquot_core::message::Report;
use aliquot_core::node::{Released, RequestAction};
use aliquot_core::unit::{Edge, NodeId, Span, Tick, Tokens};

impl World {
    pub(super) fn node_receives_from_client(
        &mut self,
        from: usize,
        node: usize,
        message: Message,
        now: Tick,
    ) {
        match message {
            Message::Open { nonce, resume, age } => {
                self.open_session((from, node), (nonce, resume, age), now);
            }
            Message::Name { key } => self.name(from, node, key),
            Message::DecisionRequest(ask) => self.node_is_asked(from, node, &ask, now),
            Message::DecisionReply(reply) => self.relay_reply(node, reply),
            Message::Release(release) => {
                let Some(machine) = &mut self.nodes[node].node else {
                    return;
                };
                if let Released::Forward { to, release } = machine.handle_release(&release, now)
                    && let Some(&to) = self.incarnations.get(&to)
                {
                    self.send(node, to, Message::Release(release));
                }
            }
            _ => {}
        }
    }

    fn open_session(
        &mut self,
        (from, node): (usize, usize),
        (nonce, resume, age): (u64, Option<Edge>, Span),
        now: Tick,
    ) {
        let host = &mut self.nodes[node];
        let departs = host.departs;
        let Some(machine) = host.node.as_mut().filter(|_| !departs) else {
            return;
        };
        let incarnation = machine.incarnation();
        let incarnations = |edge: &Edge| {
            edge.parent == incarnation && machine.ledger().child(edge.child).is_some()
        };
        let edge = match resume.filter(incarnations) {
            Some(edge) => Some(edge),
            None => machine.open_session_aged(age, now),
        };
        if let Some(edge) = edge {
            host.sessions.insert(edge.child, from);
            self.send(node, from, Message::Opened { nonce, edge });
        }
    }

    /// Answers with the budget of a key. The budget of a template's key is created when the key is first
    /// used.
    fn name(&mut self, from: usize, node: usize, key: usize) {
        let state = &self.nodes[node].state;
        if let Some(budget) = state.budget_of(&self.keys.keys[key])
            && let Some(generation) = state.budget(budget)
        {
            let scale = generation.budget.scale();
            self.send(node, from, Message::Named { key, budget, scale });
        } else if state.rule_of(&self.keys.keys[key]).is_some()
            && self.nodes[node].wanted.insert(key)
        {
            self.instantiate(node, key);
        }
    }

    /// Tells a client the budget of a key if it knows only an earlier one, and requests one if there is none any
    /// more. Ids are issued in rising order. Of a client with many keys, those are checked that it reports of.
    ///
    /// A budget that was deleted and written again may end all the same, by a round that was proposed in between.
    pub(super) fn rename(&mut self, from: usize, node: usize, report: &Report) {
        let service = &self.services[from - self.hosts.nodes];
        let keys: Vec<usize> = match service.key {
            Some(key) => vec![key],
            None => {
                let lines = report.lines.iter();
                lines
                    .filter_map(|line| service.keys.get(&line.budget).copied())
                    .collect()
            }
        };
        for key in keys {
            let known = self.services[from - self.hosts.nodes].budget(key);
            let present = self.nodes[node].state.budget_of(&self.keys.keys[key]);
            if known.is_some_and(|(known, _)| present.is_none_or(|present| present > known)) {
                self.name(from, node, key);
            }
        }
    }

    fn node_is_asked(&mut self, from: usize, node: usize, ask: &DecisionRequest, now: Tick) {
        let host = &mut self.nodes[node];
        let Some(machine) = &mut host.node else {
            return;
        };
        match machine.handle_ask(ask, &host.state, now) {
            RequestAction::Reply(reply) => {
                self.judge_verdict(ask, &reply);
                self.send(node, from, Message::DecisionReply(reply));
            }
            RequestAction::Forward { to, ask } => {
                if let Some(&to) = self.incarnations.get(&to) {
                    self.observer.marks.hit(Mark::CentralRequestForwarded);
                    self.send(node, to, Message::DecisionRequest(ask));
                }
            }
        }
    }

    /// Passes a decision of another node on to the client.
    fn relay_reply(&mut self, node: usize, reply: DecisionReply) {
        let host = &self.nodes[node];
        let incarnation = host
            .node
            .as_ref()
            .map(aliquot_core::node::Node::incarnation);
        let client = host.sessions.get(&reply.edge.child).copied();
        if let Some(to) = client.filter(|_| incarnation == Some(reply.edge.parent)) {
            self.send(node, to, Message::DecisionReply(reply));
        }
    }

    /// Shows the observer a central decision at the time at which it is made.
    fn judge_verdict(&mut self, ask: &DecisionRequest, reply: &DecisionReply) {
        let Some(checkers) = self.observer.oracle.checkers(ask.budget) else {
            return;
        };
        let cost = Tokens::from_grains(checkers.grains.saturating_mul(ask.cost.get()));
        let asker = self.asker(ask.edge);
        if let Outcome::Refused { .. } = reply.outcome {
            self.observer
                .refused(self.now, asker, Some((ask.budget, cost)));
        }
        let now = self.now;
        let node = match reply.outcome {
            Outcome::Admitted { by, .. } => self.observer.node_of(by),
            _ => None,
        };
        let admitted = self.observer.decided_centrally(now, (ask, reply), asker);
        if let Some(node) = node.filter(|_| admitted) {
            let host = asker.map(|of| self.hosts.nodes + of);
            self.observer.note_admitted(now, (host, node), || {
                format!("{} of {} centrally", ask.cost.get(), ask.budget)
            });
        }
    }

    /// Returns the client of a session, if the session is known.
    fn asker(&self, edge: Edge) -> Option<usize> {
        let node = self.incarnations.get(&edge.parent);
        let host = node.and_then(|&node| self.nodes[node].sessions.get(&edge.child));
        host.map(|host| host - self.hosts.nodes)
    }

    /// Continues a node's departure. The process ends when nothing is left to hand back. Clients that are still
    /// here are asked again: what they were sent to may have refused them.
    pub(super) fn keep_leaving(&mut self, node: usize) {
        let host = &mut self.nodes[node];
        if !host.departs {
            return;
        }
        let now = host.clock.read(self.now);
        if now.since(host.sent_away) >= Self::SEND_AWAY_AGAIN {
            self.send_clients_away(node, now);
        }
        let host = &self.nodes[node];
        let left = host
            .node
            .as_ref()
            .is_none_or(aliquot_core::node::Node::has_left);
        if left {
            self.observer.marks.hit(Mark::NodeLeft);
            let removed = host.state.was_removed(NodeId::new(node as u64 + 1));
            self.crash_node(node);
            if !removed {
                self.operator.removes.push(node);
            }
        }
    }

    /// Time after which a leaving node asks the clients that are still there again.
    const SEND_AWAY_AGAIN: Span = Span::from_secs(1);

    /// Begins a node's departure: it hands everything back, and asks its clients to move.
    pub(super) fn leave(&mut self, node: usize) -> bool {
        let host = &mut self.nodes[node];
        if !host.process.up || host.departs {
            return false;
        }
        let now = host.clock.read(self.now);
        if let Some(machine) = &mut host.node {
            machine.leave(now);
        }
        host.departs = true;
        self.send_clients_away(node, now);
        if self.nodes[node].log.is_leader() {
            let heir =
                (0..self.hosts.nodes).find(|&heir| heir != node && self.process(heir).is_some());
            if let Some(heir) = heir {
                self.nodes[node].log.transfer(heir, now.nanos());
            }
        }
        self.settle(node);
        true
    }

    fn send_clients_away(&mut self, node: usize, now: Tick) {
        let host = &mut self.nodes[node];
        host.sent_away = now;
        let clients: Vec<usize> = host.sessions.values().copied().collect();
        for client in clients {
            self.send(node, client, Message::Move { to: None });
        }
    }
}
