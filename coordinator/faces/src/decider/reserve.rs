//! Making, settling and ending reservations.

use super::Decider;
use super::answer::{Answer, Outcome};
use super::charge::{left, now};
use super::held::HeldKey;
use super::reservations::{
    Entry, OnExpire, ReservationError, Reservations, Reserve, Reserved, State, Taken, Timer,
    put_back,
};
use super::settled::{Charge, Name, SettledPart};
use crate::scope::Scope;
use aliquot_client::Reason;
use aliquot_client::limiter::Settled;
use rand::RngExt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

impl Decider {
    /// Maximum number of parts of all reservations at a time, settled ones included.
    pub const PARTS_MAX: usize = Reservations::PARTS_MAX;

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
    /// [`ReservationError::Other`] if the name is that of a reservation with other parts, and
    /// [`ReservationError::Permits`] for a cost other than 1 of a key that limits concurrency. Nothing was taken.
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
                // The key has a budget, so this is the caller's to mend, and nothing to log.
                Err(answer) if answer.reason == Some(Reason::WrongKind) && *tokens != 1 => {
                    put_back(taken);
                    return Err(ReservationError::Permits {
                        key: key.clone(),
                        cost: *tokens,
                    });
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
        let charge = Charge::of(&parts, &settled);
        table.settled.insert(number, name, charge, parts.len());
        Ok(settled)
    }
}

/// Takes tokens, or a permit of a key that limits concurrency.
async fn take_part(held: &HeldKey, n: u64, deadline: Instant) -> Result<(Taken, Answer), Answer> {
    match held.take(n, left(deadline)).await {
        Ok((reservation, answer)) => Ok((Taken::Tokens(reservation), answer)),
        Err(answer) if answer.reason == Some(Reason::WrongKind) && n == 1 => {
            let decision = held.limiter.decide_permit_within(left(deadline)).await;
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
#[path = "../../tests/unit/decider/reserve.rs"]
mod tests;
