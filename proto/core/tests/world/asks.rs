//! Budgets too small to divide: clients send requests, nodes decide or forward them, and messages are lost,
//! doubled and late like all others.
//!
//! A central admission is judged when its home decides, once.

use super::net::NODES;
use super::{Message, World};
use aliquot_core::asking::{Question, Verdict};
use aliquot_core::central::{Ask, Manner, Outcome, Told};
use aliquot_core::node::Asked;
use aliquot_core::share::Kind;
use aliquot_core::unit::{BudgetId, Edge, Incarnation, Tokens};
use std::num::NonZeroU64;

impl World {
    /// Sends a request for which the client has no share.
    pub(super) fn ask_node(&mut self, of: usize, budget: BudgetId) {
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        let question = Question {
            budget,
            kind: Kind::Rate,
            cost: NonZeroU64::MIN,
            manner: Manner::Once,
        };
        let _ = service.asking.expire(now);
        let Some(holder) = service.client.holder() else {
            return;
        };
        let (edge, lease) = (holder.edge(), holder.lease().until());
        if let Ok(ask) = service.asking.ask(question, edge, lease, now) {
            let home = service.home;
            self.send(NODES + of, home, Message::Ask(ask));
        }
    }

    pub(super) fn node_hears_questions(&mut self, from: usize, node: usize, message: Message) {
        match message {
            Message::Ask(ask) => self.node_is_asked(from, node, &ask),
            Message::Told(told) => self.node_is_told(node, told),
            _ => {}
        }
    }

    fn node_is_asked(&mut self, from: usize, node: usize, ask: &Ask) {
        let host = &mut self.nodes[node];
        let now = host.clock.read(self.now);
        let Some(machine) = &mut host.node else {
            return;
        };
        match machine.handle_ask(ask, &host.state, now) {
            Asked::Told(told) => {
                self.judge_verdict(&told);
                self.send(node, from, Message::Told(told));
            }
            Asked::Forward { to, ask } => {
                if let Some(&to) = self.lives.get(&to) {
                    self.send(node, to, Message::Ask(ask));
                }
            }
        }
    }

    /// Passes the home's reply on to the client.
    fn node_is_told(&mut self, node: usize, told: Told) {
        let host = &self.nodes[node];
        let life = host.node.as_ref().map(|machine| machine.life());
        let client = host.sessions.get(&told.edge.child).copied();
        if let Some(to) = client.filter(|_| life == Some(told.edge.parent)) {
            self.send(node, to, Message::Told(told));
        }
    }

    pub(super) fn service_is_told(&mut self, of: usize, told: &Told) {
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        // A closed edge, or a clock that jumped.
        if !service.client.is_leased(now) {
            service.asking.end_session();
        }
        let verdict = service.asking.handle(told, now);
        if let Verdict::Counts(_, Outcome::Admitted { .. }) = verdict {
            self.seen.counted += 1;
        }
    }

    fn judge_verdict(&mut self, told: &Told) {
        let Some(scale) = self.judge.scale else {
            return;
        };
        let one = Tokens::from_grains(scale.grains_per_token());
        match told.outcome {
            Outcome::Admitted { by, .. } => {
                if self.decided.insert((by, told.edge, told.request)) {
                    let edge = Edge {
                        parent: by,
                        child: Incarnation::new(0),
                    };
                    self.judge.admitted(self.now, Some(edge), one);
                }
            }
            Outcome::Refused { .. } => self.judge.refused(self.now, one),
            Outcome::Moved { .. } => {}
        }
    }
}
