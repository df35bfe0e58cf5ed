//! Account of one budget: the tokens taken of it, and the fills that they pay for.
//!
//! ```text
//!   credit = tokens taken − new or larger buckets − fills since they were assigned
//! ```
//!
//! Each pass asks for what the parts want until the next one ([`Pool::ask`]) and books what was taken
//! ([`Pool::paid`]). Each plan assigns what the last second's tokens pay for ([`Pool::plan`]). The credit is kept at a
//! second's fills, so a plan that must cut is in force before the credit is used up.

use super::divide::{Division, MICRO, divide};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Time to live of an assignment: the shortest that every data plane keeps.
pub const TTL: Duration = Duration::from_secs(15);

/// Time for which an assignment is charged. A data plane counts from its receipt.
const CHARGED_FOR: Duration = Duration::from_secs(TTL.as_secs() + PLAN_EVERY.as_secs());

/// Age at which an assignment is sent again. Two such messages may be late or lost before it expires.
const RENEW_AFTER: Duration = Duration::from_secs(5);

/// Interval of plans.
pub const PLAN_EVERY: Duration = Duration::from_secs(1);

/// Shortest time over which a demand is measured.
const MEASURED: Duration = Duration::from_secs(1);

/// Tokens that are wanted beyond the measured demand, as its fraction: demand is random, and a data plane
/// cannot ask for more at once.
const HEADROOM: u64 = 4;

/// Tokens after which it is known what a scarce budget gives, and the longest time for that.
const TOKENS_IN_WINDOW: u64 = 4;
const WINDOW_MAX: Duration = Duration::from_secs(86_400);

/// Fraction by which assignments may exceed what can be assigned: the credit pays for it until the next plan.
const OVER: u64 = 20;

/// A bucket that is too large by no more than this fraction of its size, or by two tokens, stays as it is.
const KEPT_LARGER: u64 = 4;

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Maximum number of tokens.
    pub max: u64,
    /// Tokens of each fill.
    pub tokens: u64,
    /// Interval of fills, in seconds.
    pub interval_s: u64,
}

impl Fill {
    /// Returns millionths of a token per second, rounded up.
    #[must_use]
    pub fn rate(self) -> u64 {
        let micro = u128::from(self.tokens) * u128::from(MICRO);
        u64::try_from(micro.div_ceil(self.interval_s.max(1).into())).unwrap_or(u64::MAX)
    }
}

/// Assignment of one bucket to one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignment {
    /// All requests are allowed.
    Allow,
    /// All requests are denied.
    Deny,
    /// Requests take tokens.
    Fill(Fill),
}

impl Assignment {
    fn rate(self) -> u64 {
        match self {
            Self::Fill(fill) => fill.rate(),
            Self::Allow | Self::Deny => 0,
        }
    }
}

/// A bucket of a stream: the number of the stream, and of the bucket in it.
pub type PartId = (u64, u32);

/// State of the budget, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Nothing is known yet.
    Awaited,
    /// Tokens can be taken. The limit is in millionths of a token per second.
    Known {
        /// The limit.
        limit: u64,
    },
    /// No budget applies, or the caller may not use it: this is assigned instead.
    Instead(Assignment),
}

/// Account of a part.
#[derive(Clone, Debug)]
pub struct Part {
    /// Measured demand; `None` until it is measured.
    demand: Option<u64>,
    /// Requests since the demand was measured.
    requests: u64,
    measured_at: Duration,
    assigned: Option<Assignment>,
    assigned_at: Duration,
    /// Largest rate that the data plane may still use if it did not receive the last assignment.
    peak: u64,
    peak_until: Duration,
    /// Set once the stream ended.
    ended: bool,
}

impl Part {
    fn rate(&self) -> u64 {
        self.assigned.map_or(0, Assignment::rate)
    }

    /// Returns the assignment, unless the data plane may have lost it: a bucket that comes after that is full.
    fn kept(&self, now: Duration) -> Option<Assignment> {
        self.assigned.filter(|_| now < self.assigned_at + TTL)
    }

    /// Returns the rate that is paid for.
    fn charged(&self, now: Duration) -> u64 {
        match self.ended && now < self.peak_until {
            true => self.rate().max(self.peak),
            false => self.rate(),
        }
    }

    fn has_expired(&self, now: Duration) -> bool {
        let charged = self.assigned.is_some_and(|it| it.rate() > 0) || now < self.peak_until;
        !charged || now >= self.assigned_at + CHARGED_FOR
    }
}

/// Tokens taken of the budget in one pass.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: Duration,
    got: u64,
    is_short: bool,
}

/// Tokens to take of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Tokens to take; zero asks for nothing.
    pub tokens: u64,
    /// Those among them that were not asked for before, and so are new demand.
    pub new: u64,
}

/// Account of one budget.
#[derive(Clone, Debug)]
pub struct Pool {
    parts: BTreeMap<PartId, Part>,
    budget: Budget,
    /// Millionths of a token.
    credit: i64,
    /// Sum of the rates that are charged.
    charged: u64,
    /// Sum of what the parts want.
    wanted: u128,
    charged_until: Duration,
    /// Millionths of a token that were wanted, and not asked for yet.
    unasked: u64,
    /// Tokens that were asked for, and not given yet.
    unmet: u64,
    asked_at: Duration,
    /// Tokens taken lately: see [`Pool::window`].
    taken: VecDeque<Taken>,
    interval_s: u64,
    /// Set if a part waits for its first assignment.
    is_fresh: bool,
    planned_at: Duration,
}

impl Pool {
    /// Creates the account of a budget of which nothing is known.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            parts: BTreeMap::new(),
            budget: Budget::Awaited,
            credit: 0,
            charged: 0,
            wanted: 0,
            charged_until: now,
            unasked: 0,
            unmet: 0,
            asked_at: now,
            taken: VecDeque::new(),
            interval_s: 1,
            is_fresh: false,
            planned_at: now,
        }
    }

    /// Returns true if it has no parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns true if a part waits for its first assignment.
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Returns the state of the budget.
    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    /// Returns what was taken and not used, in millionths of a token; negative if more was used.
    #[must_use]
    pub const fn credit(&self) -> i64 {
        self.credit
    }

    /// Returns the sum of the rates that data planes may use, in millionths of a token per second.
    #[must_use]
    pub const fn charged(&self) -> u64 {
        self.charged
    }

    /// Adds a part whose stream reported this number of requests. With none, it wants a token a second; with any, as
    /// much as it gets, until its demand is measured.
    pub fn join(&mut self, id: PartId, requests: u64, now: Duration) {
        self.settle(now);
        let part = Part {
            demand: (requests == 0).then_some(0),
            requests: 0,
            measured_at: now,
            assigned: None,
            assigned_at: now,
            peak: 0,
            peak_until: Duration::ZERO,
            ended: false,
        };
        let want = self.want(&part);
        self.wanted += u128::from(want);
        self.parts.insert(id, part);
        self.is_fresh = true;
        self.ask_for_first(want);
    }

    /// Asks at once for the buckets of parts that want so much.
    fn ask_for_first(&mut self, want: u64) {
        let tokens = u128::from(want) * self.window().as_nanos() / 1_000_000_000;
        let tokens = u64::try_from(tokens).unwrap_or(u64::MAX);
        let most = self.most().max(MICRO * TOKENS_IN_WINDOW);
        self.unasked = self.unasked.saturating_add(tokens).min(most);
    }

    /// Notes a report of a part. Returns true if the part is idle: it had no request in a measured time.
    pub fn report(&mut self, id: PartId, requests: u64, now: Duration) -> bool {
        let Some(part) = self.parts.get_mut(&id) else {
            return false;
        };
        part.requests = part.requests.saturating_add(requests);
        let span = now.saturating_sub(part.measured_at);
        if span < MEASURED {
            return false;
        }
        let micro = u128::from(part.requests) * u128::from(MICRO) * 1_000 / span.as_millis().max(1);
        let rate = u64::try_from(micro).unwrap_or(u64::MAX);
        // A rise counts at once, and a fall by halves: one quiet report is no trend.
        let before = part.clone();
        part.demand = Some(match part.demand {
            Some(before) if rate < before => rate + (before - rate) / 2,
            _ => rate,
        });
        let idle = part.requests == 0;
        (part.requests, part.measured_at) = (0, now);
        let after = part.clone();
        self.wanted -= u128::from(self.want(&before));
        self.wanted += u128::from(self.want(&after));
        idle
    }

    /// Removes a part that its data plane is to forget, and returns it.
    pub fn abandon(&mut self, id: PartId, now: Duration) -> Option<Part> {
        self.settle(now);
        let part = self.parts.remove(&id)?;
        // It may be used until the message arrives, for which a second is allowed.
        self.credit = self.credit.saturating_sub_unsigned(part.rate());
        self.charged -= part.rate();
        self.wanted -= u128::from(self.want(&part));
        Some(part)
    }

    /// Charges an abandoned part until its assignment expires: its stream ended before the data plane was told.
    pub fn lose(&mut self, id: PartId, part: Part, now: Duration) {
        self.settle(now);
        let ended = Part {
            ended: true,
            ..part
        };
        if !ended.has_expired(now) {
            self.charged += ended.charged(now);
            self.parts.insert(id, ended);
        }
    }

    /// Returns the number of parts whose streams ended.
    #[must_use]
    pub fn ended(&self) -> usize {
        self.parts.values().filter(|part| part.ended).count()
    }

    /// Notes that a stream ended. Its part is charged until the assignment expires.
    pub fn end(&mut self, id: PartId, now: Duration) {
        self.settle(now);
        let Some(part) = self.parts.get(&id) else {
            return;
        };
        self.wanted -= u128::from(self.want(part));
        self.charged -= part.rate();
        let ended = Part {
            ended: true,
            ..part.clone()
        };
        match ended.has_expired(now) {
            true => drop(self.parts.remove(&id)),
            false => {
                self.charged += ended.charged(now);
                self.parts.insert(id, ended);
            }
        }
    }

    /// Notes what is known of the budget.
    pub fn learn(&mut self, budget: Budget) {
        if self.budget == budget {
            return;
        }
        let first = !matches!(self.budget, Budget::Known { .. });
        self.budget = budget;
        let parts = self.parts.values();
        self.wanted = parts.map(|part| u128::from(self.want(part))).sum();
        if first && matches!(budget, Budget::Known { .. }) {
            self.is_fresh = self.parts.values().any(|part| !part.ended);
            (self.unasked, self.unmet) = (0, 0);
            self.ask_for_first(self.wants());
        }
    }

    fn limit(&self) -> u64 {
        match self.budget {
            Budget::Known { limit } => limit,
            Budget::Awaited | Budget::Instead(_) => 0,
        }
    }

    /// Returns the most that is worth asking for in a second: what the limit makes, and a part of it to grow.
    fn most(&self) -> u64 {
        let limit = self.limit();
        limit.saturating_add(limit / HEADROOM).max(MICRO)
    }

    /// Returns the rate that a part wants.
    fn want(&self, part: &Part) -> u64 {
        let want = match part.demand {
            None => self.limit(),
            Some(demand) => demand.saturating_add(demand / HEADROOM),
        };
        match part.ended {
            true => 0,
            // A part that had no request lately may have one at any time.
            false => want.clamp(MICRO.min(self.most()), self.most()),
        }
    }

    /// Returns the tokens per second that each part of a known budget wants, if there are several: the cluster divides
    /// the limit among the parts of all processes.
    #[must_use]
    pub fn callers(&self) -> Option<Vec<u64>> {
        let live = || self.parts.values().filter(|part| !part.ended);
        let several = matches!(self.budget, Budget::Known { .. }) && live().nth(1).is_some();
        let tokens = |part: &Part| self.want(part).div_ceil(MICRO);
        several.then(|| live().map(tokens).collect())
    }

    fn wants(&self) -> u64 {
        let wanted = u64::try_from(self.wanted).unwrap_or(u64::MAX);
        wanted.min(self.most())
    }

    /// Returns the time over which it is measured what the budget gives: a second, or that of some tokens.
    fn window(&self) -> Duration {
        let nanos = u128::from(TOKENS_IN_WINDOW * MICRO) * 1_000_000_000;
        let nanos = nanos / u128::from(self.wants().max(1));
        let nanos = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        nanos.clamp(PLAN_EVERY, WINDOW_MAX)
    }

    /// Charges what was assigned until now.
    fn settle(&mut self, now: Duration) {
        // After a pause, all that was assigned before it has expired.
        let until = now.min(self.planned_at + CHARGED_FOR);
        let nanos = until.saturating_sub(self.charged_until).as_nanos();
        let used = (u128::from(self.charged) * nanos).div_ceil(1_000_000_000);
        let used = i64::try_from(used).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_sub(used);
        self.charged_until = self.charged_until.max(now);
    }

    fn settle_rate(&mut self, now: Duration) {
        let parts = self.parts.values();
        self.charged = parts.fold(0, |sum, part| sum + part.charged(now));
    }

    /// Removes what expired.
    fn expire(&mut self, now: Duration) {
        self.parts
            .retain(|_, part| !(part.ended && part.has_expired(now)));
        self.settle_rate(now);
    }

    /// Returns the credit that is kept: a second of what is charged, or will be.
    fn kept(&self) -> u64 {
        let wants = self.wants();
        self.charged.max(match self.is_short() {
            true => self.given_rate().min(wants),
            false => wants,
        })
    }

    /// Returns true if the budget did not give all that was asked for in the window.
    fn is_short(&self) -> bool {
        self.taken.iter().any(|taken| taken.is_short)
    }

    /// Returns the rate at which the budget gave tokens in the window.
    fn given_rate(&self) -> u64 {
        let got = self.taken.iter().fold(0, |sum, taken| sum + taken.got);
        per_second(u128::from(got) * u128::from(MICRO), self.window())
    }

    /// Returns the tokens to take now.
    pub fn ask(&mut self, now: Duration) -> Asked {
        self.settle(now);
        if !matches!(self.budget, Budget::Known { .. }) {
            self.asked_at = now;
            return Asked::default();
        }
        let wants = self.wants();
        let missing = i128::from(self.kept()) - i128::from(self.credit);
        // What is missing is asked for within a second, and a surplus is used within one.
        let rate = (i128::from(wants) + missing).clamp(0, i128::from(wants).saturating_mul(2));
        let nanos = now.saturating_sub(self.asked_at).min(PLAN_EVERY).as_nanos();
        let more = rate.unsigned_abs() * nanos / 1_000_000_000;
        self.asked_at = now;
        let unasked = u128::from(self.unasked) + more;
        self.unasked = u64::try_from(unasked % u128::from(MICRO)).unwrap_or(0);
        let new = u64::try_from(unasked / u128::from(MICRO)).unwrap_or(u64::MAX);
        // What was not given is tried for a second: a budget with a small burst makes its tokens one by one.
        let most = wants.div_ceil(MICRO).max(new);
        Asked {
            tokens: new.saturating_add(self.unmet).min(most),
            new,
        }
    }

    /// Books that `got` of the tokens that were asked for were taken.
    pub fn paid(&mut self, asked: Asked, got: u64, now: Duration) {
        self.settle(now);
        self.unmet = asked.tokens.saturating_sub(got);
        let micro = i64::try_from(u128::from(got) * u128::from(MICRO)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(micro);
        self.taken.push_back(Taken {
            at: now,
            got,
            is_short: self.unmet > 0,
        });
    }

    fn forget_old(&mut self, now: Duration) {
        let window = self.window();
        while self.taken.front().is_some_and(|it| it.at + window <= now) {
            self.taken.pop_front();
        }
    }

    /// Returns the rate that can be assigned: the rate at which tokens were given, corrected so that the credit moves
    /// to what is kept in two windows.
    fn able(&self) -> u64 {
        let wants = i128::from(self.wants());
        let credit = i128::from(self.credit);
        let able = match self.is_short() || self.taken.is_empty() {
            false => wants + credit.min(0),
            true => {
                let given = i128::from(self.given_rate());
                let surplus = credit - given;
                let rate = i128::from(per_second(surplus.unsigned_abs(), self.window() * 2));
                given + rate * surplus.signum()
            }
        };
        u64::try_from(able.clamp(0, wants)).unwrap_or(0)
    }

    /// Assigns anew, at most once a second unless a part waits. Returns the parts whose assignments must be sent.
    pub fn plan(&mut self, now: Duration) -> Vec<PartId> {
        self.settle(now);
        self.expire(now);
        self.forget_old(now);
        (self.is_fresh, self.planned_at) = (false, now);
        match self.budget {
            Budget::Awaited => {
                self.is_fresh = self.parts.values().any(|it| it.assigned.is_none());
                Vec::new()
            }
            Budget::Instead(instead) => {
                let live: Vec<PartId> = self.live().collect();
                let assign = |id: &PartId| self.assign(*id, instead, now);
                let changed = live.into_iter().filter(assign).collect();
                self.settle_rate(now);
                changed
            }
            Budget::Known { .. } => self.plan_fills(now),
        }
    }

    fn live(&self) -> impl Iterator<Item = PartId> {
        let live = self.parts.iter().filter(|(_, part)| !part.ended);
        live.map(|(id, _)| *id)
    }

    fn plan_fills(&mut self, now: Duration) -> Vec<PartId> {
        let ended = self.parts.values().filter(|part| part.ended);
        let ended = ended.fold(0_u64, |sum, part| sum + part.charged(now));
        let able = self.able().saturating_sub(ended);
        let live: Vec<PartId> = self.live().collect();
        let wants: Vec<u64> = live.iter().map(|id| self.want(&self.parts[id])).collect();
        let Division { interval_s, tokens } = divide(&wants, able, self.interval_s);
        self.interval_s = interval_s;
        let most = able.saturating_add(able / OVER).saturating_add(ended);
        let over = self.charged > most;
        // The buckets come out of half of the credit, since the rest pays for the second ahead.
        let mut tokens_for_buckets = u64::try_from(self.credit / 2).unwrap_or(0) / MICRO;
        let mut changed = Vec::new();
        let targets = live.into_iter().zip(tokens);
        for (id, tokens) in targets {
            let part = &self.parts[&id];
            let target = Fill {
                max: tokens,
                tokens,
                interval_s,
            };
            let renew = now >= part.assigned_at + RENEW_AFTER;
            if !renew && part.assigned.is_some_and(|it| is_near(it, target, over)) {
                continue;
            }
            let assignment = grown(part.kept(now), target, &mut tokens_for_buckets);
            if self.assign(id, assignment, now) {
                changed.push(id);
            }
        }
        self.settle_rate(now);
        changed
    }

    /// Assigns, and charges what the bucket may hold more than before. Returns false if nothing has to be sent.
    fn assign(&mut self, id: PartId, assignment: Assignment, now: Duration) -> bool {
        let Some(part) = self.parts.get_mut(&id) else {
            return false;
        };
        let renew = now >= part.assigned_at + RENEW_AFTER;
        if part.assigned == Some(assignment) && !renew {
            return false;
        }
        let former = part.kept(now);
        let more = held(Some(assignment)).saturating_sub(held(former));
        let before = part.rate();
        // A cut is sent later than it is booked, for which a second is allowed.
        let late = before.saturating_sub(assignment.rate());
        if late > 0 {
            part.peak = match now < part.peak_until {
                true => part.peak.max(before),
                false => before,
            };
            part.peak_until = now + CHARGED_FOR;
        }
        (part.assigned, part.assigned_at) = (Some(assignment), now);
        let more = more.saturating_mul(MICRO).saturating_add(late);
        self.credit = self.credit.saturating_sub_unsigned(more);
        true
    }

    /// Returns the assignment of a part.
    #[must_use]
    pub fn assignment(&self, id: PartId) -> Option<Assignment> {
        self.parts.get(&id)?.assigned
    }

    /// Returns true if a plan is due.
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.is_fresh || now >= self.planned_at + PLAN_EVERY
    }
}

/// Returns what comes in a second if so much comes in this time.
fn per_second(amount: u128, time: Duration) -> u64 {
    let rate = amount.saturating_mul(1_000_000_000) / time.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// Returns the most tokens that a bucket with this assignment holds.
fn held(assignment: Option<Assignment>) -> u64 {
    match assignment {
        Some(Assignment::Fill(fill)) => fill.max,
        _ => 0,
    }
}

/// Returns true if an assignment is so near to the target that it need not be changed.
fn is_near(assigned: Assignment, target: Fill, over: bool) -> bool {
    let Assignment::Fill(fill) = assigned else {
        return assigned == Assignment::Deny && target.tokens == 0;
    };
    let (has, wants) = (fill.rate(), target.rate());
    match over {
        true => has <= wants,
        false => {
            let near = has.abs_diff(wants) <= has / 10 || fill.tokens.abs_diff(target.tokens) <= 1;
            fill.interval_s == target.interval_s && near
        }
    }
}

/// Returns the target with a bucket that is no larger than what `tokens` pay for on top of the former one. A bucket that
/// is a little too large stays so: what it lost would be paid for again when it grows. A data plane ignores a change of
/// the interval alone, so the size is changed with it.
fn grown(former: Option<Assignment>, target: Fill, tokens: &mut u64) -> Assignment {
    let before = held(former);
    let more = target.max.saturating_sub(before).min(*tokens);
    let mut max = target.max.min(before + more);
    if target.tokens > 0 && max < before && before - max <= (before / KEPT_LARGER).max(2) {
        max = before;
    }
    if let Some(Assignment::Fill(fill)) = former
        && (fill.max, fill.tokens) == (max, target.tokens)
        && fill.interval_s != target.interval_s
    {
        max = match max {
            0 | 1 => max + 1,
            max => max - 1,
        };
    }
    *tokens -= more;
    match max == 0 || target.tokens == 0 {
        true => Assignment::Deny,
        false => Assignment::Fill(Fill { max, ..target }),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rlqs/pool.rs"]
mod tests;
