//! Requests of HTTP/2 that arrived together on a connection.

use hyper::rt::Executor;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// A request, until it is answered.
type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Requests that were read from one connection and are not begun. Clones share them.
///
/// Nearly all decisions are made in memory, so the first poll answers a request. It is made by the connection's own
/// task, once all that has arrived is read. With a task for each request, other workers would steal them, and the
/// answers to requests that came together would be written one by one.
#[derive(Clone, Default)]
pub(super) struct Arrived(Arc<Mutex<VecDeque<Answering>>>);

impl Arrived {
    /// Polls all requests. One that waits is given a task.
    pub(super) fn answer(&self) {
        while let Some(mut request) = self.next() {
            // The task polls again before it waits, so this poll need not wake it.
            let context = &mut Context::from_waker(Waker::noop());
            if request.as_mut().poll(context).is_pending() {
                tokio::spawn(request);
            }
        }
    }

    fn next(&self) -> Option<Answering> {
        self.requests().pop_front()
    }

    fn requests(&self) -> MutexGuard<'_, VecDeque<Answering>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Arrived {
    fn execute(&self, request: F) {
        self.requests().push_back(Box::pin(request));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/serve/port/arrived.rs"]
mod tests;
