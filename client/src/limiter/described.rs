//! The state of a limiter, as answers tell it.

use super::{Limiter, LimiterState};
use crate::bucket::described::{Bucket, LimitInfo, limit_of_budget};
use crate::bucket::view::View;
use aliquot_core::share::Kind;
use aliquot_core::unit::Tick;
use std::time::Duration;

impl Limiter {
    /// Describes the limit now: that of this process, or of the whole budget, and what is left here; `None` if it is
    /// not known or there is no limit in force.
    pub(crate) fn describe(&self) -> Option<LimitInfo> {
        let now = self.now();
        self.describe_view(&self.key_state.cell.view(now), now)
    }

    /// Returns the limit and the window in seconds of the whole budget, as far as they are known here. They are known
    /// also while nothing of the budget is held here, as in central mode. The window is `None` if no time makes the
    /// tokens.
    #[must_use]
    pub fn whole_limit(&self) -> Option<(u64, Option<u64>)> {
        let view = self.key_state.cell.view(self.now());
        let (largest, rate) = (self.key_state.home.largest(), self.key_state.home.rate());
        (largest > 0).then(|| match rate {
            0 => (largest, None),
            rate => limit_of_budget(rate, largest.saturating_mul(view.scale), view.scale),
        })
    }

    /// Describes the whole budget while nothing of it is held here, so that nothing remains here. In central mode
    /// only the home node knows what remains.
    fn describe_without_share(&self, view: &View, now: Tick) -> Option<LimitInfo> {
        if self.key_state.home.is_central() {
            return None;
        }
        let (limit, window) = self.whole_limit()?;
        Some(LimitInfo {
            limit,
            window,
            remaining: 0,
            reset: self.reset_of(view.slot.kind, now),
        })
    }

    /// Returns the time until a quota's next period. Permits come back as calls end, whenever that is.
    fn reset_of(&self, kind: Kind, now: Tick) -> Option<Duration> {
        match kind {
            Kind::Quota => self.rest_of_period(now),
            Kind::Rate | Kind::Concurrency => None,
        }
    }

    /// Describes a budget of which its home node has `left` tokens; `None` if that or the budget is not known.
    pub(super) fn describe_home(&self, left: Option<u64>) -> Option<LimitInfo> {
        let now = self.now();
        let view = self.key_state.cell.view(now);
        let (largest, rate) = (self.key_state.home.largest(), self.key_state.home.rate());
        let remaining = left.filter(|_| largest > 0)?.min(largest);
        if view.slot.kind == Kind::Rate {
            let bucket = Bucket {
                rate,
                burst: largest.saturating_mul(view.scale),
                missing: (largest - remaining).saturating_mul(view.scale),
                scale: view.scale,
            };
            return Some(bucket.describe(None));
        }
        Some(LimitInfo {
            limit: largest,
            window: None,
            remaining,
            reset: self.reset_of(view.slot.kind, now),
        })
    }

    /// Returns the time until the running period of a quota ends, if that is known.
    fn rest_of_period(&self, now: Tick) -> Option<Duration> {
        let end = self.key_state.home.period_end(now)?;
        Some(Duration::from_nanos(end.at.since(now).nanos()))
    }

    /// Describes the limit in the state `view`, which was read at `now`.
    pub(super) fn describe_view(&self, view: &View, now: Tick) -> Option<LimitInfo> {
        let burst = view.tokens(view.slot.grains(view.slot.burst));
        if !is_limited(self.right_in(view, now).0) {
            return None;
        }
        if burst == 0 {
            return self.describe_without_share(view, now);
        }
        let (largest, rate) = (self.key_state.home.largest(), self.key_state.home.rate());
        // Threads can still spend the tokens in their caches.
        let cached = self.key_state.cell.cached_tokens();
        let remaining = view.tokens(view.level).saturating_add(cached).min(burst);
        if view.slot.kind != Kind::Rate {
            return Some(LimitInfo {
                limit: largest.max(burst),
                window: None,
                remaining,
                reset: self.reset_of(view.slot.kind, now),
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
