//! The streams, buckets and pools of one process.
//!
//! Inputs are reports, the ends of streams, and what was taken ([`Book::report`], [`Book::end`], [`Book::learn`],
//! [`Book::paid`]). The shell asks what it should do ([`Book::looks`], [`Book::asks`]), then has everything planned
//! ([`Book::plan`]) and sends one message for each stream that has one ([`Book::message`]).

use super::bucket::BucketName;
use super::pb::rate_limit_quota_response::BucketAction;
use super::pb::rate_limit_quota_response::bucket_action::{
    AbandonAction, BucketAction as Action, QuotaAssignmentAction,
};
use super::pb::rate_limit_quota_usage_reports::BucketQuotaUsage;
use super::pb::rate_limit_strategy::{BlanketRule, Strategy};
use super::pb::{self, BucketId, RateLimitQuotaResponse, RateLimitStrategy};
use super::pool::{Asked, Assignment, Budget, Fill, PLAN_EVERY, PartId, Pool, TTL};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Maximum number of buckets of a process. Further ones are denied and not remembered.
pub const BUCKETS_MAX: usize = 1 << 18;

/// Maximum number of actions of a message. The rest goes with the next one.
const ACTIONS_MAX: usize = 20_000;

/// Shortest time between two messages of a stream that has new buckets. Each message costs its reader time for all of
/// its buckets.
const FIRST_EVERY: Duration = Duration::from_millis(50);

/// Number of budgets above which not all of them are taken of in each pass, and the most passes to a turn.
const ASKS_MAX: usize = 4_096;
const TURNS_MAX: usize = 10;

/// Age of what is known of a budget, after which it is looked at again.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Place of a bucket's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The budget with this key.
    Key(String),
    /// None: this is assigned.
    None(Assignment),
}

/// A bucket that a stream subscribed to.
#[derive(Debug)]
struct Bucket {
    id: BucketId,
    name: BucketName,
    domain: bytes::Bytes,
    key: String,
    /// Set while the bucket waits to be sent.
    is_queued: bool,
}

#[derive(Debug, Default)]
struct Stream {
    slots: BTreeMap<(bytes::Bytes, BucketName), u32>,
    buckets: BTreeMap<u32, Bucket>,
    next_slot: u32,
    /// Buckets with a new assignment.
    queue: VecDeque<u32>,
    /// Buckets that were idle, and are to be forgotten by the data plane as well.
    idle: BTreeMap<(bytes::Bytes, BucketName), BucketId>,
    /// Actions for buckets that are not remembered.
    others: Vec<BucketAction>,
    is_fresh: bool,
    sent_at: Option<Duration>,
}

#[derive(Debug)]
struct Account {
    pool: Pool,
    looked_at: Option<Duration>,
}

/// All streams, buckets and pools.
#[derive(Debug, Default)]
pub struct Book {
    streams: BTreeMap<u64, Stream>,
    accounts: BTreeMap<String, Account>,
    next_stream: u64,
    buckets: usize,
    passes: usize,
}

impl Book {
    /// Opens a stream, and returns its number.
    pub fn open(&mut self) -> u64 {
        self.next_stream += 1;
        self.streams.insert(self.next_stream, Stream::default());
        self.next_stream
    }

    /// Takes one row of a report. `place` finds the budget of a new bucket. Returns false if the bucket cannot be
    /// answered. It is passed over then: its stream has other buckets.
    pub fn report(
        &mut self,
        stream: u64,
        domain: &bytes::Bytes,
        usage: BucketQuotaUsage,
        now: Duration,
        place: impl FnOnce(&BucketName) -> Place,
    ) -> bool {
        let Some(line) = self.streams.get_mut(&stream) else {
            return true;
        };
        let requests = usage
            .num_requests_allowed
            .saturating_add(usage.num_requests_denied);
        let id = usage.bucket_id.unwrap_or_default();
        let name = BucketName::from(&id);
        if !name.can_be_answered() {
            return false;
        }
        let name = (domain.clone(), name);
        if let Some(slot) = line.slots.get(&name) {
            let (slot, bucket) = (*slot, &line.buckets[slot]);
            let account = self.accounts.get_mut(&bucket.key);
            let idle = account.is_some_and(|it| it.pool.report((stream, slot), requests, now));
            if idle {
                self.abandon(stream, slot, now);
            }
            return true;
        }
        line.idle.remove(&name);
        let key = match place(&name.1) {
            Place::Key(key) if self.buckets < BUCKETS_MAX => key,
            Place::Key(_) => {
                line.answer(&id, Assignment::Deny);
                return true;
            }
            Place::None(instead) => {
                line.answer(&id, instead);
                return true;
            }
        };
        let slot = line.next_slot;
        line.next_slot = slot.wrapping_add(1);
        self.buckets += 1;
        let account = self.accounts.entry(key.clone()).or_insert_with(|| Account {
            pool: Pool::new(now),
            looked_at: None,
        });
        account.pool.join((stream, slot), requests, now);
        line.slots.insert(name.clone(), slot);
        let (domain, name) = name;
        line.buckets.insert(
            slot,
            Bucket {
                id,
                name,
                domain,
                key,
                is_queued: false,
            },
        );
        line.is_fresh = true;
        true
    }

    /// Forgets an idle bucket, and tells so.
    fn abandon(&mut self, stream: u64, slot: u32, now: Duration) {
        let Some(line) = self.streams.get_mut(&stream) else {
            return;
        };
        let Some(bucket) = line.buckets.remove(&slot) else {
            return;
        };
        let name = (bucket.domain, bucket.name);
        line.slots.remove(&name);
        line.idle.insert(name, bucket.id);
        self.buckets -= 1;
        self.drop_part(&bucket.key, (stream, slot), |pool, id| {
            pool.abandon(id, now)
        });
    }

    fn drop_part(&mut self, key: &str, id: PartId, drop: impl FnOnce(&mut Pool, PartId)) {
        if let Some(account) = self.accounts.get_mut(key) {
            drop(&mut account.pool, id);
            if account.pool.is_empty() {
                self.accounts.remove(key);
            }
        }
    }

    /// Ends a stream. What it was assigned is charged until it expires.
    pub fn end(&mut self, stream: u64, now: Duration) {
        let Some(line) = self.streams.remove(&stream) else {
            return;
        };
        self.buckets -= line.buckets.len();
        for (slot, bucket) in line.buckets {
            self.drop_part(&bucket.key, (stream, slot), |pool, id| pool.end(id, now));
        }
    }

    /// Returns the budgets that must be looked at, at most so many of those that wait longest, and notes that they are.
    pub fn looks(&mut self, most: usize, now: Duration) -> Vec<String> {
        let is_due = |account: &Account| {
            let old = |at: Duration| now >= at + LOOK_EVERY;
            account.pool.budget() == Budget::Awaited || account.looked_at.is_none_or(old)
        };
        let due = self.accounts.iter().filter(|(_, account)| is_due(account));
        let mut due: Vec<_> = due
            .map(|(key, account)| (account.looked_at, key.clone()))
            .collect();
        due.sort();
        due.truncate(most);
        let keys: Vec<String> = due.into_iter().map(|(_, key)| key).collect();
        for key in &keys {
            if let Some(account) = self.accounts.get_mut(key) {
                account.looked_at = Some(now);
            }
        }
        keys
    }

    /// Notes what a look at a budget told.
    pub fn learn(&mut self, key: &str, budget: Budget) {
        if let Some(account) = self.accounts.get_mut(key) {
            account.pool.learn(budget);
        }
    }

    /// Returns the tokens to take of each budget. Of many budgets, each has its turn in every second to tenth pass.
    pub fn asks(&mut self, now: Duration) -> Vec<(String, Asked)> {
        self.passes = self.passes.wrapping_add(1);
        let turns = (self.accounts.len() / ASKS_MAX + 1).min(TURNS_MAX);
        let accounts = self.accounts.iter_mut().enumerate();
        let accounts = accounts.filter(|(index, (_, account))| {
            account.pool.is_fresh() || (index + self.passes).is_multiple_of(turns)
        });
        let asks = accounts.map(|(_, (key, account))| (key, account.pool.ask(now)));
        asks.filter(|(_, asked)| asked.tokens > 0)
            .map(|(key, asked)| (key.clone(), asked))
            .collect()
    }

    /// Books what was taken of a budget.
    pub fn paid(&mut self, key: &str, asked: Asked, got: u64, now: Duration) {
        if let Some(account) = self.accounts.get_mut(key) {
            account.pool.paid(asked, got, now);
        }
    }

    /// Plans the budgets with new buckets, and if `all` is set those that are due.
    pub fn plan(&mut self, now: Duration, all: bool) {
        let Self {
            accounts, streams, ..
        } = self;
        accounts.retain(|_, account| {
            let due = account.pool.is_fresh() || (all && account.pool.is_due(now));
            if !due {
                return true;
            }
            for (stream, slot) in account.pool.plan(now) {
                if let Some(line) = streams.get_mut(&stream) {
                    line.enqueue(slot);
                }
            }
            !account.pool.is_empty()
        });
    }

    /// Returns the streams that have a message now: with new buckets at once, others at most once a second.
    #[must_use]
    pub fn ready(&self, now: Duration) -> Vec<u64> {
        let ready = self.streams.iter().filter(|(_, line)| {
            let least = match line.is_fresh {
                true => FIRST_EVERY,
                false => PLAN_EVERY - FIRST_EVERY,
            };
            let rested = line.sent_at.is_none_or(|at| now >= at + least);
            rested && !(line.queue.is_empty() && line.others.is_empty() && line.idle.is_empty())
        });
        ready.map(|(stream, _)| *stream).collect()
    }

    /// Returns the message of a stream.
    pub fn message(&mut self, stream: u64, now: Duration) -> RateLimitQuotaResponse {
        let Some(line) = self.streams.get_mut(&stream) else {
            return RateLimitQuotaResponse::default();
        };
        (line.sent_at, line.is_fresh) = (Some(now), false);
        let others = line.others.len().min(ACTIONS_MAX);
        let mut actions: Vec<BucketAction> = line.others.drain(..others).collect();
        while actions.len() < ACTIONS_MAX
            && let Some((_, id)) = line.idle.pop_first()
        {
            actions.push(BucketAction {
                bucket_id: Some(id),
                bucket_action: Some(Action::AbandonAction(AbandonAction {})),
            });
        }
        while actions.len() < ACTIONS_MAX
            && let Some(slot) = line.queue.pop_front()
        {
            let Some(bucket) = line.buckets.get_mut(&slot) else {
                continue;
            };
            bucket.is_queued = false;
            let account = self.accounts.get(&bucket.key);
            let assignment = account.and_then(|it| it.pool.assignment((stream, slot)));
            if let Some(assignment) = assignment {
                actions.push(action(&bucket.id, assignment));
            }
        }
        RateLimitQuotaResponse {
            bucket_action: actions,
        }
    }

    /// Returns the number of buckets.
    #[must_use]
    pub const fn buckets(&self) -> usize {
        self.buckets
    }

    /// Returns the number of budgets with an account.
    #[must_use]
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }
}

impl Stream {
    fn enqueue(&mut self, slot: u32) {
        if let Some(bucket) = self.buckets.get_mut(&slot)
            && !bucket.is_queued
        {
            bucket.is_queued = true;
            self.queue.push_back(slot);
        }
    }

    /// Answers a bucket that is not remembered: each report of it is answered.
    fn answer(&mut self, id: &BucketId, assignment: Assignment) {
        if self.others.len() < BUCKETS_MAX {
            self.others.push(action(id, assignment));
            self.is_fresh = true;
        }
    }
}

/// Returns the message that assigns.
fn action(id: &BucketId, assignment: Assignment) -> BucketAction {
    let strategy = match assignment {
        Assignment::Allow => Strategy::BlanketRule(BlanketRule::AllowAll.into()),
        Assignment::Deny => Strategy::BlanketRule(BlanketRule::DenyAll.into()),
        Assignment::Fill(fill) => Strategy::TokenBucket(token_bucket(fill)),
    };
    BucketAction {
        bucket_id: Some(id.clone()),
        bucket_action: Some(Action::QuotaAssignmentAction(QuotaAssignmentAction {
            assignment_time_to_live: Some(seconds(TTL.as_secs())),
            rate_limit_strategy: Some(RateLimitStrategy {
                strategy: Some(strategy),
            }),
        })),
    }
}

fn token_bucket(fill: Fill) -> pb::TokenBucket {
    let narrow = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
    pb::TokenBucket {
        max_tokens: narrow(fill.max),
        tokens_per_fill: Some(pb::UInt32Value {
            value: narrow(fill.tokens),
        }),
        fill_interval: Some(seconds(fill.interval_s)),
    }
}

fn seconds(seconds: u64) -> pb::Duration {
    pb::Duration {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanos: 0,
    }
}
