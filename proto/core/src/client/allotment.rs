//! One budget at one client: what decides, and what happens when the lease is over.

mod expiry;

use super::denial::Denial;
use super::permits::{Permit, Permits};
use crate::bucket::Bucket;
use crate::budget::Claim;
use crate::demand::{Estimator, Observed};
use crate::edge::Vector;
use crate::message::{FloorRelease, Terms};
use crate::share::{Kind, Share};
use crate::unit::{Drift, PeriodId, Rate, Span, Tick, Tokens};

/// By what right requests are admitted.
#[derive(Clone, Debug)]
pub enum Mode {
    /// By the share, under a lease.
    Leased,
    /// By nothing.
    Denied,
    /// By the floor that the edge carries, until it ends.
    Floor(Tick),
    /// By the last share, without a lease.
    Kept,
    /// By a bucket of one's own.
    Local(Bucket),
    /// By no limit.
    Open,
}

/// A floor of a former edge, in use until the new edge gives something.
#[derive(Clone, Debug)]
struct Remnant {
    release: FloorRelease,
    bucket: Bucket,
    until: Tick,
}

/// One budget at one client.
#[derive(Clone, Debug)]
pub struct Allotment {
    claim: Claim,
    terms: Option<Terms>,
    period: PeriodId,
    mode: Mode,
    bucket: Bucket,
    /// The floor within the bucket.
    floor: Share,
    remnant: Option<Remnant>,
    escrow: Tokens,
    unreported: Tokens,
    permits: Permits,
    demand: Estimator,
}

impl Allotment {
    /// Demand is added up over this time: short enough that a shift is
    /// reported with the next report, long enough to see a stream's rate.
    const DEMAND_TICK: Span = Span::from_millis(100);

    /// How many seconds of a quota's demand a client asks for: three default
    /// leases, so that it outlives a leader change and loses little when it dies.
    pub const ESCROW_SECS: u64 = 9;

    pub(super) fn new(claim: Claim, now: Tick) -> Self {
        Self {
            claim,
            terms: None,
            period: PeriodId::new(0),
            mode: Mode::Denied,
            bucket: Bucket::new(Share::EMPTY, now),
            floor: Share::EMPTY,
            remnant: None,
            escrow: Tokens::ZERO,
            unreported: Tokens::ZERO,
            permits: Permits::default(),
            demand: Estimator::new(Self::DEMAND_TICK, u64::MAX >> 8, now),
        }
    }

    /// Weight and band.
    #[must_use]
    pub const fn claim(&self) -> Claim {
        self.claim
    }

    /// The terms on which it was last given something.
    #[must_use]
    pub const fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// By what right it admits.
    #[must_use]
    pub const fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Its permits.
    #[must_use]
    pub const fn permits(&self) -> &Permits {
        &self.permits
    }

    /// Capacity and level of its bucket at `now`.
    #[must_use]
    pub fn share_at(&self, now: Tick) -> Share {
        self.bucket.share_at(now)
    }

    pub(super) fn observe(&mut self, observed: Observed, now: Tick) {
        self.demand.observe(observed, now);
    }

    /// What callers want, in the unit that the budget is divided by.
    pub(super) fn demand_at(&mut self, now: Tick) -> u64 {
        let rate = self.demand.rate_at(now);
        match self.terms.map(|terms| terms.kind) {
            Some(Kind::Quota) => rate.saturating_mul(Self::ESCROW_SECS),
            Some(Kind::Concurrency) => rate.saturating_add(self.permits.in_flight()),
            Some(Kind::Rate) | None => rate,
        }
    }

    pub(super) fn largest_wait_at(&mut self, now: Tick) -> Tokens {
        Tokens::from_grains(self.demand.largest_waiting_at(now))
    }

    /// A new period of a quota: tokens of the old one are dead.
    pub(super) fn begin(&mut self, period: PeriodId) {
        if period > self.period {
            self.period = period;
            self.escrow = Tokens::ZERO;
            self.unreported = Tokens::ZERO;
        }
    }

    /// Takes a gift under a lease that holds. What the former edge's floor
    /// allowed ends here, and is to be released.
    pub(super) fn take(
        &mut self,
        gift: Vector,
        terms: &Terms,
        period: PeriodId,
        now: Tick,
    ) -> Option<FloorRelease> {
        self.terms = Some(*terms);
        self.begin(period);
        if gift.is_zero() {
            return None;
        }
        let _ = self.bucket.deposit(gift.share(), now);
        match terms.kind {
            Kind::Rate => {}
            Kind::Quota => {
                self.escrow = self.escrow.plus(gift.tokens).unwrap_or(self.escrow);
            }
            Kind::Concurrency => self.permits.gain(gift.burst),
        }
        let floor = Share {
            rate: gift.floor_rate,
            burst: gift.floor_burst,
            tokens: Tokens::ZERO,
        };
        self.floor = self.floor.merge(floor).unwrap_or(self.floor);
        self.mode = Mode::Leased;
        self.remnant.take().map(|remnant| remnant.release)
    }

    /// Lowers what is used by up to `owed`, and says by how much.
    pub(super) fn yield_up(&mut self, owed: Vector, now: Tick) -> Vector {
        if owed.is_zero() {
            return Vector::ZERO;
        }
        let mut back = Vector::ZERO;
        match self.terms.map(|terms| terms.kind) {
            Some(Kind::Rate) => {
                back.floor_rate = owed.floor_rate.min(self.floor.rate);
                back.floor_burst = owed.floor_burst.min(self.floor.burst);
                self.lower_floor(back);
                let share = self.bucket.share_at(now);
                let rate = owed.rate.min(share.rate.minus_or_zero(self.floor.rate));
                let burst = owed.burst.min(share.burst.minus_or_zero(self.floor.burst));
                let cut = self.bucket.withdraw(rate, burst, now);
                (back.rate, back.burst, back.tokens) = (cut.rate, cut.burst, cut.tokens);
            }
            Some(Kind::Quota) => {
                back.tokens = owed.tokens.min(self.escrow);
                self.escrow = self.escrow.minus_or_zero(back.tokens);
            }
            Some(Kind::Concurrency) => {
                back.floor_burst = owed.floor_burst.min(self.floor.burst);
                self.lower_floor(back);
                back.burst = self.permits.yield_up(owed.burst, self.floor.burst);
            }
            None => {}
        }
        back
    }

    /// What of `held` goes back when a permit ends without a lease: all but
    /// what the policy lets go on.
    pub(super) const fn idle_after_lapse(&self, held: Vector) -> Vector {
        match self.mode {
            Mode::Kept => Vector::ZERO,
            _ => Vector {
                floor_rate: Rate::ZERO,
                floor_burst: Tokens::ZERO,
                ..held
            },
        }
    }

    fn lower_floor(&mut self, by: Vector) {
        self.floor.rate = self.floor.rate.minus_or_zero(by.floor_rate);
        self.floor.burst = self.floor.burst.minus_or_zero(by.floor_burst);
    }

    pub(super) fn try_acquire_at(
        &mut self,
        n: Tokens,
        now: Tick,
        leased: bool,
    ) -> Result<PeriodId, Denial> {
        let terms = self.terms.ok_or(Denial::NoShare)?;
        if leased {
            self.mode = Mode::Leased;
        }
        if let Some(remnant) = &mut self.remnant {
            if now >= remnant.until {
                return Err(Denial::Lapsed);
            }
            return acquire(&mut remnant.bucket, n, now);
        }
        match &mut self.mode {
            Mode::Leased | Mode::Kept => self.spend(terms.kind, n, now),
            Mode::Floor(until) if now >= *until => Err(Denial::Lapsed),
            Mode::Floor(_) => acquire(&mut self.bucket, n, now),
            Mode::Local(bucket) => acquire(bucket, n, now),
            Mode::Open => Ok(self.period),
            Mode::Denied => Err(Denial::Lapsed),
        }
    }

    fn spend(&mut self, kind: Kind, n: Tokens, now: Tick) -> Result<PeriodId, Denial> {
        match kind {
            Kind::Rate if self.bucket.burst().is_zero() => Err(Denial::NoShare),
            Kind::Rate => acquire(&mut self.bucket, n, now),
            Kind::Quota => {
                self.escrow = self.escrow.minus(n).ok_or(Denial::Escrow)?;
                self.unreported = self.unreported.plus(n).unwrap_or(Tokens::MAX);
                Ok(self.period)
            }
            Kind::Concurrency => Err(Denial::Unknown),
        }
    }

    pub(super) fn try_permit_at(
        &mut self,
        now: Tick,
        leased: bool,
        drift: Drift,
    ) -> Result<Permit, Denial> {
        let terms = self.terms.ok_or(Denial::NoShare)?;
        if terms.kind != Kind::Concurrency {
            return Err(Denial::Unknown);
        }
        self.permits.cancel_overheld(now);
        if leased {
            self.mode = Mode::Leased;
        }
        let floor = self.floor.burst.grains();
        match self.mode {
            Mode::Leased | Mode::Kept => {}
            Mode::Floor(until) if now < until && self.permits.in_flight() < floor => {}
            Mode::Floor(until) if now < until => return Err(Denial::Permits),
            _ => return Err(Denial::Lapsed),
        }
        self.permits
            .take(terms.max_hold, drift, now)
            .ok_or(Denial::Permits)
    }

    pub(super) fn release_permit(&mut self, permit: Permit) {
        self.permits.release(permit);
    }

    pub(super) fn cancel_overheld(&mut self, now: Tick) {
        self.permits.cancel_overheld(now);
    }

    /// What was spent of a quota and not reported yet; it counts as reported now.
    pub(super) fn take_unreported(&mut self) -> Tokens {
        core::mem::take(&mut self.unreported)
    }
}

fn acquire(bucket: &mut Bucket, n: Tokens, now: Tick) -> Result<PeriodId, Denial> {
    bucket
        .try_acquire_at(n, now)
        .map(|()| PeriodId::new(0))
        .map_err(Denial::Bucket)
}
