//! Tokens for later, and costs that are known only afterwards.

use super::Limiter;
use crate::cell::No;
use crate::cell::book::Taken;
use crate::central::Grant;
use crate::refused::{Admission, Refused};
use aliquot_core::central::Manner;
use aliquot_core::unit::{PeriodId, Span, Tick};
use std::time::Duration;

/// Tokens that were taken: to be used from [`Reservation::act_at`] on, or put back.
///
/// Dropping it keeps them taken. Who learns only afterwards what a request cost
/// says so with [`Reservation::settle`]; who waits for the estimate first asks for it with [`Limiter::acquire_to_settle`].
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
    taken: Taken,
}

impl Limiter {
    /// Takes `n` tokens now for use when they are made, however late that is.
    ///
    /// What is leased may be recalled before it is made: of a leased limit only what is
    /// there now can be taken, and its reservations are due at once. There,
    /// [`Limiter::acquire`] waits.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken. More than the burst is refused, and what is
    /// later than a limiter can owe: that is three bursts at least, and 18 hours' tokens
    /// where the burst is not greater.
    pub fn reserve(&self, n: u64) -> Result<Reservation, Refused> {
        self.reserve_at(n, self.now())
    }

    /// [`Limiter::reserve`] at a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve`].
    pub fn reserve_at(&self, n: u64, now: Tick) -> Result<Reservation, Refused> {
        self.reserve_within_at(n, Span::MAX, now)
    }

    /// [`Limiter::reserve`], if they are made within `most`: zero for only what is
    /// there now.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve`]; how long the wait would have been is in it.
    pub fn reserve_within(&self, n: u64, most: Duration) -> Result<Reservation, Refused> {
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        self.reserve_within_at(n, Span::from_nanos(most), self.now())
    }

    /// [`Limiter::reserve_within`] at a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reserve_within`].
    pub fn reserve_within_at(&self, n: u64, most: Span, now: Tick) -> Result<Reservation, Refused> {
        // Who would wait is let through at once, where the mode says so.
        let most = match self.gate.switch.lets_through() {
            true => Span::ZERO,
            false => most,
        };
        let taken = self.take_within(n, most, now)?;
        Ok(self.reserved(n, taken))
    }

    /// [`Limiter::acquire`] of a cost that is known only afterwards: what it answers can be settled. It is due.
    ///
    /// Settle it as soon as the cost is known, and take an estimate that is rather low: what is put back counts as far as the
    /// bucket would still have had room for it. What can be put back, and when nothing can, is said at [`Reservation::settle`].
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
    pub async fn acquire_to_settle(&self, n: u64) -> Result<Reservation, Refused> {
        self.wait_to_settle(n, None, Manner::Waits).await
    }

    /// [`Limiter::acquire_to_settle`] within `most`; at once refused if that cannot be. Who does not wait at all has the same of
    /// [`Limiter::reserve_within`] zero.
    ///
    /// # Errors
    ///
    /// As [`Limiter::acquire_within`]; nothing was taken.
    pub async fn acquire_to_settle_within(
        &self,
        n: u64,
        most: Duration,
    ) -> Result<Reservation, Refused> {
        self.wait_to_settle(n, Some(most), Manner::Waits).await
    }

    /// Decides as [`Limiter::check`] does, and answers what can be put back.
    pub(crate) async fn check_to_settle(&self, n: u64) -> Result<Reservation, Refused> {
        let no = match self.take_now(n, self.now()) {
            Ok(taken) => return Ok(self.reserved(n, taken)),
            Err(no) => no,
        };
        match no {
            _ if self.is_asked_for(no) => {
                let Some(grant) = self.check_at_home(n, no).await? else {
                    self.pass(n);
                    return Ok(self.reserved(n, Taken::nothing(self.now())));
                };
                Ok(self.reserved_at_home(n, &grant))
            }
            no if Self::may_come(no) => {
                self.probe(n, no)?;
                let most = Some(self.once_within());
                let outcome = self.wait_to_settle(n, most, Manner::Once).await;
                self.probed(n, no, outcome)
            }
            no => Err(self.refuse(n, no)),
        }
    }

    async fn wait_to_settle(
        &self,
        n: u64,
        most: Option<Duration>,
        manner: Manner,
    ) -> Result<Reservation, Refused> {
        if self.own.is_some() {
            return self.wait_for_own(n, most).await;
        }
        let local = |now| Ok(self.reserved(n, self.take_now(n, now)?));
        let remote = |grant| Ok(self.reserved_at_home(n, &grant));
        self.wait_for_part(n, most, manner, local, remote).await
    }

    pub(super) fn reserved(&self, n: u64, taken: Taken) -> Reservation {
        Reservation {
            limiter: self.clone(),
            tokens: n,
            taken,
        }
    }

    /// What the home let through.
    fn reserved_at_home(&self, n: u64, grant: &Grant) -> Reservation {
        let admission = self.admitted(n, grant);
        let (asked_at, heard_at) = (admission.asked_at, admission.decided_at);
        self.reserved(n, Taken::at_home(asked_at, heard_at, admission.period))
    }

    fn take_now(&self, n: u64, now: Tick) -> Result<Taken, No> {
        let lease = &self.handle.shared.lease.0;
        self.taking_or_no(n, now, || self.gate.cell.reserve(n, now, Span::ZERO, lease))
    }

    /// Takes `n` for use within `most`.
    pub(super) fn take_within(&self, n: u64, most: Span, now: Tick) -> Result<Taken, Refused> {
        let lease = &self.handle.shared.lease.0;
        self.taking(n, now, || self.gate.cell.reserve(n, now, most, lease))
    }

    /// Takes `n` by what the cell says; and what is to be counted of that.
    pub(super) fn taking(
        &self,
        n: u64,
        now: Tick,
        reserve: impl Fn() -> Result<Taken, No>,
    ) -> Result<Taken, Refused> {
        let taken = self.taking_or_no(n, now, reserve);
        taken.map_err(|no| self.refuse(n, no))
    }

    /// The same; a refusal is not counted yet.
    fn taking_or_no(
        &self,
        n: u64,
        now: Tick,
        reserve: impl Fn() -> Result<Taken, No>,
    ) -> Result<Taken, No> {
        let taken = reserve().or_else(|no| self.mend_and(no, n, now, &reserve));
        let taken = match taken {
            Ok(taken) => taken,
            Err(no) => return self.overrule_taking(n, no, now),
        };
        self.admitted_here(n);
        Ok(taken)
    }

    /// Takes `n` more than was asked for. Whether it could.
    pub(super) fn owe(&self, taken: &Taken, n: u64, now: Tick) -> bool {
        let owes = || self.gate.cell.exact(taken, n, now);
        // The base may be so far behind that there is no room for it in the word.
        owes()
            || self.own.as_ref().is_some_and(|own| {
                own.renew(now);
                owes()
            })
    }

    /// Puts up to `n` of what was taken back, and answers how many tokens others can have.
    pub(super) fn restore(&self, taken: &Taken, n: u64, clock: impl Fn() -> Tick) -> u64 {
        let cell = &self.gate.cell;
        let grains = cell.put_back_of(taken, n, &clock);
        if grains == 0 {
            return 0;
        }
        self.gate.changed();
        grains / cell.view(taken.at).scale.max(1)
    }
}

impl Reservation {
    /// The tokens that were taken.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// The clock reading from which its holder may act. A later change of the rate
    /// does not move it.
    #[must_use]
    pub const fn act_at(&self) -> Tick {
        self.taken.act_at
    }

    /// The period of a quota that it counts in; zero for other kinds.
    #[must_use]
    pub const fn period(&self) -> PeriodId {
        self.taken.period
    }

    /// The same as an admission, for those who check admissions against a limit: it counts between the reading at which it was
    /// taken and the one from which it may be used.
    #[must_use]
    pub const fn admission(&self) -> Admission {
        Admission::of(self.tokens, &self.taken)
    }

    /// Whether the home of its budget decided, and not this process: then nothing can be put back.
    #[must_use]
    pub const fn is_from_home(&self) -> bool {
        self.taken.is_at_home()
    }

    /// How long its holder still has to wait.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay_at(self.limiter.now())
    }

    /// [`Reservation::delay`] at a reading of the limiter's clock.
    #[must_use]
    pub const fn delay_at(&self, now: Tick) -> Duration {
        Duration::from_nanos(self.taken.act_at.since(now).nanos())
    }

    /// Gives it up, and answers the tokens that others can have for it, rounded
    /// down: nothing once its tick has passed, since it may have been acted on, and
    /// not what later reservations rest on.
    pub fn cancel(self) -> u64 {
        self.cancel_by(|| self.limiter.now())
    }

    /// [`Reservation::cancel`] at a reading of the limiter's clock.
    pub fn cancel_at(self, now: Tick) -> u64 {
        self.cancel_by(|| now)
    }

    fn cancel_by(&self, clock: impl Fn() -> Tick) -> u64 {
        match self.taken.act_at < clock() {
            true => 0,
            false => self.limiter.restore(&self.taken, self.tokens, clock),
        }
    }

    /// Says what it really cost. If less, the rest is put back as far as that makes no
    /// token: what the bucket would have overflowed with meanwhile is lost, so a
    /// refund counts in full only while less than `(burst − tokens) ÷ rate` has passed. If
    /// more, the rest is taken, whether it is there or not: later requests wait for
    /// it (of a quota, all that is there is taken).
    ///
    /// Of a leased limit that is so within this process's part. What of a debt went back with a recalled part is not put back any
    /// more, and nothing is once the part itself is another: the session began anew on another edge, or the period of a quota is over.
    ///
    /// What the home of a budget in one piece let through ([`Reservation::is_from_home`]) is not put back. What it cost beyond
    /// its estimate this process asks that home for before it asks for anything else, so that later requests wait for it, too; of a quota it is
    /// not taken.
    pub fn settle(self, actual: u64) -> Settled {
        self.settle_by(actual, || self.limiter.now())
    }

    /// [`Reservation::settle`] at a reading of the limiter's clock.
    pub fn settle_at(self, actual: u64, now: Tick) -> Settled {
        self.settle_by(actual, || now)
    }

    fn settle_by(&self, actual: u64, clock: impl Fn() -> Tick) -> Settled {
        if let Some(less) = self.tokens.checked_sub(actual) {
            let restored = self.limiter.restore(&self.taken, less, clock);
            return Settled { restored, taken: 0 };
        }
        let now = clock();
        let more = actual - self.tokens;
        let done = match self.taken.is_at_home() {
            true => self.limiter.owe_at_home(more, now),
            false => self.limiter.owe(&self.taken, more, now),
        };
        if done {
            self.limiter.admitted_here(more);
        }
        Settled {
            restored: 0,
            taken: if done { more } else { 0 },
        }
    }
}

/// What settling changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Tokens put back, rounded down.
    pub restored: u64,
    /// Tokens taken on top. Zero as well where that was impossible: the edge that they
    /// were taken under is gone, or a limiter cannot owe so much.
    pub taken: u64,
}
