//! Waiting in line: first come, first served.

use super::Limiter;
use super::decide::Seen;
use crate::bucket::{AdmissionMode, No};
use crate::limiter::key_state::waiting::Waiting;
use crate::limiter::permit::Permit;
use crate::limiter::refused::{Admission, Reason, Refused};
use crate::limiter::session_requests::Grant;
use aliquot_core::central::RetryPolicy;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[cfg(test)]
#[path = "../../tests/unit/limiter/line/tests.rs"]
mod tests;

/// A caller's wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    n: u64,
    began: Tick,
    /// When the budget became known, if the wait began before.
    known: Tick,
    /// True if the wait began before the budget was known.
    began_cold: bool,
    most: Option<Duration>,
    /// True if the caller named that time. Otherwise an answer that is on its way is waited for beyond it.
    is_strict: bool,
    /// Maximum time for a budget that is not known.
    cold: Duration,
    retry_policy: RetryPolicy,
}

/// State of the requests of a line to the home node.
#[derive(Debug, Default)]
struct LineRequests {
    /// True while the answer to one is waited for.
    asking: bool,
    /// The last refusal by the home node, if it has decided since.
    refused: Option<Refused>,
}

/// The last answer of the home node to the first caller in line.
#[derive(Clone, Copy, Debug)]
struct HomeAnswer {
    refused: Refused,
    /// When to ask again; `None` if asking again does not help.
    again: Option<Tick>,
    /// Start of the time in which the home node has not decided at all.
    trouble: Option<Tick>,
}

impl Wait {
    /// Returns true if the caller waits for what a node may bring at once, and for no longer.
    fn asks_once(&self) -> bool {
        self.retry_policy == RetryPolicy::Once
    }
}

impl Limiter {
    /// Maximum time that [`Limiter::acquire`] waits for capacity that only a node can bring: several rounds
    /// of the leader.
    pub(super) const SHARE_WAIT: Duration = Duration::from_secs(1);

    /// Maximum time that a caller which asks once waits for a share.
    pub(super) const CENTRAL_WAIT: Duration = Duration::from_millis(250);

    pub(super) async fn wait(
        &self,
        n: u64,
        most: Option<Duration>,
        retry_policy: RetryPolicy,
    ) -> Result<Admission, Refused> {
        if let Some(own) = &self.own {
            let place = self.wait_for_own(own, n, most).await?;
            return Ok(Admission {
                decided_at: self.now(),
                ..place.admission()
            });
        }
        let local = |now| self.take_for_waiter(n, now);
        let remote = |grant| Ok(self.admitted(n, &grant));
        let wait = self.wait_of(n, most, retry_policy);
        self.wait_for_part(wait, local, remote).await
    }

    /// Returns a wait for `n` tokens that begins now. A caller that names a time waits for an unknown budget as long.
    pub(super) fn wait_of(
        &self,
        n: u64,
        most: Option<Duration>,
        retry_policy: RetryPolicy,
    ) -> Wait {
        let now = self.now();
        Wait {
            n,
            began: now,
            known: now,
            began_cold: false,
            most,
            is_strict: most.is_some(),
            cold: most.unwrap_or(self.handle.shared.cold_wait),
            retry_policy,
        }
    }

    /// Returns the wait of a caller that asks a node once after the refusal `no`, for at most `most`.
    pub(super) fn single_wait(&self, n: u64, no: No, most: Duration) -> Wait {
        let named = (most < Duration::MAX).then_some(most);
        let wait = self.wait_of(n, named, RetryPolicy::Once);
        let most = match (no, named) {
            (No::Cold, Some(named)) => named,
            _ => most.min(self.once_within()),
        };
        Wait {
            most: Some(most),
            ..wait
        }
    }

    /// Waits for tokens of a leased limit, until `local` or the home node decides.
    pub(super) async fn wait_for_part<T>(
        &self,
        wait: Wait,
        local: impl Fn(Tick) -> Result<T, No>,
        remote: impl Fn(Grant) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let Wait { n, began, most, .. } = wait;
        if self.is_beyond(n) && !self.key_state.switch.lets_through() {
            return Err(self.refuse(n, No::ExceedsBurst));
        }
        if self.key_state.tally.waiting() == 0 || self.key_state.switch.lets_through() {
            match local(began) {
                Ok(taken) => return Ok(taken),
                Err(no) if self.asks(no).is_none() && self.patience(no, wait).is_none() => {
                    return Err(self.refuse(n, no));
                }
                Err(_) => {}
            }
        }
        // A caller that asks once may be served by more of the budget, whatever time makes here.
        if !wait.asks_once()
            && let Some(late) = self.too_late(n, began, most)
        {
            return Err(self.refuse(n, late));
        }
        let outcome = {
            let _waiting = Waiting::of(&self.key_state, n, wait.retry_policy);
            self.handle.shared.want_and_wait();
            let local = || local(self.now());
            self.stand_in_line_for(wait, local, remote).await
        };
        if outcome.is_ok() {
            self.tell_waited(began, self.now());
        }
        outcome.map_err(|refused| self.deny(n, refused))
    }

    /// Waits for a permit. Also returns the state that the decision saw.
    pub(super) async fn wait_for_permit(&self, wait: Wait) -> Result<(Permit, Seen), Refused> {
        // Registered as waiting only if it has to: `try_permit` goes before no caller that waits.
        if self.key_state.tally.waiting() == 0 {
            let now = self.now();
            if let (Ok(permit), view) = self.take_permit_slot(now) {
                return Ok((permit, Seen::Bucket(view, now)));
            }
        }
        let outcome = {
            // Permits are wanted for as long as they are waited for.
            let _waiting = Waiting::of(&self.key_state, 1, RetryPolicy::Waits);
            let local = || {
                let now = self.now();
                let (decided, view) = self.take_permit_at(now);
                if decided.is_err() {
                    self.handle.shared.want_and_wait();
                }
                decided.map(|permit| (permit, Seen::Bucket(view, now)))
            };
            let remote = |grant: Grant| {
                let left = Seen::Home(grant.left);
                Ok((self.permitted(grant)?, left))
            };
            self.stand_in_line_for(wait, local, remote).await
        };
        if outcome.is_ok() {
            self.tell_waited(wait.began, self.now());
        }
        outcome.map_err(|refused| self.deny(1, refused))
    }

    /// Stands in line as long as the caller allows.
    async fn stand_in_line_for<T>(
        &self,
        wait: Wait,
        local: impl Fn() -> Result<T, No>,
        remote: impl Fn(Grant) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let questions = Mutex::new(LineRequests::default());
        let in_line = self.stand_in_line(wait, &questions, &local, remote);
        let mut in_line = std::pin::pin!(in_line);
        let Some(most) = wait.most else {
            return in_line.await;
        };
        let clock = &self.handle.shared.clock;
        tokio::select! {
            // A caller that is served just in time counts as served.
            biased;
            outcome = in_line.as_mut() => return outcome,
            () = clock.sleep(most) => {}
        }
        let questions = || questions.lock().unwrap_or_else(PoisonError::into_inner);
        // The home takes the tokens of a question whether or not its answer is waited for.
        if questions().asking && !wait.is_strict {
            tokio::select! {
                biased;
                outcome = in_line => return outcome,
                () = clock.sleep(Self::ANSWER_WAIT) => {}
            }
        }
        let refused = questions().refused;
        local().map_err(|no| self.in_vain(no, refused))
    }

    /// Waits for its turn in line, and then until `local` or the home node decides. Keeps `questions` up to date.
    async fn stand_in_line<T>(
        &self,
        mut wait: Wait,
        questions: &Mutex<LineRequests>,
        local: impl Fn() -> Result<T, No>,
        remote: impl Fn(Grant) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        // The semaphore is never closed.
        let Ok(_turn) = self.key_state.line.acquire().await else {
            return Err(Refused::of(No::Closed));
        };
        let note = |asking, refused| {
            *questions.lock().unwrap_or_else(PoisonError::into_inner) =
                LineRequests { asking, refused };
        };
        let mut last: Option<HomeAnswer> = None;
        let (mut cold, mut round_trip) = (false, Duration::ZERO);
        loop {
            let changed = self.key_state.change.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let no = match self.note_first(local()) {
                Ok(taken) => return Ok(taken),
                Err(no) => no,
            };
            if cold && no != No::Cold {
                (wait.known, wait.began_cold) = (self.now(), true);
            }
            cold = no == No::Cold;
            let nap = match self.asks(no) {
                Some(kind) => {
                    let due = last.is_none_or(|last| last.again.is_some_and(|at| self.now() >= at));
                    let rest = self.rest(Duration::MAX, wait.began, wait);
                    // The answer would come too late, and the tokens that it tells of would be lost.
                    let is_too_late = due && wait.is_strict && rest < round_trip * 2;
                    if due && !is_too_late {
                        // A question without an answer may have taken its tokens.
                        note(true, None);
                        let asked = self.now();
                        let answer = self.ask_while_enforced(kind, wait.n, wait.retry_policy);
                        let answer = answer.await;
                        round_trip = Duration::from_nanos(self.now().since(asked).nanos());
                        note(false, None);
                        match answer {
                            Some(Ok(grant)) => return remote(grant),
                            Some(Err(refused)) => {
                                last = Some(self.record_answer(refused, last));
                                let decided = refused.reason != Reason::Undecided;
                                note(false, decided.then_some(refused));
                                if rest < round_trip {
                                    return Err(refused);
                                }
                            }
                            None => continue,
                        }
                    }
                    match self.is_decided_elsewhere() {
                        _ if is_too_late => Ok(rest),
                        true => self.nap_of_asker(last, wait),
                        false => self.nap_of_small_part(no, last, wait),
                    }
                }
                None => self.nap_of_waiter(no, wait),
            }?;
            tokio::select! {
                () = self.handle.shared.clock.sleep(nap) => {}
                () = changed => {}
            }
        }
    }

    /// Records what the first caller in line waits for, by its decision. Returns the decision.
    fn note_first<T>(&self, decided: Result<T, No>) -> Result<T, No> {
        match decided {
            Ok(_) | Err(No::NotYet(_) | No::Aged) => self.key_state.first_waits_for_time(),
            Err(_) => self.key_state.first_waits_for_capacity(self.now()),
        }
        decided
    }

    /// Returns the refusal of a caller whose time is over. If the home node decides, it is the last refusal by
    /// it, `refused`, if it has decided at all.
    fn in_vain(&self, no: No, refused: Option<Refused>) -> Refused {
        match self.asks(no).filter(|_| self.is_decided_elsewhere()) {
            Some(_) => refused.unwrap_or(Refused::undecided()),
            None => self.refused_for(no),
        }
    }

    fn record_answer(&self, refused: Refused, before: Option<HomeAnswer>) -> HomeAnswer {
        let now = self.now();
        let span = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let again = refused.retry_after;
        let trouble = before.and_then(|last| last.trouble).unwrap_or(now);
        HomeAnswer {
            refused,
            again: again.map(|wait| now.after(Span::from_nanos(span(wait)))),
            trouble: (refused.reason == Reason::Undecided).then_some(trouble),
        }
    }

    /// Returns how long to wait before the home node is asked again, or the refusal if it is not asked again.
    fn nap_of_asker(&self, last: Option<HomeAnswer>, wait: Wait) -> Result<Duration, Refused> {
        let Some(last) = last else {
            return Ok(Duration::ZERO);
        };
        let (central, now) = (self.key_state.home.is_central(), self.now());
        let Some(again) = last.again else {
            return Err(last.refused);
        };
        // If the budget is dealt, a share may still arrive; in central mode none does. But tokens may be on their way
        // back to the home: it says so, or the budget became known during the wait, and another client has used it.
        let comes_back = wait.began_cold || self.recalled_within(last.refused).is_some();
        if wait.asks_once() && central && !comes_back {
            return Err(last.refused);
        }
        let own = match last.refused.reason {
            // Time makes the tokens, and the home node saves them up for a caller that waits.
            Reason::Throttled if central => Duration::MAX,
            _ => Self::SHARE_WAIT,
        };
        let since = last.trouble.unwrap_or(self.since(No::Empty, wait));
        let rest = self.rest(own, since, wait);
        let nap = Duration::from_nanos(again.since(now).nanos());
        // In central mode only the home node can serve this caller, so its next answer must come in time.
        // Otherwise a share may arrive earlier.
        match rest.is_zero() || (central && nap > rest) {
            true => Err(last.refused),
            false => Ok(nap.min(rest)),
        }
    }

    /// Returns how long to wait for a small part, or until its node is asked again, or the refusal if neither is
    /// in time.
    fn nap_of_small_part(
        &self,
        no: No,
        last: Option<HomeAnswer>,
        wait: Wait,
    ) -> Result<Duration, Refused> {
        let here = self.nap_of_waiter(no, wait);
        let again = last
            .and_then(|last| last.again)
            .filter(|_| !self.is_beyond(wait.n));
        let (Some(again), Some(patience)) = (again, self.patience(no, wait)) else {
            return here;
        };
        let again = Duration::from_nanos(again.since(self.now()).nanos());
        let rest = self.rest(patience, self.since(no, wait), wait);
        match here {
            Ok(nap) => Ok(nap.min(again)),
            Err(_) if again < rest => Ok(again),
            Err(late) => Err(late),
        }
    }

    /// Returns how long to wait for what the session may bring, or the refusal if waiting does not help.
    fn nap_of_waiter(&self, no: No, wait: Wait) -> Result<Duration, Refused> {
        if self.is_beyond(wait.n) {
            return Err(self.refusal(wait.n, No::ExceedsBurst));
        }
        let patience = self.patience(no, wait).ok_or(self.refused_for(no))?;
        let rest = self.rest(patience, self.since(no, wait), wait);
        let nap = match no {
            No::NotYet(Some(wait)) => Duration::from_nanos(wait.nanos()),
            No::Aged => Duration::from_millis(1),
            _ => rest,
        };
        let late = nap > rest && !wait.asks_once();
        match rest.is_zero() || late {
            true => Err(self.refused_for(no)),
            false => Ok(nap.min(rest)),
        }
    }

    /// Returns what is left of `own`, counted from `since`, and of the time that the caller allows in all.
    fn rest(&self, own: Duration, since: Tick, wait: Wait) -> Duration {
        let now = self.now();
        let waited = |since: Tick| Duration::from_nanos(now.since(since).nanos());
        let own = own.saturating_sub(waited(since));
        let most = wait
            .most
            .map(|most| most.saturating_sub(waited(wait.began)));
        most.map_or(own, |most| own.min(most))
    }

    /// Returns the time from which a wait counts for capacity that time alone does not bring. The time in
    /// which the line waited for tokens to be made does not count.
    fn since(&self, no: No, wait: Wait) -> Tick {
        match no {
            // The end of a lease is the same for all callers, whenever they came.
            No::Lapsed => self.handle.shared.lapsed_at().unwrap_or(wait.began),
            No::Cold | No::Empty => wait.known.max(self.key_state.short_since()),
            _ => wait.known,
        }
    }

    /// Returns how long a caller waits in all after such a refusal; `None` if waiting does not help.
    fn patience(&self, no: No, wait: Wait) -> Option<Duration> {
        Some(match no {
            No::Cold => wait.cold,
            No::NotYet(Some(_)) | No::Aged => Duration::MAX,
            // Another caller will release a permit.
            No::Permits if self.own.is_some() => Duration::MAX,
            No::Empty | No::Quota | No::Permits => Self::SHARE_WAIT,
            // More of the burst may be moved here. A limit that is not leased has no other parts.
            No::ExceedsBurst if self.is_leased() => Self::SHARE_WAIT,
            // The session may be changing nodes. If that takes longer than a second, no caller begins to
            // wait.
            No::Lapsed => {
                let since = self.handle.shared.lapsed_at().unwrap_or(self.now());
                let left = Self::SHARE_WAIT > Duration::from_nanos(self.now().since(since).nanos());
                return left.then_some(Self::SHARE_WAIT);
            }
            _ => return None,
        })
    }

    /// Returns true if `n` is more than all clients together may have at once.
    fn is_beyond(&self, n: u64) -> bool {
        self.key_state.home.is_beyond(n) && self.is_leased()
    }

    fn is_leased(&self) -> bool {
        self.key_state.bucket.view(Tick::ZERO).slot.mode == AdmissionMode::Leased
    }

    /// Returns the refusal if `n` tokens cannot be there within `most`, given the callers that wait already.
    fn too_late(&self, n: u64, now: Tick, most: Option<Duration>) -> Option<No> {
        let view = self.key_state.bucket.view(now);
        let most = Span::from_nanos(u64::try_from(most?.as_nanos()).ok()?);
        let ahead = self.key_state.tally.waiting().saturating_add(n);
        let decides = matches!(
            view.slot.mode,
            AdmissionMode::Leased | AdmissionMode::Floor | AdmissionMode::Forever
        );
        let here = !self.is_decided_elsewhere() && !self.has_small_part(No::NotYet(None));
        let waits = decides && view.slot.kind == Kind::Rate && here;
        let wait = waits.then(|| view.wait_for(ahead))?;
        wait.is_none_or(|wait| wait > most)
            .then_some(No::NotYet(wait))
    }
}
