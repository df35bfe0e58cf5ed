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
use super::pool::{Asked, Assignment, Budget, Fill, PLAN_EVERY, Part, PartId, Pool, TTL};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Maximum number of buckets of a process. Further ones are denied and not remembered.
pub const BUCKETS_MAX: usize = 1 << 18;

/// Maximum number of buckets of a stream. Further ones are denied and not remembered.
pub const STREAM_BUCKETS_MAX: usize = 1 << 16;

/// Maximum number of actions of a message. The rest goes with the next one.
const ACTIONS_MAX: usize = 20_000;

/// Shortest time between two messages of a stream that has new buckets. Each message costs its reader time for all of
/// its buckets.
const FIRST_EVERY: Duration = Duration::from_millis(50);

/// Number of budgets above which not all of them are taken of in each pass, and the most passes to a turn.
const ASKS_MAX: usize = 4_096;
const TURNS_MAX: usize = 10;

/// Maximum number of bytes of the names of all buckets.
const NAMES_MAX: usize = 64 << 20;

/// Maximum number of bytes of the names in all actions for buckets that are not remembered.
const OTHERS_MAX: usize = 16 << 20;

/// Maximum number of bytes of such names of one stream, which may take no messages.
const STREAM_OTHERS_MAX: usize = OTHERS_MAX / 16;

/// Age of what is known of a budget, after which it is looked at again.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Place of a bucket's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The budget with this key.
    Key(String),
    /// No budget: every report of the bucket gets this assignment.
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
    idle: BTreeMap<(bytes::Bytes, BucketName), Idle>,
    /// Actions for buckets that are not remembered.
    others: Vec<BucketAction>,
    /// Bytes of the names in them.
    others_bytes: usize,
    is_fresh: bool,
    sent_at: Option<Duration>,
}

/// A bucket that its data plane does not know yet that it is to forget.
#[derive(Debug)]
struct Idle {
    id: BucketId,
    key: String,
    slot: u32,
    part: Option<Part>,
}

#[derive(Debug)]
struct Account {
    pool: Pool,
    looked_at: Option<Duration>,
    /// Set if the last look found nothing.
    is_unanswered: bool,
}

impl Account {
    fn new(now: Duration) -> Self {
        Self {
            pool: Pool::new(now),
            looked_at: None,
            is_unanswered: false,
        }
    }
}

/// All streams, buckets and pools.
#[derive(Debug)]
pub struct Book {
    streams: BTreeMap<u64, Stream>,
    accounts: BTreeMap<String, Account>,
    /// Maximum number of accounts.
    accounts_max: usize,
    next_stream: u64,
    buckets: usize,
    /// Number of buckets that are idle, and of parts whose streams ended. Both take memory as buckets do.
    idle: usize,
    ended: usize,
    /// Bytes of the names of buckets, idle ones included.
    names: usize,
    /// Bytes of the names in actions for buckets that are not remembered.
    others: usize,
    passes: usize,
}

impl Book {
    /// Creates an empty book for that many budgets. Buckets of further ones are denied and not remembered.
    #[must_use]
    pub const fn new(accounts_max: usize) -> Self {
        Self {
            streams: BTreeMap::new(),
            accounts: BTreeMap::new(),
            accounts_max,
            next_stream: 0,
            buckets: 0,
            idle: 0,
            ended: 0,
            names: 0,
            others: 0,
            passes: 0,
        }
    }

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
        if let Some(idle) = line.idle.remove(&name) {
            self.idle -= 1;
            self.names -= name_bytes(domain, &idle.id);
        }
        let held = self.buckets + self.idle + self.ended;
        let of_stream = line.buckets.len() + line.idle.len();
        let has_room = held < BUCKETS_MAX
            && of_stream < STREAM_BUCKETS_MAX
            && self.names + name_bytes(domain, &id) <= NAMES_MAX;
        let has_account = |key: &String| {
            self.accounts.len() < self.accounts_max || self.accounts.contains_key(key)
        };
        let key = match place(&name.1) {
            Place::Key(key) if has_room && has_account(&key) => key,
            other => {
                let instead = match other {
                    Place::Key(_) => Assignment::Deny,
                    Place::None(instead) => instead,
                };
                // A stream that takes nothing leaves room for the others.
                let room = OTHERS_MAX.saturating_sub(self.others);
                let of_stream = STREAM_OTHERS_MAX.saturating_sub(line.others_bytes);
                let room = room.min(of_stream);
                self.others += line.answer(&id, instead, requests, room);
                return true;
            }
        };
        self.place(stream, domain, &id, key, requests, now);
        true
    }

    /// Places a new bucket.
    fn place(
        &mut self,
        stream: u64,
        domain: &[u8],
        id: &BucketId,
        key: String,
        requests: u64,
        now: Duration,
    ) {
        let Some(line) = self.streams.get_mut(&stream) else {
            return;
        };
        // What was decoded is a slice of the whole report, and would keep it in memory.
        let id = copied(id);
        let name = (bytes::Bytes::copy_from_slice(domain), BucketName::from(&id));
        let slot = line.next_slot;
        line.next_slot = slot.wrapping_add(1);
        self.buckets += 1;
        self.names += name_bytes(domain, &id);
        let account = self.accounts.entry(key.clone());
        let account = account.or_insert_with(|| Account::new(now));
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
        self.buckets -= 1;
        self.idle += 1;
        let mut part = None;
        self.drop_part(&bucket.key, (stream, slot), |pool, id| {
            part = pool.abandon(id, now);
        });
        let idle = Idle {
            id: bucket.id,
            key: bucket.key,
            slot,
            part,
        };
        if let Some(line) = self.streams.get_mut(&stream) {
            line.idle.insert(name, idle);
        }
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
        self.idle -= line.idle.len();
        self.others -= line.others_bytes;
        for (slot, bucket) in line.buckets {
            self.names -= name_bytes(&bucket.domain, &bucket.id);
            self.ended += 1;
            self.drop_part(&bucket.key, (stream, slot), |pool, id| pool.end(id, now));
        }
        for ((domain, _), idle) in line.idle {
            self.names -= name_bytes(&domain, &idle.id);
            let Some(part) = idle.part else { continue };
            self.ended += 1;
            let account = self.accounts.entry(idle.key.clone());
            account.or_insert_with(|| Account::new(now));
            self.drop_part(&idle.key, (stream, idle.slot), |pool, id| {
                pool.lose(id, part, now);
            });
        }
    }

    /// Returns up to `most` budgets whose state must be read, those that wait longest first, and records that it is.
    pub fn looks(&mut self, most: usize, now: Duration) -> Vec<String> {
        let is_due = |account: &Account| {
            let age = match account.is_unanswered {
                true => PLAN_EVERY,
                false => LOOK_EVERY,
            };
            let old = |at: Duration| now >= at + age;
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

    /// Records the state of a budget. If two looks found nothing, its buckets are denied until one finds something.
    pub fn learn(&mut self, key: &str, budget: Budget) {
        let Some(account) = self.accounts.get_mut(key) else {
            return;
        };
        let was_unanswered = account.is_unanswered;
        account.is_unanswered = budget == Budget::Awaited;
        match (budget, was_unanswered) {
            (Budget::Awaited, false) => {}
            (Budget::Awaited, true) => account.pool.learn(Budget::Instead(Assignment::Deny)),
            (budget, _) => account.pool.learn(budget),
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

    /// Returns the tokens per second that each part of a budget wants, for the budgets with several parts.
    #[must_use]
    pub fn callers(&self) -> BTreeMap<String, Vec<u64>> {
        let accounts = self.accounts.iter();
        accounts
            .filter_map(|(key, account)| Some((key.clone(), account.pool.callers()?)))
            .collect()
    }

    /// Plans the budgets with new buckets, or all of them.
    pub fn plan(&mut self, now: Duration, all: bool) {
        let Self {
            accounts, streams, ..
        } = self;
        accounts.retain(|_, account| {
            if !(all || account.pool.is_fresh()) {
                return true;
            }
            for (stream, slot) in account.pool.plan(now) {
                if let Some(line) = streams.get_mut(&stream) {
                    line.enqueue(slot);
                }
            }
            !account.pool.is_empty()
        });
        if all {
            self.ended = self.accounts.values().map(|it| it.pool.ended()).sum();
        }
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
        // Renewals have a quarter of the message at least: what is not renewed in time expires.
        let others = line.others_bytes;
        let mut actions = line.take_others(ACTIONS_MAX / 2);
        self.others -= others - line.others_bytes;
        while actions.len() < ACTIONS_MAX / 4 * 3
            && let Some(((domain, _), idle)) = line.idle.pop_first()
        {
            self.idle -= 1;
            self.names -= name_bytes(&domain, &idle.id);
            actions.push(abandonment(idle.id));
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

    /// Returns the number of open streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
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
        // A reader that is behind leaves buckets here that were forgotten since.
        if self.queue.len() > 2 * self.buckets.len() {
            self.queue.retain(|slot| self.buckets.contains_key(slot));
        }
    }

    /// Answers a bucket that is not remembered: each report of it is answered, and one without a request abandons it.
    /// Returns the bytes of its name, or 0 if there are no more than `room` for it.
    fn answer(
        &mut self,
        id: &BucketId,
        assignment: Assignment,
        requests: u64,
        room: usize,
    ) -> usize {
        let size = name_bytes(&[], id);
        if self.others.len() >= STREAM_BUCKETS_MAX || size > room {
            return 0;
        }
        self.others_bytes += size;
        let id = copied(id);
        self.others.push(match requests {
            0 => abandonment(id),
            _ => action(&id, assignment),
        });
        self.is_fresh = true;
        size
    }

    /// Takes up to `most` of the actions for buckets that are not remembered.
    fn take_others(&mut self, most: usize) -> Vec<BucketAction> {
        let others = self.others.len().min(most);
        let actions: Vec<BucketAction> = self.others.drain(..others).collect();
        let ids = actions.iter().filter_map(|it| it.bucket_id.as_ref());
        self.others_bytes -= ids.map(|id| name_bytes(&[], id)).sum::<usize>();
        actions
    }
}

/// Returns the bytes of a name.
fn name_bytes(domain: &[u8], id: &BucketId) -> usize {
    let entries = id.bucket.iter();
    domain.len()
        + entries
            .map(|it| it.key.len() + it.value.len())
            .sum::<usize>()
}

/// Returns a name that shares no memory with a report.
fn copied(id: &BucketId) -> BucketId {
    let entries = id.bucket.iter().map(|entry| pb::bucket_id::Entry {
        key: bytes::Bytes::copy_from_slice(&entry.key),
        value: bytes::Bytes::copy_from_slice(&entry.value),
    });
    BucketId {
        bucket: entries.collect(),
    }
}

/// Returns the message that abandons.
const fn abandonment(id: BucketId) -> BucketAction {
    BucketAction {
        bucket_id: Some(id),
        bucket_action: Some(Action::AbandonAction(AbandonAction {})),
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

#[cfg(test)]
#[path = "../../tests/unit/rlqs/book.rs"]
mod tests;
