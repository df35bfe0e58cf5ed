//! A whole fleet on a perfect network: three nodes, one log, one clock.

use aliquot_core::budget::{Budget, BudgetDraft, Claim};
use aliquot_core::central::{DecisionReply, DecisionRequest, Outcome, Release, RetryPolicy};
use aliquot_core::check::{Dominance, Envelope, Limit, Limits};
use aliquot_core::client::Client;
use aliquot_core::command::Command;
use aliquot_core::decision_requests::{DecisionRequests, NewRequest, Verdict};
use aliquot_core::leader::{Leader, LeaderOutput, Pace};
use aliquot_core::message::Answer;
use aliquot_core::node::{Node, NodeOutput, Released, RequestAction};
use aliquot_core::share::Kind;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{
    BudgetId, Drift, Edge, Incarnation, NodeId, RequestId, Span, Term, Tick, Tokens,
};
use std::num::NonZeroU64;

/// 1 January 2026, in milliseconds of the Unix epoch.
const DAWN: i64 = 1_767_225_600_000;

pub(crate) const B: BudgetId = BudgetId::new(1);
pub(crate) const NODES: usize = 3;

pub(crate) fn at(millis: u64) -> Tick {
    Tick::from_nanos(millis * 1_000_000)
}

pub(crate) fn budget(fill: impl FnOnce(&mut BudgetDraft)) -> Budget {
    let mut draft = BudgetDraft {
        key: "b".into(),
        ..BudgetDraft::default()
    };
    fill(&mut draft);
    draft.validate().expect("a valid budget")
}

pub(crate) fn rate(per_second: u64, burst: u64) -> Budget {
    budget(|draft| {
        draft.rate = Some(format!("{per_second}/s").into());
        draft.burst = Some(burst.into());
    })
}

pub(crate) fn permits(permits: u64) -> Budget {
    budget(|draft| {
        draft.concurrency = Some(permits.into());
        draft.max_hold = Some("1s".into());
    })
}

pub(crate) struct Service {
    pub(crate) client: Client,
    pub(crate) requests: DecisionRequests,
    pub(crate) node: usize,
    /// Number of admissions, and the number of these by its own share.
    pub(crate) admitted: u64,
    pub(crate) locally: u64,
}

pub(crate) struct Fleet {
    pub(crate) budget: Budget,
    pub(crate) state: State,
    pub(crate) leader: Leader,
    pub(crate) nodes: Vec<Node>,
    /// Nodes that have stopped.
    pub(crate) dead: Vec<bool>,
    pub(crate) services: Vec<Service>,
    pub(crate) envelope: Envelope,
    /// The same arrivals at one bucket that sees everything.
    pub(crate) dominance: Dominance,
    /// Milliseconds.
    pub(crate) now: u64,
    random: u64,
}

impl Fleet {
    /// Returns a fleet that has just begun, its clients spread over the nodes.
    pub(crate) fn new(budget: Budget, clients: usize) -> Self {
        let limit = Limit::new(budget.whole().rate, budget.whole().burst);
        let mut fleet = Self {
            envelope: Envelope::new(limit, Drift::default()),
            dominance: Dominance::new(Limits::new(at(0), limit, Span::ZERO), Drift::default()),
            budget,
            state: State::new(),
            leader: Leader::new(Pace::default()),
            nodes: Vec::new(),
            dead: vec![false; NODES],
            services: Vec::new(),
            now: 1,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        fleet.leader.elected(Term::new(1), &fleet.state, at(1));
        fleet.apply(None);
        for id in 1..=NODES as u64 {
            let (node, request) = (NodeId::new(id), RequestId::new(id));
            for effect in fleet.apply(Some(&Command::Join { node, request })) {
                if let Effect::Joined { incarnation, .. } = effect {
                    fleet.nodes.push(Node::new(incarnation, Drift::default()));
                }
            }
        }
        let put = Command::PutRule {
            request: RequestId::new(99),
            budget: fleet.budget.clone(),
            creator: Some(fleet.nodes[0].incarnation()),
        };
        fleet.apply(Some(&put));
        for index in 0..clients {
            fleet.connect(index % NODES);
        }
        fleet
    }

    /// Adds a client of a node.
    pub(crate) fn connect(&mut self, node: usize) {
        let now = at(self.now);
        let edge = self.nodes[node].open_session(now).expect("a session");
        let mut client = Client::new(Drift::default());
        client.claim(B, Claim::default(), now);
        client.open(edge, now);
        self.services.push(Service {
            client,
            requests: DecisionRequests::new(Drift::default()),
            node,
            admitted: 0,
            locally: 0,
        });
    }

    pub(crate) fn one(&self) -> Tokens {
        Tokens::from_grains(self.budget.scale().grains_per_token())
    }

    fn apply(&mut self, command: Option<&Command>) -> Vec<Effect> {
        let index = self.state.applied() + 1;
        let effects = self.state.apply(index, command);
        let now = at(self.now);
        self.leader
            .applied(Term::new(1), command, &effects, &self.state, now);
        effects
    }

    fn tell_nodes(&mut self, answers: Vec<Answer>) {
        for answer in answers {
            let mut nodes = self.nodes.iter_mut().zip(&self.dead);
            let to = nodes.find(|(node, dead)| node.incarnation() == answer.edge.child && !**dead);
            if let Some((node, _)) = to {
                node.handle_answer(&answer, at(self.now));
            }
        }
    }

    fn lead(&mut self) {
        let now = at(self.now);
        for output in self.leader.tick(&self.state, now) {
            match output {
                LeaderOutput::Barrier(barrier) => {
                    let answers = self.leader.acknowledged(barrier, &self.state, now);
                    self.tell_nodes(answers);
                }
                LeaderOutput::Propose(command) => {
                    self.apply(Some(&command));
                }
            }
        }
        let answers = self.leader.poll_answers(&self.state, now);
        self.tell_nodes(answers);
    }

    fn tick_node(&mut self, of: usize) {
        let now = at(self.now);
        if self.dead[of] {
            return;
        }
        if self.now.is_multiple_of(100)
            && let Some(report) = self.nodes[of].report(now, DAWN)
            && let Some(answer) = self.leader.handle_report(&report, &self.state, now)
        {
            self.tell_nodes(vec![answer]);
        }
        self.nodes[of].tick(now);
        for output in self.nodes[of].poll_outputs() {
            if let NodeOutput::Answer(answer) = output {
                let mut services = self.services.iter_mut();
                let to = services.find(|of| of.client.edge() == Some(answer.edge));
                if let Some(service) = to {
                    service.client.handle_answer(&answer, now);
                }
            }
        }
    }

    /// Advances time by a millisecond.
    pub(crate) fn step(&mut self) {
        self.now += 1;
        let now = at(self.now);
        if self.now.is_multiple_of(10) {
            self.lead();
            for node in 0..NODES {
                self.tick_node(node);
            }
        }
        for index in 0..self.services.len() {
            let due = (self.now + 5 * index as u64).is_multiple_of(200);
            let service = &mut self.services[index];
            if due && let Some(report) = service.client.report(now, DAWN) {
                self.nodes[service.node].handle_report(&report, now);
            }
        }
    }

    pub(crate) fn run(&mut self, millis: u64) {
        for _ in 0..millis {
            self.step();
        }
    }

    /// Returns a uniform number below `most`.
    pub(crate) fn draw(&mut self, most: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % most
    }

    pub(crate) fn new_request(&self, cost: u64, retry_policy: RetryPolicy) -> NewRequest {
        NewRequest {
            budget: B,
            kind: self.budget.kind(),
            cost: NonZeroU64::new(cost).expect("not zero"),
            retry_policy,
        }
    }

    /// Returns the request that a service sends; nothing without a lease.
    pub(crate) fn ask(
        &mut self,
        of: usize,
        cost: u64,
        retry_policy: RetryPolicy,
    ) -> Option<DecisionRequest> {
        let (new_request, now) = (self.new_request(cost, retry_policy), at(self.now));
        let service = &mut self.services[of];
        let edge = service.client.edge()?;
        let lease = service.client.holder()?.lease().until();
        service.requests.ask(new_request, edge, lease, now).ok()
    }

    /// Carries a request to a node, and on to the home. Returns the reply.
    pub(crate) fn carry(&mut self, node: usize, ask: &DecisionRequest) -> Option<DecisionReply> {
        let now = at(self.now);
        if self.dead[node] {
            return None;
        }
        match self.nodes[node].handle_ask(ask, &self.state, now) {
            RequestAction::Reply(reply) => Some(reply),
            RequestAction::Forward { to, ask } => {
                let home = self.index_of(to)?;
                match self.nodes[home].handle_ask(&ask, &self.state, now) {
                    RequestAction::Reply(reply) => Some(reply),
                    RequestAction::Forward { .. } => panic!("forwarded twice"),
                }
            }
        }
    }

    pub(crate) fn carry_release(&mut self, node: usize, release: &Release) {
        let now = at(self.now);
        let released = self.nodes[node].handle_release(release, now);
        if let Released::Forward { to, release } = released
            && let Some(home) = self.index_of(to)
        {
            let released = self.nodes[home].handle_release(&release, now);
            assert_eq!(released, Released::Done);
        }
    }

    fn index_of(&self, incarnation: Incarnation) -> Option<usize> {
        let index = self
            .nodes
            .iter()
            .position(|node| node.incarnation() == incarnation)?;
        (!self.dead[index]).then_some(index)
    }

    /// Sends a request and takes its reply at once.
    pub(crate) fn check(
        &mut self,
        of: usize,
        cost: u64,
        retry_policy: RetryPolicy,
    ) -> Option<Outcome> {
        let ask = self.ask(of, cost, retry_policy)?;
        let reply = self.carry(self.services[of].node, &ask)?;
        match self.services[of].requests.handle(&reply, at(self.now)) {
            Verdict::Counts(_, outcome) => Some(outcome),
            Verdict::Ignored | Verdict::Undo(_) => None,
        }
    }

    /// Makes one request: by the client's own share, else by central mode.
    pub(crate) fn request(&mut self, of: usize, cost: u64) -> bool {
        let (now, grains) = (at(self.now), self.one().grains() * cost);
        let grains = Tokens::from_grains(grains);
        let locally = match self.budget.kind() {
            Kind::Concurrency => self.services[of].client.try_permit_at(B, now).is_ok(),
            _ => self.services[of]
                .client
                .try_acquire_at(B, grains, now)
                .is_ok(),
        };
        let admitted = locally || admitted(self.check(of, cost, RetryPolicy::Once));
        if admitted {
            self.envelope.admit(now, grains);
            self.dominance.admitted(now, grains);
            self.services[of].admitted += 1;
            self.services[of].locally += u64::from(locally);
        } else {
            self.dominance.refused(now, grains);
        }
        admitted
    }

    /// Lets callers come to every client, without central requests.
    pub(crate) fn want(&mut self, millis: u64) {
        let one = self.one();
        for _ in 0..millis {
            self.step();
            let (clients, now) = (self.services.len() as u64, at(self.now));
            let of = self.draw(clients) as usize;
            let client = &mut self.services[of].client;
            let _ = match self.budget.kind() {
                Kind::Concurrency => client.try_permit_at(B, now).map(|_| ()),
                _ => client.try_acquire_at(B, one, now).map(|_| ()),
            };
        }
    }

    /// Lets all clients request one at random, `per_second` times a second in all.
    pub(crate) fn load(&mut self, per_second: u64, millis: u64) {
        let clients = self.services.len() as u64;
        for _ in 0..millis {
            self.step();
            for of in 0..self.services.len() {
                if self.draw(1_000 * clients) < per_second {
                    self.request(of, 1);
                }
            }
        }
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.services.iter().map(|service| service.admitted).sum()
    }

    /// Returns the home of the key.
    pub(crate) fn home(&self) -> usize {
        let home = self.state.home_of(B).expect("a node holds it");
        self.index_of(home).expect("the home lives")
    }

    /// Checks that dealt and booked are together no more than held, for each node.
    pub(crate) fn overdealt(&self) -> Option<String> {
        let kind = self.budget.kind();
        self.nodes.iter().find_map(|node| {
            let account = node.account(B)?;
            let dealt = account
                .open()
                .filter(|(child, _)| *child != aliquot_core::account::Account::CENTRAL)
                .map(|(_, slot)| slot.counters.holding(kind).capacity(kind).grains())
                .sum::<u64>();
            let kept = account.lingering().capacity(kind).grains();
            let booked = node.central_permits(B).grains();
            let held = node.holder().holding(B).capacity(kind).grains();
            (dealt + kept + booked > held).then(|| {
                let incarnation = node.incarnation();
                format!("{incarnation}: {dealt} dealt, {kept} kept, {booked} booked, {held} held")
            })
        })
    }
}

pub(crate) fn admitted(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Admitted { .. }))
}

pub(crate) fn retry_after(outcome: Option<Outcome>) -> Option<Span> {
    match outcome {
        Some(Outcome::Refused { retry_after, .. }) => retry_after,
        _ => None,
    }
}

pub(crate) fn edge(parent: u64, child: u64) -> Edge {
    Edge {
        parent: Incarnation::new(parent),
        child: Incarnation::new(child),
    }
}
