//! The `aliquot cluster` commands: the nodes, their clients, and the leader.

use super::connect::{Connection, request_id};
use super::member::{self, Member};
use super::{Failure, Out, show};
use crate::config::Address;
use aliquot_core::budget::Key;
use aliquot_core::unit::NodeId;
use aliquot_wire::Wire;
use aliquot_wire::admin::{
    ChangeCluster, ClientView, Clients, Cluster, ClusterChange, ListClients, NodeView, Role,
};
use aliquot_wire::pb;
use serde_json::{Value, json};

const EXAMPLES: &str = "\
To add a node, start it with the same cluster.id, then `add` it, then `promote` it, which waits \
until it has caught up. A node with an empty data directory and its old address joins by itself. \
To replace a dead node by a node with another address, use `replace`.

Examples:
  aliquot cluster status
  aliquot cluster add node-4.example:7101
  aliquot cluster promote node-4.example:7101
  aliquot cluster replace node-2.example:7101 node-5.example:7101
  aliquot cluster transfer-leader node-3.example:7101   before the leader is restarted";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show the leader, its term and the settings of the cluster
    #[command(after_help = leaf!("aliquot cluster status"))]
    Status,
    /// Show every node
    #[command(after_help = leaf!("aliquot cluster members --json"))]
    Members,
    /// Show the client sessions of every node
    #[command(after_help = leaf!("aliquot cluster clients"))]
    Clients,
    /// Add a running node, without a vote
    #[command(after_help = leaf!("aliquot cluster add node-4.example:7101"))]
    Add {
        /// Peer address of the node
        address: Address,
    },
    /// Give a node a vote
    #[command(after_help = leaf!("aliquot cluster promote node-4.example:7101"))]
    Promote {
        /// Id of the node, or its peer or client address, as shown by `members`
        node: Member,
    },
    /// Remove a node permanently
    #[command(after_help = leaf!("aliquot cluster remove node-4.example:7101"))]
    Remove {
        /// Id of the node, or its peer or client address, as shown by `members`
        node: Member,
    },
    /// Replace a node, which may be dead, by a running one
    #[command(after_help = leaf!("aliquot cluster replace node-2.example:7101 node-5.example:7101"))]
    Replace {
        /// Id of the node that leaves, or its peer or client address, as shown by `members`
        node: Member,
        /// Peer address of the new node
        address: Address,
    },
    /// Transfer the leadership to another node
    #[command(after_help = leaf!("aliquot cluster transfer-leader node-3.example:7101"))]
    TransferLeader {
        /// Id of the node, or its peer or client address, as shown by `members`
        node: Member,
    },
}

impl Args {
    pub(super) async fn run(self, out: Out) -> Result<(), Failure> {
        let connection = &self.connection;
        let (change, done) = match self.command {
            Command::Status => return status(connection, out).await,
            Command::Members => return members(connection, out).await,
            Command::Clients => return clients(connection, out).await,
            Command::Add { address } => (
                ClusterChange::Add(address.to_string()),
                format!("{address} has joined, without a vote."),
            ),
            Command::Promote { node } => {
                let node = id_of(connection, &node).await?;
                let done = format!("Node {} has a vote.", node.get());
                (ClusterChange::Promote(node), done)
            }
            Command::Remove { node } => {
                let node = id_of(connection, &node).await?;
                let done = format!("Node {} has left.", node.get());
                (ClusterChange::Remove(node), done)
            }
            Command::Replace { node, address } => {
                let node = id_of(connection, &node).await?;
                let done = format!("{address} has taken the place of node {}.", node.get());
                let address = address.to_string();
                (ClusterChange::Replace { node, address }, done)
            }
            Command::TransferLeader { node } => {
                let node = id_of(connection, &node).await?;
                let done = format!("Node {} leads.", node.get());
                (ClusterChange::Transfer(node), done)
            }
        };
        // Needed for the closing message only: if this question fails, the change may still succeed.
        let before = ask(connection).await.ok();
        let is_so = before.is_some_and(|cluster| holds(&change, &cluster));
        let request = request_id();
        let change = ChangeCluster { request, change }.to_message();
        connection
            .order(async |mut admin| admin.change_cluster(change.clone()).await)
            .await?;
        let text = || match is_so {
            true => format!("{done} Nothing was changed: this was already the case."),
            false => done,
        };
        out.answer(|| json!({ "done": true, "was_so": is_so }), text);
        Ok(())
    }
}

/// True if the cluster already is as the change asks.
fn holds(change: &ClusterChange, cluster: &Cluster) -> bool {
    let members = || cluster.nodes.iter().filter(|it| it.role != Role::Removed);
    let is_member = |node: &NodeId| members().any(|it| it.node == *node);
    let votes = |it: &NodeView| matches!(it.role, Role::Leader | Role::Voter);
    match change {
        ClusterChange::Add(address) => members().any(|it| it.address == *address),
        ClusterChange::Promote(node) => members().any(|it| it.node == *node && votes(it)),
        ClusterChange::Remove(node) => !is_member(node),
        ClusterChange::Replace { node, address } => {
            !is_member(node) && members().any(|it| it.address == *address && votes(it))
        }
        ClusterChange::Transfer(node) => cluster.leader == Some(*node),
    }
}

/// Returns the id of a member. Asks the cluster only if an address names it.
async fn id_of(connection: &Connection, member: &Member) -> Result<NodeId, Failure> {
    match member {
        Member::Id(node) => Ok(*node),
        Member::Address(address) => member::find(&ask(connection).await?, address),
    }
}

async fn ask(connection: &Connection) -> Result<Cluster, Failure> {
    connection
        .read(async |mut admin| admin.get_cluster(pb::GetClusterRequest::default()).await)
        .await
}

/// Returns a connection that asks the members of the cluster if no given endpoint answers.
pub(super) async fn with_members(connection: &Connection) -> Result<Connection, Failure> {
    let cluster = ask(connection).await?;
    let members = cluster.nodes.iter().filter(|it| it.role != Role::Removed);
    let addresses = members.map(|it| it.client_address.as_str());
    Ok(connection.and(addresses))
}

async fn status(connection: &Connection, out: Out) -> Result<(), Failure> {
    let cluster = ask(connection).await?;
    let voters = cluster
        .nodes
        .iter()
        .filter(|node| matches!(node.role, Role::Leader | Role::Voter))
        .count();
    let text = || {
        let leader = cluster.leader.map_or_else(
            || "unknown".to_owned(),
            |leader| format!("node {}", leader.get()),
        );
        format!(
            "cluster {}, as node {} knows it\n  leader:  {leader}\n  term:    {}\n  nodes:   {} ({voters} with a \
             vote)\n  applied: {}\n  lease:   {}\n  drift:   {} ppm",
            cluster.cluster,
            cluster.answering.get(),
            cluster.term.get(),
            cluster.nodes.len(),
            cluster.applied,
            cluster.lease,
            cluster.drift.ppm(),
        )
    };
    let json = || {
        json!({
            "cluster": cluster.cluster,
            "answering": show::node_id(cluster.answering),
            "removed": cluster.removed,
            "leader": cluster.leader.map(show::node_id),
            "term": show::whole(cluster.term.get()),
            "applied": show::whole(cluster.applied),
            "lease_s": show::seconds(cluster.lease),
            "drift_ppm": cluster.drift.ppm(),
            "nodes": cluster.nodes.iter().map(node_json).collect::<Vec<_>>(),
        })
    };
    out.answer(json, text);
    is_member(&cluster)?;
    match cluster.leader {
        Some(_) => Ok(()),
        None => Err(Failure::Refused(
            "no leader is known: budgets stay in force, and nothing can be changed until a majority of the nodes \
             with a vote is connected"
                .to_owned(),
        )),
    }
}

/// Fails if the answering node was removed, because its answer may be old.
fn is_member(cluster: &Cluster) -> Result<(), Failure> {
    if !cluster.removed {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "node {} was removed from the cluster, and its information may be out of date: ask another node; stop this \
         one, and move its data_dir away before you start it again",
        cluster.answering.get()
    )))
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Voter => "voter",
        Role::Learner => "learner",
        Role::Removed => "removed",
    }
}

fn node_json(view: &NodeView) -> Value {
    json!({
        "node": show::node_id(view.node),
        "role": role(view.role),
        "incarnation": show::whole(view.incarnation.get()),
        "peer_address": view.address,
        "client_address": view.client_address,
        "leaving": view.leaving,
        "heard_s_ago": view.heard_ago.map(show::seconds),
        "sessions": view.sessions,
        "matched": view.matched.map(show::whole),
    })
}

async fn members(connection: &Connection, out: Out) -> Result<(), Failure> {
    let cluster = ask(connection).await?;
    let text = || {
        let rows = cluster.nodes.iter().map(|view| {
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let leaving = if view.leaving { ", leaving" } else { "" };
            let heard = if view.node == cluster.answering {
                Some("itself".to_owned())
            } else {
                view.heard_ago.map(show::age)
            };
            [
                view.node.get().to_string(),
                format!("{}{leaving}", role(view.role)),
                view.address.clone(),
                view.client_address.clone(),
                view.incarnation.get().to_string(),
                or_dash(view.matched.map(|matched| matched.to_string())),
                or_dash(heard),
                view.sessions.to_string(),
            ]
        });
        let head = [
            "NODE",
            "ROLE",
            "PEER ADDRESS",
            "CLIENT ADDRESS",
            "INCARNATION",
            "MATCHED",
            "HEARD",
            "SESSIONS",
        ];
        show::table(head, rows)
    };
    out.answer(|| cluster.nodes.iter().map(node_json).collect(), text);
    is_member(&cluster)
}

/// Asks every node for its clients, or only for those that hold a part of `key`. Prints a message for each node that
/// cannot be asked.
pub(super) async fn everywhere(
    connection: &Connection,
    out: Out,
    key: Option<&Key>,
) -> Result<Vec<(NodeId, ClientView)>, Failure> {
    let cluster = ask(connection).await?;
    let mut all = Vec::new();
    for view in &cluster.nodes {
        let node = view.node;
        let clients = match view.client_address.parse::<Address>() {
            Ok(address) => match clients_of(connection, address, key).await {
                Ok(clients) => Ok(clients),
                Err(Failure::Unreachable(why)) => Err(why),
                Err(failure) => return Err(failure),
            },
            Err(_) => Err("its client address is not known".to_owned()),
        };
        match clients {
            Ok(clients) => all.extend(clients.into_iter().map(|client| (node, client))),
            Err(why) => out.complain(&format!("node {} is not included: {why}", node.get())),
        }
    }
    Ok(all)
}

/// Formats the labels of a client as `name=value`, with spaces between them.
pub(super) fn labels(client: &ClientView) -> String {
    let labels = client.labels.iter();
    let labels = labels.map(|(name, value)| format!("{name}={value}"));
    labels.collect::<Vec<_>>().join(" ")
}

async fn clients(connection: &Connection, out: Out) -> Result<(), Failure> {
    let all = everywhere(connection, out, None).await?;
    let text = || {
        let rows = all.iter().map(|(node, client)| {
            [
                node.get().to_string(),
                client.session.to_string(),
                client.address.clone(),
                client.keys.to_string(),
                show::age(client.open_for),
                show::age(client.heard_ago),
                labels(client),
            ]
        });
        let head = ["NODE", "SESSION", "FROM", "KEYS", "OPEN", "HEARD", "LABELS"];
        show::table(head, rows)
    };
    let json = || {
        let clients = all.iter().map(|(node, client)| {
            json!({
                "node": show::node_id(*node),
                "session": show::whole(client.session),
                "address": client.address,
                "labels": client.labels,
                "keys": client.keys,
                "open_s": show::seconds(client.open_for),
                "heard_s_ago": show::seconds(client.heard_ago),
            })
        });
        clients.collect()
    };
    out.answer(json, text);
    Ok(())
}

async fn clients_of(
    connection: &Connection,
    address: Address,
    key: Option<&Key>,
) -> Result<Vec<ClientView>, Failure> {
    let mut all = Vec::new();
    let mut page = ListClients {
        after: 0,
        limit: 1_000,
        key: key.cloned(),
    };
    loop {
        let asked = page.to_message();
        let clients: Clients = connection
            .read_at(address.clone(), async |mut admin| {
                admin.list_clients(asked.clone()).await
            })
            .await?;
        all.extend(clients.clients);
        match all.last() {
            Some(last) if clients.more => page.after = last.session,
            _ => return Ok(all),
        }
    }
}
