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

/// The counter where it can be read in place, without asking what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPlace {
    raw: u64,
    tick: u64,
    /// Nanoseconds of a count, in 64 binary places: it counts faster than those.
    fraction: u64,
}

/// Where the counter began, what the host's clock showed then, and how fast it counts.
struct Start {
    counter: quanta::Clock,
    in_place: Option<InPlace>,
    raw: u64,
    tick: Tick,
    /// Nanoseconds of a count, in [`PLACES`] binary places.
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
    let in_place = nanos < 1 << SAMPLE && (0..8).all(between);
    let (raw, tick) = (counter.raw(), HostClock.now());
    Start {
        in_place: in_place.then(|| InPlace {
            raw,
            tick: tick.nanos(),
            fraction: nanos << (u64::BITS - SAMPLE),
        }),
        raw,
        scale: nanos >> (SAMPLE - PLACES),
        counter,
        tick,
    }
});

impl Clock for CounterClock {
    fn now(&self) -> Tick {
        let start = &*START;
        let read = start.in_place.and_then(|counter| counter.read());
        read.unwrap_or_else(|| start.now())
    }

    fn wall_ms(&self) -> i64 {
        HostClock.wall_ms()
    }
}

impl InPlace {
    /// The counter, if it can be.
    pub(super) fn get() -> Option<Self> {
        START.in_place
    }

    /// A reading; `None` before the counter began, and after the end of time. All that a decision does waits for this, so it is as
    /// short as can be: what never happens is a branch that is guessed, and the upper half of a product needs no shift.
    #[inline(always)]
    pub(crate) fn read(&self) -> Option<Tick> {
        let counts = native::counter()?.checked_sub(self.raw)?;
        let passed = (u128::from(counts) * u128::from(self.fraction)) >> u64::BITS;
        self.tick.checked_add(passed as u64).map(Tick::from_nanos)
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
