//! The cluster, as the answering node knows it.

use crate::face::backend::{ClientFacts, View};
use aliquot_core::state::Phase;
use aliquot_core::unit::Incarnation;
use aliquot_wire::admin::{ClientView, Clients, Cluster, ListClients, NodeView};

pub(super) fn cluster(view: &View<'_>) -> Cluster {
    let nodes = view.nodes.iter().map(|facts| {
        let lives = view.state.members();
        let own = lives.filter(|(_, member)| member.node == facts.node);
        let present = own.max_by_key(|(life, _)| *life);
        NodeView {
            node: facts.node,
            life: present.map_or(Incarnation::new(0), |(life, _)| life),
            address: facts.address.clone(),
            client_address: facts.client_address.clone(),
            role: facts.role,
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
        leader: view.leader,
        applied: view.state.applied(),
        drift: view.state.drift(),
        lease: view.state.lease(),
        nodes: nodes.collect(),
    }
}

pub(super) fn clients(view: &View<'_>, list: ListClients) -> Clients {
    let limit = list.limit as usize;
    let mut page = view.clients.page(list.after, limit.saturating_add(1));
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
        }
    };
    Clients {
        clients: page.into_iter().map(show).collect(),
        more,
        node: view.node,
    }
}
