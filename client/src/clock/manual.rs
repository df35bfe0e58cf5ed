//! A clock for tests, which moves only when told to.

use super::{Clock, Sleep};
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// A clock for tests that stands still until it is moved. All clones share one time.
///
/// Moving it wakes the tasks whose waits are over, so that a test of something that waits takes no time:
///
/// ```
/// use aliquot_client::{Limit, Limiter, ManualClock};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::local_with(Limit::per_sec(1), 1, Arc::new(clock.clone()))?;
/// assert!(limiter.try_acquire(1).is_ok());
/// assert!(limiter.try_acquire(1).is_err());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.try_acquire(1).is_ok());
/// # Ok::<(), aliquot_client::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    now: AtomicU64,
    wall_ms: AtomicI64,
    moved: Notify,
}

impl ManualClock {
    /// Returns a clock one day after its host's start, at the Unix epoch.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            now: AtomicU64::new(86_400 * 1_000_000_000),
            wall_ms: AtomicI64::new(0),
            moved: Notify::new(),
        };
        Self {
            state: Arc::new(state),
        }
    }

    /// Advances boot time and wall time (the latter by whole milliseconds), and wakes the tasks whose waits
    /// are over.
    pub fn advance(&self, span: Duration) {
        let (nanos, ms) = (nanos(span), span.as_millis());
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        self.state.wall_ms.fetch_add(ms, Ordering::AcqRel);
        self.state.now.fetch_add(nanos, Ordering::AcqRel);
        self.state.moved.notify_waiters();
    }

    /// Sets the reading, even back, as a broken clock would.
    pub fn set(&self, now: Tick) {
        self.state.now.store(now.nanos(), Ordering::Release);
        self.state.moved.notify_waiters();
    }

    /// Sets the wall time, in milliseconds since the Unix epoch.
    pub fn set_wall_ms(&self, ms: i64) {
        self.state.wall_ms.store(ms, Ordering::Release);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.state.now.load(Ordering::Acquire))
    }

    fn wall_ms(&self) -> i64 {
        self.state.wall_ms.load(Ordering::Acquire)
    }

    fn sleep(&self, span: Duration) -> Sleep {
        let until = self.now().after(Span::from_nanos(nanos(span)));
        let clock = self.clone();
        Box::pin(async move {
            loop {
                let moved = clock.state.moved.notified();
                if clock.now() >= until {
                    return;
                }
                moved.await;
            }
        })
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
