//! A limiter as one of several limits.

use super::Limiter;
use crate::bucket::described::LimitInfo;
use crate::bucket::{Need, No};
use crate::limiter::combined::combine::{Combine, Receipt};
use crate::limiter::decision::Decision;
use crate::limiter::refused::Refused;
use aliquot_core::unit::{Span, Tick};

impl Limiter {
    /// Answers as [`Limiter::try_acquire_at`] would, but takes nothing and counts no demand.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_acquire_at`].
    pub fn would_admit_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.would(n, now, || Ok(()))
    }

    /// Answers as a decision would, after the check `first`.
    fn would(&self, n: u64, now: Tick, first: impl Fn() -> Result<(), No>) -> Result<(), Refused> {
        let (bucket, lease) = (&self.key_state.bucket, &self.handle.shared.lease.0);
        let would = || {
            first()?;
            bucket.would(Need::Tokens(n), now, lease)
        };
        let would = would().or_else(|no| self.mend_and(no, n, now, would));
        let would = would.or_else(|no| self.would_apply_mode(no));
        would.map_err(|no| self.refusal(n, no))
    }

    /// Answers as [`Limiter::try_acquire`] would, but takes nothing and counts no demand.
    ///
    /// # Errors
    ///
    /// As [`Limiter::try_acquire`].
    pub fn would_admit(&self, n: u64) -> Result<(), Refused> {
        self.would_admit_at(n, self.now())
    }

    /// Checks the lease against this limiter's own clock, because a caller that asks several limits at once
    /// may pass a reading of another clock.
    fn in_time(&self) -> Result<(), No> {
        match self.own {
            Some(_) => Ok(()),
            None => {
                let now = self.now();
                self.key_state
                    .bucket
                    .in_time(now, &self.handle.shared.lease.0)
            }
        }
    }

    /// Returns the number of tokens that a full bucket would have more.
    pub(crate) fn missing_at(&self, now: Tick) -> f64 {
        let view = self.key_state.bucket.view(now);
        view.missing as f64 / view.scale.max(1) as f64
    }
}

impl Combine for Limiter {
    fn now(&self) -> Tick {
        self.handle.shared.now()
    }

    fn info_at(&self, _: Tick) -> Option<LimitInfo> {
        self.describe()
    }

    fn take_at(&self, n: u64, now: Tick) -> Result<Receipt, Refused> {
        let lease = &self.handle.shared.lease.0;
        let charge = self.taking(n, now, || {
            self.in_time()?;
            self.key_state.bucket.reserve(n, now, Span::ZERO, lease)
        })?;
        Ok(Receipt::of_bucket(n, charge))
    }

    fn decide_at(&self, n: u64, now: Tick) -> Decision<Receipt> {
        self.decide_after(|| self.in_time(), n, now)
            .map(|charge| Receipt::of_bucket(n, charge))
    }

    fn peek_at(&self, n: u64, now: Tick) -> Result<(), Refused> {
        self.would(n, now, || self.in_time())
    }

    fn put_back_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        let Some(charge) = receipt.charge() else {
            return 0;
        };
        self.restore(charge, n, || now)
    }

    fn put_back(&self, receipt: &Receipt, n: u64) -> u64 {
        let put_back = |charge| self.restore(charge, n, || Combine::now(self));
        receipt.charge().map_or(0, put_back)
    }

    fn owe_at(&self, receipt: &Receipt, n: u64, now: Tick) -> u64 {
        let owes = |charge| self.owe(charge, n, now);
        let taken = receipt.charge().map_or(0, owes);
        if taken > 0 {
            self.admitted_here(taken);
        }
        taken
    }
}
