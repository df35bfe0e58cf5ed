//! Addresses of the cluster's members for clients, as this node sends them to its clients.
//!
//! A client that was configured with the address of one node finds the others by this list when that node is
//! gone.

use super::context::Context;
use super::presence::latest_presences;
use crate::gossip::Book;
use aliquot_core::state::State;
use aliquot_core::unit::{NodeId, Span, Tick};
use std::collections::{BTreeMap, BTreeSet};

/// Interval at which the presence records are read once an address of each member is known. Before that, they are read
/// each time, because a client may have to find another node soon after a cluster was started.
const REFRESH: Span = Span::from_secs(1);

/// The address of each member of the cluster, from its latest presence record.
///
/// A member that shows no address keeps its last one: it is restarted, or has no lease for a while, as all
/// members do when the cluster has lost its majority. It is forgotten when it is removed from the cluster.
#[derive(Debug, Default)]
pub(super) struct MemberAddresses {
    known: BTreeMap<NodeId, String>,
    /// Time of the last refresh, if it found an address of each member.
    complete_at: Option<Tick>,
    list: Vec<String>,
}

impl MemberAddresses {
    /// Returns the addresses in order, each once.
    pub(super) fn list(&self) -> &[String] {
        &self.list
    }

    /// Reads the presence records, if that is due. Returns true if the list has changed.
    pub(super) fn refresh(&mut self, book: &Book, state: &State, context: &Context) -> bool {
        let complete_at = self.complete_at;
        if complete_at.is_some_and(|at| context.now.since(at) < REFRESH) {
            return false;
        }
        for (node, presence) in latest_presences(book, state) {
            if !presence.address.is_empty() {
                self.known.insert(node, presence.address);
            }
        }
        let options = &context.options;
        self.known.insert(options.node, options.address.clone());
        let status = &context.status;
        self.known
            .retain(|node, _| status.address(node.get()).is_some());
        let mut members = status.voters.keys().chain(status.learners.keys());
        let are_known = members.all(|&node| self.known.contains_key(&NodeId::new(node)));
        // A node that has just started does not know the members yet.
        let is_complete = are_known && !self.known.is_empty();
        self.complete_at = is_complete.then_some(context.now);
        let list: BTreeSet<&String> = self.known.values().collect();
        let has_changed = !self.list.iter().eq(list.iter().copied());
        if has_changed {
            self.list = list.into_iter().cloned().collect();
        }
        has_changed
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/member_addresses.rs"]
mod tests;
