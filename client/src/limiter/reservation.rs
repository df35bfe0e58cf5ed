//! Tokens taken for later, and costs that are known only afterwards.

use super::Limiter;
use super::combined::combine::Receipt;
use crate::bucket::No;
use crate::bucket::reserve::BucketCharge;
use crate::limiter::refused::{Admission, Refused};
use crate::limiter::session_requests::Grant;
use aliquot_core::central::RetryPolicy;
use aliquot_core::unit::{Span, Tick};
use std::time::Duration;

/// Tokens that were taken: use them from [`Reservation::act_at`] on, settle them, or put them back.
///
/// Dropping a reservation keeps its tokens taken. If the cost is known only after the request, call
/// [`Reservation::settle`] then. To wait for the estimate first, use [`Limiter::acquire_to_settle`].
///
/// ```
/// use aliquot_client::{Limit, Limiter, ManualClock};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let clock = Arc::new(ManualClock::new());
/// let limiter = Limiter::local_with(Limit::per_sec(10), 2, clock)?;
/// let now = limiter.reserve(2).expect("there are two");
/// assert_eq!(now.delay(), Duration::ZERO);
/// let later = limiter.reserve(1).expect("one is made in time");
/// assert_eq!(later.delay(), Duration::from_millis(100));
/// assert_eq!(later.cancel(), 1);
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Debug)]
#[must_use = "the tokens are taken: act at `act_at`, or cancel"]
pub struct Reservation {
    limiter: Limiter,
    tokens: u64,
    charge: BucketCharge,
}

impl Limiter {
    /// Takes `n` tokens now, for use when they are made, however late that is.
    ///
    /// A leased limit may be recalled before its tokens are made. So only tokens that are there now can be
    /// reserved from it, and its reservations are due at once. To wait for a leased limit use
    /// [`Limiter::acquire`].
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken. A cost above the burst is refused, and so is a reservation for which the
    /// limiter would owe too much: it can owe at least three bursts, or the tokens of 18 hours if the burst is not
    /// larger than those.
    pub fn reserve(&self, n: u64) -> Result<Reservation, Refused> {
        self.reserve_at(n, self.now())
    }

    /// [`Limiter::reserve`] at `now`, a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve`].
    pub fn reserve_at(&self, n: u64, now: Tick) -> Result<Reservation, Refused> {
        self.reserve_within_at(n, Duration::MAX, now)
    }

    /// [`Limiter::reserve`] if the tokens are made within `most`. Zero takes only tokens that are there now.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve`]. The refusal carries the wait that would have been necessary.
    pub fn reserve_within(&self, n: u64, most: Duration) -> Result<Reservation, Refused> {
        self.reserve_within_at(n, most, self.now())
    }

    /// [`Limiter::reserve_within`] at `now`, a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve_within`].
    pub fn reserve_within_at(
        &self,
        n: u64,
        most: Duration,
        now: Tick,
    ) -> Result<Reservation, Refused> {
        // A dry run and a bypass admit at once a request that would wait.
        let most = match self.key_state.switch.lets_through() {
            true => Span::ZERO,
            false => Span::from_nanos(u64::try_from(most.as_nanos()).unwrap_or(u64::MAX)),
        };
        let charge = self.take_within(n, most, now)?;
        Ok(self.reserved(n, charge))
    }

    /// [`Limiter::acquire`] for a cost that is known only afterwards: the reservation can be settled, and is
    /// due.
    ///
    /// Settle it as soon as the cost is known, and prefer an estimate that is too low: a refund counts only as far
    /// as the bucket would still have had room for it. [`Reservation::settle`] says what can be
    /// put back, and when nothing can.
    ///
    /// ```
    /// use aliquot_client::{Limit, Limiter};
    ///
    /// # async fn ask(prompt: &str) -> u64 { prompt.len() as u64 }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tokens = Limiter::local(Limit::per_sec(100), 1_000)?;
    /// let call = tokens.acquire_to_settle(10).await?;
    /// let used = ask("why is the sky blue").await;
    /// let settled = call.settle(used);
    /// assert_eq!((settled.taken, tokens.tokens() as u64), (9, 981));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Limiter::acquire`]; nothing was taken.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn acquire_to_settle(&self, n: u64) -> Result<Reservation, Refused> {
        self.wait_to_settle(n, None, RetryPolicy::Waits).await
    }

    /// [`Limiter::acquire_to_settle`] that waits at most `most`. Refuses at once if the tokens cannot be
    /// there in time. For no wait at all use [`Limiter::reserve_within`] with zero.
    ///
    /// # Errors
    ///
    /// As [`Limiter::acquire_within`]; nothing was taken.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn acquire_to_settle_within(
        &self,
        n: u64,
        most: Duration,
    ) -> Result<Reservation, Refused> {
        self.wait_to_settle(n, Some(most), RetryPolicy::Waits).await
    }

    /// Decides as [`Limiter::check`] does, and returns a reservation that can be settled.
    ///
    /// # Errors
    ///
    /// As [`Limiter::check`]; nothing was taken.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn check_to_settle(&self, n: u64) -> Result<Reservation, Refused> {
        let (outcome, _) = self.ask_within(n, Duration::MAX).await;
        outcome.map(|charge| self.reserved(n, charge))
    }

    async fn wait_to_settle(
        &self,
        n: u64,
        most: Option<Duration>,
        retry_policy: RetryPolicy,
    ) -> Result<Reservation, Refused> {
        if let Some(own) = &self.own {
            return self.wait_for_own(own, n, most).await;
        }
        let local = |now| Ok(self.reserved(n, self.take_now(n, now)?));
        let remote = |grant| Ok(self.reserved_at_home(n, &grant));
        let wait = self.wait_of(n, most, retry_policy);
        self.wait_for_part(wait, local, remote).await
    }

    pub(super) fn reserved(&self, n: u64, charge: BucketCharge) -> Reservation {
        Reservation {
            limiter: self.clone(),
            tokens: n,
            charge,
        }
    }

    /// Makes the reservation of tokens that the home node granted.
    fn reserved_at_home(&self, n: u64, grant: &Grant) -> Reservation {
        self.reserved(n, self.charged_at_home(n, grant))
    }

    fn take_now(&self, n: u64, now: Tick) -> Result<BucketCharge, No> {
        let lease = &self.handle.shared.lease.0;
        self.taking_or_no(n, now, || {
            self.key_state.bucket.reserve(n, now, Span::ZERO, lease)
        })
    }

    /// Takes `n` tokens for use within `most`.
    pub(super) fn take_within(
        &self,
        n: u64,
        most: Span,
        now: Tick,
    ) -> Result<BucketCharge, Refused> {
        let lease = &self.handle.shared.lease.0;
        let reserve = |most| self.key_state.bucket.reserve(n, now, most, lease);
        self.taking(n, now, || {
            let there = reserve(Span::ZERO);
            match &self.own {
                Some(own) if !most.is_zero() && matches!(there, Err(No::NotYet(_))) => {
                    own.line.book_for_later(|| reserve(most))
                }
                _ => there,
            }
        })
    }

    /// Takes `n` tokens by `reserve`, and counts the outcome.
    pub(super) fn taking(
        &self,
        n: u64,
        now: Tick,
        reserve: impl Fn() -> Result<BucketCharge, No>,
    ) -> Result<BucketCharge, Refused> {
        let charge = self.taking_or_no(n, now, reserve);
        charge.map_err(|no| self.refuse(n, no))
    }

    /// The same, but does not count a refusal.
    pub(super) fn taking_or_no(
        &self,
        n: u64,
        now: Tick,
        reserve: impl Fn() -> Result<BucketCharge, No>,
    ) -> Result<BucketCharge, No> {
        let charge = reserve().or_else(|no| self.mend_and(no, n, now, &reserve));
        let charge = match charge {
            Ok(charge) => charge,
            Err(no) => return self.apply_mode_to_charge(n, no, now),
        };
        self.admitted_here(n);
        Ok(charge)
    }

    /// Takes up to `n` more tokens than were asked for, and returns how many it took.
    pub(super) fn owe(&self, charge: &BucketCharge, n: u64, now: Tick) -> u64 {
        let bucket = &self.key_state.bucket;
        let taken = bucket.exact(charge, n, now);
        let Some(own) = &self.own else {
            return taken;
        };
        // The base may be so far behind that the word has no room for the rest.
        let taken = match taken < n {
            true => {
                own.renew(now);
                taken + bucket.exact(charge, n - taken, now)
            }
            false => taken,
        };
        own.line
            .charged_behind(taken.saturating_mul(bucket.view(now).scale));
        taken
    }

    /// Puts back up to `n` of the tokens taken, and returns how many of them other callers can have.
    pub(super) fn restore(&self, charge: &BucketCharge, n: u64, clock: impl Fn() -> Tick) -> u64 {
        let bucket = &self.key_state.bucket;
        let grains = match &self.own {
            Some(own) => own.line.put_back(bucket, charge, n, &clock),
            None => bucket.put_back_of(charge, n, &clock),
        };
        if grains == 0 {
            return 0;
        }
        if self.own.is_none() {
            self.key_state.changed();
        }
        grains / bucket.view(charge.at).scale.max(1)
    }
}

impl Reservation {
    /// Returns the number of tokens taken.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the clock reading from which the tokens may be used. A later change of the rate does not move
    /// it.
    #[must_use]
    pub const fn act_at(&self) -> Tick {
        self.charge.act_at
    }

    /// Returns the number of the quota's period that the tokens belong to; zero for other kinds.
    #[must_use]
    pub const fn period(&self) -> u64 {
        self.charge.period.get()
    }

    /// Returns the reservation as an admission, to check it against a limit: it counts at some time between
    /// the reading at which it was taken and [`Reservation::act_at`].
    #[must_use]
    pub const fn admission(&self) -> Admission {
        Admission::of(self.tokens, &self.charge)
    }

    /// Returns true if the home node of the budget granted the tokens. Nothing can be put back then.
    #[must_use]
    pub const fn is_from_home(&self) -> bool {
        self.charge.is_at_home()
    }

    /// Returns the receipt, with which the limiter can put the tokens back
    /// ([`Combine::put_back`](crate::combined::Combine::put_back)); `None` if nothing can be put back. It is smaller
    /// than the reservation, since it does not refer to the limiter.
    #[must_use]
    pub const fn receipt(&self) -> Option<Receipt> {
        match self.tokens == 0 || self.is_from_home() {
            true => None,
            false => Some(Receipt::of_bucket(self.tokens, self.charge)),
        }
    }

    /// Returns the time that is left until [`Reservation::act_at`]; zero if it has passed.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay_at(self.limiter.now())
    }

    /// [`Reservation::delay`] at `now`, a reading of the limiter's clock.
    #[must_use]
    pub const fn delay_at(&self, now: Tick) -> Duration {
        Duration::from_nanos(self.charge.act_at.since(now).nanos())
    }

    /// Gives the reservation up. Returns the number of tokens that other callers can have for it, rounded
    /// down.
    ///
    /// Returns 0 once [`Reservation::act_at`] has passed, since the tokens may have been used, and while a
    /// later reservation waits for its time, which these tokens delayed.
    pub fn cancel(self) -> u64 {
        self.cancel_by(|| self.limiter.now())
    }

    /// [`Reservation::cancel`] at `now`, a reading of the limiter's clock.
    pub fn cancel_at(self, now: Tick) -> u64 {
        self.cancel_by(|| now)
    }

    fn cancel_by(&self, clock: impl Fn() -> Tick) -> u64 {
        match self.charge.act_at < clock() {
            true => 0,
            false => self.limiter.restore(&self.charge, self.tokens, clock),
        }
    }

    /// Settles the reservation for its actual cost, in tokens.
    ///
    /// - If the cost is lower, the difference is put back, as far as that creates no tokens. Tokens that would have
    ///   overflowed the bucket in the meantime are lost, so a refund counts in full only while less than
    ///   `(burst − tokens) ÷ rate` has passed.
    /// - If the cost is higher, the difference is taken, whether it is available or not, and later requests wait
    ///   for it. If the limiter cannot owe that much, it takes as much as it can owe. From a quota, it takes at
    ///   most what is left.
    ///
    /// For a leased limit this holds within this process's part. If a part was recalled, a debt that went
    /// with it is not put back any more. Nothing is put back once the part itself is another one: the session
    /// began anew on another edge, or the period of the quota is over.
    ///
    /// Tokens that a home node granted ([`Reservation::is_from_home`]) are not put back. If the call cost more
    /// than its estimate, this process asks the home node for the difference before it asks for anything else, so
    /// later requests wait for it too. Of a quota the difference is not taken.
    pub fn settle(self, actual: u64) -> Settled {
        self.settle_by(actual, || self.limiter.now())
    }

    /// [`Reservation::settle`] at `now`, a reading of the limiter's clock.
    pub fn settle_at(self, actual: u64, now: Tick) -> Settled {
        self.settle_by(actual, || now)
    }

    fn settle_by(&self, actual: u64, clock: impl Fn() -> Tick) -> Settled {
        if let Some(less) = self.tokens.checked_sub(actual) {
            let restored = self.limiter.restore(&self.charge, less, clock);
            return Settled { restored, taken: 0 };
        }
        let now = clock();
        let more = actual - self.tokens;
        let taken = match self.charge.is_at_home() {
            true => self.limiter.owe_at_home(more, now),
            false => self.limiter.owe(&self.charge, more, now),
        };
        if taken > 0 {
            self.limiter.admitted_here(taken);
        }
        Settled { restored: 0, taken }
    }
}

/// Result of settling a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Tokens put back, rounded down.
    pub restored: u64,
    /// Additional tokens taken: fewer than the cost if the limiter cannot owe as many, and zero if the edge is
    /// gone under which the first tokens were taken.
    pub taken: u64,
}
