//! The processor's own counter.

use super::{Clock, HostClock};
use aliquot_core::unit::Tick;
use std::sync::LazyLock;

/// The processor's cycle counter, calibrated against the host's clock when it is first
/// asked, where there is a steady one; the host's monotonic clock elsewhere.
///
/// Reading it takes a third of the time of [`HostClock`]. It may stand still while the
/// machine is suspended, and drift from the host's clock by some millionths: good for limits of a
/// process's own, and no clock for a lease.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterClock;

/// Where the counter began, and what the host's clock showed then.
struct Start {
    counter: quanta::Clock,
    raw: u64,
    tick: Tick,
}

static START: LazyLock<Start> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    Start {
        raw: counter.raw(),
        counter,
        tick: HostClock.now(),
    }
});

impl Clock for CounterClock {
    fn now(&self) -> Tick {
        let start = &*START;
        let passed = start.counter.delta_as_nanos(start.raw, start.counter.raw());
        Tick::from_nanos(start.tick.nanos().saturating_add(passed))
    }

    fn wall_ms(&self) -> i64 {
        HostClock.wall_ms()
    }
}
