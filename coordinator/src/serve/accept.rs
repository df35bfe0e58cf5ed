//! Accepting connections when the process has no descriptors left.

use std::io;
use std::time::Duration;
use tokio_stream::{Stream, StreamExt};

/// Pause after a failed accept. The connection stays in the queue, so without a pause the next accept fails at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Failed accepts in a row between two warnings: with the pauses, a minute.
const FAILURES_PER_WARNING: u64 = 600;

/// Pauses and warns when a connection cannot be accepted, for example without free descriptors.
pub(super) fn pause_after_errors<T>(
    accepted: impl Stream<Item = io::Result<T>>,
    setting: &'static str,
) -> impl Stream<Item = io::Result<T>> {
    let mut failures = 0_u64;
    accepted.then(move |accepted| {
        let failed = accepted
            .as_ref()
            .is_err_and(|error| !ended_by_caller(error));
        let warn = failed && failures.is_multiple_of(FAILURES_PER_WARNING);
        failures = if failed { failures + 1 } else { 0 };
        async move {
            if let (true, Err(error)) = (warn, &accepted) {
                tracing::warn!(%error, setting, "connections cannot be accepted");
            }
            if failed {
                tokio::time::sleep(PAUSE).await;
            }
            accepted
        }
    })
}

/// Returns true if the caller ended the connection before it was accepted.
fn ended_by_caller(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pauses(results: Vec<io::Result<()>>) -> Duration {
        let begun = tokio::time::Instant::now();
        let accepted = pause_after_errors(tokio_stream::iter(results), "listen");
        tokio::pin!(accepted);
        while accepted.next().await.is_some() {}
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn an_accept_without_descriptors_is_not_repeated_at_once() {
        let full = || Err(io::Error::from_raw_os_error(24));
        assert_eq!(pauses(vec![full(), Ok(()), full()]).await, 2 * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_leaves_early_delays_nobody() {
        let left = Err(io::ErrorKind::ConnectionAborted.into());
        assert_eq!(pauses(vec![left, Ok(())]).await, Duration::ZERO);
    }
}
