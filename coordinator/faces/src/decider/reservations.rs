//! Reservations: costs that are charged before they are known, and permits in flight.
//!
//! ```text
//!   reserve ─▶ open ── settle, release ─▶ settled ── ttl ─▶ forgotten
//!               └───────── ttl ─▶ expired: kept or put back
//! ```
//!
//! A reservation lives in the process that made it. It is settled once: further calls of `settle` and `release` get
//! the first result again until the time of the reservation is over, so a caller may retry.

use super::charge::now;
use super::held::HeldKey;
use super::{Answer, Decider, Outcome};
use crate::scope::Scope;
use aliquot_client::limiter::Settled;
use aliquot_client::{Permit, Reason, Reservation};
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A request for a reservation: all parts are charged, or none is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Keys of budgets, and the estimated cost of each.
    pub parts: Vec<(String, u64)>,
    /// Time after which the reservation ends by itself.
    pub ttl: Duration,
    /// Treatment of the estimate then.
    pub on_expire: OnExpire,
    /// Time within which the face must answer.
    pub within: Duration,
    /// Name of the reservation, chosen by the caller. A second request with the same name and the same parts gets
    /// the first one's reservation.
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
    /// There is no such reservation in this process: it has expired, or was made elsewhere.
    #[error("there is no such reservation here: it has expired, or another node or agent made it")]
    Unknown,
    /// The caller may not ask for a key of the reservation.
    #[error("the reservation has a key that is outside of what this caller may ask for")]
    Outside,
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
}

#[derive(Debug)]
enum State {
    Open(Vec<Taken>),
    Settled(Vec<SettledPart>),
}

/// The reservations of a process.
#[derive(Debug)]
pub(super) struct Reservations {
    state: Mutex<Table>,
    most: usize,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<String, Entry>,
    next: u64,
}

impl Reservations {
    pub(super) fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            most,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A panic leaves an entry in the table or not: both are valid.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a reservation whose time is over.
    fn expire(&self, id: &str, number: u64, on_expire: OnExpire) {
        let mut table = self.lock();
        if table
            .entries
            .get(id)
            .is_none_or(|entry| entry.number != number)
        {
            return;
        }
        let entry = table.entries.remove(id);
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
    /// Maximum number of reservations at a time.
    pub const RESERVATIONS_MAX: usize = 65_536;

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
        let table = self.reservations.lock();
        let entry = table.entries.get(id)?;
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
        let mut table = self.reservations.lock();
        if table.entries.contains_key(&id) {
            // Another request of this name came first.
            drop(table);
            put_back(taken);
            return self
                .known(reserve)
                .unwrap_or(Err(ReservationError::Unknown));
        }
        if table.entries.len() >= self.reservations.most {
            drop(table);
            put_back(taken);
            let answers = vec![Answer::without(Outcome::Unavailable, Reason::NoRoom)];
            return Ok(Reserved { id: None, answers });
        }
        let number = table.next;
        table.next += 1;
        let entry = Entry {
            parts: reserve.parts.clone(),
            answers: answers.clone(),
            state: State::Open(taken),
            number,
        };
        table.entries.insert(id.clone(), entry);
        drop(table);
        let reservations = Arc::downgrade(&self.reservations);
        tokio::spawn(expire_after(
            reservations,
            id.clone(),
            number,
            (reserve.ttl, reserve.on_expire),
        ));
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
        let mut table = self.reservations.lock();
        let entry = table.entries.get_mut(id).ok_or(ReservationError::Unknown)?;
        if !entry.parts.iter().all(|(key, _)| scope.covers(key)) {
            return Err(ReservationError::Outside);
        }
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
    id: String,
    number: u64,
    (ttl, on_expire): (Duration, OnExpire),
) {
    sleep(ttl).await;
    if let Some(reservations) = reservations.upgrade() {
        reservations.expire(&id, number, on_expire);
    }
}

fn random_id() -> String {
    let [high, low]: [u64; 2] = rand::rng().random();
    format!("{high:016x}{low:016x}")
}
