//! Decisions of the home node of a budget in central mode.

use super::Limiter;
use crate::bucket::reserve::BucketCharge;
use crate::bucket::{AdmissionMode, Need, No};
use crate::limiter::key_state::KeyState;
use crate::limiter::permit::Permit;
use crate::limiter::refused::{Admission, Reason, Refused};
use crate::limiter::session_requests::{
    Answer, DecisionCall, Grant, SessionRequest, SessionRequests,
};
use crate::limiter::shared::Shared;
use crate::local::breaker::Attempt;
use crate::observe::switch::Mode;
use crate::sync::Ordering;
use aliquot_core::central::{Reason as Why, RetryPolicy, SMALL_BURST};
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

impl Limiter {
    /// Maximum wait for an answer. A node that cannot reach the home node says so earlier.
    pub(super) const ANSWER_WAIT: Duration = Duration::from_millis(700);

    /// Number of times that a question is asked if its outcome is void: the home node moved, or the lease
    /// ended that it was asked under.
    const TRIES: usize = 3;

    /// Pause before the next try: a new home node may learn of its role later than others.
    const MOVED_WAIT: Duration = Duration::from_millis(10);

    /// Returns the kind to ask a node for after this refusal, if it is to be asked: nothing is held here, the
    /// budget is in central mode, or the part of a rate that is held here is small for what is asked.
    pub(super) fn asks(&self, no: No) -> Option<Kind> {
        let short = matches!(
            no,
            No::Empty | No::ExceedsBurst | No::NotYet(_) | No::Quota | No::Permits
        );
        let slot = self.key_state.bucket.view(Tick::ZERO).slot;
        let elsewhere = self.is_decided_elsewhere() || self.has_small_part(no);
        (short && elsewhere && slot.mode == AdmissionMode::Leased).then_some(slot.kind)
    }

    /// Returns true if only a node can decide: nothing is held here, or the budget is in central mode.
    pub(super) fn is_decided_elsewhere(&self) -> bool {
        let slot = self.key_state.bucket.view(Tick::ZERO).slot;
        slot.burst == 0 || self.key_state.home.is_central()
    }

    /// Returns true if the part of a rate that is held here is small for what it refused: a cost that it can
    /// never have, or any if it has few tokens of burst. Its node is asked then, which may have tokens, and
    /// keeps the part from then on.
    pub(super) fn has_small_part(&self, no: No) -> bool {
        let view = self.key_state.bucket.view(Tick::ZERO);
        let burst = view.slot.grains(view.slot.burst) / view.scale.max(1);
        let small = match no {
            No::ExceedsBurst => true,
            No::NotYet(_) => burst < SMALL_BURST,
            _ => false,
        };
        small && view.slot.kind == Kind::Rate && view.slot.burst > 0
    }

    /// Returns true if a caller that asks once asks a node after this refusal: the budget is in central mode,
    /// or the tokens of a small part are spent.
    pub(super) fn is_asked_for(&self, no: No) -> bool {
        let spent = matches!(no, No::NotYet(_)) && self.has_small_part(no);
        (self.key_state.home.is_central() || spent) && self.asks(no).is_some()
    }

    /// Returns true if a layer has to wait for a node before it can decide on `n` tokens.
    pub(crate) fn needs_a_node(&self, n: u64, now: Tick) -> bool {
        if self.own.is_some() || self.key_state.switch.lets_through() {
            return false;
        }
        let lease = &self.handle.shared.lease.0;
        let would = self.key_state.bucket.would(Need::Tokens(n), now, lease);
        would.is_err_and(|no| self.may_come(no, n) || self.is_asked_for(no))
    }

    /// Returns true if a node may bring what is missing within a round trip or two: the budget is not known
    /// yet, nothing of it is held, its quota's tokens were not dealt here, more of its burst may be moved
    /// here, or the session is about to get its next lease.
    pub(super) fn may_come(&self, no: No, n: u64) -> bool {
        match no {
            No::Cold | No::Empty | No::Quota | No::ExceedsBurst | No::Lapsed => true,
            No::NotYet(_) => self.may_grow(n),
            _ => false,
        }
    }

    /// Returns true if permits of the budget are not held here, so that a node may bring one.
    pub(super) fn has_permits_elsewhere(&self, no: No) -> bool {
        let view = self.key_state.bucket.view(Tick::ZERO);
        let held = view.slot.grains(view.slot.burst) / view.scale.max(1);
        no == No::Permits && held < self.key_state.home.largest()
    }

    /// Returns true if the rest of the budget's burst, which is not held here, may bring `n` tokens on top of
    /// those that callers wait for already.
    pub(super) fn may_grow(&self, n: u64) -> bool {
        let view = self.key_state.bucket.view(Tick::ZERO);
        let held = view.slot.grains(view.slot.burst) / view.scale.max(1);
        let elsewhere = self.key_state.home.largest().saturating_sub(held);
        let wanted = self.key_state.tally.waiting().saturating_add(n);
        let leased = view.slot.mode == AdmissionMode::Leased && view.slot.kind == Kind::Rate;
        leased && !self.key_state.home.is_central() && wanted <= elsewhere
    }

    /// Maximum wait of a caller that asks once: for a node's answer, or for a budget to become known.
    pub(super) fn once_within(&self) -> Duration {
        self.handle.shared.cold_wait.max(Self::CENTRAL_WAIT)
    }

    /// Returns how long callers are still refused at once, because another one has just waited for as much in vain:
    /// a flood against a spent quota, or against a part of a spent rate, must not wait each time. `None` lets the
    /// caller wait, as one caller a second does.
    pub(super) fn waited_in_vain(&self, n: u64, no: No) -> Option<Duration> {
        if !Self::is_probed(no) {
            return None;
        }
        let wait = u64::try_from(self.once_within().as_nanos()).unwrap_or(u64::MAX);
        let home = &self.key_state.home;
        let left = home.probe(n, Span::from_nanos(wait), self.now())?;
        Some(Duration::from_nanos(left.nanos()))
    }

    /// Refuses a caller after another one waited in vain: one waits again after `left`.
    pub(super) fn refuse_in_vain(&self, n: u64, no: No, left: Duration) -> Refused {
        let refused = self.refused_for(no);
        // Until then no caller waits for what the node may deal, unless the whole period is spent.
        let sooner = |wait: Duration| match no {
            No::Quota if wait > Refused::LATER => wait,
            No::Quota => left,
            _ => wait.min(left),
        };
        let retry_after = Some(refused.retry_after.map_or(left, sooner));
        self.deny(
            n,
            Refused {
                retry_after,
                ..refused
            },
        )
    }

    /// Returns true if a wait after this refusal is remembered when it was in vain.
    const fn is_probed(no: No) -> bool {
        matches!(no, No::Quota | No::NotYet(_) | No::Permits)
    }

    /// Remembers that a node brought nothing while a caller waited, or forgets it when the node did. A part that is
    /// asked for more than it makes must refuse at once, though time serves callers that wait.
    pub(super) fn probed<T>(
        &self,
        n: u64,
        no: No,
        outcome: Result<T, Refused>,
        brought: impl Fn(&T) -> bool,
    ) -> Result<T, Refused> {
        let (home, now) = (&self.key_state.home, self.now());
        match &outcome {
            _ if !Self::is_probed(no) => {}
            Ok(taken) if brought(taken) => home.waited_with_success(),
            Ok(_) => home.served_by_time(n, self.key_state.tally.waiting() > 0, now),
            Err(Refused {
                reason: Reason::Quota | Reason::Throttled | Reason::Permits,
                ..
            }) => home.waited_in_vain(n, now),
            Err(_) => {}
        }
        outcome
    }

    /// Asks the home node for at most `most`. `None` if the mode changed and admits the request in the meantime;
    /// that is not counted yet.
    pub(super) async fn check_at_home(
        &self,
        n: u64,
        no: No,
        most: Duration,
    ) -> Result<Option<Grant>, Refused> {
        let Some(kind) = self.asks(no) else {
            return Err(self.refuse(n, no));
        };
        // A cost above the whole budget is refused for good, also where a smaller one was just told to wait.
        let never = self.key_state.home.excess(n).is_some();
        if never && !self.key_state.switch.lets_through() {
            return Err(self.refuse(n, no));
        }
        let outcome = match self.key_state.home.refusal_ttl(n, self.now()) {
            Some(wait) => {
                let retry_after = Some(Duration::from_nanos(wait.nanos()));
                Err(Refused {
                    retry_after,
                    ..Refused::from(short_of(kind))
                })
            }
            None => match self.ask_for_parts(kind, n, most).await {
                Some(outcome) => outcome,
                None if self.key_state.switch.lets_through() => return Ok(None),
                None => Err(Refused::of(self.froze())),
            },
        };
        let outcome = outcome.map_err(|refused| match refused.reason {
            // The part that is held here is spent, whatever a node would have said.
            Reason::Undecided if !self.is_decided_elsewhere() => self.refusal(n, no),
            _ => refused,
        });
        outcome.map(Some).map_err(|refused| self.deny(n, refused))
    }

    /// Asks once, and again while other clients hold what is missing, because it is recalled from them: for as long
    /// as a share is waited for, and at most `most`. `None` as in [`Limiter::ask_while_enforced`].
    ///
    /// A home takes the tokens of a question whether or not its answer is waited for. So no question is repeated that
    /// the time of the caller may end, judged by the first one's round trip.
    async fn ask_for_parts(
        &self,
        kind: Kind,
        n: u64,
        most: Duration,
    ) -> Option<Result<Grant, Refused>> {
        let (home, began) = (&self.key_state.home, self.now());
        let passed = || Duration::from_nanos(self.now().since(began).nanos());
        let first = self.ask_within_time(kind, n, most);
        let mut outcome = first.await.unwrap_or(Some(Err(Refused::undecided())))?;
        let round_trip = passed();
        let within = self.once_within().min(Self::SHARE_WAIT).min(most);
        let mut waited = false;
        while let Err(refused) = outcome
            && let Some(pause) = self.recalled_within(refused)
            && pause < within.saturating_sub(passed())
            && pause + round_trip * 2 < most.saturating_sub(passed())
        {
            let wait = Span::from_nanos(u64::try_from(within.as_nanos()).unwrap_or(u64::MAX));
            if !waited && home.probe(n, wait, self.now()).is_some() {
                break;
            }
            waited = true;
            self.handle.shared.clock.sleep(pause).await;
            let rest = most.saturating_sub(passed());
            if rest.is_zero() {
                break;
            }
            let again = self.ask_within_time(kind, n, rest).await;
            outcome = again.unwrap_or(Some(Err(Refused::undecided())))?;
        }
        match &outcome {
            _ if !waited => {}
            Ok(_) => home.waited_with_success(),
            Err(Refused {
                reason: Reason::Throttled | Reason::Quota,
                ..
            }) => home.waited_in_vain(n, self.now()),
            Err(_) => {}
        }
        Some(outcome)
    }

    /// Asks for more than there ever is, for at most `most`: nothing can be taken, and the node tells what is left.
    /// `None` if it does not.
    pub(super) async fn look_at_home(&self, most: Duration) -> Option<u64> {
        let kind = self.key_state.bucket.view(Tick::ZERO).slot.kind;
        match self.ask_within_time(kind, u64::MAX, most).await? {
            Some(Err(refused)) if refused.is_never() => self.key_state.home.left(),
            _ => None,
        }
    }

    /// Asks once. `None` if there is no answer within `most`.
    async fn ask_within_time(
        &self,
        kind: Kind,
        n: u64,
        most: Duration,
    ) -> Option<Option<Result<Grant, Refused>>> {
        tokio::select! {
            biased;
            answered = self.ask_while_enforced(kind, n, RetryPolicy::Once) => Some(answered),
            // The answer is never waited for as long as this.
            () = self.handle.shared.clock.sleep(most.min(Self::ANSWER_WAIT * 2)) => None,
        }
    }

    /// Returns the time after which the home node is asked again, if it refused because other clients hold what is
    /// missing. It recalls that then, and leaves out how much it has left.
    pub(super) fn recalled_within(&self, refused: Refused) -> Option<Duration> {
        let short = matches!(refused.reason, Reason::Throttled | Reason::Quota);
        let recalls = short && self.key_state.home.left().is_none();
        refused.retry_after.filter(|_| recalls)
    }

    /// Asks for as long as the mode is [`Mode::Enforce`]. Gives the question up and returns `None` as soon as
    /// it is not.
    pub(super) async fn ask_while_enforced(
        &self,
        kind: Kind,
        n: u64,
        retry_policy: RetryPolicy,
    ) -> Option<Result<Grant, Refused>> {
        let mut asked = std::pin::pin!(self.ask(kind, n, retry_policy));
        loop {
            let changed = self.key_state.change.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if self.mode() != Mode::Enforce {
                return None;
            }
            tokio::select! {
                biased;
                answered = asked.as_mut() => return Some(answered),
                () = changed => {}
            }
        }
    }

    /// Asks until the outcome is known, for at most [`Self::ANSWER_WAIT`]. Counts nothing. Dropping the
    /// future gives the question up. While the breaker is open only its trial asks.
    async fn ask(&self, kind: Kind, n: u64, retry_policy: RetryPolicy) -> Result<Grant, Refused> {
        // A question needs a cost.
        let cost = NonZeroU64::new(n).ok_or(Refused::of(No::Empty))?;
        let shared = &self.handle.shared;
        let trial = shared.breaker.try_call().map_err(|open| Refused {
            retry_after: open.retry_after.or(Refused::undecided().retry_after),
            ..Refused::undecided()
        })?;
        let mut trial = Trial {
            shared,
            of: Some(trial),
        };
        let asked = async {
            self.pay(kind, n, retry_policy).await?;
            self.put(kind, cost, retry_policy, n).await
        };
        tokio::select! {
            biased;
            answered = asked => {
                // A node that could not decide says nothing about the next one, so the trial has no result.
                let decided = !matches!(&answered, Err(refused) if refused.reason == Reason::Undecided);
                if let Some(trial) = trial.of.take().filter(|_| decided) {
                    trial.success();
                }
                answered
            }
            () = shared.clock.sleep(Self::ANSWER_WAIT) => {
                if let Some(trial) = trial.of.take() {
                    trial.failure();
                }
                Err(Refused::undecided())
            }
        }
    }

    /// Asks first for what this process owes to the home node, because requests settled above their estimate.
    async fn pay(&self, kind: Kind, n: u64, retry_policy: RetryPolicy) -> Result<(), Refused> {
        if kind != Kind::Rate {
            return Ok(());
        }
        while let Some(debt) = self.key_state.home.debt(n) {
            if let Some(cost) = NonZeroU64::new(debt.tokens()) {
                // Any later cost waits for the debt, so the refusal counts from a cost of 1.
                self.put(kind, cost, retry_policy, 1).await?;
            }
            debt.paid();
        }
        Ok(())
    }

    /// Asks up to [`Self::TRIES`] times, until the outcome is known. If the budget is spent, remembers that
    /// costs of `least` and more are refused.
    async fn put(
        &self,
        kind: Kind,
        cost: NonZeroU64,
        retry_policy: RetryPolicy,
        least: u64,
    ) -> Result<Grant, Refused> {
        let shared = &self.handle.shared;
        for _ in 0..Self::TRIES {
            match ask(shared, &self.key_state, kind, cost, retry_policy).await {
                Answer::Admitted(grant) => {
                    self.key_state.home.has_left(grant.left);
                    return Ok(grant);
                }
                // The session is between two nodes, or two leases.
                Answer::NoLease => return Err(Refused::undecided()),
                Answer::Refused {
                    reason,
                    retry_after,
                    left,
                } if reason != Why::Void => {
                    let wait = retry_after.map(|wait| Duration::from_nanos(wait.nanos()));
                    self.key_state.home.has_left(left);
                    if let (Why::Spent, Some(retry)) = (reason, retry_after) {
                        self.key_state.home.refused(least, retry, self.now());
                    }
                    return Err(refused((kind, cost.get()), reason, wait));
                }
                Answer::Void | Answer::Refused { .. } => {
                    shared.clock.sleep(Self::MOVED_WAIT).await;
                }
            }
        }
        Err(Refused::undecided())
    }

    /// Charges `n` tokens that a request granted by the home node cost beyond its estimate. They are taken
    /// here if the budget is dealt by now; otherwise the home node is asked for them before anything else.
    /// Returns how many are owed: none for kinds other than rates.
    pub(super) fn owe_at_home(&self, n: u64, now: Tick) -> u64 {
        let (bucket, home) = (&self.key_state.bucket, &self.key_state.home);
        let slot = bucket.view(now).slot;
        if slot.kind != Kind::Rate {
            return 0;
        }
        let is_divided = !home.is_central() && slot.burst > 0;
        let lease = &self.handle.shared.lease.0;
        let here = BucketCharge::owing(bucket.era(), now);
        // A part that owes tokens already can owe more.
        let holds = || {
            let would = bucket.would(Need::Tokens(0), now, lease);
            matches!(would, Ok(()) | Err(No::NotYet(_)))
        };
        let taken = match is_divided && holds() {
            true => bucket.exact(&here, n, now),
            false => 0,
        };
        if taken < n {
            home.owe(n - taken);
        }
        n
    }

    /// Returns the admission that the home node granted.
    pub(super) fn admitted(&self, n: u64, grant: &Grant) -> Admission {
        Admission::of(n, &self.charged_at_home(n, grant))
    }

    /// Returns the charge that the home node made.
    pub(super) fn charged_at_home(&self, n: u64, grant: &Grant) -> BucketCharge {
        self.key_state.tally.admitted(n);
        BucketCharge::at_home(grant.asked_at, grant.heard_at, grant.period)
    }

    /// Returns the permit that the home node has booked.
    pub(super) fn permitted(&self, grant: Grant) -> Result<Permit, Refused> {
        let (asked_at, heard_at) = (grant.asked_at, grant.heard_at);
        let booking = grant.booking.ok_or(Refused::undecided())?;
        self.key_state.tally.admitted(1);
        Ok(Permit::booked(
            self.handle.clone(),
            booking,
            asked_at,
            heard_at,
        ))
    }
}

/// The breaker's leave to ask, until the outcome is known.
struct Trial<'a> {
    shared: &'a Shared,
    of: Option<Attempt>,
}

impl Drop for Trial<'_> {
    /// The caller gave up. Its patience says nothing about the node, so this counts as a failure only if the
    /// client has heard no answer at all for as long as it waits for one.
    fn drop(&mut self) {
        let Some(trial) = self.of.take() else { return };
        let unanswered = self
            .shared
            .unanswered_since
            .elapsed(self.shared.clock.now());
        if unanswered >= Limiter::ANSWER_WAIT {
            trial.failure();
        }
    }
}

/// Returns the reason for a lack of tokens of this kind.
const fn short_of(kind: Kind) -> Reason {
    match kind {
        Kind::Rate => Reason::Throttled,
        Kind::Quota => Reason::Quota,
        Kind::Concurrency => Reason::Permits,
    }
}

fn refused((kind, n): (Kind, u64), why: Why, retry_after: Option<Duration>) -> Refused {
    let reason = match why {
        Why::Spent => short_of(kind),
        Why::ExceedsBurst(largest) => return Refused::exceeds(n, largest),
        Why::NoBudget => Reason::NoBudget,
        Why::OtherKind => Reason::WrongKind,
        Why::NoLease | Why::Busy | Why::Void => {
            return Refused {
                retry_after: retry_after.or(Refused::undecided().retry_after),
                ..Refused::undecided()
            };
        }
    };
    Refused {
        retry_after,
        ..Refused::from(reason)
    }
}

/// Asks for a decision, and waits for its outcome. Dropping the future gives the request up.
async fn ask(
    shared: &Shared,
    key_state: &Arc<KeyState>,
    kind: Kind,
    cost: NonZeroU64,
    retry_policy: RetryPolicy,
) -> Answer {
    // The semaphore is never closed.
    let Ok(room) = Arc::clone(&shared.room).acquire_owned().await else {
        return Answer::Void;
    };
    let ticket = shared.tickets.fetch_add(1, Ordering::Relaxed);
    let (reply, answer) = oneshot::channel();
    let call = DecisionCall {
        ticket,
        key_state: Arc::clone(key_state),
        kind,
        cost,
        retry_policy,
        reply,
        room,
    };
    if shared.requests.send(SessionRequest::Decide(call)).is_err() {
        return Answer::NoLease;
    }
    let mut under_way = UnderWay {
        ticket: Some(ticket),
        requests: &shared.requests,
    };
    let answer = answer.await;
    under_way.ticket = None;
    // A session that ends drops its requests without an answer.
    answer.unwrap_or(Answer::NoLease)
}

/// A request in flight. Dropping this gives the request up if there was no answer.
struct UnderWay<'a> {
    ticket: Option<u64>,
    requests: &'a SessionRequests,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let _ = self.requests.send(SessionRequest::GiveUp(ticket));
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/limiter/central.rs"]
mod tests;
