//! Reservations: costs that are charged before they are known, and permits in flight.
//!
//! ```text
//!   reserve ─▶ open ── settle, release ─▶ settled ── ttl ─▶ forgotten
//!               └───────── ttl ─▶ expired: kept or put back
//! ```
//!
//! A reservation lives in the process that made it. It is settled once: further calls of `settle` and `release` get
//! the first result again until the time of the reservation is over, so a caller may retry. If there are many, some
//! settled ones are forgotten earlier: see [`SettledNames`].

use super::answer::Answer;
use super::settled::{Charge, Name, SettledNames, SettledPart};
use crate::scope::Scope;
use aliquot_client::{Permit, Reservation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A request for a reservation: all parts are charged, or none is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Keys that the caller may ask for.
    pub scope: Scope,
    /// Keys of budgets, and the estimated cost of each.
    pub parts: Vec<(String, u64)>,
    /// Time after which the reservation ends by itself.
    pub ttl: Duration,
    /// Treatment of the estimate then.
    pub on_expire: OnExpire,
    /// Time within which the face must answer.
    pub within: Duration,
    /// Name of the reservation, chosen by the caller, and its own among those of callers that may ask for the same keys.
    /// A second request with the same name and the same parts gets the first one's reservation.
    pub id: Option<String>,
}

/// Treatment of a reservation that was not settled in time. A permit is released in both cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExpire {
    /// The estimate stays charged.
    #[default]
    Keep,
    /// The estimate is put back, as far as the limit allows.
    PutBack,
}

/// The decision on a request for a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Name of the reservation; `None` if it was refused.
    pub id: Option<String>,
    /// An answer for each part.
    pub answers: Vec<Answer>,
}

/// A call about a reservation cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// There is no such reservation of callers that may ask for these keys: it has expired, or was made elsewhere.
    #[error(
        "there is no such reservation here: it has expired, or it was made at another node or agent, or by a caller \
         with other key prefixes"
    )]
    Unknown,
    /// A reservation of this name has other parts.
    #[error("a reservation with this id exists and has other parts")]
    Other,
    /// The number of costs is not that of the parts.
    #[error("the reservation has {parts} parts, and {costs} costs were given")]
    Costs {
        /// Number of parts.
        parts: usize,
        /// Number of costs.
        costs: usize,
    },
    /// The cost of a key that limits concurrency is not 1. Nothing was taken.
    #[error(
        "cost = {cost}: must be 1, because {key:?} limits concurrency: a reservation takes one permit of a key"
    )]
    Permits {
        /// Key of the budget.
        key: String,
        /// The cost that was asked for.
        cost: u64,
    },
}

/// Tokens or permit that one part took.
#[derive(Debug)]
pub(super) enum Taken {
    Tokens(Reservation),
    Permit(Permit),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) parts: Vec<(String, u64)>,
    pub(super) answers: Vec<Answer>,
    pub(super) state: State,
    /// Tells this reservation from a later one of the same name.
    pub(super) number: u64,
    pub(super) _timer: Timer,
}

/// Task that ends a reservation when its time is over. It goes with the reservation.
#[derive(Debug)]
pub(super) struct Timer(pub(super) JoinHandle<()>);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
pub(super) enum State {
    Open(Vec<Taken>),
    Settled(Vec<SettledPart>),
}

/// The reservations of a process.
#[derive(Debug)]
pub(super) struct Reservations {
    state: Mutex<Table>,
    /// Maximum number of keys with open parts. An open part keeps its key in the client's memory.
    keys_max: usize,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) entries: BTreeMap<Name, Entry>,
    pub(super) settled: SettledNames,
    /// Numbers of open parts by key, for each scope.
    pub(super) open: BTreeMap<Scope, BTreeMap<String, usize>>,
    /// Number of keys in `open`.
    pub(super) open_keys: usize,
    /// Numbers of open parts, and of all parts.
    pub(super) open_parts: usize,
    pub(super) parts: usize,
    pub(super) next: u64,
}

impl Reservations {
    /// Maximum number of parts at a time, settled ones included.
    pub(super) const PARTS_MAX: usize = 65_536;

    /// Creates an empty table beside that many keys in memory. An eighth of them may have open reservations, so that
    /// callers that reserve keys of their invention keep no other key out.
    pub(super) fn new(keys: usize) -> Self {
        Self {
            state: Mutex::default(),
            keys_max: (keys / 8).max(1),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic leaves an entry in the table or not: both are valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if another reservation can be open. A caller that may ask for some keys only gets up to half of the
    /// room.
    pub(super) fn has_room(&self, table: &Table, scope: &Scope, parts: &[(String, u64)]) -> bool {
        let of_scope = table.open.get(scope);
        let is_new = |key: &String| of_scope.is_none_or(|open| !open.contains_key(key));
        let new = parts.iter().map(|(key, _)| key).filter(|key| is_new(key));
        let new = new.collect::<BTreeSet<_>>().len();
        let parts_of_scope = of_scope.map_or(0, |open| open.values().sum()) + parts.len();
        let of_scope = of_scope.map_or(0, BTreeMap::len) + new;
        let (most_of_scope, most_parts) = match scope.is_confined() {
            true => (self.keys_max.div_ceil(2), Self::PARTS_MAX / 2),
            false => (self.keys_max, Self::PARTS_MAX),
        };
        of_scope <= most_of_scope
            && parts_of_scope <= most_parts
            && table.open_keys + new <= self.keys_max
            && table.open_parts + parts.len() <= Self::PARTS_MAX
    }

    /// Ends a reservation whose time is over.
    pub(super) fn expire(&self, name: &Name, number: u64, on_expire: OnExpire) {
        let mut table = self.lock();
        let entry = table.entries.get(name);
        if entry.is_none_or(|entry| entry.number != number) {
            return;
        }
        let entry = table.remove(name);
        drop(table);
        if let Some(Entry {
            state: State::Open(taken),
            ..
        }) = entry
            && on_expire == OnExpire::PutBack
        {
            put_back(taken);
        }
    }
}

impl Table {
    /// Adds an open reservation. Forgets settled ones for it if there are too many.
    pub(super) fn insert(&mut self, name: Name, entry: Entry) {
        while self.parts + entry.parts.len() > Reservations::PARTS_MAX
            && let Some(first) = self.settled.first()
        {
            drop(self.remove(&first));
        }
        let open = self.open.entry(name.0.clone()).or_default();
        for (key, _) in &entry.parts {
            let parts = open.entry(key.clone()).or_default();
            self.open_keys += usize::from(*parts == 0);
            *parts += 1;
        }
        self.open_parts += entry.parts.len();
        self.parts += entry.parts.len();
        self.entries.insert(name, entry);
    }

    pub(super) fn remove(&mut self, name: &Name) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.parts -= entry.parts.len();
        match &entry.state {
            State::Open(_) => self.close(&name.0, &entry.parts),
            State::Settled(settled) => {
                let charge = Charge::of(&entry.parts, settled);
                self.settled.remove(entry.number, &name.0, charge);
            }
        }
        Some(entry)
    }

    /// Takes the parts of a reservation out of those that are open.
    pub(super) fn close(&mut self, scope: &Scope, parts: &[(String, u64)]) {
        self.open_parts -= parts.len();
        let Some(open) = self.open.get_mut(scope) else {
            return;
        };
        for (key, _) in parts {
            if let Some(count) = open.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    open.remove(key);
                    self.open_keys -= 1;
                }
            }
        }
        if open.is_empty() {
            self.open.remove(scope);
        }
    }
}

pub(super) fn put_back(taken: Vec<Taken>) {
    for taken in taken.into_iter().rev() {
        match taken {
            Taken::Tokens(reservation) => {
                reservation.settle(0);
            }
            Taken::Permit(permit) => drop(permit),
        }
    }
}
