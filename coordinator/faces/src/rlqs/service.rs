//! The service: the streams, the clock, and the task that takes tokens and sends messages.

use super::book::{Book, Place};
use super::bucket::BucketName;
use super::pb::rate_limit_quota_service_server::{
    RateLimitQuotaService, RateLimitQuotaServiceServer,
};
use super::pb::{RateLimitQuotaResponse, RateLimitQuotaUsageReports};
use super::pool::{Asked, Assignment, Budget, PLAN_EVERY};
use crate::decider::{Answer, Ask, Cost, Decider, Outcome, now};
use crate::rules::{Face, KeyProblem};
use crate::scope::Scope;
use aliquot_client::Reason;
use bytes::Bytes;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Maximum number of bytes of a report: tens of thousands of buckets are several MiB.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Maximum number of streams of a process.
pub const STREAMS_MAX: usize = 4_096;

/// Interval at which tokens are taken. A budget whose burst is smaller than what its rate makes in this time is not used
/// in full.
const PASS_EVERY: Duration = Duration::from_millis(100);

/// Time for the first reports of several buckets to come, so that they are answered in one message.
const COLLECT: Duration = Duration::from_millis(2);

/// Maximum wait for a node: for a budget that is used for the first time, or in central mode.
const WITHIN: Duration = Duration::from_millis(250);

/// Number of budgets that are looked at in a pass. Those that no node knows yet must not delay the others for long.
const LOOKS_AT_ONCE: usize = 4_096;

/// Number of budgets of which tokens are taken at the same time.
const ASKS_AT_ONCE: usize = 1_024;

/// One log line stands for this many buckets that cannot be answered, or are denied.
const LOG_EVERY: u64 = 1_024;

/// Rows of a report that are booked without giving way to other streams.
const ROWS_AT_ONCE: usize = 1_024;

/// Assignment of buckets that no rule and no budget covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uncovered {
    /// All requests are allowed, as the rate limit service allows descriptors without a rule.
    #[default]
    Allow,
    /// All requests are denied.
    Deny,
}

impl Uncovered {
    const fn assignment(self) -> Assignment {
        match self {
            Self::Allow => Assignment::Allow,
            Self::Deny => Assignment::Deny,
        }
    }
}

/// Error of a text that is neither `allow` nor `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be allow or deny")]
pub struct UnknownChoice;

impl FromStr for Uncovered {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        match text {
            "allow" => Ok(Self::Allow),
            "deny" => Ok(Self::Deny),
            _ => Err(UnknownChoice),
        }
    }
}

/// The rate limit quota service. Cloning is cheap, and all clones share one state.
#[derive(Clone)]
pub struct Rlqs {
    shared: Arc<Shared>,
}

struct Shared {
    decider: Decider,
    uncovered: Uncovered,
    begun: Instant,
    state: Mutex<State>,
    /// Wakes the task for a new bucket.
    wake: Notify,
    stopping: watch::Sender<bool>,
    /// Number of rows for buckets that cannot be answered.
    unanswered: AtomicU64,
    /// Number of rows for buckets that are denied because of their keys.
    denied: AtomicU64,
}

#[derive(Debug)]
struct State {
    book: Book,
    /// Keys of the budgets for which several callers were reported to the cluster.
    shared: BTreeSet<String>,
    senders: BTreeMap<u64, mpsc::Sender<Result<RateLimitQuotaResponse, Status>>>,
}

impl fmt::Debug for Rlqs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rlqs").finish_non_exhaustive()
    }
}

impl Rlqs {
    /// Creates the service and starts its task, which ends with the last clone.
    ///
    /// # Panics
    ///
    /// If it is called outside of a tokio runtime.
    #[must_use]
    pub fn new(decider: Decider, uncovered: Uncovered) -> Self {
        let shared = Arc::new(Shared {
            uncovered,
            begun: now(),
            state: Mutex::new(State {
                // The other half of the keys in memory is left to other faces.
                book: Book::new((decider.keys_max() / 2).max(1)),
                shared: BTreeSet::new(),
                senders: BTreeMap::new(),
            }),
            decider,
            wake: Notify::new(),
            stopping: watch::Sender::new(false),
            unanswered: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        });
        tokio::spawn(run(Arc::downgrade(&shared)));
        Self { shared }
    }

    /// Returns the gRPC service. Its port must check who is calling.
    #[must_use]
    pub fn server(&self) -> RateLimitQuotaServiceServer<Self> {
        RateLimitQuotaServiceServer::new(self.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Ends all streams. Their readers open them again elsewhere.
    pub fn stop(&self) {
        self.shared.stopping.send_replace(true);
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.shared.lock().book.streams()
    }

    /// Returns the number of buckets of all streams.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.shared.lock().book.buckets()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic between two inputs leaves a whole book.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        now().saturating_duration_since(self.begun)
    }

    /// Books a report, a part at a time: other streams are served in between.
    async fn report(&self, stream: u64, scope: &Scope, report: RateLimitQuotaUsageReports) {
        let RateLimitQuotaUsageReports {
            domain,
            bucket_quota_usages: usages,
        } = report;
        let now = self.now();
        let mut usages = usages.into_iter();
        while !usages.as_slice().is_empty() {
            {
                let mut state = self.lock();
                for usage in usages.by_ref().take(ROWS_AT_ONCE) {
                    let place = |name: &BucketName| self.place(scope, &domain, name);
                    if !state.book.report(stream, &domain, usage, now, place) {
                        self.note_unanswered();
                    }
                }
            }
            tokio::task::yield_now().await;
        }
        self.wake.notify_one();
    }

    /// Logs that a bucket cannot be answered: at the first one, and then seldom.
    fn note_unanswered(&self) {
        let before = self.unanswered.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(LOG_EVERY) {
            tracing::warn!(
                "a bucket has no name, or one that is not UTF-8: no assignment can be sent for it, and \
                 no_assignment_behavior decides its requests"
            );
        }
    }

    /// Returns the budget of a bucket.
    fn place(&self, scope: &Scope, domain: &Bytes, name: &BucketName) -> Place {
        let asked = name.key(domain);
        match self.decider.budget_key(Face::Rlqs, scope, asked.as_bytes()) {
            Ok(mapped) => Place::Key(mapped.key),
            Err(KeyProblem::NoRule { .. }) => Place::None(self.uncovered.assignment()),
            Err(problem) => {
                self.note_denied(&problem);
                Place::None(Assignment::Deny)
            }
        }
    }

    /// Logs that a bucket is denied: at the first one, and then seldom, since callers choose the keys.
    fn note_denied(&self, problem: &KeyProblem) {
        let before = self.denied.fetch_add(1, Ordering::Relaxed);
        if before.is_multiple_of(LOG_EVERY) {
            tracing::warn!(%problem, "a bucket is denied");
        }
    }

    /// Returns what is known of a budget.
    async fn look(&self, key: &str) -> Budget {
        let ask = Ask {
            key: key.to_owned(),
            cost: Cost::Peek,
            within: WITHIN,
        };
        let answer = self.decider.decide(&ask).await;
        match (answer.outcome, limit(&answer)) {
            // A budget of another kind is a mistake of the operator, who meant to limit.
            (Outcome::NoBudget, _) if answer.reason == Some(Reason::WrongKind) => {
                Budget::Instead(Assignment::Deny)
            }
            (Outcome::NoBudget, _) => Budget::Instead(self.uncovered.assignment()),
            (_, Some(limit)) => Budget::Known { limit },
            (Outcome::Allowed, None) => Budget::Known { limit: 0 },
            (Outcome::Unavailable, None) => Budget::Awaited,
            (Outcome::OverLimit | Outcome::Never, None) => Budget::Instead(Assignment::Deny),
        }
    }

    /// Takes up to the tokens that were asked for, and returns the number taken. The rest of the new ones is asked for as well, so
    /// that the cluster knows of the demand.
    async fn take(&self, key: &str, asked: Asked) -> u64 {
        let tokens = asked.tokens;
        let ask = |cost, within| {
            let ask = Ask {
                key: key.to_owned(),
                cost,
                within,
            };
            async move { self.decider.decide(&ask).await }
        };
        let Some(there) = ask(Cost::Peek, WITHIN).await.remaining else {
            return self.take_central(key, tokens).await;
        };
        let most = there.min(tokens);
        let got = match most {
            0 => 0,
            most => match ask(Cost::Take(most), Duration::ZERO).await.outcome {
                Outcome::Allowed => most,
                _ => 0,
            },
        };
        match asked.new.saturating_sub(got) {
            0 => got,
            rest => match ask(Cost::Take(rest), Duration::ZERO).await.outcome {
                Outcome::Allowed => got + rest,
                _ => got,
            },
        }
    }

    /// Takes tokens of a budget in central mode, whose home alone knows what is left: all, else half, else one.
    async fn take_central(&self, key: &str, tokens: u64) -> u64 {
        let mut tries = vec![tokens, tokens / 2, 1];
        tries.dedup();
        for cost in tries.into_iter().filter(|cost| *cost > 0) {
            let ask = Ask {
                key: key.to_owned(),
                cost: Cost::Take(cost),
                within: WITHIN,
            };
            match self.decider.decide(&ask).await.outcome {
                Outcome::Allowed => return cost,
                Outcome::OverLimit | Outcome::Never => {}
                Outcome::NoBudget | Outcome::Unavailable => return 0,
            }
        }
        0
    }

    /// Tells the cluster what each part wants, so that the limit is divided among the parts of all processes.
    fn tell_callers(&self, state: &mut State) {
        let callers = state.book.callers();
        let are_alone = state
            .shared
            .iter()
            .filter(|key| !callers.contains_key(*key));
        for key in are_alone {
            self.decider.set_callers(key, &[]);
        }
        for (key, demands) in &callers {
            self.decider.set_callers(key, demands);
        }
        state.shared = callers.into_keys().collect();
    }

    /// Looks, takes, plans and sends.
    async fn pass(&self, all: bool) {
        let looks = self.lock().book.looks(LOOKS_AT_ONCE, self.now());
        if !looks.is_empty() {
            let budgets = join_all(looks.iter().map(|key| self.look(key))).await;
            let mut state = self.lock();
            for (key, budget) in looks.iter().zip(budgets) {
                state.book.learn(key, budget);
            }
        }
        let asks = self.lock().book.asks(self.now());
        for asks in asks.chunks(ASKS_AT_ONCE) {
            let taken = asks.iter().map(|(key, asked)| self.take(key, *asked));
            let taken = join_all(taken).await;
            let now = self.now();
            let mut state = self.lock();
            for ((key, asked), got) in asks.iter().zip(taken) {
                state.book.paid(key, *asked, got, now);
            }
        }
        let now = self.now();
        let mut state = self.lock();
        state.book.plan(now, all);
        if all {
            self.tell_callers(&mut state);
        }
        let State { book, senders, .. } = &mut *state;
        for stream in book.ready(now) {
            // A reader that is behind gets the latest state once it has read.
            if let Some(sender) = senders.get(&stream)
                && let Ok(permit) = sender.try_reserve()
            {
                permit.send(Ok(book.message(stream, now)));
            }
        }
    }
}

/// Returns the limit in millionths of a token per second. Of a quota it is the mean rate of a period.
fn limit(answer: &Answer) -> Option<u64> {
    let window = answer.window?.as_secs().max(1);
    let micro = u128::from(answer.limit?) * 1_000_000 / u128::from(window);
    Some(
        u64::try_from(micro)
            .unwrap_or(u64::MAX >> 8)
            .min(u64::MAX >> 8),
    )
}

/// Runs passes as long as the service is used.
async fn run(shared: Weak<Shared>) {
    let mut passes = interval(PASS_EVERY);
    passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut planned = Duration::ZERO;
    loop {
        let Some(service) = shared.upgrade() else {
            return;
        };
        let fresh = tokio::select! {
            _ = passes.tick() => false,
            () = service.wake.notified() => true,
        };
        if fresh {
            tokio::time::sleep(COLLECT).await;
        }
        let now = service.now();
        let all = now >= planned + PLAN_EVERY;
        if all {
            planned = now;
        }
        service.pass(all).await;
    }
}

/// Ends a stream when its reader or its writer is gone.
struct Open {
    shared: Arc<Shared>,
    stream: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.senders.remove(&self.stream);
        state.book.end(self.stream, now);
    }
}

#[tonic::async_trait]
impl RateLimitQuotaService for Rlqs {
    type StreamRateLimitQuotasStream = ReceiverStream<Result<RateLimitQuotaResponse, Status>>;

    async fn stream_rate_limit_quotas(
        &self,
        request: Request<Streaming<RateLimitQuotaUsageReports>>,
    ) -> Result<Response<Self::StreamRateLimitQuotasStream>, Status> {
        let scope = request.extensions().get::<Scope>().cloned();
        let scope = scope.unwrap_or_default();
        let mut reports = request.into_inner();
        let (sender, receiver) = mpsc::channel(2);
        let open = {
            let mut state = self.shared.lock();
            if state.book.streams() >= STREAMS_MAX {
                let what = format!("this process has {STREAMS_MAX} streams, its maximum");
                return Err(Status::resource_exhausted(what));
            }
            let stream = state.book.open();
            state.senders.insert(stream, sender.clone());
            Open {
                shared: Arc::clone(&self.shared),
                stream,
            }
        };
        let mut stopping = self.shared.stopping.subscribe();
        tokio::spawn(async move {
            loop {
                let report = tokio::select! {
                    report = reports.message() => report,
                    () = sender.closed() => break,
                    _ = stopping.wait_for(|stopping| *stopping) => break,
                };
                match report {
                    Ok(Some(report)) => open.shared.report(open.stream, &scope, report).await,
                    Ok(None) => break,
                    Err(status) => {
                        tracing::debug!(%status, "a stream of quotas ended");
                        break;
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rlqs/service.rs"]
mod tests;
