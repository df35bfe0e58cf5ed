//! Requests that were carried out, so that a retry is not a second change.

use crate::unit::RequestId;
use alloc::collections::{BTreeSet, VecDeque};

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
    /// Maximum number of remembered requests.
    pub(super) const MAX: usize = 4_096;

    /// Remembers a request, and forgets the oldest above the maximum. Returns true if it was new.
    pub(super) fn remember(&mut self, request: RequestId) -> bool {
        if !self.known.insert(request) {
            return false;
        }
        self.order.push_back(request);
        if self.order.len() > Self::MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    /// Returns true if a request is remembered.
    pub(super) fn contains(&self, request: RequestId) -> bool {
        self.known.contains(&request)
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
