//! Budgets too small to divide: clients send requests, nodes decide or forward them, and messages are lost,
//! doubled and late like all others.
//!
//! A central admission is judged when its home decides, once.

use super::net::NODES;
use super::{Message, World};
use aliquot_core::central::{DecisionReply, DecisionRequest, Outcome, RetryPolicy};
use aliquot_core::decision_requests::{NewRequest, Verdict};
use aliquot_core::node::RequestAction;
use aliquot_core::share::Kind;
use aliquot_core::unit::{BudgetId, Edge, Incarnation, Tokens};
use std::num::NonZeroU64;

impl World {
    /// Sends a request for which the client has no share.
    pub(super) fn ask_node(&mut self, of: usize, budget: BudgetId) {
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        let new_request = NewRequest {
            budget,
            kind: Kind::Rate,
            cost: NonZeroU64::MIN,
            retry_policy: RetryPolicy::Once,
        };
        let _ = service.requests.expire(now);
        let Some(holder) = service.client.holder() else {
            return;
        };
        let (edge, lease) = (holder.edge(), holder.lease().until());
        if let Ok(ask) = service.requests.ask(new_request, edge, lease, now) {
            let home = service.home;
            self.send(NODES + of, home, Message::DecisionRequest(ask));
        }
    }

    pub(super) fn node_hears_questions(&mut self, from: usize, node: usize, message: Message) {
        match message {
            Message::DecisionRequest(ask) => self.node_is_asked(from, node, &ask),
            Message::DecisionReply(told) => self.node_is_told(node, told),
            _ => {}
        }
    }

    fn node_is_asked(&mut self, from: usize, node: usize, ask: &DecisionRequest) {
        let host = &mut self.nodes[node];
        let now = host.clock.read(self.now);
        let Some(machine) = &mut host.node else {
            return;
        };
        match machine.handle_ask(ask, &host.state, now) {
            RequestAction::Reply(told) => {
                self.judge_verdict(&told);
                self.send(node, from, Message::DecisionReply(told));
            }
            RequestAction::Forward { to, ask } => {
                if let Some(&to) = self.incarnations.get(&to) {
                    self.send(node, to, Message::DecisionRequest(ask));
                }
            }
        }
    }

    /// Passes the home's reply on to the client.
    fn node_is_told(&mut self, node: usize, told: DecisionReply) {
        let host = &self.nodes[node];
        let incarnation = host.node.as_ref().map(|machine| machine.incarnation());
        let client = host.sessions.get(&told.edge.child).copied();
        if let Some(to) = client.filter(|_| incarnation == Some(told.edge.parent)) {
            self.send(node, to, Message::DecisionReply(told));
        }
    }

    pub(super) fn service_is_told(&mut self, of: usize, told: &DecisionReply) {
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        // A closed edge, or a clock that jumped.
        if !service.client.is_leased(now) {
            service.requests.end_session();
        }
        let verdict = service.requests.handle(told, now);
        if let Verdict::Counts(_, Outcome::Admitted { .. }) = verdict {
            self.seen.counted += 1;
        }
    }

    fn judge_verdict(&mut self, told: &DecisionReply) {
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
