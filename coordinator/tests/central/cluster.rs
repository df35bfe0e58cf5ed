//! A cluster of processes with one budget.

use aliquot_client::Client;
use aliquot_coordinator::demo::cluster::{NODES, Node, Nodes};
use aliquot_coordinator::demo::supervisor::Supervisor;
use aliquot_core::budget::BudgetDraft;
use aliquot_core::unit::BudgetId;
use aliquot_wire::Wire;
use aliquot_wire::admin::{Cluster as View, GetUsage, Holders, ListHolders, Usage};
use aliquot_wire::pb;
use aliquot_wire::pb::admin_client::AdminClient;
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};

pub(crate) const KEY: &str = "small";

/// Maximum time for a cluster to reach a state on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// Clusters run one at a time. Several at once would measure the machine.
static TURN: Mutex<()> = Mutex::const_new(());

/// Three nodes with one budget, and the supervisor that stops them.
pub(crate) struct Cluster {
    pub(crate) nodes: Nodes,
    pub(crate) supervisor: Supervisor,
    _dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// The home node, and another node that is running.
pub(crate) struct Place {
    pub(crate) home: Node,
    pub(crate) other: Node,
    pub(crate) budget: BudgetId,
}

impl Cluster {
    pub(crate) async fn of(fill: impl FnOnce(&mut BudgetDraft)) -> Self {
        let turn = TURN.lock().await;
        let dir = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_aliquot").into();
        let mut supervisor = Supervisor::new(dir.path().to_owned(), program, Vec::new());
        let nodes = Nodes::plan().unwrap();
        for node in nodes.list() {
            nodes.start(node, &mut supervisor).unwrap();
        }
        let mut draft = BudgetDraft {
            key: KEY.into(),
            ..BudgetDraft::default()
        };
        fill(&mut draft);
        wait_for("three nodes that know their leader", async || {
            let cluster = nodes.look().await;
            let all = cluster.nodes.iter().flatten().count() == NODES && cluster.known == NODES;
            (all && cluster.leader.is_some()).then_some(())
        })
        .await;
        let drafts = [draft];
        wait_for("the budget", async || nodes.apply(&drafts).await.ok()).await;
        Self {
            nodes,
            supervisor,
            _dir: dir,
            _turn: turn,
        }
    }

    pub(crate) fn clients(&self, many: u64) -> Vec<Client> {
        let addresses = self.nodes.list().iter().map(|node| node.listen.to_string());
        let addresses: Vec<String> = addresses.collect();
        let client = |seed| {
            let client = Client::builder().addresses(addresses.clone());
            client.seed(seed).connect().unwrap()
        };
        (0..many).map(client).collect()
    }

    /// Returns the node on which the budget is in central mode, once there is one.
    pub(crate) async fn look(&self) -> Option<Place> {
        for asked in self.nodes.list() {
            let endpoint = format!("http://{}", asked.listen);
            let Ok(mut admin) = AdminClient::connect(endpoint).await else {
                continue;
            };
            let get = GetUsage {
                key: KEY.try_into().unwrap(),
            };
            let usage = admin.get_usage(get.to_message()).await.ok()?;
            let usage = Usage::from_message(usage.into_inner()).ok()?;
            let list = ListHolders { key: get.key };
            let holders = admin.list_holders(list.to_message()).await.ok()?;
            let holders = Holders::from_message(holders.into_inner()).ok()?;
            let view = admin
                .get_cluster(pb::GetClusterRequest::default())
                .await
                .ok()?;
            let view = View::try_from(view.into_inner()).ok()?;
            let open = holders.holders.iter().filter(|holder| !holder.closed);
            let mut open = open.filter(|holder| !holder.held.burst.is_zero());
            let (Some(home), None) = (open.next(), open.next()) else {
                return None;
            };
            let member = view
                .nodes
                .iter()
                .find(|node| node.incarnation == home.incarnation)?;
            let is_home = |node: &&Node| node.peer_listen.to_string() == member.address;
            let nodes = self.nodes.list();
            return Some(Place {
                home: nodes.iter().find(is_home)?.clone(),
                other: nodes.iter().find(|node| !is_home(node))?.clone(),
                budget: usage.budget?,
            });
        }
        None
    }
}

/// Calls `look` until it returns a value. Fails the test if it never does.
pub(crate) async fn wait_for<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("in vain: {what}"))
}
