//! Callers that wait for tokens of a key.

use super::KeyState;
use aliquot_core::central::RetryPolicy;

/// Registration of a waiting caller, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    key_state: &'a KeyState,
    n: u64,
    retry_policy: RetryPolicy,
}

impl<'a> Waiting<'a> {
    pub(crate) fn of(key_state: &'a KeyState, n: u64, retry_policy: RetryPolicy) -> Self {
        key_state.tally.wait(n);
        key_state.costs.add(n, retry_policy);
        key_state.tally.touch();
        Self {
            key_state,
            n,
            retry_policy,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.key_state.tally.wait_no_more(self.n);
        self.key_state.costs.remove(self.n, self.retry_policy);
        self.key_state.tally.touch();
    }
}
