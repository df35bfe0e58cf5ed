//! A queue whose items one thread takes all at once.

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

    /// Takes all items, and waits until there is one. Returns `None` if the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<T>> {
        let inner = self
            .ready
            .wait_while(self.lock(), |inner| {
                inner.items.is_empty() && !inner.is_closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        Self::take_from(inner)
    }

    /// Does the same, but returns no items after `limit`.
    pub(super) fn take_within(&self, limit: Duration) -> Option<Vec<T>> {
        let (inner, _) = self
            .ready
            .wait_timeout_while(self.lock(), limit, |inner| {
                inner.items.is_empty() && !inner.is_closed
            })
            .unwrap_or_else(PoisonError::into_inner);
        Self::take_from(inner)
    }

    /// Takes all items without waiting, perhaps none. Returns `None` if the queue is closed and empty.
    pub(super) fn take_now(&self) -> Option<Vec<T>> {
        Self::take_from(self.lock())
    }

    fn take_from(mut inner: MutexGuard<'_, Inner<T>>) -> Option<Vec<T>> {
        let items = std::mem::take(&mut inner.items);
        (!items.is_empty() || !inner.is_closed).then_some(items)
    }

    /// Closes the queue. The other side ends once it has taken all items.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.ready.notify_one();
    }

    /// No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
