//! Decisions that return the state of the limit together with the outcome.

use super::combined::combine::Receipt;
use super::decision::Decision;
use super::{Limiter, Reservation};
use crate::bucket::described::LimitInfo;
use crate::bucket::reserve::BucketCharge;
use crate::bucket::view::View;
use crate::bucket::{AdmissionMode, No};
use crate::limiter::permit::Permit;
use crate::limiter::refused::{Admission, Reason, Refused};
use crate::limiter::session_requests::Grant;
use aliquot_core::central::SMALL_BURST;
use aliquot_core::unit::{PeriodId, Span, Tick};
use std::time::Duration;

/// Returns true if tokens were missing that exist at some time.
const fn is_short(refused: Refused) -> bool {
    matches!(refused.reason, Reason::Throttled | Reason::Quota) && !refused.is_never()
}

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
    /// A cost of 0 takes nothing. It is admitted unless the level is below zero, so it can be used to read the
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
    /// [`Duration::MAX`] sets no limit of its own: the call takes at most as long as [`Limiter::check`]. If `most`
    /// is zero, no node is asked. A budget in
    /// central mode is then refused as [`Reason::Undecided`], as it is when its home node
    /// does not answer in time.
    ///
    /// A refusal after a wait carries the figures of the moment of the refusal, which other callers may have
    /// changed since. An admission by a home node carries the number of tokens that the home had left afterwards. A
    /// refusal, or a cost of 0, carries the number from the home's last answer to any caller. For a cost of 0, a
    /// node is asked first if no answer is known, or if nothing is held here and the budget is not in central mode.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn decide_within(&self, n: u64, most: Duration) -> Decision {
        let (outcome, info) = self.ask_and_describe(n, most).await;
        Decision {
            outcome: outcome.map(|charge| Admission::of(n, &charge)),
            info,
        }
    }

    /// [`Limiter::decide_within`] that returns a reservation: it can be settled for the actual cost, or put back
    /// ([`Reservation::settle`]).
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn decide_to_settle_within(&self, n: u64, most: Duration) -> Decision<Reservation> {
        let (outcome, info) = self.ask_and_describe(n, most).await;
        Decision {
            outcome: outcome.map(|charge| self.reserved(n, charge)),
            info,
        }
    }

    /// Takes `n` tokens if this process has them now, and returns their receipt with the state of the limit.
    ///
    /// `None` is no refusal and counts as none: a node may bring what is missing. [`Limiter::decide_within`] decides
    /// then. A server that tries this first creates no future for most of its decisions.
    ///
    /// ```
    /// use aliquot_client::combined::Combine;
    /// use aliquot_client::{Limit, Limiter, ManualClock};
    /// use std::sync::Arc;
    ///
    /// let clock = Arc::new(ManualClock::new());
    /// let limiter = Limiter::local_with(Limit::per_sec(10), 2, clock)?;
    /// let (receipt, info) = limiter.take_here(2).expect("there are two");
    /// assert_eq!((receipt.tokens(), info.map(|info| info.remaining)), (2, Some(0)));
    /// assert!(limiter.take_here(1).is_none());
    /// assert_eq!(limiter.put_back(&receipt, 2), 2);
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    #[must_use = "the tokens are taken if it returns a receipt"]
    pub fn take_here(&self, n: u64) -> Option<(Receipt, Option<LimitInfo>)> {
        self.take_here_at(n, self.now())
    }

    /// [`Limiter::take_here`] at `now`, a reading of the limiter's clock.
    #[must_use = "the tokens are taken if it returns a receipt"]
    pub fn take_here_at(&self, n: u64, now: Tick) -> Option<(Receipt, Option<LimitInfo>)> {
        let (charge, seen) = self.take_and_see(n, now);
        // A charge of nothing may be answered without the state of the limit, which a node has to tell.
        let Seen::Bucket(view, now) = seen else {
            return None;
        };
        let receipt = Receipt::of_bucket(n, charge.ok()?);
        Some((receipt, self.describe_view(&view, now)))
    }

    /// Takes a permit if one is free now, and returns the state of the limit together with the outcome, as
    /// [`Limiter::decide`] does for tokens. [`LimitInfo::remaining`] is what this decision left, however many other
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

    /// Takes a permit if one is free, and otherwise waits at most `most` for one that a node may grant, as
    /// [`Limiter::decide_within`] does for tokens. It does not wait while all permits are in flight here. The
    /// figures
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

    /// Decides as [`Limiter::ask_within`], and describes the limit. The figures of a refusal agree with its wait.
    async fn ask_and_describe(
        &self,
        n: u64,
        most: Duration,
    ) -> (Result<BucketCharge, Refused>, Option<LimitInfo>) {
        let (outcome, seen) = self.ask_within(n, most).await;
        let refused = match outcome {
            Ok(charge) => return (Ok(charge), self.describe_seen(seen)),
            Err(refused) => refused,
        };
        let info = self.describe_seen(seen).or_else(|| {
            // Others hold what was asked for, so that nothing can be had but what is left here.
            let view = self.key_state.bucket.view(self.now());
            let left = is_short(refused).then(|| view.tokens(view.level));
            self.describe_home(left)
        });
        let info = info.map(|info| match seen {
            Seen::Home(_) => self.full_after(n, refused, info),
            _ => info,
        });
        (Err(self.until_reset(refused, info)), info)
    }

    /// Returns the figures of a refused rate with the time until the bucket is full: it has `n` tokens after the wait.
    fn full_after(&self, n: u64, refused: Refused, info: LimitInfo) -> LimitInfo {
        let rest = self.key_state.home.largest().saturating_sub(n);
        let scale = self.key_state.bucket.view(Tick::ZERO).scale;
        let more = self.time_to_make(u128::from(rest) * u128::from(scale));
        match (refused.reason, refused.retry_after) {
            (Reason::Throttled, Some(wait)) => LimitInfo {
                reset: more.map(|more| wait.saturating_add(more)),
                ..info
            },
            _ => info,
        }
    }

    /// Returns the time in which the whole rate of a leased budget makes this many grains; `None` if the rate is not
    /// known.
    fn time_to_make(&self, grains: u128) -> Option<Duration> {
        let rate = Some(self.key_state.home.rate()).filter(|rate| *rate > 0)?;
        let nanos = grains.saturating_mul(1_000_000_000).div_ceil(rate.into());
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Some(Duration::from_nanos(nanos))
    }

    /// Returns the refusal of a spent period with the time until its end that the figures tell. The end is told
    /// twice, by this client's clock and by the node's, with one margin for each clock on the way.
    fn until_reset(&self, refused: Refused, info: Option<LimitInfo>) -> Refused {
        let end = self.key_state.home.period_end(self.now());
        // Before all is given away, more is promised within a second. A node's longer wait is the end.
        let spent =
            end.is_some_and(|end| end.exhausted) || refused.retry_after > Some(Refused::LATER);
        let ends = spent && refused.reason == Reason::Quota && !refused.is_never();
        let reset = info.and_then(|info| info.reset).filter(|_| ends);
        Refused {
            retry_after: reset.or(refused.retry_after),
            ..refused
        }
    }

    /// Returns the refusal of a rate of which little or nothing is held here with the time in which the whole rate makes
    /// what is missing.
    ///
    /// Such a part makes it later, and a node is asked again much earlier. But small parts are one bucket at their node,
    /// and of what others hold nothing came. What a node tells to have left comes with a wait that is right. It is a
    /// hint: no admission depends on it.
    fn until_made(&self, n: u64, refused: Refused, seen: Seen) -> Refused {
        /// The pause before a node is asked again that recalls parts. A wait is not made shorter than that, since the
        /// callers of many clients would come at once.
        const PAUSE: Duration = Duration::from_millis(100);
        let view = self.key_state.bucket.view(self.now());
        let burst = view.slot.grains(view.slot.burst);
        // Without a lease only the floor is left of the rate.
        let small = view.slot.mode == AdmissionMode::Leased && view.tokens(burst) < SMALL_BURST;
        let told = matches!(seen, Seen::Home(Some(_)));
        if refused.reason != Reason::Throttled || refused.is_never() || !small || told {
            return refused;
        }
        let wanted = u128::from(n) * u128::from(view.scale) + u128::from(view.missing);
        let made = self.time_to_make(wanted.saturating_sub(burst.into()));
        let pause = refused.retry_after.unwrap_or(PAUSE).min(PAUSE);
        Refused {
            retry_after: made.map(|made| made.max(pause)).or(refused.retry_after),
            ..refused
        }
    }

    /// Decides, and asks a node once and for at most `most` if the tokens are not held here. Counts the outcome.
    ///
    /// Waits are boxed: their futures are large, and each caller's future would contain them and be copied with them,
    /// although most decisions wait for nothing.
    pub(super) async fn ask_within(
        &self,
        n: u64,
        most: Duration,
    ) -> (Result<BucketCharge, Refused>, Seen) {
        let (outcome, mut seen) = self.ask_for(n, most).await;
        let untold = outcome.is_ok() && matches!(seen, Seen::Home(None));
        if n == 0 && untold && !most.is_zero() {
            seen = Box::pin(self.look_within(most)).await;
        }
        let outcome = outcome.map_err(|refused| self.until_made(n, refused, seen));
        (outcome, seen)
    }

    /// Looks at a budget of which nothing is held here: a node tells what it has left, or else the first share that
    /// comes does.
    async fn look_within(&self, most: Duration) -> Seen {
        let began = self.now();
        let left = self.look_at_home(most).await;
        if left.is_some() || self.key_state.home.is_central() {
            return Seen::Home(left);
        }
        let most = most.saturating_sub(Duration::from_nanos(self.now().since(began).nanos()));
        let local = |now| {
            let (charge, view) = self.take_and_view(|| Ok(()), 0, now);
            charge.map(|_| Seen::Bucket(view, now))
        };
        let remote = |grant: Grant| Ok(Seen::Home(grant.left));
        let wait = self.single_wait(0, No::Empty, most);
        let came = self.wait_for_part(wait, local, remote).await;
        came.unwrap_or(Seen::Home(None))
    }

    async fn ask_for(&self, n: u64, most: Duration) -> (Result<BucketCharge, Refused>, Seen) {
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
                return Box::pin(self.ask_home_within(n, no, most)).await;
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
        let outcome = Box::pin(self.wait_for_part(wait, local, remote)).await;
        let brought = |(_, then): &(_, Seen)| then.was_brought_since(here);
        match self.probed(n, no, outcome, brought) {
            Ok((charge, seen)) => (Ok(charge), seen),
            Err(refused) => (Err(refused), Seen::Nothing),
        }
    }

    /// Takes `n` tokens that are there now. Nothing can be taken of a budget of which nothing is held here, whatever
    /// its home has; a later charge on top of it goes to the home.
    fn take_and_see(&self, n: u64, now: Tick) -> (Result<BucketCharge, No>, Seen) {
        let (charge, view) = self.take_and_view(|| Ok(()), n, now);
        let elsewhere = n == 0 && self.is_decided_elsewhere();
        match charge {
            Err(no) if elsewhere && self.asks(no).is_some() => {
                let nothing = BucketCharge::at_home(now, now, PeriodId::new(0));
                // In central mode a node's last answer is recent. Otherwise shares may have decided since.
                let home = &self.key_state.home;
                let left = home.left().filter(|_| home.is_central());
                (Ok(nothing), Seen::Home(left))
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
