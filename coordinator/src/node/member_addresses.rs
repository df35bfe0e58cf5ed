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

/// Interval at which the presence records are read.
const REFRESH: Span = Span::from_secs(1);

/// The address of each member of the cluster, from its latest presence record.
///
/// A member that shows no address keeps its last one: it is restarted, or has no lease for a while, as all
/// members do when the cluster has lost its majority. It is forgotten when it is removed from the cluster.
#[derive(Debug, Default)]
pub(super) struct MemberAddresses {
    known: BTreeMap<NodeId, String>,
    /// Time of the last refresh.
    refreshed: Option<Tick>,
    list: Vec<String>,
}

impl MemberAddresses {
    /// Returns the addresses in order, each once.
    pub(super) fn list(&self) -> &[String] {
        &self.list
    }

    /// Reads the presence records, if that is due. Returns true if the list has changed.
    pub(super) fn refresh(&mut self, book: &Book, state: &State, context: &Context) -> bool {
        let refreshed = self.refreshed;
        if refreshed.is_some_and(|at| context.now.since(at) < REFRESH) {
            return false;
        }
        self.refreshed = Some(context.now);
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
        let list: BTreeSet<&String> = self.known.values().collect();
        let has_changed = !self.list.iter().eq(list.iter().copied());
        if has_changed {
            self.list = list.into_iter().cloned().collect();
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::tests::{context, pass};
    use super::super::presence::tests::{announce, join};
    use super::*;
    use aliquot_core::unit::Incarnation;

    #[test]
    fn members_are_listed_until_they_are_removed_even_if_they_show_no_address() {
        let (mut context, mut state) = (context(), State::new());
        let mut book = Book::new(Incarnation::default());
        let mut members = MemberAddresses::default();
        let own = context.options.address.clone();
        let own_id = context.options.node.get();
        for node in [own_id, 2, 3] {
            let peer = format!("peer-{node}");
            context.status.voters.insert(node, peer);
        }
        let check = |members: &MemberAddresses, expect: &[&str]| {
            let mut expect = [expect, &[own.as_str()]].concat();
            expect.sort_unstable();
            assert_eq!(members.list(), expect);
        };
        assert!(members.refresh(&book, &state, &context));
        check(&members, &[]);
        let [second, third] = [2, 3].map(|node| join(&mut state, node));
        // A node that is not a member of the log's cluster any more.
        let removed = join(&mut state, 4);
        announce(&mut book, second, 1, "b");
        announce(&mut book, third, 1, "c");
        announce(&mut book, removed, 1, "d");
        assert!(!members.refresh(&book, &state, &context), "it is not due");
        pass(&mut context, REFRESH);
        assert!(members.refresh(&book, &state, &context));
        check(&members, &["b", "c"]);
        pass(&mut context, REFRESH);
        assert!(!members.refresh(&book, &state, &context), "nothing is new");
        announce(&mut book, third, 2, "");
        pass(&mut context, REFRESH);
        assert!(
            !members.refresh(&book, &state, &context),
            "without a lease, it is still a member"
        );
        // A member that comes back at another address.
        let again = join(&mut state, 2);
        announce(&mut book, again, 1, "e");
        pass(&mut context, REFRESH);
        assert!(members.refresh(&book, &state, &context));
        check(&members, &["c", "e"]);
        context.status.voters.remove(&3);
        pass(&mut context, REFRESH);
        assert!(members.refresh(&book, &state, &context));
        check(&members, &["e"]);
    }
}
