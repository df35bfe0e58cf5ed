//! Records a limiter's decisions from outside of the limiter.
//!
//! The clock is read before the limiter is called and after it has answered. The time of the decision,
//! as the limiter states it, is checked against these independent readings.

use super::inject::InjectedFaults;
use super::{Holding, Status};
use crate::clock::SharedClock;
use crate::demo::record::Recorder;
use aliquot_core::unit::Tick;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, Uri};
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

tokio::task_local! {
    /// The request that this task is deciding.
    static ASKED: RequestAction;
}

/// Key and cost of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestAction {
    /// The key.
    pub key: String,
    /// Cost in whole tokens.
    pub cost: u64,
    /// Clock reading before the decision.
    before: Tick,
}

impl RequestAction {
    /// Returns the key and cost of a request to `uri`. `shared` is the key of the path `/`. Returns
    /// `None` if the path has no key, or the cost is not a number.
    #[must_use]
    pub fn of(uri: &Uri, shared: &str) -> Option<(String, u64)> {
        let cost = match uri.query() {
            None => 1,
            Some(query) => query.strip_prefix("cost=")?.parse().ok()?,
        };
        let key = match uri.path() {
            "/" => shared.to_owned(),
            path => {
                let path = path.strip_prefix('/')?;
                let known = path.starts_with("tenant/") || path.starts_with("replay/");
                known.then(|| path.to_owned())?
            }
        };
        Some((key, cost))
    }
}

/// Records the decisions of a service.
#[derive(Debug)]
pub struct Audit {
    clock: SharedClock,
    shared: String,
    file: Mutex<File>,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    recorder: Recorder,
    status: Status,
    faults: InjectedFaults,
}

impl Audit {
    /// Creates an audit that writes to `file`, which must be empty. `shared` is the key of the path
    /// `/`.
    #[must_use]
    pub fn new(clock: SharedClock, shared: String, file: File, faults: InjectedFaults) -> Self {
        let book = Book {
            recorder: Recorder::default(),
            status: Status::default(),
            faults,
        };
        Self {
            clock,
            shared,
            file: Mutex::new(file),
            book: Mutex::new(book),
        }
    }

    /// Returns the key of the path `/`.
    #[must_use]
    pub fn shared(&self) -> &str {
        &self.shared
    }

    /// Records that the limiter admitted the request of this task: locally at `decided`, or centrally or
    /// at a face between `asked` and then. Outside of [`decided`] there is no request and nothing is recorded, so
    /// that the counts will not match.
    pub fn admitted(&self, asked: Tick, decided: Tick) {
        let after = self.clock.now();
        let _ = ASKED.try_with(|request| self.write(request, [asked, decided, after]));
    }

    fn write(&self, asked: &RequestAction, [earliest, decided, after]: [Tick; 3]) {
        let mut book = lock(&self.book);
        book.status.admitted += 1;
        if asked.key == self.shared {
            book.status.shared += 1;
        }
        if book.faults.forgets() {
            return;
        }
        let times = [asked.before, earliest, decided, after];
        book.recorder.admitted(&asked.key, asked.cost, times);
    }

    /// Records a refusal. Returns `true` if the request is to be served all the same.
    fn refused(&self, asked: &RequestAction) -> bool {
        let after = self.clock.now();
        let mut book = lock(&self.book);
        if asked.key == self.shared && book.faults.serves_a_refused() {
            drop(book);
            // The refusal had no time at which the limiter would have admitted the request.
            self.write(asked, [asked.before, after, after]);
            return true;
        }
        book.status.refused += 1;
        book.recorder.refused(&asked.key, asked.cost, after);
        false
    }

    /// Returns the decisions so far, and the limiter's holding.
    #[must_use]
    pub fn status(&self, held: Holding) -> Status {
        let status = lock(&self.book).status.clone();
        Status { held, ..status }
    }

    /// Appends all decisions so far to the file.
    ///
    /// # Errors
    ///
    /// The error of the system. Decisions that could not be written are lost. The reader notices this
    /// from the end of the file, or from the counts.
    pub fn flush(&self) -> io::Result<()> {
        // The file is locked first, so that two flushes write in the order in which they take the
        // bytes.
        let mut file = lock(&self.file);
        let bytes = lock(&self.book).recorder.take();
        file.write_all(&bytes)
    }
}

/// No code here can panic during a change, so the value behind a poisoned lock is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Outermost layer of a service: reads the clock, lets the limiter decide, and records a refusal. An
/// admission is recorded by the limiter's hook, which calls [`Audit::admitted`].
pub async fn decided(State(audit): State<Arc<Audit>>, request: Request, next: Next) -> Response {
    let Some((key, cost)) = RequestAction::of(request.uri(), &audit.shared) else {
        return next.run(request).await;
    };
    let before = audit.clock.now();
    let asked = RequestAction { key, cost, before };
    let answer = ASKED.scope(asked.clone(), next.run(request)).await;
    if answer.status() == StatusCode::TOO_MANY_REQUESTS && audit.refused(&asked) {
        return StatusCode::OK.into_response();
    }
    answer
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/service/audit.rs"]
mod tests;
