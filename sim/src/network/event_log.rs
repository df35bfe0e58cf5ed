//! The log of a step: what happened on the hosts, in order. The observer gets it after the step.

use aliquot_client::Permit;
use aliquot_client::limiter::LimiterState;
use aliquot_coordinator::raft::{Committed, Outcome};
use aliquot_core::central::{DecisionReply, DecisionRequest};
use aliquot_core::share::Share;
use aliquot_core::unit::{Edge, PeriodId, Span};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The outcome of a request.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The request arrived for the first time. Holds the other key of which it needs as much.
    Offered(Option<usize>),
    /// It could not be made: there is no client to ask.
    NotMade,
    /// Its caller waits for tokens, or for a permit.
    Waits,
    /// The client admitted it by itself.
    Admitted(Admitted),
    /// Its client learned that a node admitted it in central mode. Holds the cost.
    Central(u64),
    /// It was refused, with its cost.
    Refused(u64),
    /// A permit was acquired, with its number.
    Taken(u64),
    /// A permit was returned. Tells whether it was over before.
    Landed { cut: bool },
}

/// An admission by a client itself.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    pub(super) cost: u64,
    pub(super) period: PeriodId,
    pub(super) state: LimiterState,
    pub(super) share: Share,
    pub(super) edge: Option<Edge>,
    /// Time until the lease ends.
    pub(super) lease: Span,
}

/// An outcome, with its time, client, process and key.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    pub(super) at: u64,
    pub(super) client: usize,
    pub(super) process: u32,
    /// Index of the key among those that clients use.
    pub(super) key: usize,
    pub(super) what: What,
}

/// An entry that a node applied: the node, its clock's reading, the entry and its effects.
#[derive(Debug)]
pub(super) struct Applied {
    pub(super) node: usize,
    pub(super) tick: u64,
    pub(super) entry: Committed,
    pub(super) outcome: Outcome,
}

/// An entry as it was appended to a disk: true time, node, index and bytes.
pub(super) type Written = (u64, usize, u64, Bytes);

/// A decision of a node in central mode, with its true time.
#[derive(Debug)]
pub(super) struct NodeDecided {
    pub(super) at: u64,
    pub(super) node: usize,
    pub(super) ask: DecisionRequest,
    pub(super) reply: DecisionReply,
}

/// An event that is passed to the observer.
#[derive(Debug)]
pub(super) enum Happened {
    NodeDecided(NodeDecided),
    /// A snapshot of this node was taken.
    Snapshot(usize),
    Applied(Applied),
    Written(Written),
    Decided(Decided),
}

/// A permit in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) client: usize,
    pub(super) process: u32,
    /// The permit's number at its process.
    pub(super) number: u64,
    /// Index of the key among those that clients use.
    pub(super) key: usize,
    pub(super) permit: Arc<Permit>,
}

impl Flight {
    const fn is(&self, client: usize, process: u32, number: u64) -> bool {
        self.client == client && self.process == process && self.number == number
    }
}

#[derive(Debug, Default)]
struct Pages {
    happened: Vec<Happened>,
    flights: Vec<Flight>,
}

/// The events since the last read, and the permits in flight. Clones share their contents.
#[derive(Clone, Debug, Default)]
pub(super) struct EventLog(Arc<Mutex<Pages>>);

impl EventLog {
    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, happened: impl IntoIterator<Item = Happened>) {
        self.lock().happened.extend(happened);
    }

    pub(super) fn take(&self) -> Vec<Happened> {
        std::mem::take(&mut self.lock().happened)
    }

    pub(super) fn flies(&self, flight: Flight) {
        self.lock().flights.push(flight);
    }

    pub(super) fn lands(&self, client: usize, process: u32, number: u64) {
        self.end(|flight| flight.is(client, process, number));
    }

    /// Returns the key of each permit in flight. Those that have ended do not count, even if their callers still
    /// work.
    pub(super) fn held_keys(&self) -> Vec<usize> {
        let pages = self.lock();
        let valid = pages
            .flights
            .iter()
            .filter(|flight| flight.permit.is_valid());
        valid.map(|flight| flight.key).collect()
    }

    /// Drops all permits of a client, because its process has crashed.
    pub(super) fn crashes(&self, client: usize) {
        self.end(|flight| flight.client == client);
    }

    fn end(&self, over: impl Fn(&Flight) -> bool) {
        // Dropped without holding the lock, since dropping a permit may wake other tasks.
        let ended: Vec<Flight> = {
            let mut pages = self.lock();
            pages
                .flights
                .extract_if(.., |flight| over(flight))
                .collect()
        };
        drop(ended);
    }

    /// Returns true if a permit is in flight and its client may still use it.
    pub(super) fn is_flying(&self, client: usize, process: u32, number: u64) -> bool {
        let pages = self.lock();
        let mut flights = pages.flights.iter();
        flights.any(|flight| flight.is(client, process, number) && flight.permit.is_valid())
    }
}
