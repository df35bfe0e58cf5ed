//! Accepting connections when the process has no descriptors left.

use crate::api::connections::{Cause, Connections};
use crate::timer::{self, Sleep};
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Pause after a failed accept. The connection stays in the queue, so without a pause the next accept fails at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Pauses of one port after failed accepts.
#[derive(Default)]
pub(super) struct Failures {
    /// Rest of the current pause.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Failures {
    /// Waits until a connection may be accepted. If the future is dropped, the next one goes on with the pause.
    pub(super) async fn pause(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.await;
            self.pause = None;
        }
    }

    /// Returns an accepted connection. If there is none, counts and logs that, and begins a pause.
    pub(super) fn check<T>(
        &mut self,
        accepted: io::Result<T>,
        connections: &Connections,
    ) -> Option<T> {
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) if ended_by_caller(&error) => {}
            Err(error) => {
                connections.refuse(Cause::NotAccepted, error);
                self.pause = Some(Box::pin(timer::sleep(PAUSE)));
            }
        }
        None
    }
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
#[path = "../../tests/unit/serve/accept.rs"]
mod tests;
