//! The costs of callers that wait for tokens of a key.

use aliquot_core::central::RetryPolicy;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Callers that wait. Only they and reports take the lock.
#[derive(Debug, Default)]
pub(super) struct Costs(Mutex<Line>);

#[derive(Debug, Default)]
struct Line {
    /// Number of callers for each cost.
    costs: BTreeMap<u64, u64>,
    /// Tokens of the callers that ask once.
    once: u64,
}

impl Costs {
    /// Returns the largest cost; zero if no caller waits.
    pub(super) fn largest(&self) -> u64 {
        let line = self.lock();
        line.costs.last_key_value().map_or(0, |(&cost, _)| cost)
    }

    /// Returns the tokens of the callers that ask once.
    pub(super) fn once(&self) -> u64 {
        self.lock().once
    }

    pub(super) fn add(&self, cost: u64, retry_policy: RetryPolicy) {
        let mut line = self.lock();
        *line.costs.entry(cost).or_default() += 1;
        if retry_policy == RetryPolicy::Once {
            line.once = line.once.saturating_add(cost);
        }
    }

    pub(super) fn remove(&self, cost: u64, retry_policy: RetryPolicy) {
        let mut line = self.lock();
        match line.costs.get_mut(&cost) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                line.costs.remove(&cost);
            }
        }
        if retry_policy == RetryPolicy::Once {
            line.once = line.once.saturating_sub(cost);
        }
    }

    /// A panic leaves nothing half-written.
    fn lock(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
