//! The three coordinators of a run, as the demo sees them.

use super::error::DemoError;
use super::supervisor::{ReservedPort, Supervisor};
use aliquot_core::budget::BudgetDraft;
use aliquot_core::unit::{Drift, RequestId, Span, Term};
use aliquot_wire::Wire;
use aliquot_wire::admin::{ApplyBudgets, BudgetsOutcome, Cluster as View, Mode};
use aliquot_wire::pb;
use aliquot_wire::pb::admin_client::AdminClient;
use futures_util::future::join_all;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// Number of coordinators.
pub const NODES: usize = 3;

/// Prefix of the names of their processes.
pub const PREFIX: &str = "node-";

const CONNECT_WITHIN: Duration = Duration::from_millis(300);
const ANSWER_WITHIN: Duration = Duration::from_millis(700);
const APPLY_WITHIN: Duration = Duration::from_secs(5);

/// The name and the addresses of one coordinator.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name of its process.
    pub name: String,
    /// Address for clients and operators.
    pub listen: SocketAddr,
    /// Address for other nodes.
    pub peer_listen: SocketAddr,
    /// Address of its metrics.
    pub metrics_listen: SocketAddr,
}

/// The coordinators of a run.
#[derive(Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
    admins: Vec<AdminClient<Channel>>,
    _ports: Vec<ReservedPort>,
}

/// State of the cluster, as far as its nodes answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The term.
    pub term: Term,
    /// Index of the leader, if the nodes know one.
    pub leader: Option<usize>,
    /// For each node, the number of its client sessions, or `None` if it does not answer.
    pub nodes: Vec<Option<u64>>,
    /// Number of nodes in the answer with the newest term.
    pub known: usize,
    /// The drift bound of the cluster.
    pub drift: Drift,
    /// Length of the nodes' lease.
    pub lease: Span,
}

impl Nodes {
    /// Reserves ports for the coordinators, and starts none.
    ///
    /// # Errors
    ///
    /// [`DemoError::Io`] if there are no free ports.
    pub fn plan() -> Result<Self, DemoError> {
        let ports: io::Result<Vec<_>> = (0..3 * NODES).map(|_| ReservedPort::reserve()).collect();
        let ports = ports.map_err(DemoError::io("free ports"))?;
        let (threes, _) = ports.as_chunks::<3>();
        let nodes = (1..).zip(threes).map(|(number, ports)| Node {
            name: format!("{PREFIX}{number}"),
            listen: ports[0].address(),
            peer_listen: ports[1].address(),
            metrics_listen: ports[2].address(),
        });
        let nodes: Vec<Node> = nodes.collect();
        let admins: Result<_, tonic::transport::Error> = nodes
            .iter()
            .map(|node| {
                let endpoint = Endpoint::from_shared(format!("http://{}", node.listen))?;
                let endpoint = endpoint.connect_timeout(CONNECT_WITHIN);
                Ok(AdminClient::new(endpoint.connect_lazy()))
            })
            .collect();
        let unusable = |error| DemoError::io("a node's address")(io::Error::other(error));
        Ok(Self {
            admins: admins.map_err(unusable)?,
            nodes,
            _ports: ports,
        })
    }

    /// Returns the coordinators.
    #[must_use]
    pub fn list(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the addresses for clients: `a:1,b:2,c:3`.
    #[must_use]
    pub fn endpoints(&self) -> String {
        let all: Vec<String> = self.nodes.iter().map(|n| n.listen.to_string()).collect();
        all.join(",")
    }

    /// Starts a coordinator, or restarts it with its data.
    ///
    /// # Errors
    ///
    /// [`DemoError::Child`] if its process cannot be started.
    pub fn start(&self, node: &Node, supervisor: &mut Supervisor) -> Result<(), DemoError> {
        self.start_with(node, supervisor, &[])
    }

    /// Does the same with additional flags.
    ///
    /// # Errors
    ///
    /// [`DemoError::Child`] if its process cannot be started.
    pub fn start_with(
        &self,
        node: &Node,
        supervisor: &mut Supervisor,
        flags: &[OsString],
    ) -> Result<(), DemoError> {
        let mut args: Vec<OsString> = vec!["serve".into()];
        let mut flag = |flag: &str, value: OsString| args.extend([flag.into(), value]);
        flag("--cluster-id", "demo".into());
        flag("--listen", node.listen.to_string().into());
        flag("--peer-listen", node.peer_listen.to_string().into());
        flag("--metrics-listen", node.metrics_listen.to_string().into());
        for peer in &self.nodes {
            flag("--cluster-peers", peer.peer_listen.to_string().into());
        }
        let data = supervisor.dir_of(&node.name).join("data");
        flag("--data-dir", data.into());
        args.extend_from_slice(flags);
        Ok(supervisor.start(&node.name, &args)?)
    }

    /// Queries all nodes. Returns the state in the newest term that any of them knows.
    pub async fn look(&self) -> ClusterStatus {
        let asked = self.admins.iter().map(|admin| async move {
            let mut admin = admin.clone();
            let asked = admin.get_cluster(pb::GetClusterRequest::default());
            let answer = tokio::time::timeout(ANSWER_WITHIN, asked).await;
            View::try_from(answer.ok()?.ok()?.into_inner()).ok()
        });
        let views: Vec<Option<View>> = join_all(asked).await;
        self.summarize(&views)
    }

    fn summarize(&self, views: &[Option<View>]) -> ClusterStatus {
        let answered = views.iter().flatten();
        let newest = answered.max_by_key(|view| (view.term, view.leader.is_some()));
        let Some(newest) = newest else {
            return ClusterStatus {
                nodes: vec![None; self.nodes.len()],
                ..ClusterStatus::default()
            };
        };
        let is = |node: &Node, address: &str| {
            [node.listen, node.peer_listen]
                .map(|own| own.to_string())
                .contains(&address.to_owned())
        };
        let view_of = |node: &Node| newest.nodes.iter().find(|view| is(node, &view.address));
        let leads =
            |node: &Node| view_of(node).is_some_and(|view| Some(view.node) == newest.leader);
        let nodes = self.nodes.iter().zip(views).map(|(node, view)| {
            let sessions = view_of(node).map_or(0, |view| view.sessions);
            view.as_ref().map(|_| sessions)
        });
        ClusterStatus {
            term: newest.term,
            leader: self.nodes.iter().position(leads),
            nodes: nodes.collect(),
            known: newest.nodes.len(),
            drift: newest.drift,
            lease: newest.lease,
        }
    }

    /// Writes budgets through the first node that accepts them.
    ///
    /// # Errors
    ///
    /// [`DemoError::Budget`] if one is refused. [`DemoError::Io`] with the last error if no node
    /// accepts them. They may have been written even then.
    pub async fn apply(&self, budgets: &[BudgetDraft]) -> Result<(), DemoError> {
        let wanted = ApplyBudgets {
            request: RequestId::new(1),
            mode: Mode::Commit,
            budgets: budgets.to_vec(),
        };
        let mut last = "no node answers".to_owned();
        for admin in &self.admins {
            let mut admin = admin.clone();
            let asked = admin.apply_budgets(wanted.to_message());
            let outcome = match tokio::time::timeout(APPLY_WITHIN, asked).await {
                Ok(Ok(answer)) => BudgetsOutcome::try_from(answer.into_inner()),
                Ok(Err(status)) => {
                    last = status.to_string();
                    continue;
                }
                Err(_) => continue,
            };
            match outcome {
                Ok(outcome) => return refusals(outcome, budgets),
                Err(error) => last = error.to_string(),
            }
        }
        let refused = io::Error::other(last);
        Err(DemoError::io("the budgets could not be written")(refused))
    }
}

fn refusals(outcome: BudgetsOutcome, budgets: &[BudgetDraft]) -> Result<(), DemoError> {
    let Some(refusal) = outcome.refusals.into_iter().next() else {
        return Ok(());
    };
    let index = usize::try_from(refusal.index).ok();
    let budget = index.and_then(|index| budgets.get(index));
    Err(DemoError::Budget {
        key: budget.map_or_else(String::new, |budget| budget.key.clone()),
        errors: refusal.errors,
    })
}

#[cfg(test)]
#[path = "../../tests/unit/demo/cluster.rs"]
mod tests;
