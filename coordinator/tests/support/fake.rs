//! A cluster of one node: a real state, and a log without other readers.

use aliquot_coordinator::api::backend::{
    Backend, ClientFacts, Clients, Flow, Flows, NodeFacts, Query, Unavailable, View, WriteError,
};
use aliquot_core::budget::Labels;
use aliquot_core::command::Command;
use aliquot_core::edge::Vector;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{BudgetId, NodeId, Rate, RequestId, Term, Tick};
use aliquot_wire::admin::{ClusterChange, Role};
use futures_util::future::{BoxFuture, FutureExt, ready};
use std::sync::{Arc, Mutex, PoisonError};
use tonic::transport::Channel;

#[derive(Clone, Debug)]
pub(crate) struct Fake(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    state: State,
    entries: u64,
    changes: Vec<ClusterChange>,
    /// Number of entries after which there is no leader.
    led_until: u64,
}

impl Inner {
    const fn is_led(&self) -> bool {
        self.entries < self.led_until
    }
}

impl Fake {
    /// Creates node 1, which leads and has an incarnation.
    pub(crate) fn new() -> Self {
        let mut state = State::new();
        let (node, request) = (NodeId::new(1), RequestId::new(u64::MAX));
        state.apply(1, Some(&Command::Join { node, request }));
        Self(Arc::new(Mutex::new(Inner {
            state,
            entries: 1,
            changes: Vec::new(),
            led_until: u64::MAX,
        })))
    }

    fn inner<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn entries(&self) -> u64 {
        self.inner(|inner| inner.entries)
    }

    pub(crate) fn changes(&self) -> Vec<ClusterChange> {
        self.inner(|inner| inner.changes.clone())
    }

    /// Removes a node from the cluster, as the log does.
    pub(crate) fn remove(&self, node: u64) {
        self.inner(|inner| {
            inner.entries += 1;
            let node = NodeId::new(node);
            inner
                .state
                .apply(inner.entries, Some(&Command::Remove { node }));
        });
    }

    /// Makes the leader disappear after `entries` more entries.
    pub(crate) fn lose_leader_after(&self, entries: u64) {
        self.inner(|inner| inner.led_until = inner.entries.saturating_add(entries));
    }
}

struct Steady;

impl Flows for Steady {
    fn of(&self, budget: BudgetId) -> Flow {
        Flow {
            demand: 1 << (30 + budget.get()),
            admitted_milli: Some(950_500),
            denied_milli: Some(12_000),
        }
    }
}

impl Clients for Steady {
    fn page(&self, after: u64, most: usize, holding: Option<BudgetId>) -> Vec<ClientFacts> {
        // The first session holds nothing.
        let sessions = (1 + u64::from(holding.is_some())..=3)
            .filter(|session| *session > after)
            .take(most);
        let facts = sessions.map(|session| ClientFacts {
            session,
            address: format!("10.0.0.{session}:5000"),
            labels: Labels::from([("service".to_owned(), "checkout".to_owned())]),
            keys: 20,
            opened: Tick::from_nanos(1_000_000_000),
            heard: Tick::from_nanos(9_600_000_000),
            held: holding.map(|_| Vector {
                rate: Rate::from_grains(session << 32),
                ..Vector::ZERO
            }),
        });
        facts.collect()
    }
}

impl Backend for Fake {
    fn query(&self, query: Query) -> BoxFuture<'static, Result<(), Unavailable>> {
        self.inner(|inner| {
            let node = |node, role, matched| NodeFacts {
                node: NodeId::new(node),
                role,
                address: format!("node-{node}:7101"),
                client_address: format!("node-{node}:7001"),
                heard: Some(Tick::from_nanos(9_800_000_000)),
                sessions: 3,
                matched,
            };
            query(&View {
                state: &inner.state,
                now: Tick::from_nanos(10_000_000_000),
                node: NodeId::new(1),
                removed: inner.state.was_removed(NodeId::new(1)),
                wall_ms: 1_700_000_000_000,
                cluster: "test",
                term: Term::new(4),
                leader: inner.is_led().then_some(NodeId::new(1)),
                nodes: &[
                    node(1, Role::Leader, Some(inner.entries)),
                    node(2, Role::Learner, None),
                ],
                flows: &Steady,
                clients: &Steady,
            });
        });
        ready(Ok(())).boxed()
    }

    fn write(&self, command: Command) -> BoxFuture<'static, Result<Vec<Effect>, WriteError>> {
        let effects = self.inner(|inner| {
            inner.entries += 1;
            inner.state.apply(inner.entries, Some(&command))
        });
        ready(Ok(effects)).boxed()
    }

    fn fence(&self) -> BoxFuture<'static, Result<(), WriteError>> {
        let reason = "tried nodes 2 and 3".to_owned();
        let led = self.inner(|inner| inner.is_led());
        let fenced = led.then_some(()).ok_or(WriteError::NoLeader { reason });
        ready(fenced).boxed()
    }

    fn leader(&self) -> Option<Channel> {
        None
    }

    fn change(
        &self,
        _: RequestId,
        change: ClusterChange,
    ) -> BoxFuture<'static, Result<(), WriteError>> {
        let stranger = match &change {
            ClusterChange::Promote(node) | ClusterChange::Remove(node) if node.get() > 2 => {
                Some(node.get())
            }
            _ => None,
        };
        self.inner(|inner| inner.changes.push(change));
        let done = match stranger {
            Some(node) => Err(WriteError::Refused {
                reason: format!("node {node} is no member"),
            }),
            None => Ok(()),
        };
        ready(done).boxed()
    }
}
