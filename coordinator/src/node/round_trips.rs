//! Round trips to peers, as the links measure them, against the one for which this node was set.

use aliquot_core::unit::{NodeId, Span};
use std::collections::{BTreeMap, VecDeque};

/// The latest round trips to each peer.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips(BTreeMap<NodeId, Recent>);

#[derive(Clone, Debug, Default)]
struct Recent {
    spans: VecDeque<Span>,
    /// Set once a warning was given, until the round trip is short enough again.
    is_slow: bool,
}

/// A peer that is further away than the settings of this node are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    peer: NodeId,
    took: Span,
    set: Span,
    /// The value that `round_trip` should have.
    should_be: Span,
}

impl RoundTrips {
    /// Number of measurements, one a second, of which the least counts. A peer that is busy, a lost packet or a pause
    /// of this process makes some of them long, but hardly all.
    const RECENT: usize = 8;

    /// Number of measurements from which on the least counts.
    const ENOUGH: usize = 4;

    /// Returns the least of the latest round trips to each peer.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, Span)> {
        let all = self.0.iter();
        all.filter_map(|(peer, recent)| Some((*peer, *recent.spans.iter().min()?)))
    }

    /// Takes a measurement. Returns a warning when it shows that the peer is further away than `set`, once until it
    /// is near enough again.
    pub(super) fn measured(&mut self, peer: NodeId, took: Span, set: Span) -> Option<Slow> {
        let recent = self.0.entry(peer).or_default();
        recent.spans.push_back(took);
        if recent.spans.len() > Self::RECENT {
            recent.spans.pop_front();
        }
        let least = *recent.spans.iter().min()?;
        let is_slow = least > set && recent.spans.len() >= Self::ENOUGH;
        let warns = is_slow && !recent.is_slow;
        recent.is_slow = least > set && (is_slow || recent.is_slow);
        warns.then(|| Slow {
            peer,
            took: least,
            set,
            should_be: with_room(least),
        })
    }

    /// Forgets a peer that is no member any more.
    pub(super) fn forget(&mut self, peer: NodeId) {
        self.0.remove(&peer);
    }
}

impl Slow {
    pub(super) fn warn(self) {
        let Self {
            peer,
            took,
            set,
            should_be,
        } = self;
        tracing::warn!(
            %peer,
            "the round trip to node {peer} is {took} at best, and this node is set for {set}: set \
             round_trip = \"{should_be}\", at every node"
        );
    }
}

/// Returns the round trip to set for one that takes `least` at best: a quarter more, in whole tens of milliseconds.
fn with_room(least: Span) -> Span {
    const STEP: Span = Span::from_millis(10);
    let more = least.nanos().saturating_add(least.nanos() / 4);
    STEP.times_or_max(more.div_ceil(STEP.nanos()))
}

#[cfg(test)]
#[path = "../../tests/unit/node/round_trips.rs"]
mod tests;
