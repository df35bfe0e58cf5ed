//! A service's shell: a client, a session with some node, and another node when that one is silent.

use super::clock::{Clock, MS, SEC};
use super::net::NODES;
use super::rng::Rng;
use super::{Message, Process, Timer, World};
use aliquot_core::budget::Claim;
use aliquot_core::client::{Client, Permit};
use aliquot_core::decision_requests::DecisionRequests;
use aliquot_core::unit::{BudgetId, Drift};

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) clock: Clock,
    pub(crate) process: Process,
    pub(crate) client: Client,
    pub(crate) requests: DecisionRequests,
    /// The node that it uses.
    pub(crate) home: usize,
    /// The handshake under way.
    nonce: Option<u64>,
    /// True time of the last message of its node.
    heard: u64,
    pub(crate) budget: Option<BudgetId>,
    /// Callers that wait, and true if the first of them is to try again.
    pub(crate) waiting: u64,
    pub(crate) retrying: bool,
    /// Its permits in flight, with the true time of their release.
    pub(crate) flights: Vec<(u64, BudgetId, Permit)>,
    pub(crate) leaving: bool,
}

impl Service {
    pub(crate) fn new(me: usize, drift: Drift, rng: &mut Rng) -> Self {
        Self {
            clock: Clock::new(rng.range(1, 1_000 * SEC)),
            process: Process::FIRST,
            client: Client::new(drift),
            requests: DecisionRequests::new(drift),
            home: me % NODES,
            nonce: None,
            heard: 0,
            budget: None,
            waiting: 0,
            retrying: false,
            flights: Vec::new(),
            leaving: false,
        }
    }
}

impl World {
    /// Starts a new process, without any state.
    pub(super) fn start_service(&mut self, of: usize) {
        self.end_flights(of);
        let drift = self.plan.drift();
        let now = self.now;
        let service = &mut self.services[of];
        service.client = Client::new(drift);
        service.requests = DecisionRequests::new(drift);
        (service.nonce, service.budget) = (None, None);
        (service.retrying, service.leaving) = (false, false);
        service.waiting = 0;
        service.heard = now;
        let jitter = self.rng.range(0, 200 * MS);
        self.set(NODES + of, jitter, Timer::ClientReport);
        self.set(NODES + of, jitter, Timer::Arrival);
    }

    pub(super) fn service_timer(&mut self, of: usize, timer: Timer) {
        match timer {
            Timer::ClientReport => {
                self.report_service(of);
                let span = self.rng.range(180, 220) * MS;
                self.set(NODES + of, span, Timer::ClientReport);
            }
            Timer::Arrival => self.arrive(of),
            Timer::Retry => self.retry(of),
            Timer::Release => self.release_permits(of),
            _ => {}
        }
    }

    fn report_service(&mut self, of: usize) {
        self.find_budget(of);
        let (now, true_now) = (self.services[of].clock.read(self.now), self.now);
        let service = &mut self.services[of];
        if true_now - service.heard > 1_500 * MS {
            // Silence: another node may be better.
            service.heard = true_now;
            service.home = self.rng.index(NODES);
            service.nonce = None;
            self.open(of);
            return;
        }
        let wall = 1_700_000_000_000 + (true_now / MS) as i64;
        match service.client.report(now, wall) {
            Some(report) => {
                let home = service.home;
                self.send(NODES + of, home, Message::ClientReport(report));
            }
            None if service.leaving => {}
            None => self.open(of),
        }
    }

    /// Asks for a session. The nonce distinguishes the answer from one to an earlier request.
    pub(super) fn open(&mut self, of: usize) {
        let nonce = self.rng.next();
        let service = &mut self.services[of];
        let nonce = *service.nonce.get_or_insert(nonce);
        let home = service.home;
        self.send(NODES + of, home, Message::Open { nonce });
    }

    /// Moves to another node. The old session ends when the new one begins.
    pub(super) fn move_service(&mut self, of: usize, home: usize) {
        self.services[of].home = home;
        self.services[of].nonce = None;
        self.open(of);
    }

    fn find_budget(&mut self, of: usize) {
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        let state = &self.nodes[service.home].state;
        if let Some((id, _)) = state.budgets().last()
            && service.budget != Some(id)
        {
            service.budget = Some(id);
            service.client.claim(id, Claim::default(), now);
        }
    }

    pub(super) fn service_hears(&mut self, from: usize, of: usize, message: Message) {
        let service = &mut self.services[of];
        let now = service.clock.read(self.now);
        match message {
            Message::Opened { nonce, edge } if service.nonce == Some(nonce) => {
                service.nonce = None;
                service.heard = self.now;
                service.client.open(edge, now);
            }
            Message::ClientAnswer(answer) => {
                if from == service.home && service.client.edge() == Some(answer.edge) {
                    service.heard = self.now;
                }
                service.client.handle_answer(&answer, now);
            }
            Message::DecisionReply(told) => self.service_is_told(of, &told),
            _ => {}
        }
    }
}
