//! Clocks: the one module of this crate that reads the time.

mod coarse;
mod counter;
mod host;
mod manual;
pub(crate) mod native;
pub(crate) mod prefetch;
pub(crate) mod sync;

pub use aliquot_core::unit::{Span, Tick};
pub use counter::CounterClock;
use counter::InPlace;
pub use manual::ManualClock;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A future that is ready after a wait on a clock.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The clocks of a host.
///
/// A limiter decides by the readings of one clock. Tests pass a [`ManualClock`].
///
/// ```
/// use aliquot_client::clock::{Clock, HostClock};
///
/// let (first, second) = (HostClock.now(), HostClock.now());
/// assert!(first <= second);
/// ```
pub trait Clock: fmt::Debug + Send + Sync {
    /// Returns the time since the host started, including suspended time. It never goes back.
    fn now(&self) -> Tick;

    /// Returns milliseconds since the Unix epoch, as far as the host knows. It may jump.
    fn wall_ms(&self) -> i64;

    /// Returns a future that is ready once `span` has passed, or a little later.
    ///
    /// The default is tokio's timer and needs its runtime. An implementation whose time runs differently from
    /// the host's must return a wait of its own.
    fn sleep(&self, span: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(span))
    }
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The clocks of this host: on Linux `CLOCK_BOOTTIME` and `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostClock;

impl Clock for HostClock {
    fn now(&self) -> Tick {
        Tick::from_nanos(host::boot())
    }

    fn wall_ms(&self) -> i64 {
        host::wall_ms()
    }
}

/// Clocks that are read without a virtual call where possible.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    InPlace(InPlace),
    Counter,
    Host,
    Other(SharedClock),
}

impl Source {
    /// Returns the processor's counter, read in place if possible.
    pub(crate) fn counter() -> Self {
        InPlace::get().map_or(Self::Counter, Self::InPlace)
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        self.in_place().unwrap_or_else(|| self.far())
    }

    /// Returns a reading that needs no function call, if there is one.
    #[inline(always)]
    pub(crate) fn in_place(&self) -> Option<Tick> {
        match self {
            Self::InPlace(counter) => counter.read(),
            _ => None,
        }
    }

    /// Reads the clock by a call. Not inlined, so that the counter is read in place.
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
