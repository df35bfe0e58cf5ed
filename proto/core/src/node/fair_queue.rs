//! The order of central decisions on one rate budget.

use crate::bucket::Refusal;
use crate::central::{DecisionRequest, RetryPolicy};
use crate::planted::{self, Bug};
use crate::pool::Pool;
use crate::unit::{Edge, NANOS_PER_SEC, Rate, Span, Tick, Tokens, mul_div_floor, time_to_make};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The sessions that share an ungranted part, and those whose requests wait there.
///
/// Each session has a **part** of the pool's rate: the planned one, or an equal one. What it takes is a debt
/// that its part repays. A session without debt takes what is there. One with debt leaves the tokens that sessions
/// with less debt wait for. If it does not wait itself, it also leaves as many tokens as its debt, up to half of the
/// pool, in whole multiples of its cost: a fraction serves no request, and the pool would overflow that much sooner.
/// So no token is idle while a session asks, and scarce tokens go to the sessions that had least:
///
/// - A session that asks for less than its part is never behind others for longer than the pool needs to
///   make the cost.
/// - A waiting cost `c` of a session with part `r` and without debt is served within about `c / r`: all others
///   without debt take no more than their parts, and those with debt leave `c` alone.
///
/// This is virtual clock scheduling (L. Zhang, 1990), with polling in place of a queue of packets. It only
/// refuses what the pool would admit, so it cannot admit too much.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct FairQueue {
    sessions: BTreeMap<Edge, Session>,
    parts: BTreeMap<Edge, Rate>,
    /// In the order of arrival.
    places: Vec<Place>,
    expired: Tick,
    /// Lead of the clock by which debts are repaid over time: it jumps to the least debt of those that wait when
    /// that one is served, so that debts stay comparable however much more than the parts is shared out.
    lead: Span,
}

/// A session that asked lately.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Session {
    /// When its debt is repaid.
    repaid: Tick,
    /// When it asked last.
    seen: Tick,
}

/// A waiting request.
#[derive(Clone, Copy, Debug, Hash)]
struct Place {
    edge: Edge,
    cost: Tokens,
    repaid: Tick,
    /// The clock of debts when it began to wait. Its cost is a debt from then on: what it did not take while
    /// tokens were saved up for it is still its part.
    since: Tick,
    /// When the place is given up if the request was not repeated.
    until: Tick,
}

impl FairQueue {
    /// Time for which a session without debt shares the rate after it asked.
    const ACTIVE: Span = Span::from_secs(1);

    /// Maximum time for which a session that does not ask is remembered, whatever its debt.
    const REMEMBERED: Span = Span::from_secs(10);

    /// Interval at which sessions are forgotten: a bound on the work per request.
    const FORGETTING: Span = Span::from_millis(100);

    /// Maximum number of waiting requests that tokens are left for: those with the least debt.
    const PLACES_MAX: usize = 64;

    /// Retry delay of a request that cannot be served before others.
    const LATER: Span = Span::from_millis(100);

    /// Time for which a place is kept after the retry delay: a round trip, and the delay of a scheduler.
    const GRACE: Span = Span::from_millis(100);

    /// Sets the parts of sessions that were planned. All others have equal parts.
    pub(super) fn set_parts(&mut self, parts: BTreeMap<Edge, Rate>) {
        self.parts = parts;
    }

    /// Returns true if nothing needs to be remembered at `now`.
    pub(super) fn is_idle(&mut self, now: Tick) -> bool {
        self.expire(now);
        self.parts.is_empty() && self.places.is_empty() && self.sessions.is_empty()
    }

    /// Takes the cost of a request from the pool if it is there and no other session goes first.
    ///
    /// # Errors
    ///
    /// The retry delay; nothing was taken.
    pub(super) fn take(
        &mut self,
        pool: &mut Pool,
        ask: &DecisionRequest,
        cost: Tokens,
        now: Tick,
    ) -> Result<(), Span> {
        self.expire(now);
        let session = self.sessions.entry(ask.edge).or_default();
        session.seen = now;
        let (repaid, clock) = (session.repaid, now.after(self.lead));
        let whole = pool.share_at(now);
        let part = self.part(ask.edge, whole.rate);
        let mut left = self.ahead(ask.edge, repaid, clock);
        if ask.retry_policy == RetryPolicy::Once && left.is_zero() && repaid > clock {
            let debt = mul_div_floor(part.grains(), repaid.since(clock).nanos(), NANOS_PER_SEC);
            let half = whole.burst.minus_or_zero(cost).grains() / 2;
            left = whole_costs(debt.unwrap_or(half).min(half), cost);
        }
        if planted::is(Bug::FirstComeFirstServed) {
            left = Tokens::ZERO;
        }
        let Err(refusal) = pool.try_acquire(cost, left, now) else {
            if ask.retry_policy == RetryPolicy::Waits {
                let waiting = self.places.iter().map(|place| place.repaid);
                let least = waiting.fold(repaid, Tick::min);
                self.lead = self.lead.plus_or_max(least.since(clock));
            }
            self.charge(ask.edge, cost, (part, whole.burst), now.after(self.lead));
            return Ok(());
        };
        let mut retry = delay(&refusal);
        if !left.is_zero() {
            // Without debt it does not leave anything.
            let alone = pool.peek(cost, now).err();
            let alone = alone.map_or(Span::ZERO, |refusal| delay(&refusal));
            retry = retry.min(alone.max(repaid.since(clock)));
        }
        if ask.retry_policy == RetryPolicy::Waits {
            self.wait(Place {
                edge: ask.edge,
                cost,
                repaid,
                since: self.since(ask.edge, cost, clock),
                until: now.after(retry.plus_or_max(Self::GRACE)),
            });
        }
        Err(retry)
    }

    /// Returns the part of a session in the pool's rate.
    fn part(&self, edge: Edge, whole: Rate) -> Rate {
        let sessions = u64::try_from(self.sessions.len())
            .unwrap_or(u64::MAX)
            .max(1);
        let equal = whole.grains().checked_div(sessions).unwrap_or(0);
        self.parts
            .get(&edge)
            .copied()
            .unwrap_or(Rate::from_grains(equal))
    }

    /// Returns the tokens that a session with debt leaves for requests that wait.
    fn ahead(&self, edge: Edge, repaid: Tick, clock: Tick) -> Tokens {
        if repaid <= clock {
            return Tokens::ZERO;
        }
        let mut before = true;
        let mut sum = Tokens::ZERO;
        for place in &self.places {
            if place.edge == edge {
                before = false;
            } else if place.repaid < repaid || (before && place.repaid == repaid) {
                sum = sum.plus(place.cost).unwrap_or(Tokens::MAX);
            }
        }
        sum
    }

    /// Returns when a session began to wait for a cost; `clock` if it does not.
    fn since(&self, edge: Edge, cost: Tokens, clock: Tick) -> Tick {
        let mut places = self.places.iter();
        let place = places.find(|place| place.edge == edge && place.cost == cost);
        place.map_or(clock, |place| place.since.min(clock))
    }

    fn charge(&mut self, edge: Edge, cost: Tokens, (part, burst): (Rate, Tokens), clock: Tick) {
        let span = |tokens| time_to_make(tokens, part).unwrap_or(Self::REMEMBERED);
        let since = self.since(edge, cost, clock);
        let Some(session) = self.sessions.get_mut(&edge) else {
            return;
        };
        let repaid = session.repaid.max(since).after(span(cost));
        session.repaid = repaid.min(clock.after(span(burst.max(cost))));
        let repaid = session.repaid;
        self.places
            .retain(|place| place.edge != edge || place.cost != cost);
        for place in self.places.iter_mut().filter(|place| place.edge == edge) {
            place.repaid = repaid;
        }
    }

    /// Keeps a place, behind those that arrived before. If there are too many, those with the most debt go.
    fn wait(&mut self, place: Place) {
        if let Some(old) = self.places.iter_mut().find(|old| old.edge == place.edge) {
            *old = place;
            return;
        }
        self.places.push(place);
        if self.places.len() > Self::PLACES_MAX {
            let places = self.places.iter().enumerate();
            let last = places.max_by_key(|&(index, place)| (place.repaid, index));
            if let Some((index, _)) = last {
                self.places.remove(index);
            }
        }
    }

    fn expire(&mut self, now: Tick) {
        self.places.retain(|place| now < place.until);
        if now.since(self.expired) < Self::FORGETTING {
            return;
        }
        self.expired = now;
        let clock = now.after(self.lead);
        self.sessions.retain(|_, session| {
            let silent = now.since(session.seen);
            silent < Self::ACTIVE || (clock < session.repaid && silent < Self::REMEMBERED)
        });
        if self.sessions.is_empty() {
            self.lead = Span::ZERO;
        }
    }
}

/// Returns the largest multiple of `cost` within `grains`.
fn whole_costs(grains: u64, cost: Tokens) -> Tokens {
    let rest = grains.checked_rem(cost.grains()).unwrap_or(0);
    Tokens::from_grains(grains.saturating_sub(rest))
}

/// Returns the retry delay after a pool's refusal.
fn delay(refusal: &Refusal) -> Span {
    match refusal {
        Refusal::NotYet { retry_after } => *retry_after,
        // Other holders have the rest of the budget, or its tokens are left for others.
        Refusal::ExceedsBurst { .. } | Refusal::Never => FairQueue::LATER,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/fair_queue.rs"]
mod tests;
