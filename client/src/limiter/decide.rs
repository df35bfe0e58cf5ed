//! Decisions that return the state of the limit together with the outcome.

use super::decision::Decision;
use super::{Limiter, Reservation};
use crate::bucket::No;
use crate::bucket::described::LimitInfo;
use crate::bucket::reserve::BucketCharge;
use crate::bucket::view::View;
use crate::limiter::permit::Permit;
use crate::limiter::refused::{Admission, Refused};
use crate::limiter::session_requests::Grant;
use aliquot_core::unit::{PeriodId, Span, Tick};
use std::time::Duration;

/// The state that a decision saw.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    /// The bucket as the decision left it, at this reading.
    Bucket(View, Tick),
    /// The tokens that the home node has left, if it told them.
    Home(Option<u64>),
    /// Nothing: the caller waited before it was refused.
    Nothing,
}

impl Seen {
    /// Returns true if a node brought something since `before`: it decided itself, or the part that is held here
    /// has more burst. Otherwise time made what was taken.
    fn was_brought_since(self, before: Self) -> bool {
        match (before, self) {
            (Self::Bucket(before, _), Self::Bucket(now, _)) => {
                now.slot.grains(now.slot.burst) > before.slot.grains(before.slot.burst)
            }
            _ => true,
        }
    }
}

impl Limiter {
    /// Takes `n` tokens if they are available now, and returns the state of the limit together with the outcome.
    ///
    /// It decides as [`Limiter::try_acquire`] does, but never on a thread's cached tokens, because the figures
    /// belong to the word that this decision swapped: [`LimitInfo::remaining`] is what this decision left, however
    /// many other threads decide at the same time. Tokens in the caches of other callers count as remaining, and
    /// are an estimate.
    ///
    /// A cost of 0 takes nothing. It is admitted unless the level is below zero, and so serves as a look at the
    /// figures.
    pub fn decide(&self, n: u64) -> Decision {
        self.decide_at(n, self.now())
    }

    /// [`Limiter::decide`] at `now`, a reading of the limiter's clock.
    pub fn decide_at(&self, n: u64, now: Tick) -> Decision {
        self.decide_after(|| Ok(()), n, now)
            .map(|charge| Admission::of(n, &charge))
    }

    /// [`Limiter::decide`] that also asks a node, once and for at most `most`, if the tokens are not held here: see
    /// [`Limiter::check`]. It never waits for tokens that time makes.
    ///
    /// [`Duration::MAX`] allows as long as [`Limiter::check`] takes. With `most` zero no node is asked. A budget in
    /// central mode is then refused as [`Reason::Undecided`](crate::Reason::Undecided), as it is when its home node
    /// does not answer in time.
    ///
    /// A refusal after a wait has the figures of that moment, which other callers may have changed since. An
    /// admission by a home node has what that node had left after it; a refusal, or a cost of 0, what its last answer
    /// to any caller told.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn decide_within(&self, n: u64, most: Duration) -> Decision {
        let (outcome, seen) = self.ask_within(n, most).await;
        Decision {
            outcome: outcome.map(|charge| Admission::of(n, &charge)),
            info: self.describe_seen(seen),
        }
    }

    /// [`Limiter::decide_within`] that returns a reservation: it can be settled for the actual cost, or put back
    /// ([`Reservation::settle`]).
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn decide_to_settle_within(&self, n: u64, most: Duration) -> Decision<Reservation> {
        let (outcome, seen) = self.ask_within(n, most).await;
        Decision {
            outcome: outcome.map(|charge| self.reserved(n, charge)),
            info: self.describe_seen(seen),
        }
    }

    /// Takes a permit if one is free now, and returns the state of the limit together with the outcome: of permits
    /// what [`Limiter::decide`] is of tokens. [`LimitInfo::remaining`] is what this decision left, however many other
    /// threads take and release permits at the same time.
    pub fn decide_permit(&self) -> Decision<Permit> {
        self.decide_permit_at(self.now())
    }

    /// [`Limiter::decide_permit`] at `now`, a reading of the limiter's clock.
    pub fn decide_permit_at(&self, now: Tick) -> Decision<Permit> {
        let (permit, view) = self.permit_now(now);
        Decision {
            outcome: permit.map_err(|no| self.refuse(1, no)),
            info: self.describe_view(&view, now),
        }
    }

    /// Takes a permit if one is free, and waits for at most `most` for one that a node may bring, as
    /// [`Limiter::decide_within`] does for tokens. It does not wait while all permits are in flight here. The figures
    /// are those of [`Limiter::decide_within`].
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn decide_permit_within(&self, most: Duration) -> Decision<Permit> {
        let (outcome, seen) = self.permit_within(most).await;
        Decision {
            outcome,
            info: self.describe_seen(seen),
        }
    }

    async fn permit_within(&self, most: Duration) -> (Result<Permit, Refused>, Seen) {
        let now = self.now();
        let (permit, view) = self.permit_now(now);
        let here = Seen::Bucket(view, now);
        let no = match permit {
            Ok(permit) => return (Ok(permit), here),
            Err(no) => no,
        };
        let comes =
            self.may_come(no, 1) || self.asks(no).is_some() || self.has_permits_elsewhere(no);
        if self.own.is_some() || most.is_zero() || !comes {
            return (Err(self.refuse(1, no)), here);
        }
        if let Some(left) = self.waited_in_vain(1, no) {
            return (Err(self.refuse_in_vain(1, no, left)), here);
        }
        let wait = self.single_wait(1, no, most);
        let outcome = self.wait_for_permit(wait).await;
        match self.probed(1, no, outcome, |_| true) {
            Ok((permit, seen)) => (Ok(permit), seen),
            Err(refused) if self.key_state.home.is_central() => {
                (Err(refused), Seen::Home(self.key_state.home.left()))
            }
            Err(refused) => (Err(refused), Seen::Nothing),
        }
    }

    /// Decides at `now`, after the check `first`, and counts the outcome.
    pub(super) fn decide_after(
        &self,
        first: impl Fn() -> Result<(), No>,
        n: u64,
        now: Tick,
    ) -> Decision<BucketCharge> {
        let (charge, view) = self.take_and_view(first, n, now);
        Decision {
            outcome: charge.map_err(|no| self.refuse(n, no)),
            info: self.describe_view(&view, now),
        }
    }

    /// Takes `n` tokens that are there now. Returns also the bucket as the decision left it or, if it refused, found
    /// it. Counts an admission, and no refusal.
    fn take_and_view(
        &self,
        first: impl Fn() -> Result<(), No>,
        n: u64,
        now: Tick,
    ) -> (Result<BucketCharge, No>, View) {
        let (bucket, lease) = (&self.key_state.bucket, &self.handle.shared.lease.0);
        let seen = std::cell::Cell::new(None);
        let charge = self.taking_or_no(n, now, || {
            first()?;
            let (charge, view) = bucket.reserve_and_view(n, now, Span::ZERO, lease);
            seen.set(Some(view));
            charge
        });
        (charge, seen.get().unwrap_or_else(|| bucket.view(now)))
    }

    /// Decides, and asks a node once and for at most `most` if the tokens are not held here. Counts the outcome.
    pub(super) async fn ask_within(
        &self,
        n: u64,
        most: Duration,
    ) -> (Result<BucketCharge, Refused>, Seen) {
        let (charge, here) = self.take_and_see(n, self.now());
        let no = match charge {
            Ok(charge) => return (Ok(charge), here),
            Err(no) => no,
        };
        let asked_for = self.is_asked_for(no);
        let decided_at_home = asked_for && self.is_decided_elsewhere();
        let waits =
            self.own.is_none() && !most.is_zero() && !decided_at_home && self.may_come(no, n);
        let in_vain = match waits {
            true => self.waited_in_vain(n, no),
            false => None,
        };
        match in_vain {
            // A part of the budget that is held here may be small while other clients hold the rest: it may grow.
            _ if asked_for && (!waits || in_vain.is_some()) => {
                return self.ask_home_within(n, no, most).await;
            }
            Some(left) => return (Err(self.refuse_in_vain(n, no, left)), here),
            None if !waits => return (Err(self.refuse(n, no)), here),
            None => {}
        }
        let local = |now| {
            let (charge, seen) = self.take_and_see(n, now);
            charge.map(|charge| (charge, seen))
        };
        let remote = |grant: Grant| {
            let charge = self.charged_at_home(n, &grant);
            Ok((charge, Seen::Home(grant.left)))
        };
        let wait = self.single_wait(n, no, most);
        let outcome = self.wait_for_part(wait, local, remote).await;
        let brought = |(_, then): &(_, Seen)| then.was_brought_since(here);
        match self.probed(n, no, outcome, brought) {
            Ok((charge, seen)) => (Ok(charge), seen),
            Err(refused) => (Err(refused), Seen::Nothing),
        }
    }

    /// Takes `n` tokens that are there now. Nothing can be taken of a budget in central mode, whatever its home has; a
    /// later charge on top of it goes to the home.
    fn take_and_see(&self, n: u64, now: Tick) -> (Result<BucketCharge, No>, Seen) {
        let (charge, view) = self.take_and_view(|| Ok(()), n, now);
        let central = n == 0 && self.key_state.home.is_central();
        match charge {
            Err(no) if central && self.asks(no).is_some() => {
                let nothing = BucketCharge::at_home(now, now, PeriodId::new(0));
                (Ok(nothing), Seen::Home(self.key_state.home.left()))
            }
            charge => (charge, Seen::Bucket(view, now)),
        }
    }

    /// Asks the home node, for at most `most`.
    async fn ask_home_within(
        &self,
        n: u64,
        no: No,
        most: Duration,
    ) -> (Result<BucketCharge, Refused>, Seen) {
        let left = || Seen::Home(self.key_state.home.left());
        let too_late = || {
            // The part that is held here is spent, whatever a node would have said.
            let refused = match self.is_decided_elsewhere() {
                true => Refused::undecided(),
                false => self.refusal(n, no),
            };
            Err(self.deny(n, refused))
        };
        let grant = match most {
            Duration::ZERO => too_late(),
            most => self.check_at_home(n, no, most).await,
        };
        match grant {
            Ok(Some(grant)) => {
                let left = Seen::Home(grant.left);
                (Ok(self.charged_at_home(n, &grant)), left)
            }
            Ok(None) => {
                self.pass(n);
                (Ok(BucketCharge::nothing(self.now())), left())
            }
            Err(refused) => (Err(refused), left()),
        }
    }

    fn describe_seen(&self, seen: Seen) -> Option<LimitInfo> {
        match seen {
            Seen::Bucket(view, now) => self.describe_view(&view, now),
            Seen::Home(left) => self.describe_home(left),
            Seen::Nothing => self.describe(),
        }
    }
}
