//! Clocks: the one module of this crate that reads the time.

mod coarse;
mod counter;
mod host;
mod manual;
pub(crate) mod native;
pub(crate) mod prefetch;
mod source;
pub(crate) mod sync;

#[doc(inline)]
pub use aliquot_core::unit::{Span, Tick};
pub use counter::CounterClock;
pub use manual::ManualClock;
pub(crate) use source::Source;

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
