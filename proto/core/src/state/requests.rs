//! Requests that were carried out, so that a retry is not a second change.

use super::{Effect, State};
use crate::unit::RequestId;
use alloc::vec::Vec;

impl State {
    /// Whether a request is among those carried out last: who lost the answer learns it so.
    #[must_use]
    pub fn has_carried_out(&self, request: RequestId) -> bool {
        self.requests.contains(&request)
    }

    /// Whether a request is new; it is remembered as carried out.
    pub(super) fn is_new(&mut self, request: RequestId, effects: &mut Vec<Effect>) -> bool {
        if self.requests.contains(&request) {
            effects.push(Effect::Repeated(request));
            return false;
        }
        if self.requests.len() >= Self::REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(request);
        true
    }
}
