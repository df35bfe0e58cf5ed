//! The processor's cycle counter as a clock.

use super::{Clock, HostClock};
use crate::clock::native;
use aliquot_core::unit::Tick;
use std::sync::LazyLock;

/// The processor's cycle counter, calibrated against the host's clock at its first use. Where there is no
/// steady counter, the host's monotonic clock.
///
/// Reading it takes a third of the time of [`HostClock`]. It may stop while the host is suspended, and may
/// drift from the host's clock by some millionths. Use it for limits of this process; it is not suitable for
/// a lease.
///
/// ```
/// use aliquot_client::clock::{Clock, CounterClock};
/// use aliquot_client::{Limit, Limiter};
/// use std::sync::Arc;
///
/// let limiter = Limiter::local_with(Limit::per_sec(10), 5, Arc::new(CounterClock))?;
/// assert!(limiter.try_acquire(1).is_ok());
/// assert!(CounterClock.now() <= CounterClock.now());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterClock;

/// The counter, where it can be read in place, without a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InPlace {
    raw: u64,
    tick: u64,
    /// Nanoseconds per count, in 64 binary places. A count is shorter than a nanosecond.
    fraction: u64,
}

/// Calibration: the counter's value at its first use, the host's time then, and its frequency.
struct Start {
    counter: quanta::Clock,
    in_place: Option<InPlace>,
    raw: u64,
    tick: Tick,
    /// Nanoseconds per count, in [`PLACES`] binary places.
    scale: u64,
}

const PLACES: u32 = 32;
/// `2^SAMPLE` counts are converted to find the frequency: exact to one part in 2⁴⁷ at two counts per
/// nanosecond.
const SAMPLE: u32 = 48;

static START: LazyLock<Start> = LazyLock::new(|| {
    let counter = quanta::Clock::new();
    let nanos = counter.delta_as_nanos(0, 1 << SAMPLE);
    // A clock that counts nanoseconds is the host's. If its reading lies between two counter readings, each
    // time, it reads the same counter.
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
    /// Returns the counter, if it can be read in place.
    pub(super) fn get() -> Option<Self> {
        START.in_place
    }

    /// Returns a reading; `None` for a counter before its start, and on overflow. Every decision waits for
    /// this, so it is as short as possible: both failures are predicted branches, and the upper half of a
    /// product needs no shift.
    #[inline(always)]
    pub(crate) fn read(&self) -> Option<Tick> {
        let counts = native::counter()?.checked_sub(self.raw)?;
        let passed = (u128::from(counts) * u128::from(self.fraction)) >> u64::BITS;
        self.tick.checked_add(passed as u64).map(Tick::from_nanos)
    }
}

impl Start {
    /// Reads the counter by the slow way.
    #[cold]
    fn now(&self) -> Tick {
        let counts = self.counter.raw().saturating_sub(self.raw);
        let passed = (u128::from(counts) * u128::from(self.scale)) >> PLACES;
        Tick::from_nanos(self.tick.nanos().saturating_add(passed as u64))
    }
}
