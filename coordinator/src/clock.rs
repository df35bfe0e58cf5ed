//! The clocks of the host. No other code of this crate reads them.
//!
//! All other code gets a [`Clock`], so that a simulation can supply a skewed one.

use aliquot_core::unit::{Span, Tick};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The clocks of a host.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the time since the host started, including time in suspend. It never goes back.
    fn now(&self) -> Tick;

    /// Returns the milliseconds since the Unix epoch, as far as the host knows. It may jump.
    fn wall_ms(&self) -> i64;

    /// Returns the processor time that the calling thread has used. It is zero for a simulated host, where work takes
    /// no time.
    fn thread_time(&self) -> Span {
        Span::ZERO
    }
}

/// A clock that is shared between components.
pub type SharedClock = Arc<dyn Clock>;

/// Milliseconds by which [`HostClock`] shows a later wall-clock time than the machine.
static WALL_AHEAD_MS: AtomicI64 = AtomicI64::new(0);

/// Sets the wall clock that this process sees ahead of the machine's, or back if negative: for tests of nodes whose
/// clocks are wrong.
pub fn set_wall_ahead(ms: i64) {
    WALL_AHEAD_MS.store(ms, Ordering::Relaxed);
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Tick {
        Tick::from_nanos(nanos(clock_gettime(ClockId::Boottime)))
    }

    fn wall_ms(&self) -> i64 {
        let time = clock_gettime(ClockId::Realtime);
        time.tv_sec
            .saturating_mul(1_000)
            .saturating_add(time.tv_nsec / 1_000_000)
            .saturating_add(WALL_AHEAD_MS.load(Ordering::Relaxed))
    }

    fn thread_time(&self) -> Span {
        Span::from_nanos(nanos(clock_gettime(ClockId::ThreadCPUTime)))
    }
}

fn nanos(time: Timespec) -> u64 {
    let (secs, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    secs.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
#[path = "../tests/unit/clock.rs"]
mod tests;
