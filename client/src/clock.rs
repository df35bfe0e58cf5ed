//! What time it is: the one place of this crate that asks.

mod counter;
mod latest;
mod manual;
mod noted;

pub use counter::CounterClock;
use counter::InPlace;
pub use manual::ManualClock;

use aliquot_core::unit::Tick;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A wait on a clock.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A host's clocks.
///
/// Everything that a limiter decides, it decides by one of these; tests hand it a [`ManualClock`].
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time since the host started, suspended time included. It never goes back.
    fn now(&self) -> Tick;

    /// Milliseconds since the Unix epoch, as far as the host knows. It may jump.
    fn wall_ms(&self) -> i64;

    /// Is over once `span` has passed, or a little later. A clock of one's own that
    /// runs otherwise than the host's answers a wait of its own; the default is the
    /// timer of tokio, and needs its runtime.
    fn sleep(&self, span: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(span))
    }
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

/// The clocks that are read without asking which.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    InPlace(InPlace),
    Counter,
    Host,
    Other(SharedClock),
}

impl Source {
    /// The processor's counter, in place if it can be.
    pub(crate) fn counter() -> Self {
        InPlace::get().map_or(Self::Counter, Self::InPlace)
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        self.in_place().unwrap_or_else(|| self.far())
    }

    /// A reading that needs no call.
    #[inline(always)]
    pub(crate) fn in_place(&self) -> Option<Tick> {
        match self {
            Self::InPlace(counter) => counter.read(),
            _ => None,
        }
    }

    /// What is a call anyway: so that the counter is read in place.
    #[inline(never)]
    fn far(&self) -> Tick {
        match self {
            Self::InPlace(_) | Self::Counter => CounterClock.now(),
            Self::Host => HostClock.now(),
            Self::Other(clock) => clock.now(),
        }
    }

    pub(crate) fn shared(&self) -> SharedClock {
        match self {
            Self::InPlace(_) | Self::Counter => Arc::new(CounterClock),
            Self::Host => Arc::new(HostClock),
            Self::Other(clock) => Arc::clone(clock),
        }
    }
}
