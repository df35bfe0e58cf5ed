//! Reads the memory that the next events need before they are handled.
//!
//! Of thousands of clients little is in the processor's cache, and an event would wait for the main memory a dozen
//! times, each time for what the last read pointed to. Here the events of a batch are read side by side, so the
//! processor waits for many of them at once. Nothing is changed by it.

use super::World;
use super::event::{Due, Event, Message, Timer};
use super::host::Service;
use aliquot_core::unit::{BudgetId, Incarnation, Span};
use std::hint::black_box;

/// Number of clients from which on they do not fit in the cache.
const MANY: usize = 1_000;

/// The length of a slot of the queue, which the events of a batch are in.
const MILLISECOND: Span = Span::from_millis(1);

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
        services().for_each(|(of, service, _)| self.read_service(of, service));
        sessions().for_each(|session| self.read_session(session));
        services().for_each(|(of, service, used)| self.read_further(of, service, used));
        sessions().for_each(|session| self.read_session_further(session));
    }

    /// Returns the service at which an event happens, if it is at one, with its number. The last value is true if the
    /// event is about its key.
    fn service_of(&self, due: &Due) -> Option<(usize, &Service, bool)> {
        let (host, used) = match &due.event {
            Event::Deliver { to, message, .. } => match &**message {
                Message::ClientAnswer(answer) => (*to, !answer.lines.is_empty()),
                _ => (*to, true),
            },
            Event::Timer { host, timer, .. } => (*host, *timer != Timer::Look),
            _ => return None,
        };
        let of = (host as usize).checked_sub(self.hosts.nodes)?;
        Some((of, self.services.get(of)?, used))
    }

    fn read_service(&self, of: usize, service: &Service) {
        service.client.fetch();
        black_box((service.clock.clone(), service.process, service.look_at));
        black_box((service.report_at, service.reported, service.clocks));
        black_box((service.lapsed, service.answered, service.choices));
        black_box((service.selection.due(), service.requests.pending()));
        black_box((service.callers.count, service.callers.queues.len()));
        black_box(self.observer.timeline.clients.get(of).map(Vec::len));
        if let Some(node) = service.link() {
            self.net.fetch(self.hosts.nodes + of, node);
        }
    }

    fn read_further(&self, of: usize, service: &Service, used: bool) {
        let now = service.clock.read(self.now);
        service.client.fetch_further(used, now.after(MILLISECOND));
        if used {
            black_box(first_budget(service));
            let clients = &self.observer.timeline.clients;
            black_box(clients.get(of).and_then(|of| of.last().copied()));
        }
    }

    /// Reads what a node knows of a session.
    fn read_session(&self, session: Session) {
        let host = &self.nodes[session.node];
        let of = session.from.checked_sub(self.hosts.nodes);
        black_box(of.and_then(|of| self.services.get(of)?.key));
        black_box(host.sessions.get(&session.child).copied());
        black_box(host.reports.get(&session.child).copied());
        self.net.fetch(session.node, session.from);
        if let Some(machine) = &host.node {
            machine.fetch(session.child);
        }
    }

    fn read_session_further(&self, session: Session) {
        let of = session.from.checked_sub(self.hosts.nodes);
        let service = of.and_then(|of| self.services.get(of));
        black_box(service.and_then(first_budget));
        if let Some(machine) = &self.nodes[session.node].node {
            machine.fetch_further(session.child);
        }
    }
}

fn first_budget(service: &Service) -> Option<(usize, BudgetId)> {
    let (key, (budget, _)) = service.budgets.first_key_value()?;
    Some((*key, *budget))
}

/// The session whose client sent a message to its node.
struct Session {
    from: usize,
    node: usize,
    child: Incarnation,
}

/// Returns the session of a message that its client sent to its node.
fn session_of(due: &Due) -> Option<Session> {
    let Event::Deliver { from, to, message } = &due.event else {
        return None;
    };
    let edge = match &**message {
        Message::ClientReport(report) => report.edge,
        Message::DecisionRequest(request) => request.edge,
        _ => return None,
    };
    Some(Session {
        from: *from as usize,
        node: *to as usize,
        child: edge.child,
    })
}
