//! The processor's own counter.

use super::{Clock, HostClock};
use crate::native;
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

/// Where the counter began, what the host's clock showed then, and how fast it counts.
struct Start {
    counter: quanta::Clock,
    /// Whether that is the counter that can be read in place.
    in_place: bool,
    raw: u64,
    tick: Tick,
    /// Nanoseconds of a count, in [`PLACES`] binary places: to one part in 2³¹ where it counts twice a nanosecond.
    scale: u64,
}

const PLACES: u32 = 32;

static START: LazyLock<Start> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    let scale = counter.delta_as_nanos(0, 1 << (PLACES + 16)) >> 16;
    // A clock that counts nanoseconds is the host's; a reading that lies between two others, each time, is of the same counter.
    let between = |_| {
        let (before, raw) = (native::counter(), counter.raw());
        before.is_some_and(|before| before <= raw) && native::counter() >= Some(raw)
    };
    Start {
        in_place: scale != 1 << PLACES && (0..8).all(between),
        raw: counter.raw(),
        scale,
        counter,
        tick: HostClock.now(),
    }
});

impl Clock for CounterClock {
    #[inline]
    fn now(&self) -> Tick {
        let start = &*START;
        let raw = match start.in_place.then(native::counter).flatten() {
            Some(raw) => raw,
            None => start.counter.raw(),
        };
        let counts = raw.saturating_sub(start.raw);
        let passed = (u128::from(counts) * u128::from(start.scale)) >> PLACES;
        Tick::from_nanos(start.tick.nanos().saturating_add(passed as u64))
    }

    fn wall_ms(&self) -> i64 {
        HostClock.wall_ms()
    }
}
