//! The handle that decides requests of one key.

mod allotment;
mod central;
mod combine;
pub mod combined;
mod decide;
pub(crate) mod decision;
mod described;
mod fast_path;
mod in_line;
pub(crate) mod key_refused;
pub(crate) mod key_state;
mod line;
mod local;
mod mode;
mod own;
mod part;
pub(crate) mod permit;
mod places;
pub(crate) mod refused;
pub(crate) mod registry;
mod reservation;
pub(crate) mod session_requests;
pub(crate) mod shared;
pub(crate) mod snapshot;
mod watched;

pub use crate::bucket::described::LimitInfo;
#[doc(inline)]
pub use aliquot_core::share::Kind;
pub use allotment::Allotment;
pub use decision::Decision;
pub use refused::Excess;
pub use reservation::{Reservation, Settled};
pub use snapshot::{LimiterState, Snapshot};

#[cfg(doc)]
use crate::Reason;
use crate::bucket::view::View;
use crate::bucket::{AdmissionMode, Need, No};
use crate::limiter::key_state::KeyState;
use crate::limiter::permit::Permit;
use crate::limiter::refused::{Admission, Refused};
use crate::limiter::shared::{ClockPolicy, Handle};
use aliquot_core::central::RetryPolicy;
use aliquot_core::unit::{PeriodId, Tick};
use own::Own;
use std::sync::Arc;
use std::time::Duration;

/// The limiter of one key. Cloning is cheap, and all clones share one state.
///
/// The synchronous methods allocate nothing and make no call: they decide on tokens that were leased to this
/// process beforehand, or on a limit of this process ([`Limiter::local`]). They take no lock, except for
/// reservations that have to wait, and refunds while callers wait in line. Each has a twin that takes the
/// time as an argument.
///
/// ```
/// use aliquot_client::{Limit, Limiter, Reason};
///
/// let limiter = Limiter::local(Limit::per_sec(10), 5)?;
/// assert!(limiter.try_acquire(5).is_ok());
/// let refused = limiter.try_acquire(1).unwrap_err();
/// assert_eq!(refused.reason, Reason::Throttled);
/// assert!(refused.retry_after.is_some());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    key_state: Arc<KeyState>,
    handle: Handle,
    /// Changes the limit, if it belongs to this process; `None` for a leased limit.
    own: Option<Arc<Own>>,
    /// True if admissions are counted. Always true for a leased limit, because the session reports them.
    counts: bool,
    clock_policy: ClockPolicy,
}

impl Limiter {
    pub(crate) fn new(key_state: Arc<KeyState>, handle: Handle) -> Self {
        Self {
            key_state,
            clock_policy: handle.shared.clock_policy,
            handle,
            own: None,
            counts: true,
        }
    }

    /// Returns the key; empty for a limit of this process.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key_state.name()
    }

    /// Takes `n` tokens if they are available now. Uses tokens that this thread took beforehand if it has
    /// any: see [`Limiter::unbatched`].
    ///
    /// # Errors
    ///
    /// [`Refused`], with the reason and, where it is known, the wait; nothing was taken. The usual reason is
    /// [`Reason::Throttled`]. A leased limiter also refuses while its budget is not known ([`Reason::Cold`]),
    /// while it holds nothing ([`Reason::NoShare`]), and after its lease ([`Reason::Lapsed`]).
    // Inlined into the caller: decisions on the thread cache then need no call.
    #[inline(always)]
    pub fn try_acquire(&self, n: u64) -> Result<Admission, Refused> {
        match self.spend(n) {
            Some(then) => Ok(Admission::at(n, then, PeriodId::new(0))),
            None => self.refuse_or_take(n),
        }
    }

    /// [`Limiter::try_acquire`] at `now`, a reading of the limiter's clock. A reading that is behind an
    /// earlier one makes no tokens.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_acquire`].
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<Admission, Refused> {
        self.decide_in_place(n, now)
            .map_err(|no| self.refuse(n, no))
    }

    /// The same, not inlined, for callers that may wait.
    fn take_for_waiter(&self, n: u64, now: Tick) -> Result<Admission, No> {
        self.decide_in_place(n, now)
    }

    #[inline(always)]
    fn decide_in_place(&self, n: u64, now: Tick) -> Result<Admission, No> {
        let period = match self.decide_once(n, now) {
            Ok(period) => period,
            Err(no) => match self.mend_and(no, n, now, || self.decide_once(n, now)) {
                Ok(period) => period,
                Err(no) => return self.apply_mode(n, no, now),
            },
        };
        self.admitted_here(n);
        Ok(Admission::at(n, now, period))
    }

    fn decide_once(&self, n: u64, now: Tick) -> Result<PeriodId, No> {
        let lease = &self.handle.shared.lease.0;
        self.key_state.bucket.decide(Need::Tokens(n), now, lease)
    }

    /// Counts an admission, if anything reads the count.
    #[inline(always)]
    fn admitted_here(&self, n: u64) {
        if self.counts {
            self.key_state.tally.admitted(n);
        }
    }

    fn refuse(&self, n: u64, no: No) -> Refused {
        self.deny(n, self.refusal(n, no))
    }

    /// Converts a bucket's refusal. A cost that is never admitted is told as such, whatever is short now. A limit of
    /// this process that can owe no more says when it has what is asked.
    fn refusal(&self, n: u64, no: No) -> Refused {
        let refused = self.refused_for(no);
        if let Some(excess) = self.excess(n, no) {
            return Refused {
                retry_after: None,
                excess: Some(excess),
                ..refused
            };
        }
        if no != No::Aged || self.own.is_none() {
            return refused;
        }
        let wait = self.key_state.bucket.view(self.now()).wait_for(n);
        Refused {
            retry_after: wait.map(|wait| Duration::from_nanos(wait.nanos())),
            ..refused
        }
    }

    /// Converts a bucket's refusal. If everything of a quota's period is given away, the next tokens come with the next
    /// period. Otherwise more may be dealt here at any time.
    fn refused_for(&self, no: No) -> Refused {
        let refused = Refused::of(no);
        let home = &self.key_state.home;
        // In central mode only the home node knows what is left.
        if no != No::Quota || home.is_central() {
            return refused;
        }
        let now = self.now();
        match home.period_end(now).filter(|end| end.exhausted) {
            None => refused,
            Some(end) => Refused {
                retry_after: Some(Duration::from_nanos(end.at.since(now).nanos())),
                ..refused
            },
        }
    }

    /// Returns the excess of a refused cost over the largest one that is ever admitted: by the limit of this
    /// process, or by the whole budget as far as it is known.
    fn excess(&self, n: u64, no: No) -> Option<Excess> {
        match (&self.own, no) {
            (Some(_), No::ExceedsBurst | No::Permits) => Excess::of(n, self.peek().burst),
            (Some(_), _) => None,
            (None, No::ExceedsBurst | No::Empty | No::NotYet(_) | No::Quota | No::Permits) => {
                self.key_state.home.excess(n)
            }
            (None, _) => None,
        }
    }

    /// Counts a refusal: the session reports it as demand.
    fn deny(&self, n: u64, refused: Refused) -> Refused {
        if self.counts {
            self.key_state.tally.denied(n);
            if self.own.is_none() {
                // A cost that no part can ever hold needs no larger part.
                if refused.excess.is_none() {
                    self.key_state.lacked(n);
                }
                self.handle.shared.want();
            }
        }
        if self.key_state.switch.is_watched() {
            self.tell_refused(n, refused);
        }
        refused
    }

    pub(crate) fn now(&self) -> Tick {
        self.handle.shared.now()
    }

    /// Takes `n` tokens, and waits for them in line: first come, first served.
    ///
    /// A limit of this process books the place in line at once, so no later caller goes before it. If an earlier
    /// caller gives up, or if the rate or the burst is changed ([`Limiter::set_limit`]), all callers behind it are
    /// served correspondingly earlier or later.
    ///
    /// A wait ends with a tick of the runtime's timer, which is about a millisecond. With a burst of less than
    /// what the rate makes in two of them, a loop of single waits gets less than the rate, because the tokens
    /// made until the caller runs again do not fit the bucket: at 10,000 a second, about 1,600 with a burst of
    /// 1, and all with a burst of 20. Several callers that wait at once get the whole rate.
    ///
    /// A leased limiter waits
    ///
    /// - as long as necessary for tokens that time makes;
    /// - at most 250 ms for a budget that is not known yet
    ///   ([`ClientBuilder::cold_wait`](crate::ClientBuilder::cold_wait));
    /// - at most 1 s for capacity that a node must grant;
    /// - at most 1 s from the end of a lease for the next one; after that second no caller begins to wait.
    ///
    /// More than the burst of the whole budget is refused at once. For a budget in central mode the first
    /// caller in line asks the home node, and asks again when the node says so. It also asks its node if the
    /// part held here can never have `n` tokens, or has fewer than eight tokens of burst.
    ///
    /// Dropping the future leaves the line, gives up the request to the home node, and takes nothing, however
    /// many callers wait behind it. The one exception: if a reservation was booked behind it ([`Limiter::reserve`])
    /// and is not due yet, its tokens are lost, because the reservation keeps its time. A decision of the home node
    /// that is in flight at that time is lost.
    ///
    /// # Errors
    ///
    /// [`Refused`] if waiting does not help, or if the tokens did not arrive within these times; nothing was taken.
    ///
    /// # Panics
    ///
    /// If it has to wait outside a tokio runtime with timers, unless the limiter's clock has a wait of its own
    /// ([`Clock::sleep`](crate::Clock::sleep)).
    pub async fn acquire(&self, n: u64) -> Result<Admission, Refused> {
        self.wait(n, None, RetryPolicy::Waits).await
    }

    /// [`Limiter::acquire`] that waits at most `most`, also for a budget that is not known yet. Refuses at
    /// once if the tokens cannot be available in time.
    ///
    /// # Errors
    ///
    /// [`Refused`] if the tokens are not there within `most`, or in the times of [`Limiter::acquire`];
    /// nothing was taken.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn acquire_within(&self, n: u64, most: Duration) -> Result<Admission, Refused> {
        self.wait(n, Some(most), RetryPolicy::Waits).await
    }

    /// Takes `n` tokens. If this process does not hold them, it asks a node once.
    ///
    /// - If the budget is in central mode, its home node decides, within a round trip. After a refusal by the home,
    ///   requests for the same number of tokens or more are refused here for up to 20 ms without asking it. If
    ///   other holders have the tokens that the home lacks, the home recalls them, and the call asks again until
    ///   they may have arrived, for at most a second. The client's node decides
    ///   in the same way if the part held here has fewer than eight tokens of burst and they are spent, and
    ///   a larger part may arrive within 250 ms.
    /// - If nothing of the budget is held here, the home node is asked too, and a share that arrives within
    ///   250 ms is used.
    /// - If the budget is not known yet, the call waits for it, at most
    ///   [`ClientBuilder::cold_wait`](crate::ClientBuilder::cold_wait).
    /// - If the part held here lacks the tokens but the rest of the budget may have them, the call waits at most
    ///   250 ms for more. This concerns quotas, costs that the part held here can never have, and a part of a rate
    ///   whose tokens are spent. While no tokens arrive, one caller at a time waits (one per second if none arrive
    ///   at all), and the others are refused at once.
    /// - If the lease ended less than a second ago, the call waits at most 250 ms for the next one.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken. With [`Reason::Undecided`] no node is known to have decided; if a node
    /// takes the tokens later, they are not used.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn check(&self, n: u64) -> Result<Admission, Refused> {
        let (outcome, _) = self.ask_within(n, Duration::MAX).await;
        outcome.map(|charge| Admission::of(n, &charge))
    }

    /// Takes a permit if one is free now and no caller waits for one ([`Limiter::permit`]). Dropping the permit
    /// releases it.
    ///
    /// # Errors
    ///
    /// [`Refused`]: [`Reason::Permits`] if all permits are in flight or waited for, [`Reason::WrongKind`] if the limit does
    /// not count permits, or one of the reasons of [`Limiter::try_acquire`]. Nothing was taken.
    pub fn try_permit(&self) -> Result<Permit, Refused> {
        self.try_permit_at(self.now())
    }

    /// [`Limiter::try_permit`] at `now`, a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_permit`].
    pub fn try_permit_at(&self, now: Tick) -> Result<Permit, Refused> {
        let (permit, _) = self.permit_now(now);
        permit.map_err(|no| self.refuse(1, no))
    }

    /// The same, but does not count a refusal. Also returns the bucket as the decision left it or, if it refused,
    /// found it.
    fn permit_now(&self, now: Tick) -> (Result<Permit, No>, View) {
        match self.key_state.tally.waiting() {
            0 => self.take_permit_at(now),
            _ => self.decide_behind_line(now),
        }
    }

    /// Refuses a permit even if one is free: callers that wait in line have it.
    fn decide_behind_line(&self, now: Tick) -> (Result<Permit, No>, View) {
        let lease = &self.handle.shared.lease.0;
        let bucket = &self.key_state.bucket;
        let (would, view) = bucket.would_and_view(Need::Permit, now, lease);
        // One that costs a token is waited for, too.
        let would = would.or_else(|no| match no {
            No::Kind if self.key_state.is_kind_unknown() => Ok(()),
            no => Err(no),
        });
        let no = would.err().unwrap_or(No::Permits);
        (self.free_permit(no, now), view)
    }

    fn take_permit_at(&self, now: Tick) -> (Result<Permit, No>, View) {
        let (permit, view) = self.take_permit_slot(now);
        (permit.or_else(|no| self.free_permit(no, now)), view)
    }

    /// Returns a permit that counts nowhere, if the mode lets the request through.
    fn free_permit(&self, no: No, now: Tick) -> Result<Permit, No> {
        self.apply_mode(1, no, now)?;
        Ok(Permit::free(self.handle.clone(), now))
    }

    fn take_permit_slot(&self, now: Tick) -> (Result<Permit, No>, View) {
        let bucket = &self.key_state.bucket;
        let era = bucket.era();
        let lease = &self.handle.shared.lease.0;
        let (mut taken, mut view) = bucket.decide_and_view(Need::Permit, now, lease);
        if taken == Err(No::Kind) && self.key_state.is_kind_unknown() {
            (taken, view) = bucket.decide_and_view(Need::Tokens(1), now, lease);
        }
        if let Err(no) = taken {
            return (Err(no), view);
        }
        if view.slot.kind != Kind::Concurrency {
            // No limit, or one that counts tokens: nothing is released later.
            self.admitted_here(1);
            return (Ok(Permit::free(self.handle.clone(), now)), view);
        }
        let slot = match self.own {
            Some(_) => None,
            None => match bucket.count_permit(now, era) {
                Some(slot) => Some(slot),
                // It was put back, so the figures of the swap are not those of this refusal.
                None => return (Err(No::Permits), bucket.view(now)),
            },
        };
        self.admitted_here(1);
        let (key_state, handle) = (self.key_state.clone(), self.handle.clone());
        let permit = Permit::counted_here(key_state, handle, slot, era, now);
        (Ok(permit), view)
    }

    /// Takes a permit, and waits for one in line.
    ///
    /// For a limit of this process it waits as long as it takes. For a leased limit it waits at most 1 s, or
    /// 250 ms if the budget is not known yet, and for the next lease as [`Limiter::acquire`] does. For a
    /// budget in central mode the first caller in line asks the home node.
    ///
    /// # Errors
    ///
    /// [`Refused`] if waiting does not help, or if no permit became free in these times; nothing was taken.
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    pub async fn permit(&self) -> Result<Permit, Refused> {
        let wait = self.wait_of(1, None, RetryPolicy::Waits);
        let (permit, _) = self.wait_for_permit(wait).await?;
        Ok(permit)
    }

    /// Returns the state of the limiter now. Takes nothing.
    #[must_use]
    pub fn peek(&self) -> Snapshot {
        let now = self.now();
        let view = self.key_state.bucket.view(now);
        let (state, remaining) = self.right_in(&view, now);
        let cached = self.key_state.bucket.cached_tokens();
        Snapshot {
            kind: view.slot.kind,
            rate: view.tokens(view.slot.rate_grains()),
            burst: view.tokens(view.slot.grains(view.slot.burst)),
            level: view.tokens(view.level).saturating_add(cached),
            state,
            remaining,
        }
    }

    /// Returns the right by which the limiter admits in the state `view`, and the time that remains of it at `now`.
    fn right_in(&self, view: &View, now: Tick) -> (LimiterState, Duration) {
        let lease = Tick::from_nanos(
            self.handle
                .shared
                .lease
                .0
                .load(crate::sync::Ordering::Acquire),
        );
        let lasts = |until: Tick| Duration::from_nanos(until.since(now).nanos());
        match view.slot.mode {
            AdmissionMode::Cold => (LimiterState::Cold, Duration::ZERO),
            AdmissionMode::Leased if now < lease => (LimiterState::Leased, lasts(lease)),
            AdmissionMode::Leased | AdmissionMode::Lapsed => (LimiterState::Lapsed, Duration::ZERO),
            AdmissionMode::Floor => (LimiterState::Floor, lasts(view.until)),
            AdmissionMode::Forever => (LimiterState::Forever, Duration::MAX),
            AdmissionMode::Open => (LimiterState::Open, Duration::MAX),
            AdmissionMode::NoBudget => (LimiterState::NoBudget, Duration::ZERO),
            AdmissionMode::NoRoom => (LimiterState::NoRoom, Duration::ZERO),
            AdmissionMode::MaxKeys => (LimiterState::MaxKeys, Duration::ZERO),
            AdmissionMode::Closed if self.is_held_closed() => {
                (LimiterState::Frozen, Duration::ZERO)
            }
            AdmissionMode::Closed => (LimiterState::Closed, Duration::ZERO),
        }
    }

    /// Returns the part of the budget that this process may use now, in the budget's own grains and rounded
    /// down.
    ///
    /// The allotments of all processes can be added up to check a fleet against its budget. All amounts are
    /// zero if nothing may be used, and if there is no limit.
    #[must_use]
    pub fn allotment(&self) -> Allotment {
        let used = matches!(
            self.peek().state,
            LimiterState::Leased | LimiterState::Floor | LimiterState::Forever
        );
        if !used {
            return Allotment::default();
        }
        let view = self.key_state.bucket.view(self.now());
        Allotment {
            rate: view.slot.rate_grains(),
            burst: view.slot.grains(view.slot.burst),
            tokens: view.level,
        }
    }
}
