//! The state of a limiter, as answers tell it.

use super::{Limiter, LimiterState};
use crate::bucket::described::{Bucket, LimitInfo, limit_of_budget};
use aliquot_core::share::Kind;

impl Limiter {
    /// Describes the limit: that of this process, or of the whole budget, and what is left here; `None` if it is
    /// not known or there is no limit in force.
    pub(crate) fn describe(&self) -> Option<LimitInfo> {
        let held = self.peek();
        if !is_limited(held.right) || held.burst == 0 {
            return None;
        }
        let (largest, rate) = (self.key_state.home.largest(), self.key_state.home.rate());
        let remaining = held.level.min(held.burst);
        let view = self.key_state.cell.view(self.now());
        if held.kind != Kind::Rate {
            return Some(LimitInfo {
                limit: largest.max(held.burst),
                window: None,
                remaining,
                reset: None,
            });
        }
        let bucket = Bucket {
            rate: view.slot.rate_grains(),
            burst: view.slot.grains(view.slot.burst),
            missing: view.missing,
            scale: view.scale,
        };
        let described = bucket.describe(self.limit());
        let (limit, window) = match rate {
            0 => (described.limit, described.window),
            rate => limit_of_budget(rate, largest.saturating_mul(view.scale), view.scale),
        };
        // What thread caches hold counts as available.
        Some(LimitInfo {
            limit,
            window,
            remaining,
            ..described
        })
    }
}

const fn is_limited(state: LimiterState) -> bool {
    matches!(
        state,
        LimiterState::Leased | LimiterState::Floor | LimiterState::Forever
    )
}
