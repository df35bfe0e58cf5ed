//! The handle that requests are decided with.

mod central;
mod keyed;
mod line;
mod mode;
mod own;
mod part;
mod quick;
mod reservation;
mod tier;
mod watched;

pub use quick::Batches;
pub use reservation::{Reservation, Settled};

use crate::cell::{Ask, Mark, No};
use crate::key::Gate;
use crate::permit::Permit;
use crate::refused::{Admission, Reason, Refused};
use crate::shared::{Handle, Pace};
use aliquot_core::central::Manner;
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{PeriodId, Rate, Span, Tick, Tokens};
use own::Own;
use std::sync::Arc;
use std::time::Duration;

/// One key's limiter: cheap to clone, and all clones are one.
///
/// The synchronous verbs take no lock, allocate nothing and ask nobody: what
/// they decide on was leased to this process beforehand, or is its own
/// ([`Limiter::local`]). Each has a twin that takes the time as an argument.
#[derive(Clone, Debug)]
pub struct Limiter {
    gate: Arc<Gate>,
    handle: Handle,
    /// Who changes the limit, where that is this process.
    own: Option<Arc<Own>>,
    /// Whether it is counted what is admitted: of a leased limit always, since it is told to those who deal.
    counts: bool,
    pace: Pace,
}

/// What a limiter holds at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What the budget limits.
    pub kind: Kind,
    /// Tokens per second that this process may admit, rounded down; zero for other kinds than rates.
    pub rate: u64,
    /// The most tokens at once, or of permits those held; rounded down.
    pub burst: u64,
    /// The tokens, or permits, that are there now, rounded down.
    pub level: u64,
    /// By what right they are used.
    pub right: Standing,
    /// What remains of that right: of the lease or of the floor. Zero when it is
    /// over; the longest span where it has no end.
    pub remaining: Span,
}

/// By what right a limiter admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// The budget is not known yet.
    Cold,
    /// A share, under the session's lease.
    Leased,
    /// None: the lease is over.
    Lapsed,
    /// A floor that outlives the lease.
    Floor,
    /// A part without a lease: the last share, or one of its own.
    Forever,
    /// No limit.
    Open,
    /// There is no budget.
    NoBudget,
    /// There is a budget for the key, and no room for it: its template or its session is full.
    NoRoom,
    /// The client is closed.
    Closed,
    /// Nothing is admitted, by order: [`Mode::Freeze`](crate::Mode::Freeze).
    Frozen,
}

impl Limiter {
    pub(crate) fn new(gate: Arc<Gate>, handle: Handle) -> Self {
        Self {
            gate,
            pace: handle.shared.pace,
            handle,
            own: None,
            counts: true,
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        self.gate.name()
    }

    /// Takes `n` tokens if they are there now, if it can from those that this thread took beforehand (see [`Batches`]).
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    // In whoever calls it: what is decided with a thread's own tokens, and what was refused a moment ago, needs no call then.
    #[inline(always)]
    pub fn try_acquire(&self, n: u64) -> Result<Admission, Refused> {
        match self.at_once(n) {
            Some(Ok(then)) => Ok(Admission::at(n, then, PeriodId::new(0))),
            Some(Err(wait)) => Err(Refused {
                reason: Reason::Throttled,
                retry_after: Some(wait),
            }),
            None => self.take_and_fill(n),
        }
    }

    /// [`Limiter::try_acquire`] at a reading of the client's clock. A reading that is
    /// behind an earlier one makes no tokens.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub fn try_acquire_at(&self, n: u64, now: Tick) -> Result<Admission, Refused> {
        self.decide_in_place(n, now)
            .map_err(|no| self.refuse(n, no))
    }

    /// The same for those who may wait, and to whom a call is nothing.
    fn decide(&self, n: u64, now: Tick) -> Result<Admission, No> {
        self.decide_in_place(n, now)
    }

    #[inline(always)]
    fn decide_in_place(&self, n: u64, now: Tick) -> Result<Admission, No> {
        let period = match self.decide_once(n, now) {
            Ok(period) => period,
            Err(no) => match self.mend_and(no, n, now, || self.decide_once(n, now)) {
                Ok(period) => period,
                Err(no) => return self.overrule(n, no, now),
            },
        };
        self.admitted_here(n);
        Ok(Admission::at(n, now, period))
    }

    fn decide_once(&self, n: u64, now: Tick) -> Result<PeriodId, No> {
        let lease = &self.handle.shared.lease.0;
        self.gate.cell.decide(Ask::Tokens(n), now, lease)
    }

    /// Counts an admission, where there is somebody to tell of it.
    fn admitted_here(&self, n: u64) {
        if self.counts {
            self.gate.tally.admitted(n);
        }
    }

    fn refuse(&self, n: u64, no: No) -> Refused {
        self.deny(n, Refused::of(no))
    }

    /// Counts a refusal: what is wanted is told to those who deal.
    fn deny(&self, n: u64, refused: Refused) -> Refused {
        if self.counts {
            self.gate.tally.denied(n);
            if self.own.is_none() {
                self.handle.shared.want();
            }
        }
        if self.gate.switch.is_watched() {
            self.tell_refused(n, refused);
        }
        refused
    }

    pub(crate) fn now(&self) -> Tick {
        self.handle.shared.now()
    }

    /// Takes `n` tokens, waiting for them in line: first come, first served
    /// among those who wait. Of a limit of this process's own the place in line is
    /// booked at once, so that nobody who comes later is before it. Of others, it waits for time to make them as long as that takes, at
    /// most 50 ms (a setting) for a budget that is not known yet, and at most 1 s
    /// for capacity that a node must bring, or for the next lease where one has ended (after that second nobody begins to wait); more than the whole budget's burst is refused at once. Of a budget that is kept in one
    /// piece, because it is too small to divide, the first in line asks its home,
    /// and asks again when it is told to. Dropping the future leaves the line, gives
    /// up what was asked, and takes nothing; a verdict that is on its way then is lost.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub async fn acquire(&self, n: u64) -> Result<Admission, Refused> {
        self.wait(n, None, Manner::Waits).await
    }

    /// [`Limiter::acquire`] within `most`; at once refused if that cannot be.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub async fn acquire_within(&self, n: u64, most: Duration) -> Result<Admission, Refused> {
        self.wait(n, Some(most), Manner::Waits).await
    }

    /// Takes `n` tokens, if need be by asking: where nothing is held, or the
    /// budget is kept in one piece, its home decides, within a round trip. What it
    /// refused is refused here for 20 ms more, without asking. Tokens of a quota that were
    /// not dealt here yet are waited for, at most 250 ms; while they do not come, one caller
    /// a second waits, and the others are refused at once.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken. With [`Reason::Undecided`](crate::Reason::Undecided) no node is
    /// known to have decided, and what it may yet take is not used.
    pub async fn check(&self, n: u64) -> Result<Admission, Refused> {
        let no = match self.decide(n, self.now()) {
            Ok(admission) => return Ok(admission),
            Err(no) => no,
        };
        match no {
            _ if self.is_asked_for(no) => {
                let grant = self.check_at_home(n, no).await?;
                Ok(self.checked(n, grant))
            }
            no if Self::may_come(no) => {
                self.probe(n, no)?;
                let outcome = self.wait(n, Some(self.once_within()), Manner::Once).await;
                self.probed(n, no, outcome)
            }
            no => Err(self.refuse(n, no)),
        }
    }

    /// Takes a permit, if one is there now. It is released when it is dropped.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub fn try_permit(&self) -> Result<Permit, Refused> {
        self.try_permit_at(self.now())
    }

    /// [`Limiter::try_permit`] at a reading of the limiter's clock.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub fn try_permit_at(&self, now: Tick) -> Result<Permit, Refused> {
        self.decide_permit(now).map_err(|no| self.refuse(1, no))
    }

    fn decide_permit(&self, now: Tick) -> Result<Permit, No> {
        self.take_seat(now).or_else(|no| {
            self.overrule(1, no, now)?;
            Ok(Permit::free(self.handle.clone(), now))
        })
    }

    fn take_seat(&self, now: Tick) -> Result<Permit, No> {
        let cell = &self.gate.cell;
        let era = cell.era();
        cell.decide(Ask::Permit, now, &self.handle.shared.lease.0)?;
        if self.own.is_some() {
            self.admitted_here(1);
            let (gate, handle) = (self.gate.clone(), self.handle.clone());
            return Ok(Permit::seated(gate, handle, None, era, now));
        }
        let Some(seat) = cell.wheel().sit(now) else {
            cell.put_back(1, era);
            return Err(No::Permits);
        };
        let permit = Permit::seated(self.gate.clone(), self.handle.clone(), Some(seat), era, now);
        // An edge that went meanwhile took the permit with it, but not the seat.
        if cell.era() != era {
            return Err(No::Permits);
        }
        self.gate.tally.admitted(1);
        Ok(permit)
    }

    /// Takes a permit, waiting in line: of a limit of this process's own as long as it
    /// takes, of others for at most 1 s (50 ms for a budget that is not known yet), and for the next lease as [`Limiter::acquire`] does. Of a budget that is kept in one piece the first in line asks its home.
    ///
    /// # Errors
    ///
    /// [`Refused`]; nothing was taken.
    pub async fn permit(&self) -> Result<Permit, Refused> {
        self.wait_for_permit().await
    }

    /// What is held now; nothing is taken.
    #[must_use]
    pub fn peek(&self) -> Snapshot {
        let now = self.now();
        let view = self.gate.cell.view(now);
        let lease = Tick::from_nanos(
            self.handle
                .shared
                .lease
                .0
                .load(crate::sync::Ordering::Acquire),
        );
        let (right, remaining) = match view.slot.mark {
            Mark::Cold => (Standing::Cold, Span::ZERO),
            Mark::Leased if now < lease => (Standing::Leased, lease.since(now)),
            Mark::Leased | Mark::Lapsed => (Standing::Lapsed, Span::ZERO),
            Mark::Floor => (Standing::Floor, view.until.since(now)),
            Mark::Forever => (Standing::Forever, Span::MAX),
            Mark::Open => (Standing::Open, Span::MAX),
            Mark::NoBudget => (Standing::NoBudget, Span::ZERO),
            Mark::NoRoom => (Standing::NoRoom, Span::ZERO),
            Mark::Closed if self.is_held_closed() => (Standing::Frozen, Span::ZERO),
            Mark::Closed => (Standing::Closed, Span::ZERO),
        };
        let tokens = |grains: u64| grains / view.scale.max(1);
        Snapshot {
            kind: view.slot.kind,
            rate: tokens(view.slot.rate_grains()),
            burst: tokens(view.slot.grains(view.slot.burst)),
            level: tokens(view.level).saturating_add(self.gate.cell.coins()),
            right,
            remaining,
        }
    }

    /// What this process may use now of the budget, in the budget's own grains
    /// and rounded against it: to be added up with what others hold, as who judges a
    /// fleet does. Empty where nothing may be used, and where there is no limit.
    #[must_use]
    pub fn share(&self) -> Share {
        let used = matches!(
            self.peek().right,
            Standing::Leased | Standing::Floor | Standing::Forever
        );
        if !used {
            return Share::EMPTY;
        }
        let view = self.gate.cell.view(self.now());
        Share {
            rate: Rate::from_grains(view.slot.rate_grains()),
            burst: Tokens::from_grains(view.slot.grains(view.slot.burst)),
            tokens: Tokens::from_grains(view.level),
        }
    }
}
