//! Waits: tokio's timers, or those of a simulated host.
//!
//! Everything of this crate that waits for a span waits here. A simulation says
//! once, for the whole process, how to find the host that runs just now
//! ([`simulate`]); its waits are then counted on that host's own skewed clock.
//! Nobody else pays more for it than looking at one word.

use futures_util::future::{BoxFuture, Either};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A host of a simulation, as what runs on it finds it.
pub trait Host: Send + Sync {
    /// The time since some instant long ago, by the host's own clock. It never goes back.
    fn uptime(&self) -> Duration;

    /// Is over once the host's own clock has counted `span`, and the host runs.
    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()>;

    /// A number of the host's own source.
    fn random(&self) -> u64;
}

/// Finds the simulated host that runs just now, if one does.
pub type Find = fn() -> Option<Arc<dyn Host>>;

static FIND: OnceLock<Find> = OnceLock::new();

/// Has all waits on simulated hosts, and the protocol's instants and randomness there,
/// be the hosts' own from now on. Whether it took: only the first word of a process counts.
pub fn simulate(find: Find) -> bool {
    FIND.set(find).is_ok()
}

/// The simulated host that runs just now; `None` outside of simulations.
pub(crate) fn host() -> Option<Arc<dyn Host>> {
    FIND.get().and_then(|find| find())
}

/// A wait.
pub type Sleep = Either<tokio::time::Sleep, BoxFuture<'static, ()>>;

/// Is over when `span` has passed.
pub fn sleep(span: Duration) -> Sleep {
    match host() {
        None => Either::Left(tokio::time::sleep(span)),
        Some(host) => Either::Right(host.sleep(span)),
    }
}

/// Runs what takes long on a thread of its own; in a simulation, in which threads have no order,
/// at once.
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if host().is_some() {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and whoever waits with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// It took longer than it might.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the time is over")]
pub struct Elapsed;

/// Waits for `future`, but not longer than `span`.
///
/// # Errors
///
/// [`Elapsed`]; the future is dropped.
pub async fn timeout<F: Future>(span: Duration, future: F) -> Result<F::Output, Elapsed> {
    tokio::select! {
        biased;
        output = future => Ok(output),
        () = sleep(span) => Err(Elapsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, HostClock};
    use aliquot_core::unit::Tick;

    fn since(began: Tick) -> Duration {
        Duration::from_nanos(HostClock.now().since(began).nanos())
    }

    #[tokio::test]
    async fn who_is_done_in_time_is_heard_though_the_time_is_over_as_well() {
        let (span, began) = (Duration::from_millis(2), HostClock.now());
        let late = timeout(span, std::future::pending::<()>()).await;
        assert_eq!(late, Err(Elapsed));
        assert!(since(began) >= span);
        assert_eq!(timeout(Duration::ZERO, async { 7 }).await, Ok(7));
    }
}
