//! Reads the memory that the next events need before they are handled.
//!
//! Of thousands of clients little is in the processor's cache, and an event would wait for the main memory a dozen
//! times, each time for what the last read pointed to. Here the events of a batch are read side by side, so the
//! processor waits for many of them at once. Nothing is changed by it.

use super::World;
use super::event::{Due, Event, Message};
use super::host::Service;
use aliquot_core::unit::Incarnation;
use std::hint::black_box;

/// Number of clients from which on they do not fit in the cache.
const MANY: usize = 400;

/// Number of events that are read side by side.
const BATCH: usize = 16;

impl World {
    /// Reads the memory of the next events, once for each batch of them.
    pub(super) fn fetch_ahead(&mut self) {
        if self.services.len() < MANY {
            return;
        }
        if self.fetched > 0 {
            self.fetched -= 1;
            return;
        }
        let batch = self.queue.upcoming(BATCH);
        self.fetched = batch.len().saturating_sub(1);
        let services = || batch.iter().filter_map(|due| self.service_of(due));
        let sessions = || batch.iter().filter_map(session_of);
        black_box(services().fold(0, |sum, service| sum ^ read_head(service)));
        black_box(sessions().fold(0, |sum, (_, child)| sum ^ child.get()));
        black_box(services().fold(0, |sum, service| sum ^ read_parts(service)));
        black_box(sessions().fold(0, |sum, session| sum ^ self.read_session(session)));
    }

    /// Returns the service at which an event happens, if it is at one.
    fn service_of(&self, due: &Due) -> Option<&Service> {
        let (Event::Deliver { to: host, .. } | Event::Timer { host, .. }) = due.event else {
            return None;
        };
        let of = (host as usize).checked_sub(self.hosts.nodes)?;
        self.services.get(of)
    }

    /// Reads what a node knows of a session.
    fn read_session(&self, (node, child): (u32, Incarnation)) -> u64 {
        let machine = self.nodes.get(node as usize);
        let Some(machine) = machine.and_then(|host| host.node.as_ref()) else {
            return 0;
        };
        let known = machine.ledger().child(child);
        let claim = known.and_then(|known| known.claims.iter().next());
        let claimed = claim.map_or(0, |(&budget, claim)| {
            let account = machine.account(budget);
            let given = account.map_or(0, |account| account.counters(child).given.rate.grains());
            claim.returned().rate.grains() ^ claim.period.get() ^ given
        });
        claimed ^ u64::from(machine.holds_permits(child))
    }
}

/// Returns the session whose client sent a message to its node, with the node.
fn session_of(due: &Due) -> Option<(u32, Incarnation)> {
    let Event::Deliver { to, message, .. } = &due.event else {
        return None;
    };
    let edge = match &**message {
        Message::ClientReport(report) => report.edge,
        Message::DecisionRequest(request) => request.edge,
        _ => return None,
    };
    Some((*to, edge.child))
}

fn read_head(service: &Service) -> u64 {
    let client = &service.client;
    let times = service.look_at ^ service.report_at.nanos() ^ service.choices;
    let edge = client.edge().map_or(0, |edge| edge.child.get());
    let holder = client.holder();
    times ^ edge ^ holder.map_or(0, |of| of.lease().until().nanos() ^ of.heard().number.get())
}

fn read_parts(service: &Service) -> u64 {
    let allotment = service.client.allotments().next();
    let allotted = allotment.map_or(0, |(_, of)| {
        u64::from(of.terms().is_some()) ^ u64::from(of.claim().weight.get())
    });
    let holder = service.client.holder();
    let held = holder.and_then(|of| Some((of, of.counters().next()?)));
    allotted
        ^ held.map_or(0, |(of, (budget, counters))| {
            counters.given.rate.grains() ^ of.demand_of(budget).len() as u64
        })
}
