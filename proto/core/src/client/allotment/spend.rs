//! Decisions made by the machine itself, one after the other.

use super::{Allotment, Mode};
use crate::bucket::Bucket;
use crate::client::decider::Plain;
use crate::client::denial::Denial;
use crate::client::permits::Permit;
use crate::share::Kind;
use crate::unit::{PeriodId, Tick, Tokens};

impl Allotment<Plain> {
    pub(in crate::client) fn try_acquire_at(
        &mut self,
        n: Tokens,
        now: Tick,
        leased: bool,
    ) -> Result<PeriodId, Denial> {
        let terms = self.terms.ok_or(Denial::NoShare)?;
        if leased {
            self.renewed(false, now);
        }
        let bucket = &mut self.decider.bucket;
        if let Some(remnant) = &self.remnant {
            if now >= remnant.until {
                return Err(Denial::Lapsed);
            }
            return acquire(bucket, n, now);
        }
        match self.mode {
            Mode::Leased | Mode::LastShare => self.spend(terms.kind, n, now),
            Mode::Floor(until) if now >= until => Err(Denial::Lapsed),
            Mode::Floor(_) | Mode::Local | Mode::FormerShare => acquire(bucket, n, now),
            Mode::Open => Ok(self.period),
            Mode::Denied => Err(Denial::Lapsed),
        }
    }

    fn spend(&mut self, kind: Kind, n: Tokens, now: Tick) -> Result<PeriodId, Denial> {
        let bucket = &mut self.decider.bucket;
        match kind {
            Kind::Rate if bucket.burst().is_zero() => Err(Denial::NoShare),
            Kind::Rate => acquire(bucket, n, now),
            Kind::Quota => match acquire(bucket, n, now) {
                Ok(_) => Ok(self.period),
                Err(_) => Err(Denial::Escrow),
            },
            Kind::Concurrency => Err(Denial::Unknown),
        }
    }

    pub(in crate::client) fn try_permit_at(
        &mut self,
        now: Tick,
        leased: bool,
    ) -> Result<Permit, Denial> {
        let terms = self.terms.ok_or(Denial::NoShare)?;
        if terms.kind != Kind::Concurrency {
            return Err(Denial::Unknown);
        }
        self.decider.permits.cancel_overheld(now);
        if leased {
            self.renewed(false, now);
        }
        let permits = &mut self.decider.permits;
        match self.mode {
            Mode::Leased | Mode::LastShare => {}
            Mode::Floor(until) if now >= until => return Err(Denial::Lapsed),
            Mode::Floor(_) if permits.in_flight() < self.floor.burst.grains() => {}
            Mode::Floor(_) => return Err(Denial::Permits),
            _ => return Err(Denial::Lapsed),
        }
        permits
            .take(terms.max_hold, self.drift, now)
            .ok_or(Denial::Permits)
    }

    pub(in crate::client) fn release_permit(&mut self, permit: Permit) {
        self.decider.permits.release(permit);
    }
}

fn acquire(bucket: &mut Bucket, n: Tokens, now: Tick) -> Result<PeriodId, Denial> {
    bucket
        .try_acquire_at(n, now)
        .map(|()| PeriodId::new(0))
        .map_err(Denial::Bucket)
}
