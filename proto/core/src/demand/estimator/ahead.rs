//! Prediction of demand.

use super::Estimator;
use crate::unit::{Span, Tick};

impl Estimator {
    /// Returns the mean demand of the last eight seconds, or since the first caller if that is less,
    /// regardless of changes, in units per second. Returns `None` if there was no demand.
    pub fn lately_at(&mut self, now: Tick) -> Option<u64> {
        self.advance(now);
        let (mean, fraction) = self.regime.slow_scaled()?;
        Some(self.per_second(mean, fraction))
    }

    /// Returns the demand expected within `span`, in units. A caller seen lately may want one unit more. For
    /// a stream that has just begun, the result is limited by the length for which it is known.
    pub fn ahead_at(&mut self, span: Span, now: Tick) -> u64 {
        self.advance(now);
        let mut next = self.regime.clone();
        next.fold(self.sample(), self.unit);
        let ticks = span.nanos().checked_div(self.tick.nanos()).unwrap_or(0);
        let ahead = self.regime.ahead(ticks).max(next.ahead(ticks));
        let remembered = self.tick.times_or_max(Self::REMEMBERED_TICKS);
        let one = match self.asked {
            Some(asked) if now.since(asked) < remembered => self.unit,
            _ => 0,
        };
        ahead.max(one)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/demand/estimator/ahead.rs"]
mod tests;
