//! The state of limiters, as answers tell it.

use super::{Limiter, LimiterState};
use crate::bucket::described::{Bucket, Described};
use aliquot_core::share::Kind;

impl Limiter {
    /// Describes the limit, or the part of it that this process holds; `None` if it is not known or there is
    /// no limit in force.
    pub(crate) fn describe(&self) -> Option<Described> {
        let held = self.peek();
        if !is_limited(held.right) || held.burst == 0 {
            return None;
        }
        let view = self.key_state.cell.view(self.now());
        if held.kind != Kind::Rate {
            return Some(Described {
                limit: held.burst,
                window: None,
                remaining: held.level.min(held.burst),
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
        // What thread caches hold counts as available.
        Some(Described {
            remaining: held.level.min(held.burst),
            ..described
        })
    }

    /// Returns true if a cost can never be served, however long its caller waits.
    pub(crate) fn never_serves(&self, n: u64) -> bool {
        match &self.own {
            Some(_) => self.peek().burst < n,
            None => self.key_state.home.is_beyond(n),
        }
    }
}

const fn is_limited(state: LimiterState) -> bool {
    matches!(
        state,
        LimiterState::Leased | LimiterState::Floor | LimiterState::Forever
    )
}
