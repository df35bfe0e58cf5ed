//! Periodic views of the node, for metrics and readiness.

use super::connections::Connections;
use super::metrics::{FaceFigures, KeyUse, Snapshot, TOP_KEYS};
use crate::node::{NodeHandle, Stopped, View};
use crate::raft::Status;
use crate::session::Gate;
use crate::timer;
use aliquot_core::share::Kind;
use aliquot_core::state::Generation;
use aliquot_core::unit::BudgetId;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Interval of views. A view takes the actor well under a millisecond, and so does each part of a scan
/// of all budgets. With more than forty thousand budgets, figures of keys are updated less often.
const EVERY: Duration = Duration::from_secs(1);

/// Interval of checks of a node that is not ready: those who wait for it learn of its first lease soon.
const NOT_READY: Duration = Duration::from_millis(100);

/// Watches the reason why the node does not serve clients, or `None` if it does. It is checked
/// periodically, and whenever `coarse_status` changes. Once `leaving` is true, it stays "leaving".
pub fn readiness(
    handle: NodeHandle,
    mut coarse_status: watch::Receiver<Status>,
    mut leaving: watch::Receiver<bool>,
    mut removed: watch::Receiver<bool>,
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
            let is_removed = removed
                .borrow_and_update()
                .then(|| "removed from the cluster".to_owned());
            let reason = is_removed.or(reason);
            let pause = reason.as_ref().map_or(EVERY, |_| NOT_READY);
            tell(reason);
            tokio::select! {
                () = timer::sleep(pause) => {}
                Ok(()) = removed.changed() => {}
                Ok(()) = coarse_status.changed() => {}
                // The sender is gone only if the node is.
                _ = leaving.wait_for(|leaving| *leaving) => {
                    return tell(Some("leaving".to_owned()));
                }
            }
        }
    });
    readiness
}

/// Watches snapshots of the node until it is gone. Readiness is taken from another watch.
pub fn snapshots(
    handle: NodeHandle,
    gate: Gate,
    mut readiness: watch::Receiver<Option<String>>,
    ports: Vec<Connections>,
    faces: FaceFigures,
    removed: watch::Receiver<bool>,
    clock_ahead: watch::Receiver<f64>,
) -> watch::Receiver<Arc<Snapshot>> {
    let (sender, snapshots) = watch::channel(Arc::new(Snapshot {
        not_ready: Some("starting".to_owned()),
        ports: ports.clone(),
        faces: faces.clone(),
        ..Snapshot::default()
    }));
    tokio::spawn(async move {
        let (mut parts, mut found) = (Scan::default(), Scan::default());
        while let Ok(mut snapshot) = handle.view(look).await {
            match scan(&handle, parts, &mut found).await {
                Ok(rest) => parts = rest,
                Err(Stopped) => break,
            }
            snapshot.held = found.held;
            snapshot.keys.clone_from(&found.top);
            snapshot.ports.clone_from(&ports);
            snapshot.faces.clone_from(&faces);
            snapshot.is_removed = *removed.borrow();
            snapshot.clock_ahead_s = *clock_ahead.borrow();
            snapshot.streams = gate.streams() as u64;
            // A node that is full refuses clients before its actor receives anything of them.
            snapshot.refused += gate.refused();
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
    // A leader that no quorum follows confirms no lease, its own included.
    let is_leased = view.node.is_some_and(|node| node.is_leased(view.now));
    Snapshot {
        faces: FaceFigures::default(),
        not_ready: None,
        is_removed: false,
        clock_ahead_s: 0.0,
        is_leader: view.status.leads && is_leased,
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
        budgets: view.state.budgets().len() as u64,
        held: 0,
        peers: view.links_up as u64,
        round_trips_s: view
            .round_trips
            .iter()
            .map(|(peer, span)| (peer.get(), span.nanos() as f64 / 1e9))
            .collect(),
        records: counts.records,
        loop_held_s: view.longest_turn.held.nanos() as f64 / 1e9,
        loop_worked_s: view.longest_turn.worked.nanos() as f64 / 1e9,
        keys_waiting: view.keys_waiting as u64,
        keys_shed: counts.keys_shed,
        keys: Vec::new(),
        ports: Vec::new(),
    }
}

fn not_ready(view: &View<'_>) -> Option<String> {
    let reason = if let Some(reason) = &view.status.failed {
        format!("the log has failed: {reason}")
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

/// A scan of all budgets, in parts that hold the actor only briefly.
#[derive(Debug, Default)]
struct Scan {
    /// The first budget that was not scanned yet.
    next: BudgetId,
    held: u64,
    /// The scanned keys with the highest rates of admission, in descending order.
    top: Vec<KeyUse>,
}

impl Scan {
    /// Number of budgets in a part.
    const PART: usize = 2_000;

    /// Maximum number of parts in one interval.
    const PARTS: usize = 20;

    /// Scans the next part. Returns true if it was the last one.
    fn go_on(&mut self, view: &View<'_>) -> bool {
        let mut looked = 0;
        for (id, generation) in view.state.budgets_from(self.next).take(Self::PART) {
            looked += 1;
            self.next = id.next().unwrap_or(id);
            let holds = view
                .node
                .is_some_and(|node| !node.holder().holding(id).is_zero());
            self.held += u64::from(holds);
            self.offer(view, id, generation);
        }
        looked < Self::PART
    }

    /// Notes a key with a high rate of admission over the whole cluster, which only the leader knows.
    fn offer(&mut self, view: &View<'_>, id: BudgetId, generation: &Generation) {
        let grains = generation.budget.scale().grains_per_token().max(1) as f64;
        let admitted_per_s = view.traffic.of(id).admitted as f64 / grains;
        let more = |other: &KeyUse| other.admitted_per_s >= admitted_per_s;
        let place = self.top.iter().take_while(|other| more(other)).count();
        if place >= TOP_KEYS {
            return;
        }
        let held = generation.account.held();
        let held = match generation.budget.kind() {
            Kind::Rate => held.rate.grains(),
            Kind::Quota => held.tokens.grains(),
            Kind::Concurrency => held.burst.grains(),
        };
        let used = KeyUse {
            key: generation.key.to_string(),
            admitted_per_s,
            held: held as f64 / grains,
        };
        self.top.insert(place, used);
        self.top.truncate(TOP_KEYS);
    }
}

/// Continues a scan. `found` keeps the result of the last complete one.
async fn scan(handle: &NodeHandle, mut scan: Scan, found: &mut Scan) -> Result<Scan, Stopped> {
    for _ in 0..Scan::PARTS {
        let part = handle.view(move |view| {
            let whole = scan.go_on(view);
            (scan, whole)
        });
        let whole;
        (scan, whole) = part.await?;
        if whole {
            *found = std::mem::take(&mut scan);
            break;
        }
    }
    Ok(scan)
}

#[cfg(test)]
#[path = "../../tests/unit/api/watch.rs"]
mod tests;
