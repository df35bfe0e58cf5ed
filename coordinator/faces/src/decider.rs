//! The decider: the only place where requests of faces are decided.
//!
//! It holds a client of the cluster. A key's limiter decides in memory, on tokens that were leased beforehand. Only
//! the first use of a key, and a budget in central mode, need a node, and the decider waits for it no longer than
//! the deadline of the face.

mod answer;
mod charge;
mod counts;
mod held;
mod recent;
mod reservations;
mod reserve;
mod settled;

pub use answer::{Answer, Outcome};
pub use counts::Counts;
pub use reservations::{OnExpire, ReservationError, Reserve, Reserved};
pub use settled::SettledPart;

use crate::rules::{Face, KeyProblem, KeyRules, Mapped};
use crate::scope::Scope;
use aliquot_client::clock::Tick;
use aliquot_client::combined::Receipt;
use aliquot_client::{Client, KeyRefused, Limiter, Reason, Reservation};
use charge::left;
pub(crate) use charge::now;
use futures_util::future::join_all;
use held::{Held, HeldKey};
use reservations::Reservations;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// One question: may `key` spend `cost`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Key of the budget: see [`Decider::budget_key`]. A limit that came with the request is its last segment, as in
    /// `api/user:1/30-per-1m-burst-15`.
    pub key: String,
    /// Tokens to take, look at, or put back.
    pub cost: Cost,
    /// Time within which the face must answer. A decision that needs a node and does not arrive in time is
    /// [`Outcome::Unavailable`], and takes nothing here.
    pub within: Duration,
}

/// Amount that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cost {
    /// Takes that many tokens. Zero asks for nothing, and is allowed whenever the budget is known.
    Take(u64),
    /// Takes nothing, and answers as a request of one token would be.
    Peek,
    /// Puts back up to that many of the tokens that requests of this key took here lately, through faces that
    /// [refund](Face::refunds). What the bucket would have lost in the meantime by being full is not put back, nor is
    /// what a budget's home granted.
    Refund(u64),
    /// Takes tokens that were spent already, whether they are there or not: later requests wait until they are made.
    /// Of a quota, what is there is taken.
    Spent(u64),
}

/// Settings of a [`Decider`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Rules that map keys of requests to keys of budgets.
    pub rules: KeyRules,
    /// Maximum number of keys that are kept in memory: no more than the client's own maximum
    /// ([`ClientBuilder::keys_max`](aliquot_client::ClientBuilder::keys_max)).
    pub keys: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rules: KeyRules::default(),
            keys: 16_384,
        }
    }
}

/// Source of limiters by key.
pub trait Limiters: Send + Sync {
    /// Returns the limiter of a key.
    ///
    /// # Errors
    ///
    /// [`KeyRefused`] if the key is not valid or if there is no room for it.
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused>;

    /// Returns true if decisions can be made: a node has given a lease, and it has not ended.
    fn has_session(&self) -> bool {
        true
    }
}

impl Limiters for Client {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        Self::limiter(self, key)
    }

    fn has_session(&self) -> bool {
        !self.status().lease.is_zero()
    }
}

/// Decides the requests of all faces. Cloning is cheap, and all clones share one state.
#[derive(Clone)]
pub struct Decider {
    limiters: Arc<dyn Limiters>,
    rules: Arc<KeyRules>,
    held: Arc<Held>,
    reservations: Arc<Reservations>,
    /// Maximum number of keys in memory.
    keys: usize,
    /// Face whose decisions are counted as its own.
    face: Option<Face>,
    counts: Arc<Counts>,
    /// Number of questions that no budget can answer.
    faults: Arc<AtomicU64>,
}

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decider").finish_non_exhaustive()
    }
}

impl Decider {
    /// Creates a decider that asks through a client.
    #[must_use]
    pub fn new(client: Client, options: Options) -> Self {
        Self::of(client, options)
    }

    /// Creates a decider over another source of limiters, for tests: limiters of this process need no node.
    #[must_use]
    pub fn of(limiters: impl Limiters + 'static, options: Options) -> Self {
        Self {
            limiters: Arc::new(limiters),
            rules: Arc::new(options.rules),
            held: Arc::new(Held::new(options.keys)),
            reservations: Arc::new(Reservations::new(options.keys)),
            keys: options.keys,
            face: None,
            counts: Arc::default(),
            faults: Arc::default(),
        }
    }

    /// Returns the decider of one face, whose decisions are counted.
    #[must_use]
    pub fn of_face(&self, face: Face) -> Self {
        Self {
            face: Some(face),
            ..self.clone()
        }
    }

    /// Returns the numbers of decisions of all faces.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the maximum number of keys that are kept in memory.
    #[must_use]
    pub const fn keys_max(&self) -> usize {
        self.keys
    }

    /// Returns the number of keys that are kept in memory.
    #[must_use]
    pub fn keys_held(&self) -> usize {
        self.held.len()
    }

    /// Returns true if decisions can be made: a node has given a lease, and it has not ended.
    #[must_use]
    pub fn has_session(&self) -> bool {
        self.limiters.has_session()
    }

    /// Returns the budget's key for the key of a request, if its caller may ask for it.
    ///
    /// # Errors
    ///
    /// [`KeyProblem`] if no rule of the face matches, if no budget can have such a key, or if the caller may not ask
    /// for it.
    pub fn budget_key(
        &self,
        face: Face,
        scope: &Scope,
        key: &[u8],
    ) -> Result<Mapped<'_>, KeyProblem> {
        let mapped = self.rules.budget_key(face, key)?;
        match scope.covers(&mapped.key) {
            true => Ok(mapped),
            false => Err(KeyProblem::Outside {
                key: mapped.key,
                scope: scope.clone(),
            }),
        }
    }

    /// One log line stands for this many questions that no budget can answer.
    const LOG_EVERY: u64 = 1_024;

    /// Logs that no budget can answer the questions about a key: at the first one, and then seldom.
    fn note(&self, key: &str, answer: &Answer) {
        let (Outcome::NoBudget, Some(reason)) = (answer.outcome, answer.reason) else {
            return;
        };
        let before = self.faults.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(Self::LOG_EVERY) {
            tracing::error!(key, %reason, "no suitable budget exists for this key, so its requests cannot be decided");
        }
    }

    /// Decides one question.
    pub async fn decide(&self, ask: &Ask) -> Answer {
        let answer = match self.held_at(&ask.key) {
            Ok((held, now)) => match self.take_here(&held, ask.cost, now) {
                Some(answer) => answer,
                // Boxed: the future of each request would contain it, although nearly all tokens are here.
                None => Box::pin(self.decide_further(held, ask)).await,
            },
            Err(answer) => answer,
        };
        self.note(&ask.key, &answer);
        self.counts.add(self.face, std::slice::from_ref(&answer));
        answer
    }

    /// Decides several questions together: all are charged, or none is.
    ///
    /// The answers are in the order of the questions. If one is refused, the others are answered as they would have
    /// been. What the home of a budget in central mode granted cannot be put back: it stays charged
    /// if a later question is refused, so put such a key last. Refunds are made only if all other questions are
    /// allowed.
    pub async fn decide_all(&self, asks: &[Ask]) -> Vec<Answer> {
        let answers = self.answer_all(asks).await;
        self.counts.add(self.face, &answers);
        answers
    }

    async fn answer_all(&self, asks: &[Ask]) -> Vec<Answer> {
        let now = now();
        let mut taken = Vec::with_capacity(asks.len());
        for ask in asks {
            match self.part(ask, now).await {
                Ok(part) => taken.push(part),
                Err(answer) => {
                    self.note(&ask.key, &answer);
                    let at = taken.len();
                    for (_, charge) in taken.into_iter().rev() {
                        put_back(charge);
                    }
                    let answers = asks.iter().enumerate();
                    let answers = answers.map(|(index, ask)| match index == at {
                        true => answer.clone(),
                        false => self.would(ask),
                    });
                    return answers.collect();
                }
            }
        }
        let answers = asks.iter().zip(taken);
        let answers = answers.map(|(ask, part)| self.book(ask, part));
        answers.collect()
    }

    /// Sets the tokens per second that each caller behind a key wants, for a face that divides what it takes among
    /// them: see [`Limiter::set_callers`].
    pub(crate) fn set_callers(&self, key: &str, demands: &[u64]) {
        if let Ok(held) = self.held(key) {
            held.limiter.set_callers(demands);
        }
    }

    /// Decides several questions, each by itself.
    pub async fn decide_each(&self, asks: &[Ask]) -> Vec<Answer> {
        join_all(asks.iter().map(|ask| self.decide(ask))).await
    }

    /// Takes the tokens of one question among several.
    async fn part(&self, ask: &Ask, now: Instant) -> Result<Part, Answer> {
        let held = self.held(&ask.key)?;
        let deadline = now + ask.within;
        let charge = match ask.cost {
            Cost::Take(n) => Some(held.take(n, left(deadline)).await?),
            Cost::Spent(_) => Some(held.take(0, left(deadline)).await?),
            Cost::Peek => match held.peek(left(deadline)).await {
                answer if answer.outcome == Outcome::Allowed => None,
                answer => return Err(answer),
            },
            Cost::Refund(_) => None,
        };
        Ok((held, charge))
    }

    /// Answers as a question would be answered now, without asking a node.
    fn would(&self, ask: &Ask) -> Answer {
        let held = match self.held(&ask.key) {
            Ok(held) => held,
            Err(answer) => return answer,
        };
        match ask.cost {
            Cost::Take(n) => held.would(n),
            Cost::Peek => held.would(1),
            Cost::Refund(_) | Cost::Spent(_) => held.would(0),
        }
    }

    fn held(&self, key: &str) -> Result<Arc<HeldKey>, Answer> {
        self.held_at(key).map(|(held, _)| held)
    }

    /// Returns a key, and a reading of its clock.
    fn held_at(&self, key: &str) -> Result<(Arc<HeldKey>, Tick), Answer> {
        let held = self.held.get(key, || self.limiters.limiter(key));
        held.map_err(|refused| match refused {
            KeyRefused::Invalid { .. } => Answer::without(Outcome::NoBudget, Reason::NoBudget),
            KeyRefused::TooMany { .. } => Answer::without(Outcome::Unavailable, Reason::NoRoom),
            _ => Answer::without(Outcome::Unavailable, Reason::Closed),
        })
    }

    /// Takes the tokens of a question if they are here now. Returns `None`, and takes nothing, if more is to be done.
    fn take_here(&self, held: &HeldKey, cost: Cost, now: Tick) -> Option<Answer> {
        match cost {
            Cost::Take(n) => {
                let (charge, answer) = held.take_here(n, now)?;
                self.remember(held, Some(charge));
                Some(answer)
            }
            Cost::Peek | Cost::Refund(_) | Cost::Spent(_) => None,
        }
    }

    /// Decides a question that [`Self::take_here`] left, and asks a node if need be.
    async fn decide_further(&self, held: Arc<HeldKey>, ask: &Ask) -> Answer {
        match ask.cost {
            Cost::Take(n) => match held.take(n, ask.within).await {
                Ok((reservation, answer)) => {
                    self.remember(&held, reservation.receipt());
                    answer
                }
                Err(answer) => answer,
            },
            Cost::Peek => held.peek(ask.within).await,
            Cost::Refund(n) => {
                held.refund(n);
                held.would(0)
            }
            Cost::Spent(n) => held.take_spent(n, ask.within).await,
        }
    }

    /// Makes the tokens of a question final, and answers it.
    fn book(&self, ask: &Ask, (held, charge): Part) -> Answer {
        match (ask.cost, charge) {
            (Cost::Refund(n), _) => held.refund(n),
            (Cost::Spent(n), Some((reservation, _))) => {
                reservation.settle(n);
            }
            (_, Some((reservation, answer))) => {
                self.remember(&held, reservation.receipt());
                return answer;
            }
            (_, None) => {}
        }
        held.would(0)
    }

    /// Remembers a charge for a refund that does not name it. A face without such refunds remembers nothing, which saves
    /// it a wait for the memory of the key's charges.
    fn remember(&self, held: &HeldKey, charge: Option<Receipt>) {
        let is_refundable = self.face.is_none_or(Face::refunds);
        if let Some(charge) = charge.filter(|charge| is_refundable && charge.tokens() > 0) {
            held.recent.add(charge);
        }
    }
}

/// Key of one question among several, and the tokens taken for it with the answer to that.
type Part = (Arc<HeldKey>, Option<(Reservation, Answer)>);

fn put_back(charge: Option<(Reservation, Answer)>) {
    if let Some((reservation, _)) = charge {
        reservation.settle(0);
    }
}

#[cfg(test)]
#[path = "../tests/unit/decider/testing.rs"]
pub(crate) mod testing;
#[cfg(test)]
#[path = "../tests/unit/decider.rs"]
mod tests;
