//! A queue that one thread empties at a stroke.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue from many threads to one.
#[derive(Debug)]
pub(super) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    ready: Condvar,
}

#[derive(Debug)]
struct Inner<T> {
    items: Vec<T>,
    is_closed: bool,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        let inner = Inner {
            items: Vec::new(),
            is_closed: false,
        };
        Self {
            inner: Mutex::new(inner),
            ready: Condvar::new(),
        }
    }

    /// Adds an item.
    pub(super) fn push(&self, item: T) {
        self.lock().items.push(item);
        self.ready.notify_one();
    }

    /// Takes all there is, and waits until there is something. `None` when the
    /// queue is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<T>> {
        let inner = self
            .ready
            .wait_while(self.lock(), |inner| {
                inner.items.is_empty() && !inner.is_closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        Self::take_from(inner)
    }

    /// The same, but waits no longer than that, and then takes nothing.
    pub(super) fn take_within(&self, limit: Duration) -> Option<Vec<T>> {
        let (inner, _) = self
            .ready
            .wait_timeout_while(self.lock(), limit, |inner| {
                inner.items.is_empty() && !inner.is_closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        Self::take_from(inner)
    }

    /// Takes all there is, perhaps nothing. `None` when the queue is closed and empty.
    pub(super) fn take_now(&self) -> Option<Vec<T>> {
        Self::take_from(self.lock())
    }

    fn take_from(mut inner: MutexGuard<'_, Inner<T>>) -> Option<Vec<T>> {
        let items = std::mem::take(&mut inner.items);
        (!items.is_empty() || !inner.is_closed).then_some(items)
    }

    /// Lets the other side end once it has taken everything.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.ready.notify_one();
    }

    /// Nothing that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
