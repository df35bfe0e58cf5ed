//! What time it is: the one place of this crate that asks.

use aliquot_core::unit::Tick;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::sync::Arc;

/// A host's clocks.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time since the host started, suspended time included. It never goes back.
    fn now(&self) -> Tick;

    /// Milliseconds since the Unix epoch, as far as the host knows. It may jump.
    fn wall_ms(&self) -> i64;
}

/// A clock that is handed around.
pub type SharedClock = Arc<dyn Clock>;

/// The clocks of this machine: `CLOCK_BOOTTIME` and `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Tick {
        let time = clock_gettime(ClockId::Boottime);
        let (secs, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
        Tick::from_nanos(secs.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    fn wall_ms(&self) -> i64 {
        let time = clock_gettime(ClockId::Realtime);
        time.tv_sec
            .saturating_mul(1_000)
            .saturating_add(time.tv_nsec / 1_000_000)
    }
}
