//! Observes a run in separate tasks, so that a node that does not answer delays nothing.

use crate::demo::cluster::{ClusterStatus, Nodes};
use crate::demo::fleet::Fleet;
use crate::demo::load::Tally;
use crate::demo::service::Status;
use crate::demo::table::{Row, View};
use crate::demo::via::Via;
use aliquot_core::unit::{Span, Tick};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The latest states of the nodes and the services.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    cluster: ClusterStatus,
    statuses: Vec<Option<Status>>,
}

impl Seen {
    /// Queries the nodes and the services repeatedly, in one task of `beside` each.
    pub(super) fn keep_looking(
        beside: &mut JoinSet<()>,
        nodes: &Arc<Nodes>,
        fleet: &Fleet,
    ) -> watch::Receiver<Self> {
        let (sender, receiver) = watch::channel(Self::default());
        let sender = Arc::new(sender);
        let (nodes, changes) = (Arc::clone(nodes), Arc::clone(&sender));
        beside.spawn(async move {
            loop {
                let cluster = nodes.look().await;
                changes.send_modify(|seen| seen.cluster = cluster);
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        let fleet = fleet.clone();
        beside.spawn(async move {
            loop {
                let statuses = fleet.look().await;
                sender.send_modify(|seen| seen.statuses = statuses);
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        receiver
    }
}

/// Makes views from observations: counts become rates, and changes become events.
#[derive(Debug)]
pub(super) struct Watch {
    names: Vec<String>,
    tally: Arc<Tally>,
    seen: watch::Receiver<Seen>,
    limit: u64,
    duration: Span,
    last: Option<Last>,
    leader: Option<usize>,
    via: Via,
}

/// The counts of the previous view.
#[derive(Debug)]
struct Last {
    at: Tick,
    sent: u64,
    admitted: u64,
    services: Vec<(u64, u64)>,
}

impl Watch {
    pub(super) fn new(
        fleet: &Fleet,
        tally: Arc<Tally>,
        seen: watch::Receiver<Seen>,
        limit: u64,
        duration: Span,
        via: Via,
    ) -> Self {
        Self {
            names: fleet
                .addresses()
                .into_iter()
                .map(|(name, _)| name)
                .collect(),
            tally,
            seen,
            limit,
            duration,
            last: None,
            leader: None,
            via,
        }
    }

    /// Returns the latest state of the cluster.
    pub(super) fn cluster(&self) -> ClusterStatus {
        self.seen.borrow().cluster.clone()
    }

    /// Returns the view at `now`, `elapsed` after the load began.
    pub(super) fn view(
        &mut self,
        now: Tick,
        elapsed: Span,
        events: &mut Vec<(Span, String)>,
    ) -> View {
        let Seen { cluster, statuses } = self.seen.borrow().clone();
        if cluster.leader.is_some() && cluster.leader != self.leader {
            if let Some(leader) = cluster.leader.filter(|_| self.leader.is_some()) {
                let term = cluster.term.get();
                events.push((
                    elapsed,
                    format!("node-{} leads, in term {term}", leader + 1),
                ));
            }
            self.leader = cluster.leader;
        }
        let totals = self.tally.totals();
        let (sent, admitted) = match self.limit {
            0 => (totals.all.sent, totals.all.admitted),
            _ => (totals.first_key.sent, totals.first_key.admitted),
        };
        let counts = |status: &Option<Status>| {
            status
                .as_ref()
                .map_or((0, 0), |status| (status.admitted, status.refused))
        };
        let services: Vec<(u64, u64)> = statuses.iter().map(counts).collect();
        let next = Last {
            at: now,
            sent,
            admitted,
            services,
        };
        let last = self.last.as_ref();
        let since = last.map_or(Span::ZERO, |last| now.since(last.at));
        let pace = |now: u64, before: u64| per_second(now.saturating_sub(before), since);
        let rows = self.names.iter().enumerate().map(|(index, name)| {
            let (admitted, refused) = next.services.get(index).copied().unwrap_or_default();
            let before = last.and_then(|last| last.services.get(index)).copied();
            let before = before.unwrap_or((admitted, refused));
            Row {
                name: name.clone(),
                status: statuses.get(index).cloned().flatten(),
                admitted: pace(admitted, before.0),
                refused: pace(refused, before.1),
            }
        });
        let view = View {
            elapsed,
            duration: self.duration,
            limit: per_second(self.limit, Span::from_secs(1)),
            offered: pace(sent, last.map_or(sent, |last| last.sent)),
            admitted: pace(admitted, last.map_or(admitted, |last| last.admitted)),
            cluster,
            rows: rows.collect(),
            events: events.clone(),
            faces: self.via != Via::Client,
        };
        self.last = Some(next);
        view
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown without a fraction")]
fn per_second(count: u64, over: Span) -> f64 {
    if over.is_zero() {
        return 0.0;
    }
    count as f64 * 1e9 / over.nanos() as f64
}
