//! Callers that wait for tokens of a key, counted by cost.

use super::KeyState;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of waiting callers for each cost. Only waiting callers and reports take the lock.
#[derive(Debug, Default)]
pub(super) struct Costs(Mutex<BTreeMap<u64, u64>>);

impl Costs {
    /// Returns the largest cost; zero if no caller waits.
    pub(super) fn largest(&self) -> u64 {
        let costs = self.lock();
        costs.last_key_value().map_or(0, |(&cost, _)| cost)
    }

    fn add(&self, cost: u64) {
        *self.lock().entry(cost).or_default() += 1;
    }

    fn remove(&self, cost: u64) {
        let mut costs = self.lock();
        match costs.get_mut(&cost) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                costs.remove(&cost);
            }
        }
    }

    /// A panic leaves nothing half-written.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registration of a waiting caller, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    key_state: &'a KeyState,
    n: u64,
}

impl<'a> Waiting<'a> {
    pub(crate) fn of(key_state: &'a KeyState, n: u64) -> Self {
        key_state.tally.wait(n);
        key_state.costs.add(n);
        key_state.tally.touch();
        Self { key_state, n }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.key_state.tally.wait_no_more(self.n);
        self.key_state.costs.remove(self.n);
        self.key_state.tally.touch();
    }
}
