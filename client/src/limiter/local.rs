//! Limits of this process: no coordinator, no session, no lease.

use super::in_line::InLine;
use super::own::{Own, State};
use super::places::{Line, Turn};
use super::{Limiter, Reservation};
use crate::bucket::limit::{Fitted, Limit, LimitError};
use crate::bucket::reserve::BucketCharge;
use crate::bucket::{AdmissionMode, BucketDecider, No};
use crate::clock::{HostClock, SharedClock, Source};
use crate::limiter::key_state::KeyState;
use crate::limiter::refused::Refused;
use crate::limiter::shared::{ClockPolicy, Handle};
use crate::observe::switch::Mode;
use aliquot_core::client::Decider;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Scale, Span, Tick};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

impl Limiter {
    /// Makes a limiter of this process: a token bucket that holds `burst` tokens, starts full, and is
    /// refilled by `limit`. It decides by the [`CounterClock`](crate::clock::CounterClock).
    ///
    /// Its contract is that of `golang.org/x/time/rate`:
    ///
    /// - Over any window of length `t` it admits at most `burst + rate · t` tokens.
    /// - A cost above the burst is refused at once.
    /// - A rate of 0 admits only the burst.
    /// - [`Limit::UNLIMITED`] admits everything, even with a burst of 0.
    /// - A request for 0 tokens is admitted unless the level is below zero.
    ///
    /// Where that package leaves a case open, this one makes no tokens: a clock that steps back does not pay
    /// for an instant twice. A reservation that is cancelled while a later one waits gives nothing back. In
    /// `golang.org/x/time/rate` it gives a part back, and several such cancellations together give back more than
    /// the bucket has.
    ///
    /// # Errors
    ///
    /// [`LimitError`], which names the value that is out of range.
    ///
    /// ```
    /// use aliquot_client::{Limit, Limiter};
    ///
    /// let limiter = Limiter::local(Limit::per_sec(10), 5)?;
    /// assert!(limiter.try_acquire(5).is_ok());
    /// let refused = limiter.try_acquire(1).unwrap_err();
    /// assert!(refused.retry_after.is_some());
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    pub fn local(limit: impl Into<Limit>, burst: u64) -> Result<Self, LimitError> {
        static HANDLE: OnceLock<Handle> = OnceLock::new();
        let handle = HANDLE.get_or_init(|| Handle::with(Source::counter(), ClockPolicy::Free));
        Self::owned(limit.into(), burst, handle.clone())
    }

    /// [`Limiter::local`] with another clock, such as a [`ManualClock`](crate::ManualClock) in a test.
    ///
    /// # Errors
    ///
    /// [`LimitError`], which names the value that is out of range.
    pub fn local_with(
        limit: impl Into<Limit>,
        burst: u64,
        clock: SharedClock,
    ) -> Result<Self, LimitError> {
        Self::owned(limit.into(), burst, Handle::detached(clock))
    }

    fn owned(limit: Limit, burst: u64, handle: Handle) -> Result<Self, LimitError> {
        Self::made(limit, burst, handle, Kind::Rate)
    }

    fn made(limit: Limit, burst: u64, handle: Handle, kind: Kind) -> Result<Self, LimitError> {
        let fitted = fit(kind, limit, burst, None)?;
        let key_state = Arc::new(KeyState::unnamed());
        let mut decider = BucketDecider::new(Arc::clone(&key_state));
        let now = handle.shared.clock.now();
        decider.own(
            kind,
            admission_mode_of(limit),
            fitted.scale,
            fitted.share(),
            now,
        );
        let state = State {
            decider,
            limit,
            burst,
            scale: fitted.scale,
        };
        let own = Own {
            state: Mutex::new(state),
            line: Line::default(),
        };
        Ok(Self {
            key_state,
            clock_policy: match kind {
                Kind::Rate => handle.shared.clock_policy,
                Kind::Quota | Kind::Concurrency => ClockPolicy::Exact,
            },
            handle,
            own: Some(Arc::new(own)),
            counts: false,
        })
    }

    /// Makes a limiter of permits of this process: at most `permits` in flight at each instant, each until it
    /// is dropped.
    ///
    /// [`Limiter::set_burst`] changes the number at once. If it is lowered, permits beyond it stay valid, and
    /// no other is given out until enough of them are dropped.
    ///
    /// # Errors
    ///
    /// [`LimitError::Burst`] above 2⁴⁶.
    ///
    /// ```
    /// use aliquot_client::Limiter;
    ///
    /// let limiter = Limiter::local_permits(1)?;
    /// let permit = limiter.try_permit().expect("one");
    /// assert!(limiter.try_permit().is_err());
    /// drop(permit);
    /// assert!(limiter.try_permit().is_ok());
    /// # Ok::<(), aliquot_client::LimitError>(())
    /// ```
    pub fn local_permits(permits: u64) -> Result<Self, LimitError> {
        Self::local_permits_with(permits, Arc::new(HostClock))
    }

    /// [`Limiter::local_permits`] with another clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::local_permits`].
    pub fn local_permits_with(permits: u64, clock: SharedClock) -> Result<Self, LimitError> {
        let handle = Handle::detached(clock);
        Self::made(Limit::ZERO, permits, handle, Kind::Concurrency)
    }

    /// Sets the rate from now on. The level stays the same. If the limiter had no limit before, the bucket starts
    /// full.
    /// Callers that wait are served at the new rate; reservations keep their times.
    ///
    /// Tokens that other threads took in advance ([`Limiter::unbatched`]) are lost at a change: at most
    /// a 64th of the burst for each of them.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the limiter counts permits ([`LimitError::Permits`]) or is leased
    /// ([`LimitError::NotOwn`]), or if the value is out of range; nothing was changed. A leased limit is
    /// changed at the coordinator.
    pub fn set_limit(&self, limit: impl Into<Limit>) -> Result<(), LimitError> {
        let limit = limit.into();
        self.has_rate()?;
        self.amend(|| self.now(), |state| (limit, state.burst))
    }

    /// [`Limiter::set_limit`] at `now`, a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::set_limit`].
    pub fn set_limit_at(&self, limit: impl Into<Limit>, now: Tick) -> Result<(), LimitError> {
        let limit = limit.into();
        self.has_rate()?;
        self.amend(|| now, |state| (limit, state.burst))
    }

    /// Sets the burst from now on, or the number of permits. A higher burst adds empty room; a lower one cuts
    /// off the tokens that no longer fit. A caller that waits for more than the new burst is refused.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the limiter is leased ([`LimitError::NotOwn`]) or if the value is out of range;
    /// nothing was changed. A leased limit is changed at the coordinator.
    pub fn set_burst(&self, burst: u64) -> Result<(), LimitError> {
        self.amend(|| self.now(), |state| (state.limit, burst))
    }

    /// [`Limiter::set_burst`] at `now`, a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::set_burst`].
    pub fn set_burst_at(&self, burst: u64, now: Tick) -> Result<(), LimitError> {
        self.amend(|| now, |state| (state.limit, burst))
    }

    /// Sets the rate and, if given, the burst: both or neither.
    pub(crate) fn lead(
        &self,
        limit: Limit,
        burst: Option<u64>,
        now: Tick,
    ) -> Result<(), LimitError> {
        self.amend(|| now, |state| (limit, burst.unwrap_or(state.burst)))
    }

    fn kind(&self) -> Kind {
        self.key_state.bucket.view(Tick::ZERO).slot.kind
    }

    /// Returns true if this is a limiter of permits. The kind of a leased limit is known with its budget.
    pub(crate) fn counts_permits(&self) -> bool {
        self.kind() == Kind::Concurrency
    }

    fn has_rate(&self) -> Result<(), LimitError> {
        match self.kind() {
            Kind::Concurrency => Err(LimitError::Permits),
            Kind::Rate | Kind::Quota => Ok(()),
        }
    }

    /// Reads the clock under the lock: what is made by then is made at the old rate.
    fn amend(
        &self,
        clock: impl Fn() -> Tick,
        to: impl Fn(&State) -> (Limit, u64),
    ) -> Result<(), LimitError> {
        let own = self.own.as_ref();
        let own = own.ok_or(LimitError::NotOwn { what: "this key" })?;
        let mut state = own.lock();
        let (limit, burst) = to(&state);
        let fitted = fit(self.kind(), limit, burst, Some(state.scale))?;
        let Fitted { scale, .. } = fitted;
        let (was, share) = (admission_mode_of(state.limit), fitted.share());
        self.key_state.bucket.empty_own_cache(&clock);
        let (now, mode) = (clock(), admission_mode_of(limit));
        let scales = [state.scale, scale].map(Scale::grains_per_token);
        let decider = &mut state.decider;
        let lifted = mode == AdmissionMode::Open;
        let bucket = &self.key_state.bucket;
        own.line
            .change_in_line(bucket, scales.into(), (lifted, now), || {
                if was == AdmissionMode::Open {
                    // Without a limit nothing was taken, so the bucket starts full now.
                    decider.amend(was, scale, share, now);
                    decider.replace(share, now);
                }
                decider.amend(mode, scale, share, now);
            });
        (state.limit, state.burst, state.scale) = (limit, burst, scale);
        Ok(())
    }

    /// Returns the rate of a limit of this process; `None` for a leased limit, see [`Limiter::peek`].
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.own.as_ref().map(|own| own.lock().limit)
    }

    /// Returns the number of tokens, including fractions. It is negative if reservations owe tokens, and infinite
    /// without a limit.
    #[must_use]
    pub fn tokens(&self) -> f64 {
        self.tokens_at(self.now())
    }

    /// [`Limiter::tokens`] at `now`, a reading of the limiter's clock.
    #[must_use]
    pub fn tokens_at(&self, now: Tick) -> f64 {
        let view = self.key_state.bucket.view(now);
        if view.slot.mode == AdmissionMode::Open {
            return f64::INFINITY;
        }
        let burst = view.slot.grains(view.slot.burst);
        let level = burst as f64 - view.missing as f64;
        level / view.scale.max(1) as f64 + self.key_state.bucket.cached_tokens() as f64
    }

    /// Removes what prevents a limit from deciding, and decides again.
    pub(super) fn mend_and<T>(
        &self,
        no: No,
        n: u64,
        now: Tick,
        again: impl Fn() -> Result<T, No>,
    ) -> Result<T, No> {
        if let No::NotYet(_) = no {
            return self.relieved(no, n, now, again);
        }
        let Some(own) = &self.own else {
            return Err(no);
        };
        match no {
            // The base of the word is far behind.
            No::Aged => own.renew(now),
            // The fixed point is being changed: wait for the end of the change.
            No::Cold => drop(own.lock()),
            no => return Err(no),
        }
        again()
    }

    /// Decides again on a refusal for want of tokens, after what threads hold was returned to the bucket.
    fn relieved<T>(
        &self,
        no: No,
        n: u64,
        now: Tick,
        again: impl Fn() -> Result<T, No>,
    ) -> Result<T, No> {
        /// Other threads may refill their caches in between, but seldom this often.
        const TRIES: usize = 3;
        let mut answer = Err(no);
        for _ in 0..TRIES {
            if !self.key_state.bucket.relieve(n, now, || self.now()) {
                break;
            }
            answer = again();
            if !matches!(answer, Err(No::NotYet(_))) {
                break;
            }
        }
        answer
    }

    /// Takes `n` tokens, or books a place in line and waits until it is due.
    pub(super) async fn wait_for_own(
        &self,
        own: &Own,
        n: u64,
        most: Option<Duration>,
    ) -> Result<Reservation, Refused> {
        let clock = &self.handle.shared.clock;
        let began = clock.now();
        let most = most.map_or(u128::MAX, |most| most.as_nanos());
        let most = Span::from_nanos(u64::try_from(most).unwrap_or(u64::MAX));
        let (charge, place) = self.book(own, n, most, began)?;
        let Some(place) = place else {
            return Ok(self.reserved(n, charge));
        };
        loop {
            let changed = self.key_state.change.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let now = clock.now();
            // The place is given up in each case but the first.
            let (mode, rest) = (self.mode(), most.minus_or_zero(now.since(began)));
            let turn = match mode {
                Mode::Freeze => return Err(self.refuse(n, self.froze())),
                _ => place.turn(now, rest),
            };
            let wait = match (turn, mode) {
                (Ok(Turn::Due(charge)), _) => {
                    self.tell_waited(began, now);
                    return Ok(self.reserved(n, charge));
                }
                (Ok(Turn::Free), _) => return Ok(self.reserved(n, BucketCharge::nothing(now))),
                (_, Mode::DryRun | Mode::Bypass) => {
                    self.pass(n);
                    return Ok(self.reserved(n, BucketCharge::nothing(now)));
                }
                (Ok(Turn::Wait(wait)), _) => wait,
                (Err(no), _) => return Err(self.refuse(n, no)),
            };
            tokio::select! {
                () = clock.sleep(Duration::from_nanos(wait.nanos())) => {}
                () = changed => {}
                () = place.wake.notified() => {}
            }
        }
    }

    /// Takes `n` tokens for use within `most`; with a place in line if they are not there now.
    fn book<'a>(
        &'a self,
        own: &'a Own,
        n: u64,
        most: Span,
        now: Tick,
    ) -> Result<(BucketCharge, Option<InLine<'a>>), Refused> {
        let lease = &self.handle.shared.lease.0;
        let bucket = &self.key_state.bucket;
        let (wake, number) = (Arc::new(Notify::new()), std::cell::Cell::new(None));
        // A dry run and a bypass admit at once a request that would wait.
        let most = match self.key_state.switch.lets_through() {
            true => Span::ZERO,
            false => most,
        };
        let reserve = |most| bucket.reserve(n, now, most, lease);
        let charge = self.taking(n, now, || {
            // Tokens that thread caches hold are found before a place is booked.
            let there = reserve(Span::ZERO);
            let there = there.or_else(|no| self.relieved(no, n, now, || reserve(Span::ZERO)));
            if !matches!(there, Err(No::NotYet(_))) || most == Span::ZERO {
                return there;
            }
            let (charge, place) = own.line.book(bucket, &wake, now, || reserve(most))?;
            number.set(place);
            Ok(charge)
        })?;
        let place = number.get();
        let place = place.map(|number| InLine::new(self, &own.line, number, wake));
        Ok((charge, place))
    }
}

/// Fits a limit of this kind. Permits are counted one by one, so their number must fit unscaled.
fn fit(kind: Kind, limit: Limit, burst: u64, now: Option<Scale>) -> Result<Fitted, LimitError> {
    let most = Fitted::BURST_FITS;
    match kind {
        Kind::Concurrency if burst > most => Err(LimitError::Burst { burst, most }),
        _ => limit.fit(burst, now),
    }
}

fn admission_mode_of(limit: Limit) -> AdmissionMode {
    match limit.is_unlimited() {
        true => AdmissionMode::Open,
        false => AdmissionMode::Forever,
    }
}
