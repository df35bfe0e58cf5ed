//! Detection of time that the lease clock did not count.

use aliquot_core::unit::{Span, Tick};

/// Compares the wall clock with the clock on which leases are counted.
///
/// If a virtual machine is paused, its lease clock does not count that time. Its wall clock is
/// corrected afterwards and jumps ahead. No lease that was held before may be trusted then.
///
/// A wall clock that an operator or a time service sets ahead looks the same. It costs the lease, which
/// is safe. A wall clock that is set back is ignored.
#[derive(Debug, Default)]
pub(super) struct ClockJumpDetector {
    last: Option<(Tick, i64)>,
}

impl ClockJumpDetector {
    /// Maximum gain of the wall clock between two checks. A smaller gain comes from slewing, or from
    /// reading one clock late.
    const MOST: Span = Span::from_millis(250);

    /// Returns true if the wall clock ran ahead since the last check.
    pub(super) fn check(&mut self, now: Tick, wall_ms: i64) -> bool {
        let Some((then, wall_then)) = self.last.replace((now, wall_ms)) else {
            return false;
        };
        let counted = now.since(then);
        let ahead = u64::try_from(wall_ms.saturating_sub(wall_then)).unwrap_or(0);
        let ahead = Span::from_nanos(ahead.saturating_mul(1_000_000));
        ahead.minus_or_zero(counted) > Self::MOST
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/clock_jump.rs"]
mod tests;
