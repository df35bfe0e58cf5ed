//! The part of a leased share that is old enough to count in windows.
//!
//! Several processes together keep a window of the whole fleet only if tokens that one of them used are not
//! used again by the next within the same window. So a share counts only as far as it was held for a whole
//! window: a part that leaves stops counting at once, and a part that arrives counts one window later. With
//! `b(s)` the share of a process at `s`, and `b ≤ N` for all processes together:
//!
//! > `limit(t) = min { b(s) : t − W ≤ s ≤ t }`.

use aliquot_core::unit::{Span, Tick};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The share of one window in this process.
#[derive(Debug)]
pub(crate) struct Part {
    window: Span,
    /// Tokens that decisions may use within a window.
    limit: AtomicU64,
    held: Mutex<Held>,
}

/// Amounts held and since when, as far as they can still be the minimum: they grow from front to back.
#[derive(Debug)]
struct Held {
    steps: VecDeque<(Tick, u64)>,
}

/// The windows that follow a key's share.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    all: Mutex<Vec<Weak<Part>>>,
}

impl Held {
    /// Maximum number of steps. Beyond it the two oldest are merged, with the lesser amount.
    const STEPS_MAX: usize = 256;

    fn see(&mut self, amount: u64, window: Span, now: Tick) -> u64 {
        let now = self.steps.back().map_or(now, |(since, _)| now.max(*since));
        let last = self.steps.back().map(|(_, amount)| *amount);
        if last != Some(amount) {
            let mut since = now;
            while let Some(&(from, _)) = self.steps.back().filter(|(_, more)| *more >= amount) {
                since = from;
                self.steps.pop_back();
            }
            self.steps.push_back((since, amount));
        }
        if self.steps.len() > Self::STEPS_MAX {
            self.steps.remove(1);
        }
        // The first step ends where the second one begins.
        while self.steps.len() > 1 && now.since(self.steps[1].0) >= window {
            self.steps.pop_front();
        }
        self.steps.front().map_or(0, |(_, amount)| *amount)
    }
}

impl Part {
    /// Returns the tokens that may be used within a window.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    fn see(&self, amount: u64, now: Tick) {
        let least = lock(&self.held).see(amount, self.window, now);
        self.limit.store(least, Ordering::Release);
    }
}

impl Parts {
    /// Adds a window that follows the share; nothing counts in it yet.
    pub(crate) fn follow(&self, window: Span, now: Tick) -> Arc<Part> {
        let steps = VecDeque::from([(now, 0)]);
        let part = Arc::new(Part {
            window,
            limit: AtomicU64::new(0),
            held: Mutex::new(Held { steps }),
        });
        lock(&self.all).push(Arc::downgrade(&part));
        part
    }

    /// Returns true if any window follows the share.
    pub(crate) fn are_followed(&self) -> bool {
        !lock(&self.all).is_empty()
    }

    /// Records the amount held at `now`. Called by the state machine alone: after each change, before its
    /// parent is told, and regularly.
    pub(crate) fn see(&self, amount: u64, now: Tick) {
        lock(&self.all).retain(|part| {
            let part = part.upgrade();
            if let Some(part) = &part {
                part.see(amount, now);
            }
            part.is_some()
        });
    }
}

/// A panic leaves none of the guarded values half-written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "../../../tests/unit/limiter/key_state/parts.rs"]
mod tests;
