//! Looks at the node every now and then, for those who watch it.

use super::metrics::{KeyUse, Snapshot, TOP_KEYS};
use crate::node::{NodeHandle, View};
use crate::raft::Status;
use crate::session::Gate;
use crate::timer;
use aliquot_core::share::Kind;
use aliquot_core::unit::NodeId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A look costs the actor well under a millisecond.
const EVERY: Duration = Duration::from_secs(1);

/// Why the node serves nobody, or nothing if it does: looked at every now and then, whenever its
/// `standing` in the log changes, and for good once it is `leaving`.
pub fn readiness(
    handle: NodeHandle,
    mut standing: watch::Receiver<Status>,
    mut leaving: watch::Receiver<bool>,
) -> watch::Receiver<Option<String>> {
    let (sender, readiness) = watch::channel(Some("starting".to_owned()));
    let tell = move |reason: Option<String>| {
        sender.send_if_modified(|known| {
            let changed = *known != reason;
            *known = reason;
            changed
        });
    };
    tokio::spawn(async move {
        loop {
            let Ok(reason) = handle.view(not_ready).await else {
                return tell(Some("stopped".to_owned()));
            };
            tell(reason);
            tokio::select! {
                () = timer::sleep(EVERY) => {}
                Ok(()) = standing.changed() => {}
                // Whoever could say so is gone when the node is.
                _ = leaving.wait_for(|leaving| *leaving) => {
                    return tell(Some("leaving".to_owned()));
                }
            }
        }
    });
    readiness
}

/// Snapshots of the node, until it is gone; whether it is ready is known elsewhere.
pub fn snapshots(
    handle: NodeHandle,
    gate: Gate,
    mut readiness: watch::Receiver<Option<String>>,
) -> watch::Receiver<Arc<Snapshot>> {
    let (sender, snapshots) = watch::channel(Arc::new(Snapshot {
        not_ready: Some("starting".to_owned()),
        ..Snapshot::default()
    }));
    tokio::spawn(async move {
        while let Ok(mut snapshot) = handle.view(look).await {
            snapshot.streams = gate.streams() as u64;
            snapshot
                .not_ready
                .clone_from(&readiness.borrow_and_update());
            if sender.send(Arc::new(snapshot)).is_err() {
                return;
            }
            tokio::select! {
                () = timer::sleep(EVERY) => {}
                Ok(()) = readiness.changed() => {}
            }
        }
        sender.send_modify(|last| {
            Arc::make_mut(last).not_ready = Some("stopped".to_owned());
        });
    });
    snapshots
}

fn look(view: &View<'_>) -> Snapshot {
    let counts = view.counts;
    let lease_left = view.node.map_or(0, |node| {
        node.holder().lease().until().since(view.now).nanos()
    });
    Snapshot {
        not_ready: None,
        is_leader: view.status.leads,
        term: view.status.term,
        leader_changes: counts.leader_changes,
        applied: counts.applied,
        applied_index: view.state.applied(),
        rounds: counts.rounds,
        lease_left_s: lease_left as f64 / 1e9,
        sessions: view.sessions.connected() as u64,
        streams: 0,
        refused: counts.refused,
        moved: counts.moved,
        reports: counts.reports,
        answers: counts.answers,
        budgets: view.state.budgets().count() as u64,
        held: held(view),
        peers: view.book.peers().count() as u64,
        records: counts.records,
        keys: keys(view),
    }
}

fn not_ready(view: &View<'_>) -> Option<String> {
    let reason = if let Some(reason) = &view.status.failed {
        format!("the log cannot go on: {reason}")
    } else if view.state.was_removed(NodeId::new(view.status.node)) {
        "removed from the cluster".to_owned()
    } else if view.leaving {
        "leaving".to_owned()
    } else if !view.status.formed {
        "the cluster is not formed yet".to_owned()
    } else if view.node.is_none() {
        "not joined yet".to_owned()
    } else if !view.node.is_some_and(|node| node.is_leased(view.now)) {
        "no lease: no leader confirms this node".to_owned()
    } else {
        return None;
    };
    Some(reason)
}

fn held(view: &View<'_>) -> u64 {
    let Some(node) = view.node else { return 0 };
    let budgets = view.state.budgets();
    let held = budgets.filter(|(id, _)| !node.holder().holding(*id).is_zero());
    held.count() as u64
}

/// The keys that admit most over the whole cluster, which the leader alone is told of.
fn keys(view: &View<'_>) -> Vec<KeyUse> {
    let mut keys: Vec<KeyUse> = view
        .traffic
        .busy()
        .filter_map(|id| Some((id, view.state.budget(id)?)))
        .map(|(id, generation)| {
            let grains = generation.budget.scale().grains_per_token().max(1) as f64;
            let held = generation.account.held();
            let held = match generation.budget.kind() {
                Kind::Rate => held.rate.grains(),
                Kind::Quota => held.tokens.grains(),
                Kind::Concurrency => held.burst.grains(),
            };
            KeyUse {
                key: generation.key.to_string(),
                admitted_per_s: view.traffic.of(id).admitted as f64 / grains,
                held: held as f64 / grains,
            }
        })
        .collect();
    keys.sort_by(|a, b| b.admitted_per_s.total_cmp(&a.admitted_per_s));
    keys.truncate(TOP_KEYS);
    keys
}
