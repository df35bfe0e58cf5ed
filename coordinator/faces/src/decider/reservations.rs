//! Reservations: costs that are charged before they are known, and permits in flight.
//!
//! ```text
//!   reserve ─▶ open ── settle, release ─▶ settled ── ttl ─▶ forgotten
//!               └───────── ttl ─▶ expired: kept or put back
//! ```
//!
//! A reservation lives in the process that made it. It is settled once: further calls of `settle` and `release` get
//! the first result again until the time of the reservation is over, so a caller may retry. If there are many, the oldest
//! settled ones are forgotten earlier.

use super::charge::now;
use super::held::HeldKey;
use super::{Answer, Decider, Outcome};
use crate::scope::Scope;
use aliquot_client::limiter::Settled;
use aliquot_client::{Permit, Reason, Reservation};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

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

/// The result for one part of a settled reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledPart {
    /// Key of the budget.
    pub key: String,
    /// Tokens put back.
    pub restored: u64,
    /// Additional tokens taken.
    pub taken: u64,
}

/// A call about a reservation cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReservationError {
    /// There is no such reservation of callers that may ask for these keys: it has expired, or was made elsewhere.
    #[error(
        "there is no such reservation here: it has expired, another node or agent made it, or a caller that may ask for \
         other keys"
    )]
    Unknown,
    /// A reservation of this name has other parts.
    #[error("a reservation of this name has other parts")]
    Other,
    /// The number of costs is not that of the parts.
    #[error("the reservation has {parts} parts, and {costs} costs were given")]
    Costs {
        /// Number of parts.
        parts: usize,
        /// Number of costs.
        costs: usize,
    },
}

/// Tokens or permit that one part took.
#[derive(Debug)]
enum Taken {
    Tokens(Reservation),
    Permit(Permit),
}

#[derive(Debug)]
struct Entry {
    parts: Vec<(String, u64)>,
    answers: Vec<Answer>,
    state: State,
    /// Tells this reservation from a later one of the same name.
    number: u64,
    _timer: Timer,
}

/// Task that ends a reservation when its time is over. It goes with the reservation.
#[derive(Debug)]
struct Timer(JoinHandle<()>);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
enum State {
    Open(Vec<Taken>),
    Settled(Vec<SettledPart>),
}

/// Name of a reservation. Callers that may ask for other keys have names of their own.
type Name = (Scope, String);

/// The reservations of a process.
#[derive(Debug)]
pub(super) struct Reservations {
    state: Mutex<Table>,
    /// Maximum number of keys with open parts. An open part keeps its key in the client's memory.
    keys_max: usize,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<Name, Entry>,
    /// Names of settled reservations by their numbers: the oldest comes first.
    settled: BTreeMap<u64, Name>,
    /// Numbers of open parts by key, for each scope.
    open: BTreeMap<Scope, BTreeMap<String, usize>>,
    /// Number of keys in `open`.
    open_keys: usize,
    /// Numbers of open parts, and of all parts.
    open_parts: usize,
    parts: usize,
    next: u64,
}

impl Reservations {
    /// Creates an empty table beside that many keys in memory. An eighth of them may have open reservations, so that
    /// callers that reserve keys of their invention keep no other key out.
    pub(super) fn new(keys: usize) -> Self {
        Self {
            state: Mutex::default(),
            keys_max: (keys / 8).max(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic leaves an entry in the table or not: both are valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if another reservation can be open. A caller that may ask for some keys only gets up to half of the
    /// room.
    fn has_room(&self, table: &Table, scope: &Scope, parts: &[(String, u64)]) -> bool {
        let of_scope = table.open.get(scope);
        let is_new = |key: &String| of_scope.is_none_or(|open| !open.contains_key(key));
        let new = parts.iter().map(|(key, _)| key).filter(|key| is_new(key));
        let new = new.collect::<BTreeSet<_>>().len();
        let parts_of_scope = of_scope.map_or(0, |open| open.values().sum()) + parts.len();
        let of_scope = of_scope.map_or(0, BTreeMap::len) + new;
        let (most_of_scope, most_parts) = match scope.is_confined() {
            true => (self.keys_max.div_ceil(2), Decider::PARTS_MAX / 2),
            false => (self.keys_max, Decider::PARTS_MAX),
        };
        of_scope <= most_of_scope
            && parts_of_scope <= most_parts
            && table.open_keys + new <= self.keys_max
            && table.open_parts + parts.len() <= Decider::PARTS_MAX
    }

    /// Ends a reservation whose time is over.
    fn expire(&self, name: &Name, number: u64, on_expire: OnExpire) {
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
    /// Adds an open reservation. Forgets the oldest settled ones for it if there are too many.
    fn insert(&mut self, name: Name, entry: Entry) {
        while self.parts + entry.parts.len() > Decider::PARTS_MAX
            && let Some((_, oldest)) = self.settled.pop_first()
        {
            drop(self.remove(&oldest));
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

    fn remove(&mut self, name: &Name) -> Option<Entry> {
        let entry = self.entries.remove(name)?;
        self.parts -= entry.parts.len();
        match entry.state {
            State::Open(_) => self.close(&name.0, &entry.parts),
            State::Settled(_) => drop(self.settled.remove(&entry.number)),
        }
        Some(entry)
    }

    /// Takes the parts of a reservation out of those that are open.
    fn close(&mut self, scope: &Scope, parts: &[(String, u64)]) {
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

fn put_back(taken: Vec<Taken>) {
    for taken in taken.into_iter().rev() {
        match taken {
            Taken::Tokens(reservation) => {
                reservation.settle(0);
            }
            Taken::Permit(permit) => drop(permit),
        }
    }
}

impl Decider {
    /// Maximum number of parts of all reservations at a time, settled ones included.
    pub const PARTS_MAX: usize = 65_536;

    /// Returns the number of reservations that are neither settled nor over.
    #[must_use]
    pub fn reservations_open(&self) -> usize {
        let table = self.reservations.lock();
        table.entries.len() - table.settled.len()
    }

    /// Charges all parts or none, until the reservation is settled, released or expires. The cost of a key that
    /// limits concurrency must be 1: a permit is taken.
    ///
    /// # Errors
    ///
    /// [`ReservationError::Other`] if the name is that of a reservation with other parts.
    pub async fn reserve(&self, reserve: &Reserve) -> Result<Reserved, ReservationError> {
        if let Some(known) = self.known(reserve) {
            return known;
        }
        let reserved = self.reserve_new(reserve).await?;
        self.counts.add(self.face, &reserved.answers);
        Ok(reserved)
    }

    async fn reserve_new(&self, reserve: &Reserve) -> Result<Reserved, ReservationError> {
        let Reserve { scope, parts, .. } = reserve;
        if !self
            .reservations
            .has_room(&self.reservations.lock(), scope, parts)
        {
            return Ok(no_room());
        }
        let deadline = now() + reserve.within;
        let mut taken = Vec::with_capacity(reserve.parts.len());
        let mut answers = Vec::with_capacity(reserve.parts.len());
        for (key, tokens) in &reserve.parts {
            let part = match self.held(key) {
                Ok(held) => take_part(&held, *tokens, deadline).await,
                Err(answer) => Err(answer),
            };
            match part {
                Ok((part, answer)) => {
                    taken.push(part);
                    answers.push(answer);
                }
                Err(answer) => {
                    self.note(key, &answer);
                    put_back(taken);
                    answers.push(answer);
                    return Ok(Reserved { id: None, answers });
                }
            }
        }
        self.enter(reserve, taken, answers)
    }

    /// Returns the reservation that a request with this name made before.
    fn known(&self, reserve: &Reserve) -> Option<Result<Reserved, ReservationError>> {
        let id = reserve.id.as_ref()?;
        let name = (reserve.scope.clone(), id.clone());
        let table = self.reservations.lock();
        let entry = table.entries.get(&name)?;
        Some(match entry.parts == reserve.parts {
            true => Ok(Reserved {
                id: Some(id.clone()),
                answers: entry.answers.clone(),
            }),
            false => Err(ReservationError::Other),
        })
    }

    fn enter(
        &self,
        reserve: &Reserve,
        taken: Vec<Taken>,
        answers: Vec<Answer>,
    ) -> Result<Reserved, ReservationError> {
        let id = reserve.id.clone().unwrap_or_else(random_id);
        let name = (reserve.scope.clone(), id.clone());
        let mut table = self.reservations.lock();
        if table.entries.contains_key(&name) {
            // Another request of this name came first.
            drop(table);
            put_back(taken);
            return self
                .known(reserve)
                .unwrap_or(Err(ReservationError::Unknown));
        }
        if !self.reservations.has_room(&table, &name.0, &reserve.parts) {
            drop(table);
            put_back(taken);
            return Ok(no_room());
        }
        let number = table.next;
        table.next += 1;
        let expiry = expire_after(
            Arc::downgrade(&self.reservations),
            name.clone(),
            number,
            (reserve.ttl, reserve.on_expire),
        );
        let entry = Entry {
            parts: reserve.parts.clone(),
            answers: answers.clone(),
            state: State::Open(taken),
            number,
            _timer: Timer(tokio::spawn(expiry)),
        };
        table.insert(name, entry);
        drop(table);
        Ok(Reserved {
            id: Some(id),
            answers,
        })
    }

    /// Settles a reservation for the actual cost of each part, in their order. A higher cost is charged even if it is
    /// not there; of a lower one the rest is put back as far as that makes no tokens. A permit is released.
    ///
    /// # Errors
    ///
    /// [`ReservationError`]; nothing was changed.
    pub fn settle(
        &self,
        scope: &Scope,
        id: &str,
        costs: &[u64],
    ) -> Result<Vec<SettledPart>, ReservationError> {
        self.finish(scope, id, |parts| match costs.len() == parts.len() {
            true => Ok(costs.to_vec()),
            false => Err(ReservationError::Costs {
                parts: parts.len(),
                costs: costs.len(),
            }),
        })
    }

    /// Gives a reservation up: settles it for costs of zero.
    ///
    /// # Errors
    ///
    /// [`ReservationError`]; nothing was changed.
    pub fn release(&self, scope: &Scope, id: &str) -> Result<Vec<SettledPart>, ReservationError> {
        self.finish(scope, id, |parts| Ok(vec![0; parts.len()]))
    }

    fn finish(
        &self,
        scope: &Scope,
        id: &str,
        costs: impl FnOnce(&[(String, u64)]) -> Result<Vec<u64>, ReservationError>,
    ) -> Result<Vec<SettledPart>, ReservationError> {
        let name = (scope.clone(), id.to_owned());
        let mut table = self.reservations.lock();
        let entry = table.entries.get_mut(&name);
        let entry = entry.ok_or(ReservationError::Unknown)?;
        if let State::Settled(parts) = &entry.state {
            return Ok(parts.clone());
        }
        let costs = costs(&entry.parts)?;
        let open = std::mem::replace(&mut entry.state, State::Settled(Vec::new()));
        let State::Open(taken) = open else {
            return Err(ReservationError::Unknown);
        };
        let keys = entry.parts.iter().map(|(key, _)| key.clone());
        let settled = keys.zip(taken).zip(costs).map(|((key, taken), cost)| {
            let Settled { restored, taken } = match taken {
                Taken::Tokens(reservation) => reservation.settle(cost),
                Taken::Permit(permit) => {
                    drop(permit);
                    Settled {
                        restored: 1,
                        taken: 0,
                    }
                }
            };
            SettledPart {
                key,
                restored,
                taken,
            }
        });
        let settled: Vec<SettledPart> = settled.collect();
        entry.state = State::Settled(settled.clone());
        let (number, parts) = (entry.number, entry.parts.clone());
        table.close(scope, &parts);
        table.settled.insert(number, name);
        Ok(settled)
    }
}

/// Takes tokens, or a permit of a key that limits concurrency.
async fn take_part(held: &HeldKey, n: u64, deadline: Instant) -> Result<(Taken, Answer), Answer> {
    match held.take(n, deadline).await {
        Ok((reservation, answer)) => Ok((Taken::Tokens(reservation), answer)),
        Err(answer) if answer.reason == Some(Reason::WrongKind) && n == 1 => {
            let most = deadline.saturating_duration_since(now());
            let decision = held.limiter.decide_permit_within(most).await;
            let (permit, answer) = held.answer(decision)?;
            Ok((Taken::Permit(permit), answer))
        }
        Err(answer) => Err(answer),
    }
}

async fn expire_after(
    reservations: Weak<Reservations>,
    name: Name,
    number: u64,
    (ttl, on_expire): (Duration, OnExpire),
) {
    sleep(ttl).await;
    if let Some(reservations) = reservations.upgrade() {
        reservations.expire(&name, number, on_expire);
    }
}

/// Returns the answer to a request for which there is no room.
fn no_room() -> Reserved {
    let answers = vec![Answer::without(Outcome::Unavailable, Reason::NoRoom)];
    Reserved { id: None, answers }
}

fn random_id() -> String {
    let [high, low]: [u64; 2] = rand::rng().random();
    format!("{high:016x}{low:016x}")
}

#[cfg(test)]
mod tests;
