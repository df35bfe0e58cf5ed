//! What happened within a step, in order: what the oracle is told after it.

use super::disk::Written;
use super::node::Applied;
use aliquot_client::{Permit, Standing};
use aliquot_core::share::Share;
use aliquot_core::unit::{Edge, PeriodId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What became of a request.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// It came, for the first time.
    Offered(u64),
    /// It was decided here.
    Admitted {
        cost: u64,
        period: PeriodId,
        standing: Standing,
        share: Share,
        edge: Option<Edge>,
    },
    /// A node decided it, at some time since it was asked.
    Central(u64),
    /// It was turned away.
    Refused(u64),
    /// A permit was taken.
    Taken(u64),
    /// A permit was given back.
    Landed,
}

/// A request at a client.
#[derive(Clone, Debug)]
pub(super) struct Decided {
    pub(super) at: u64,
    pub(super) client: usize,
    pub(super) process: u32,
    pub(super) what: What,
}

/// Something that the oracle must hear of.
#[derive(Debug)]
pub(super) enum Happened {
    Applied(Applied),
    Written(Written),
    Decided(Decided),
}

/// A permit in flight: its client, the process there, its number there.
pub(super) type Flight = (usize, u32, u64, Arc<Permit>);

#[derive(Debug, Default)]
struct Pages {
    happened: Vec<Happened>,
    flights: Vec<Flight>,
}

/// What happened since it was last read. All clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Diary(Arc<Mutex<Pages>>);

impl Diary {
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
        self.end(|flight| (flight.0, flight.1, flight.2) == (client, process, number));
    }

    /// All permits of a process are gone with it.
    pub(super) fn crashes(&self, client: usize) {
        self.end(|flight| flight.0 == client);
    }

    fn end(&self, over: impl Fn(&Flight) -> bool) {
        // Dropped outside of the lock: who drops a permit may wake others.
        let ended: Vec<Flight> = {
            let mut pages = self.lock();
            pages
                .flights
                .extract_if(.., |flight| over(flight))
                .collect()
        };
        drop(ended);
    }

    /// Whether a permit is in flight and its client may still use it.
    pub(super) fn is_flying(&self, client: usize, process: u32, number: u64) -> bool {
        self.lock().flights.iter().any(|flight| {
            (flight.0, flight.1, flight.2) == (client, process, number) && flight.3.is_valid()
        })
    }
}
