//! Timers: tokio's, or those of a simulated host.
//!
//! All code of this crate that waits for a time uses this module. A simulation registers, once for the
//! whole process, how to find the host that runs at the moment ([`simulate`]). Waits are then counted
//! on that host's own skewed clock. Without a simulation, this costs one read of a static.

use crate::clock::{Clock, HostClock};
use futures_util::future::{BoxFuture, Either};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A simulated host, as seen by the code that runs on it.
pub trait Host: Send + Sync {
    /// Returns the time since some instant long ago, by the host's own clock. It never goes back.
    fn uptime(&self) -> Duration;

    /// Completes once the host's own clock has counted `span` and the host runs.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;

    /// Returns a random number from the host's own source.
    fn random(&self) -> u64;
}

/// Finds the simulated host that runs at the moment, if there is one.
pub type Find = fn() -> Option<Arc<dyn Host>>;

static FIND: OnceLock<Find> = OnceLock::new();

/// Makes all waits on simulated hosts, and Raft's instants and randomness there, use the hosts' own
/// sources. Returns false if a simulation was already registered in this process.
pub fn simulate(find: Find) -> bool {
    FIND.set(find).is_ok()
}

/// Returns the simulated host that runs at the moment, or `None` outside of simulations.
pub(crate) fn host() -> Option<Arc<dyn Host>> {
    FIND.get().and_then(|find| find())
}

/// Returns the time since some instant long ago. It never goes back.
pub(crate) fn uptime() -> Duration {
    match host() {
        None => Duration::from_nanos(HostClock.now().nanos()),
        Some(host) => host.uptime(),
    }
}

/// A timer.
pub type Sleep = Either<tokio::time::Sleep, BoxFuture<'static, ()>>;

/// Completes once `span` has passed.
pub fn sleep(span: Duration) -> Sleep {
    match host() {
        None => Either::Left(tokio::time::sleep(span)),
        Some(host) => Either::Right(host.sleep(span)),
    }
}

/// Runs long work on a thread of its own. In a simulation, where threads have no order, it runs at
/// once.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if host().is_some() {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and with it the caller.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Error of a future that exceeded its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct Elapsed;

/// Waits for `future` for at most `span`.
///
/// # Errors
///
/// [`Elapsed`] if the time is over. The future is dropped.
pub async fn timeout<F: Future>(span: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        () = sleep(span) => Err(Elapsed),
    }
}

#[cfg(test)]
#[path = "../tests/unit/timer.rs"]
mod tests;
