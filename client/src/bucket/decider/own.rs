//! Local limits: rules of this process, without a lease.

use super::{AdmissionMode, BucketDecider, Ordering, Plan};
use aliquot_core::share::{Kind, Share};
use aliquot_core::unit::{Scale, Tick};

impl BucketDecider {
    /// Applies a rule of the client's own to a limit of any kind.
    pub(crate) fn own(
        &mut self,
        kind: Kind,
        mode: AdmissionMode,
        scale: Scale,
        share: Share,
        now: Tick,
    ) {
        self.agreed = false;
        self.key_state.home.set_central(false);
        // Waiting callers keep waiting, instead of being refused by a mode that holds for a moment only.
        self.set_mode(AdmissionMode::Cold, now);
        self.set_kind(kind, scale, now);
        self.held = 0;
        self.put(share, mode, now);
    }

    /// Returns true if the bucket decides by this rule of the client's own.
    pub(crate) fn goes_by(&self, mode: AdmissionMode) -> bool {
        !self.agreed && self.plan.mode == mode
    }

    /// Changes the parameters of a local limit. The level stays, in tokens; added capacity arrives empty. If
    /// the fixed-point scale changes, nothing is admitted meanwhile, and earlier admissions can no longer be
    /// refunded.
    pub(crate) fn amend(&mut self, mode: AdmissionMode, scale: Scale, part: Share, now: Tick) {
        let (from, to) = (self.scale.grains_per_token(), scale.grains_per_token());
        if from != to {
            self.set_mode(AdmissionMode::Cold, now);
            self.bucket().begin_change();
            self.bucket().hot.scale.store(to, Ordering::Release);
        }
        self.turn(now, |plan, missing| {
            let level = i128::from(plan.burst.grains()) - i128::from(missing);
            // Below 2⁶⁴ · 2⁵⁶, rounded down.
            let level = (level * i128::from(to)).div_euclid(i128::from(from));
            let missing = match plan.kind {
                // The permits in flight stay, whatever the new maximum is.
                Kind::Concurrency => i128::from(missing),
                Kind::Rate | Kind::Quota => (i128::from(part.burst.grains()) - level).max(0),
            };
            let plan = Plan {
                rate: part.rate,
                burst: part.burst,
                mode,
                ..plan
            };
            (plan, u64::try_from(missing).unwrap_or(u64::MAX), ())
        });
        self.scale = scale;
        if from != to {
            self.bucket().end_change();
        }
        self.key_state.changed();
    }
}
