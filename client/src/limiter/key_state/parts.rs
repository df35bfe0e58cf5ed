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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: u64 = 100;

    fn at(nanos: u64) -> Tick {
        Tick::from_nanos(1_000 + nanos)
    }

    proptest! {
        #[test]
        fn the_limit_is_the_least_share_held_in_the_window(
            steps in prop::collection::vec((0..60_u64, 0..6_u64), 1..60),
        ) {
            let parts = Parts::default();
            let part = parts.follow(Span::from_nanos(WINDOW), at(0));
            let (mut now, mut held) = (0, vec![(0, 0)]);
            for (gap, amount) in steps {
                now += gap;
                held.push((now, amount));
                parts.see(amount, at(now));
                // A step counts up to where the next one begins.
                let ends = held.iter().skip(1).map(|step| step.0).chain([u64::MAX]);
                let recent = held.iter().zip(ends).filter(|(_, end)| end.saturating_add(WINDOW) > now);
                let least = recent.map(|(step, _)| step.1).min();
                prop_assert_eq!(Some(part.limit()), least, "at {}: {:?}", now, held);
            }
        }
    }

    #[test]
    fn forgotten_steps_only_lower_the_limit() {
        let parts = Parts::default();
        let part = parts.follow(Span::from_nanos(1_000_000), at(0));
        for amount in 0..2_000 {
            parts.see(amount, at(amount));
        }
        assert_eq!(part.limit(), 0);
        parts.see(2_000, at(1_000_100));
        assert!(part.limit() <= 101, "{}", part.limit());
    }

    #[test]
    fn a_window_that_is_gone_is_forgotten() {
        let parts = Parts::default();
        drop(parts.follow(Span::from_nanos(WINDOW), at(0)));
        parts.see(1, at(1));
        assert!(lock(&parts.all).is_empty());
    }
}
