//! The decider: the only place where requests of faces are decided.
//!
//! It holds a client of the cluster. A key's limiter decides in memory, on tokens that were leased beforehand. Only
//! the first use of a key, and a budget in central mode, need a node, and the decider waits for it no longer than
//! the deadline of the face.

mod held;
mod recent;

use crate::rules::{Face, KeyProblem, KeyRules, Mapped};
use aliquot_client::combined::Combine;
use aliquot_client::{Client, KeyRefused, Limiter, Reason, Refused, Reservation};
use futures_util::future::join_all;
use held::{Held, HeldKey};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// One question: may `key` spend `cost`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Key of the budget: see [`Decider::budget_key`].
    pub key: String,
    /// Tokens to take, look at, or put back.
    pub cost: Cost,
    /// Limit that came with the request. The operator's template bounds it.
    pub limit: Option<NamedLimit>,
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
    /// Puts back up to that many of the tokens that requests of this key took here lately. What the bucket would
    /// have lost in the meantime by being full is not put back, nor is what a budget's home granted.
    Refund(u64),
}

/// A limit that comes with the request: `tokens` each `per`, and `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NamedLimit {
    /// Tokens that each span of `per` makes.
    pub tokens: u64,
    /// The span.
    pub per: Duration,
    /// Maximum number of tokens at once.
    pub burst: u64,
}

/// The decision, and the state of the limit at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The decision.
    pub outcome: Outcome,
    /// Reason of a decision against the request, for people and logs.
    pub reason: Option<Reason>,
    /// Tokens per window of the whole budget; `None` if it is not known.
    pub limit: Option<u64>,
    /// The window, in whole seconds; `None` if no time makes the tokens, or if it is not known.
    pub window: Option<Duration>,
    /// Tokens that this decider can take now. It may be less than what is left of the budget, and it is 0 for
    /// a budget in central mode, which only its home knows.
    pub remaining: u64,
    /// Time until nothing is used any more.
    pub reset_after: Duration,
    /// Shortest wait after which a retry may succeed; `None` if the request was allowed, if waiting does not help,
    /// or if the wait is not known.
    pub retry_after: Option<Duration>,
}

/// Decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The tokens were taken, or would be.
    Allowed,
    /// The tokens are not there.
    OverLimit,
    /// The cost is above what the limit can ever give.
    Never,
    /// No budget applies to the key.
    NoBudget,
    /// There is no decision: no lease, or no node answered in time. Nothing was taken here.
    Unavailable,
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
}

impl Limiters for Client {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        Self::limiter(self, key)
    }
}

/// Decides the requests of all faces. Cloning is cheap, and all clones share one state.
#[derive(Clone)]
pub struct Decider {
    limiters: Arc<dyn Limiters>,
    rules: Arc<KeyRules>,
    held: Arc<Held>,
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
        }
    }

    /// Returns the budget's key for the key of a request.
    ///
    /// # Errors
    ///
    /// [`KeyProblem`] if no rule of the face matches, or if no budget can have such a key.
    pub fn budget_key(&self, face: Face, key: &[u8]) -> Result<Mapped<'_>, KeyProblem> {
        self.rules.budget_key(face, key)
    }

    /// Decides one question.
    pub async fn decide(&self, ask: &Ask) -> Answer {
        let held = match self.held(&ask.key) {
            Ok(held) => held,
            Err(answer) => return answer,
        };
        match ask.cost {
            Cost::Take(n) => match take(&held, n, Instant::now() + ask.within).await {
                Ok(reservation) => {
                    self.held.used(&held);
                    held.recent.add(reservation);
                    Answer::allowed(&held.limiter)
                }
                Err(refused) => self.refused(&held, refused),
            },
            Cost::Peek => self.peek(&held, ask.within).await,
            Cost::Refund(n) => {
                held.recent.refund(n);
                Answer::allowed(&held.limiter)
            }
        }
    }

    /// Decides several questions together: all are charged, or none is.
    ///
    /// The answers are in the order of the questions. If one is refused, the others are answered as they would have
    /// been. What the home of a budget in central mode granted cannot be put back: it stays charged
    /// if a later question is refused, so put such a key last. Refunds are made only if all other questions are
    /// allowed.
    pub async fn decide_all(&self, asks: &[Ask]) -> Vec<Answer> {
        let now = Instant::now();
        let mut taken: Vec<(Arc<HeldKey>, Option<Reservation>)> = Vec::with_capacity(asks.len());
        let mut failed = None;
        for ask in asks {
            let held = match self.held(&ask.key) {
                Ok(held) => held,
                Err(answer) => {
                    failed = Some(answer);
                    break;
                }
            };
            match self.part(&held, ask, now).await {
                Ok(reservation) => taken.push((held, reservation)),
                Err(answer) => {
                    failed = Some(answer);
                    break;
                }
            }
        }
        let Some(failed) = failed else {
            return self.book(asks, taken);
        };
        let at = taken.len();
        for (_, reservation) in taken.into_iter().rev() {
            if let Some(reservation) = reservation {
                reservation.settle(0);
            }
        }
        let others = asks
            .iter()
            .enumerate()
            .map(|(index, ask)| match index == at {
                true => failed.clone(),
                false => self.would(ask),
            });
        others.collect()
    }

    /// Decides several questions, each by itself.
    pub async fn decide_each(&self, asks: &[Ask]) -> Vec<Answer> {
        join_all(asks.iter().map(|ask| self.decide(ask))).await
    }

    /// Takes the tokens of one question among several.
    async fn part(
        &self,
        held: &Arc<HeldKey>,
        ask: &Ask,
        now: Instant,
    ) -> Result<Option<Reservation>, Answer> {
        match ask.cost {
            Cost::Take(n) => match take(held, n, now + ask.within).await {
                Ok(reservation) => Ok(Some(reservation)),
                Err(refused) => Err(self.refused(held, refused)),
            },
            Cost::Peek => match self.peek(held, ask.within).await {
                answer if answer.outcome == Outcome::Allowed => Ok(None),
                answer => Err(answer),
            },
            Cost::Refund(_) => Ok(None),
        }
    }

    /// Makes what all questions took final, and answers them.
    fn book(&self, asks: &[Ask], taken: Vec<(Arc<HeldKey>, Option<Reservation>)>) -> Vec<Answer> {
        let answers = asks.iter().zip(taken).map(|(ask, (held, reservation))| {
            match (ask.cost, reservation) {
                (Cost::Refund(n), _) => held.recent.refund(n),
                (_, Some(reservation)) => {
                    self.held.used(&held);
                    held.recent.add(reservation);
                }
                _ => {}
            }
            Answer::allowed(&held.limiter)
        });
        answers.collect()
    }

    /// Answers as a question would be answered now, without asking a node.
    fn would(&self, ask: &Ask) -> Answer {
        let held = match self.held(&ask.key) {
            Ok(held) => held,
            Err(answer) => return answer,
        };
        let n = match ask.cost {
            Cost::Take(n) => n,
            Cost::Peek => 1,
            Cost::Refund(_) => return Answer::allowed(&held.limiter),
        };
        match held.limiter.would_admit(n) {
            Ok(()) => Answer::allowed(&held.limiter),
            Err(refused) => Answer::refused(&held.limiter, refused),
        }
    }

    /// Looks at a key. Waits for its first use to be answered by a node.
    async fn peek(&self, held: &Arc<HeldKey>, within: Duration) -> Answer {
        // Nothing is taken, but the budget is known afterwards.
        if let Err(refused) = take(held, 0, Instant::now() + within).await {
            return self.refused(held, refused);
        }
        self.held.used(held);
        match held.limiter.would_admit(1) {
            Ok(()) => Answer::allowed(&held.limiter),
            Err(refused) => Answer::refused(&held.limiter, refused),
        }
    }

    fn held(&self, key: &str) -> Result<Arc<HeldKey>, Answer> {
        let held = self.held.get(key, || self.limiters.limiter(key));
        held.map_err(|refused| match refused {
            KeyRefused::Invalid { .. } => Answer::without(Outcome::NoBudget, Reason::NoBudget),
            KeyRefused::TooMany { .. } => Answer::without(Outcome::Unavailable, Reason::NoRoom),
            _ => Answer::without(Outcome::Unavailable, Reason::Closed),
        })
    }

    fn refused(&self, held: &Arc<HeldKey>, refused: Refused) -> Answer {
        let answer = Answer::refused(&held.limiter, refused);
        if matches!(answer.outcome, Outcome::OverLimit | Outcome::Never) {
            self.held.used(held);
        }
        answer
    }
}

/// Takes tokens that can be put back, and waits for a node at most until the deadline.
async fn take(held: &HeldKey, n: u64, deadline: Instant) -> Result<Reservation, Refused> {
    let taken = timeout_at(deadline, held.limiter.check_to_settle(n)).await;
    taken.unwrap_or_else(|_| Err(Reason::Undecided.into()))
}

impl Answer {
    /// Returns the answer to a request that was allowed.
    fn allowed(limiter: &Limiter) -> Self {
        Self::of(limiter, Outcome::Allowed)
    }

    /// Returns the answer to a request that was refused.
    fn refused(limiter: &Limiter, refused: Refused) -> Self {
        Self {
            reason: Some(refused.reason),
            retry_after: refused.retry_after,
            ..Self::of(limiter, Outcome::of(&refused))
        }
    }

    /// Returns the answer for a key that has no limiter.
    #[must_use]
    pub const fn without(outcome: Outcome, reason: Reason) -> Self {
        Self {
            outcome,
            reason: Some(reason),
            limit: None,
            window: None,
            remaining: 0,
            reset_after: Duration::ZERO,
            retry_after: None,
        }
    }

    fn of(limiter: &Limiter, outcome: Outcome) -> Self {
        let info = limiter.info_at(Combine::now(limiter));
        Self {
            outcome,
            reason: None,
            limit: info.map(|info| info.limit),
            window: info.and_then(|info| info.window).map(Duration::from_secs),
            remaining: info.map_or(0, |info| info.remaining),
            reset_after: info.and_then(|info| info.reset).unwrap_or_default(),
            retry_after: None,
        }
    }
}

impl Outcome {
    /// Returns the name, as in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::OverLimit => "over_limit",
            Self::Never => "never",
            Self::NoBudget => "no_budget",
            Self::Unavailable => "unavailable",
        }
    }

    /// Classifies a refusal. A template that has reached its maximum of keys is over the limit: its operator has
    /// bounded it, and a face that lets callers pass when nothing is decided must not let those pass.
    const fn of(refused: &Refused) -> Self {
        if refused.is_never() {
            return Self::Never;
        }
        match refused.reason {
            Reason::Throttled
            | Reason::Quota
            | Reason::Permits
            | Reason::ExceedsBurst
            | Reason::Frozen
            | Reason::MaxKeys
            | Reason::Shed => Self::OverLimit,
            Reason::WrongKind => Self::Never,
            Reason::NoBudget => Self::NoBudget,
            _ => Self::Unavailable,
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
