//! Requests of HTTP/2 that arrived together on a connection.

use hyper::rt::Executor;
use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;

/// A request, until it is answered.
type Answering = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Requests that were read from one connection and are not answered. Clones share them.
///
/// Nearly all decisions are made in memory, so the first poll answers a request whose body has arrived. It is made by
/// the connection's own task, once all that has arrived is read. With a task for each request, other workers would steal
/// them, and the answers to requests that came together would be written one by one.
///
/// Many clients send a body after its header, so a request has a second poll when the connection is woken again. One that
/// waits then waits for more than its body, and is given a task.
#[derive(Clone, Default)]
pub(super) struct Arrived(Arc<Mutex<Requests>>);

#[derive(Default)]
struct Requests {
    /// Those that were not polled yet.
    fresh: VecDeque<Answering>,
    /// Those that were polled once.
    begun: VecDeque<Answering>,
}

impl Arrived {
    /// Polls all requests, for the task of the connection. It must be called whenever that task is woken.
    pub(super) fn answer(&self, context: &mut Context<'_>) {
        let mut requests = self.requests();
        // As always on a connection of HTTP/1.
        if requests.fresh.is_empty() && requests.begun.is_empty() {
            return;
        }
        let begun = mem::take(&mut requests.begun);
        drop(requests);
        for mut request in begun {
            if request.as_mut().poll(context).is_pending() {
                tokio::spawn(request);
            }
        }
        while let Some(mut request) = self.next() {
            if request.as_mut().poll(context).is_pending() {
                self.requests().begun.push_back(request);
            }
        }
    }

    fn next(&self) -> Option<Answering> {
        self.requests().fresh.pop_front()
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Arrived {
    fn execute(&self, request: F) {
        self.requests().fresh.push_back(Box::pin(request));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/serve/port/arrived.rs"]
mod tests;
