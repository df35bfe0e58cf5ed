use super::*;
use crate::api::connections::{Port, PortLimits};
use std::sync::{Arc, Mutex};

/// Returns the time until the last of these results is accepted, and how many connections were counted as not
/// accepted.
async fn pauses(results: Vec<io::Result<()>>) -> (Duration, u64) {
    let begun = tokio::time::Instant::now();
    let mut failures = Failures::default();
    let (most, per_address) = (9, 9);
    let connections = Connections::new(Port::Clients, PortLimits { most, per_address });
    for result in results {
        // A task that waits for something else, too, drops the future and calls it again.
        let often = Duration::from_millis(7);
        while tokio::time::timeout(often, failures.pause()).await.is_err() {}
        failures.check(result, &connections);
    }
    (begun.elapsed(), connections.refused(Cause::NotAccepted))
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_accept_without_descriptors_is_not_repeated_at_once() {
    let lines = Lines::default();
    let written = lines.clone();
    let log = tracing_subscriber::fmt().with_writer(move || written.clone());
    let _log = tracing::subscriber::set_default(log.with_ansi(false).finish());
    let full = || Err(io::Error::from_raw_os_error(24));
    let waited = pauses(vec![full(), Ok(()), full(), Ok(())]).await;
    assert_eq!(waited, (Duration::from_millis(200), 2));
    let lines = lines.0.lock().unwrap();
    let lines = String::from_utf8_lossy(&lines);
    assert_eq!(lines.lines().count(), 1, "{lines}");
    assert!(
        lines.contains(" WARN ") && lines.contains("not_accepted"),
        "{lines}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_early_delays_no_other() {
    let left = Err(io::ErrorKind::ConnectionAborted.into());
    assert_eq!(pauses(vec![left, Ok(())]).await, (Duration::ZERO, 0));
}
