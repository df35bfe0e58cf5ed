//! Requests that were carried out, so that a retry is not a second change.

use super::{Effect, State};
use crate::unit::RequestId;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

/// The requests carried out last.
///
/// State invariant: both collections have the same requests, each once.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub(super) struct Requests {
    /// Oldest first.
    order: VecDeque<RequestId>,
    known: BTreeSet<RequestId>,
}

impl Requests {
    /// Remembers a request, and forgets the oldest above the maximum. Returns true if it was new.
    fn remember(&mut self, request: RequestId) -> bool {
        if !self.known.insert(request) {
            return false;
        }
        self.order.push_back(request);
        if self.order.len() > State::REQUESTS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    /// Returns the requests, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = RequestId> {
        self.order.iter().copied()
    }
}

impl FromIterator<RequestId> for Requests {
    fn from_iter<I: IntoIterator<Item = RequestId>>(requests: I) -> Self {
        let mut known = Self::default();
        for request in requests {
            known.remember(request);
        }
        known
    }
}

impl State {
    /// Returns true if a request is among those carried out last. A caller that lost the answer learns the
    /// outcome by it.
    #[must_use]
    pub fn has_carried_out(&self, request: RequestId) -> bool {
        self.requests.known.contains(&request)
    }

    /// Returns true if a request is new, and remembers it as carried out.
    pub(super) fn is_new(&mut self, request: RequestId, effects: &mut Vec<Effect>) -> bool {
        let new = self.requests.remember(request);
        if !new {
            effects.push(Effect::Repeated(request));
        }
        new
    }
}
