//! The state of a limiter, as answers tell it.

use super::{Limiter, LimiterState};
use crate::bucket::described::{BucketLevel, LimitInfo, as_written, limit_of_budget};
use crate::bucket::view::View;
use aliquot_core::message::WrittenLimit;
use aliquot_core::share::Kind;
use aliquot_core::unit::{Span, Tick};
use std::time::Duration;

impl Limiter {
    /// Describes the limit now: that of this process, or of the whole budget, and what is left here; `None` if it is
    /// not known or there is no limit in force.
    pub(crate) fn describe(&self) -> Option<LimitInfo> {
        let now = self.now();
        self.describe_view(&self.key_state.bucket.view(now), now)
    }

    /// Returns the limit and the window in seconds of the whole budget, as far as they are known here. They are known
    /// also while nothing of the budget is held here, as in central mode. The window is `None` if the tokens are
    /// not refilled by time.
    ///
    /// They are returned as the budget's author wrote them: 100 per minute is 100 and 60. If the bucket holds more
    /// than that, or if a node of an earlier version does not send them, they are the burst and the time in which
    /// it refills, or one second and the tokens of one second if those are more. The window of a quota is the usual
    /// length of its period
    /// ([`LimitInfo::window`]).
    #[must_use]
    pub fn whole_limit(&self) -> Option<(u64, Option<u64>)> {
        self.whole_limit_of(&self.key_state.bucket.view(self.now()))
    }

    fn whole_limit_of(&self, view: &View) -> Option<(u64, Option<u64>)> {
        let home = &self.key_state.home;
        let (largest, rate, written) = (home.largest(), home.rate(), home.written());
        (largest > 0).then(|| match (view.slot.kind, written) {
            (Kind::Rate, Some(WrittenLimit { tokens, per })) => as_written(largest, tokens, per),
            (Kind::Rate, None) if rate > 0 => {
                limit_of_budget(rate, largest.saturating_mul(view.scale), view.scale)
            }
            (Kind::Quota, Some(WrittenLimit { per, .. })) => {
                let second = Span::from_secs(1).nanos();
                (largest, Some(per.nanos().div_ceil(second)))
            }
            (Kind::Rate | Kind::Quota | Kind::Concurrency, _) => (largest, None),
        })
    }

    /// Describes the whole budget while nothing of it is held here, so that nothing remains here. In central mode
    /// only the home node knows what remains.
    fn describe_without_share(&self, view: &View, now: Tick) -> Option<LimitInfo> {
        if self.key_state.home.is_central() {
            return None;
        }
        let (limit, window) = self.whole_limit_of(view)?;
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
        let view = self.key_state.bucket.view(now);
        let (limit, window) = self.whole_limit_of(&view)?;
        let largest = self.key_state.home.largest();
        let remaining = left?.min(largest);
        let reset = match view.slot.kind {
            Kind::Rate => {
                let bucket = BucketLevel {
                    rate: self.key_state.home.rate(),
                    burst: largest.saturating_mul(view.scale),
                    missing: (largest - remaining).saturating_mul(view.scale),
                    scale: view.scale,
                };
                bucket.describe(None).reset
            }
            kind => self.reset_of(kind, now),
        };
        Some(LimitInfo {
            limit,
            window,
            remaining,
            reset,
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
        let whole = self.whole_limit_of(view);
        // Threads can still spend the tokens in their caches.
        let cached = self.key_state.bucket.cached_tokens();
        let remaining = view.tokens(view.level).saturating_add(cached).min(burst);
        if view.slot.kind != Kind::Rate {
            let (limit, window) = whole.unwrap_or((burst, None));
            return Some(LimitInfo {
                limit: limit.max(burst),
                window,
                remaining,
                reset: self.reset_of(view.slot.kind, now),
            });
        }
        let bucket = BucketLevel {
            rate: view.slot.rate_grains(),
            burst: view.slot.grains(view.slot.burst),
            missing: view.missing,
            scale: view.scale,
        };
        // A node that tells neither words nor rate leaves what the share makes.
        let known = self.key_state.home.rate() > 0 || self.key_state.home.written().is_some();
        let (limit, window) = whole.filter(|_| known).unwrap_or_else(|| {
            let described = bucket.describe(self.limit());
            (described.limit, described.window)
        });
        Some(LimitInfo {
            limit,
            window,
            remaining,
            reset: bucket.reset(),
        })
    }
}

const fn is_limited(state: LimiterState) -> bool {
    matches!(
        state,
        LimiterState::Leased | LimiterState::Floor | LimiterState::Forever
    )
}
