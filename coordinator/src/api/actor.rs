//! The backend of a running node: its actor and its log.

use super::backend::{
    Backend, ClientFacts, Clients, Flow, Flows, NodeFacts, Query, Unavailable, View, WriteError,
};
use crate::clock::{Clock, HostClock};
use crate::node::{self, NodeHandle};
use crate::raft::{CHANGE_WITHIN, Change, ChangeError, PeerAddress, ProposeError, Raft};
use crate::timer;
use aliquot_core::command::Command;
use aliquot_core::state::Effect;
use aliquot_core::unit::{BudgetId, Incarnation, NodeId, RequestId, Term};
use aliquot_wire::admin::{ClusterChange, Role};
use aliquot_wire::gossip::Topic;
use futures_util::future::BoxFuture;
use rand::RngExt;
use std::collections::BTreeMap;
use tokio::sync::watch;
use tonic::transport::Channel;

/// A running node.
#[derive(Clone, Debug)]
pub struct ActorBackend {
    cluster: String,
    handle: NodeHandle,
    raft: Raft,
    /// True once it is known that this node was removed from the cluster.
    removed: watch::Receiver<bool>,
}

impl ActorBackend {
    /// Creates the backend for this actor and this log.
    #[must_use]
    pub const fn new(
        cluster: String,
        handle: NodeHandle,
        raft: Raft,
        removed: watch::Receiver<bool>,
    ) -> Self {
        Self {
            cluster,
            handle,
            raft,
            removed,
        }
    }

    /// Refuses what a removed node must not do.
    fn member(&self) -> Result<(), WriteError> {
        match *self.removed.borrow() {
            true => Err(WriteError::Removed),
            false => Ok(()),
        }
    }
}

impl Backend for ActorBackend {
    fn query(&self, query: Query) -> BoxFuture<'static, Result<(), Unavailable>> {
        let (handle, cluster) = (self.handle.clone(), self.cluster.clone());
        let removed = self.member().is_err();
        Box::pin(async move {
            let seen = handle.view(move |view| {
                let nodes = nodes(view);
                query(&View {
                    state: view.state,
                    now: view.now,
                    node: NodeId::new(view.status.node),
                    removed,
                    wall_ms: HostClock.wall_ms(),
                    cluster: &cluster,
                    term: Term::new(view.status.term),
                    leader: view.status.leader.map(NodeId::new),
                    nodes: &nodes,
                    flows: &ServiceView(view),
                    clients: &ServiceView(view),
                });
            });
            seen.await.map_err(|_| Unavailable)
        })
    }

    fn write(&self, command: Command) -> BoxFuture<'static, Result<Vec<Effect>, WriteError>> {
        let (handle, member) = (self.handle.clone(), self.member());
        Box::pin(async move {
            member?;
            handle.write(command).await.map_err(not_written)
        })
    }

    /// Writes an entry that changes nothing. Once it is applied here, so are all entries committed
    /// before.
    fn fence(&self) -> BoxFuture<'static, Result<(), WriteError>> {
        let (handle, raft) = (self.handle.clone(), self.raft.clone());
        let status = raft.status().borrow().clone();
        let member = self.member();
        Box::pin(async move {
            member?;
            // On the leader, the acknowledgement of a quorum is sufficient.
            if status.leads && raft.barrier(status.term).await.is_ok() {
                return Ok(());
            }
            let nothing = Command::Apply {
                request: RequestId::new(rand::rng().random()),
                deletes: Vec::new(),
                puts: Vec::new(),
                creator: None,
            };
            handle.write(nothing).await.map(drop).map_err(not_written)
        })
    }

    fn leader(&self) -> Option<Channel> {
        self.raft.leader()
    }

    /// Request ids need not be remembered: each change describes a target state, and nothing is done if
    /// it is reached already. The log remembers the nodes that were removed.
    fn change(
        &self,
        _: RequestId,
        change: ClusterChange,
    ) -> BoxFuture<'static, Result<(), WriteError>> {
        let (backend, raft) = (self.clone(), self.raft.clone());
        Box::pin(async move {
            backend.member()?;
            let change = resolve(&raft, change).await?;
            if let Some(node) = entering(&change) {
                backend.may_enter(node).await?;
            }
            // Runs in a task of its own, so that a change is completed even if the caller disconnects.
            let changed = tokio::spawn(raft.change(change));
            let unknown = |reason: &str| WriteError::Unknown {
                reason: reason.to_owned(),
            };
            match timer::timeout(CHANGE_WITHIN, changed).await {
                Ok(Ok(changed)) => changed.map_err(not_changed),
                Ok(Err(_)) => Err(unknown("this node has stopped")),
                Err(_) => Err(unknown("it is taking too long, and continues")),
            }
        })
    }
}

impl ActorBackend {
    /// Checks that a node was never removed. Its id cannot join again, because the log has closed its accounts.
    async fn may_enter(&self, node: u64) -> Result<(), WriteError> {
        self.fence().await?;
        let removed = self
            .handle
            .view(move |view| view.state.was_removed(NodeId::new(node)));
        if !removed.await.unwrap_or(false) {
            return Ok(());
        }
        Err(WriteError::Refused {
            reason: format!(
                "node {node} was removed from the cluster, and its id can never join again: stop it, move its \
                 data_dir away, and start it; it then gets a new id"
            ),
        })
    }
}

/// Returns the node that a change lets in, or gives a vote.
const fn entering(change: &Change) -> Option<u64> {
    match change {
        Change::Add(peer)
        | Change::Replace {
            successor: peer, ..
        } => Some(peer.node),
        Change::Promote(node) => Some(*node),
        Change::Remove(_) | Change::Transfer(_) => None,
    }
}

/// Finds the id of the node at an address. The node must be running and answer.
async fn resolve(raft: &Raft, change: ClusterChange) -> Result<Change, WriteError> {
    let identify = async |address: String| {
        let asked = raft.identify(&address).await;
        let node = asked.map_err(|error| WriteError::Refused {
            reason: format!("no node answers at {address}: {error}; start it first"),
        })?;
        Ok(PeerAddress { node, address })
    };
    Ok(match change {
        ClusterChange::Add(address) => Change::Add(identify(address).await?),
        ClusterChange::Promote(node) => Change::Promote(node.get()),
        ClusterChange::Remove(node) => Change::Remove(node.get()),
        ClusterChange::Replace { node, address } => Change::Replace {
            former: node.get(),
            successor: identify(address).await?,
        },
        ClusterChange::Transfer(node) => Change::Transfer(node.get()),
    })
}

fn not_written(error: ProposeError) -> WriteError {
    let reason = error.to_string();
    match error {
        ProposeError::NotLeader { .. } | ProposeError::Stopped => WriteError::NoLeader { reason },
        ProposeError::Unknown => WriteError::Unknown { reason },
        _ => WriteError::Refused { reason },
    }
}

fn not_changed(error: ChangeError) -> WriteError {
    let reason = error.to_string();
    match error {
        ChangeError::NotLeader { .. } => WriteError::NoLeader { reason },
        ChangeError::Refused { reason } => WriteError::Refused { reason },
        _ => WriteError::Unknown { reason },
    }
}

/// Returns what is known of each node: of members, and of incarnations that the log still has.
fn nodes(view: &node::View<'_>) -> Vec<NodeFacts> {
    let mut nodes: BTreeMap<u64, NodeFacts> = BTreeMap::new();
    let fresh = |node: u64, role, address: &str| NodeFacts {
        node: NodeId::new(node),
        role,
        address: address.to_owned(),
        client_address: String::new(),
        heard: None,
        sessions: 0,
        matched: None,
    };
    for (&node, address) in &view.status.voters {
        let role = match view.status.leader == Some(node) {
            true => Role::Leader,
            false => Role::Voter,
        };
        nodes.insert(node, fresh(node, role, address));
    }
    for (&node, address) in &view.status.learners {
        nodes.insert(node, fresh(node, Role::Learner, address));
    }
    for (incarnation, member) in view.state.members() {
        let node = member.node.get();
        let facts = nodes
            .entry(node)
            .or_insert_with(|| fresh(node, Role::Removed, ""));
        facts.heard = facts.heard.max(view.traffic.heard(incarnation));
        let record_found = view.book.get(Topic::Presence, incarnation);
        if let Some(Ok(presence)) = record_found.map(|record| record.value().presence()) {
            facts.client_address.clone_from(&presence.value().address);
            facts.sessions = presence.value().sessions;
        }
    }
    for (node, matched) in &view.status.matched {
        if let Some(facts) = nodes.get_mut(node) {
            facts.matched = Some(*matched);
        }
    }
    if let Some(own) = nodes.get_mut(&view.status.node) {
        own.heard = Some(view.now);
        own.sessions = view.sessions.connected() as u64;
    }
    nodes.into_values().collect()
}

/// A node's view, in the form that the services use.
struct ServiceView<'a>(&'a node::View<'a>);

impl Flows for ServiceView<'_> {
    fn of(&self, budget: BudgetId) -> Flow {
        let rates = self.0.traffic.of(budget);
        // A node that does not lead receives only a part of the reports.
        let leads = self.0.status.leads;
        let Some(generation) = self.0.state.budget(budget).filter(|_| leads) else {
            return Flow::default();
        };
        let grains = u128::from(generation.budget.scale().grains_per_token());
        let milli = |rate: u64| {
            let milli = u128::from(rate) * 1_000 / grains.max(1);
            Some(u64::try_from(milli).unwrap_or(u64::MAX))
        };
        Flow {
            demand: rates.demand,
            admitted_milli: milli(rates.admitted),
            denied_milli: milli(rates.denied),
        }
    }
}

impl Clients for ServiceView<'_> {
    fn page(&self, after: u64, most: usize, holding: Option<BudgetId>) -> Vec<ClientFacts> {
        let sessions = self.0.sessions.sessions();
        let account = holding.and_then(|budget| self.0.node?.account(budget));
        let held = |incarnation| account.map(|account| account.holding(incarnation));
        let is_asked = |incarnation| {
            holding.is_none() || held(incarnation).is_some_and(|held| !held.is_zero())
        };
        sessions
            .filter(|(incarnation, _)| incarnation.get() > after && is_asked(*incarnation))
            .take(most)
            .map(|(incarnation, session)| ClientFacts {
                held: held(incarnation),
                session: incarnation.get(),
                address: session.remote().address.clone(),
                labels: session.labels().clone(),
                keys: session.key_count() as u64,
                opened: session.opened(),
                heard: heard(self.0, incarnation).unwrap_or(session.opened()),
            })
            .collect()
    }
}

fn heard(view: &node::View<'_>, client: Incarnation) -> Option<aliquot_core::unit::Tick> {
    let child = view.node?.ledger().child(client)?;
    Some(child.received())
}
