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
    /// Nanoseconds of a count, in 64 binary places; of a counter that is read in place, which counts faster than those.
    fraction: u64,
    /// The same in [`PLACES`] binary places, of any.
    scale: u64,
}

const PLACES: u32 = 32;
/// By so many counts it is asked how fast they are: to one part in 2⁴⁷ where two are a nanosecond.
const SAMPLE: u32 = 48;

static START: LazyLock<Start> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    let nanos = counter.delta_as_nanos(0, 1 << SAMPLE);
    // A clock that counts nanoseconds is the host's; a reading that lies between two others, each time, is of the same counter.
    let between = |_| {
        let (before, raw) = (native::counter(), counter.raw());
        before.is_some_and(|before| before <= raw) && native::counter() >= Some(raw)
    };
    Start {
        in_place: nanos < 1 << SAMPLE && (0..8).all(between),
        raw: counter.raw(),
        fraction: nanos << (u64::BITS - SAMPLE),
        scale: nanos >> (SAMPLE - PLACES),
        counter,
        tick: HostClock.now(),
    }
});

impl Clock for CounterClock {
    #[inline(always)]
    fn now(&self) -> Tick {
        let start = &*START;
        // All that a decision does waits for this, so it is as short as can be: what never happens is a branch that is
        // guessed, and the upper half of a product needs no shift.
        if start.in_place
            && let Some(raw) = native::counter()
            && let Some(counts) = raw.checked_sub(start.raw)
        {
            let passed = (u128::from(counts) * u128::from(start.fraction)) >> u64::BITS;
            let now = start.tick.nanos().checked_add(passed as u64);
            return now.map_or_else(forever, Tick::from_nanos);
        }
        start.now()
    }

    fn wall_ms(&self) -> i64 {
        HostClock.wall_ms()
    }
}

impl Start {
    /// By whatever there is to ask.
    #[cold]
    fn now(&self) -> Tick {
        let counts = self.counter.raw().saturating_sub(self.raw);
        let passed = (u128::from(counts) * u128::from(self.scale)) >> PLACES;
        Tick::from_nanos(self.tick.nanos().saturating_add(passed as u64))
    }
}

/// After the end of time.
#[cold]
fn forever() -> Tick {
    Tick::from_nanos(u64::MAX)
}
