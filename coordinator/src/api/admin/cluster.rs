//! The cluster and its clients, as the answering node knows them.

use super::usage;
use crate::api::backend::{ClientFacts, NodeFacts, View};
use aliquot_core::state::Phase;
use aliquot_core::unit::{Incarnation, NodeId, Span, Tick};
use aliquot_wire::admin::{ClientView, Clients, Cluster, ListClients, NodeView, Role};

/// Returns true if `leader` may still lead at `now`, as far as `own` knows. A node that was not heard
/// from for a lease has lost the leadership. So has this node, if it leads but has not heard from a
/// quorum.
fn may_lead(leader: NodeId, own: NodeId, nodes: &[NodeFacts], now: Tick, lease: Span) -> bool {
    let heard = |facts: &&NodeFacts| facts.heard.is_some_and(|at| now.since(at) < lease);
    if leader != own {
        let known = nodes.iter().find(|facts| facts.node == leader);
        return known.filter(heard).is_some();
    }
    let votes = |facts: &&NodeFacts| matches!(facts.role, Role::Leader | Role::Voter);
    let voters = nodes.iter().filter(votes);
    voters.clone().filter(heard).count() > voters.count() / 2
}

/// Describes the cluster to a caller, which may be a node.
pub(super) fn cluster(view: &View<'_>, caller: Option<NodeId>) -> Cluster {
    let lease = view.state.lease();
    let may_lead = |leader: &NodeId| may_lead(*leader, view.node, view.nodes, view.now, lease);
    let leader = view.leader.filter(may_lead);
    let nodes = view.nodes.iter().map(|facts| {
        let incarnations = view.state.members();
        let own = incarnations.filter(|(_, member)| member.node == facts.node);
        let present = own.max_by_key(|(incarnation, _)| *incarnation);
        NodeView {
            node: facts.node,
            incarnation: present.map_or(Incarnation::new(0), |(incarnation, _)| incarnation),
            address: facts.address.clone(),
            client_address: facts.client_address.clone(),
            role: match facts.role {
                Role::Leader if leader.is_none() => Role::Voter,
                role => role,
            },
            leaving: present.is_some_and(|(_, member)| member.phase == Phase::Leaving),
            heard_ago: facts.heard.map(|heard| view.now.since(heard)),
            sessions: facts.sessions,
            matched: facts.matched,
        }
    });
    Cluster {
        cluster: view.cluster.to_owned(),
        answering: view.node,
        term: view.term,
        leader,
        applied: view.state.applied(),
        drift: view.state.drift(),
        lease: view.state.lease(),
        nodes: nodes.collect(),
        removed: view.removed,
        wall_ms: view.wall_ms,
        caller_removed: caller.is_some_and(|caller| view.state.was_removed(caller)),
    }
}

pub(super) fn clients(view: &View<'_>, list: ListClients) -> Clients {
    let limit = list.limit as usize;
    let budget = list.key.as_ref().map(|key| view.state.budget_of(key));
    // No client holds a part of a key that was never used.
    let mut page = match budget {
        Some(None) => Vec::new(),
        budget => {
            let (after, most) = (list.after, limit.saturating_add(1));
            view.clients.page(after, most, budget.flatten())
        }
    };
    let generation = budget
        .flatten()
        .and_then(|budget| view.state.budget(budget));
    let more = page.len() > limit;
    page.truncate(limit);
    let show = |facts: ClientFacts| {
        let (open_for, heard_ago) = facts.ages(view.now);
        ClientView {
            session: facts.session,
            address: facts.address,
            labels: facts.labels,
            keys: facts.keys,
            open_for,
            heard_ago,
            held: generation
                .zip(facts.held)
                .map(|(generation, held)| usage::holding(generation, held)),
            floor: facts.held.map(usage::floor),
        }
    };
    Clients {
        clients: page.into_iter().map(show).collect(),
        more,
        node: view.node,
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/api/admin/cluster.rs"]
mod tests;
