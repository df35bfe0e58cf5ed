//! A cluster of real processes, and the operations on it.
//!
//! ```text
//!   test ── commands ──▶ the program under test, as an operator runs it
//!     │ ──── signals ──▶ node 0, 1, 2 … ◀── Net (a proxy in this process) ──▶ each other
//!     └─ load, clients ─────────▲
//! ```
//!
//! No test waits by sleeping for a time that is expected to suffice. [`until`] checks a
//! condition repeatedly, with a deadline. All processes are killed when the [`Fleet`] is
//! dropped, and a test that fails prints the end of each node's log.

mod answer;
mod http;
mod load;
mod net;
mod node;
mod service;
mod wait;

pub use answer::{Answer, ClusterView, Member, Operator};
pub use http::{figure, get};
pub use load::{Judged, Load, Offer, Record, now};
pub use net::{Net, Who};
pub use node::{End, Node, WALL_CLOCK_AHEAD};
pub use service::{Service, ask_aloud};
pub use wait::{hold, until};

use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Deadline for operations that take a moment, on a machine that is busy
/// with something else.
pub const SOON: Duration = Duration::from_secs(30);

/// The configuration of a fleet.
#[derive(Clone, Debug)]
pub struct Setup {
    program: PathBuf,
    nodes: usize,
    founders: usize,
    cluster: String,
    proxied: bool,
    flags: Vec<String>,
}

/// A cluster of real processes.
#[derive(Debug)]
pub struct Fleet {
    program: PathBuf,
    nodes: Vec<Node>,
    net: Option<Net>,
    dir: TempDir,
}

impl Setup {
    /// Configures three nodes of `program`, which reach each other directly.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            nodes: 3,
            founders: usize::MAX,
            cluster: "tested".to_owned(),
            proxied: false,
            flags: Vec::new(),
        }
    }

    /// Sets the number of nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Lets only the first `founders` nodes form the cluster. Each other node is configured with
    /// these and itself as peers, and must join.
    #[must_use]
    pub fn founders(mut self, founders: usize) -> Self {
        self.founders = founders;
        self
    }

    /// Sets the name of the cluster.
    #[must_use]
    pub fn cluster(mut self, name: &str) -> Self {
        name.clone_into(&mut self.cluster);
        self
    }

    /// Routes all traffic through a [`Net`], which can be cut.
    #[must_use]
    pub fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// Adds an argument of `serve` for every node.
    #[must_use]
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// Makes the fleet without starting any node.
    ///
    /// # Panics
    ///
    /// If no port or no directory is available.
    pub async fn plan(self) -> Fleet {
        let dir = tempfile::tempdir().expect("a directory for the fleet");
        let mut nodes: Vec<Node> = (0..self.nodes)
            .map(|index| Node::plan(index, dir.path()))
            .collect();
        let net = match self.proxied {
            true => Some(Net::between(&mut nodes).await),
            false => None,
        };
        let founders = nodes.iter().take(self.founders);
        let peers: Vec<String> = founders.map(|node| node.peer.clone()).collect();
        for node in &mut nodes {
            let mut peers = peers.clone();
            if !peers.contains(&node.peer) {
                peers.push(node.peer.clone());
            }
            node.tell(&self.cluster, &peers, &self.flags);
        }
        Fleet {
            program: self.program,
            nodes,
            net,
            dir,
        }
    }

    /// Starts the fleet and waits until every node serves.
    ///
    /// # Panics
    ///
    /// If they do not within [`SOON`].
    pub async fn start(self) -> Fleet {
        let mut fleet = self.plan().await;
        for index in 0..fleet.nodes.len() {
            fleet.start(index);
        }
        fleet.serves().await;
        fleet
    }
}

impl Fleet {
    /// Returns the directory of this fleet.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the program that its nodes run.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns one node, to change its settings.
    pub fn node_mut(&mut self, index: usize) -> &mut Node {
        &mut self.nodes[index]
    }

    /// Returns the network between the nodes.
    ///
    /// # Panics
    ///
    /// If the fleet is not [`Setup::proxied`].
    #[must_use]
    pub fn net(&self) -> &Net {
        self.net.as_ref().expect("a fleet with a net")
    }

    /// Returns the nodes' addresses for clients.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let all = self.nodes.iter();
        all.map(|node| node.client.clone()).collect()
    }

    /// Starts a node with its data directory as it is.
    ///
    /// # Panics
    ///
    /// If it runs already, or cannot be started.
    pub fn start(&mut self, index: usize) {
        self.nodes[index].start(&self.program);
        if let Some(net) = &self.net {
            net.knows(index, self.nodes[index].pid());
        }
    }

    /// Kills a node.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill();
    }

    /// Stops a node in an orderly way and returns how it ended.
    ///
    /// # Panics
    ///
    /// If it still runs after [`SOON`].
    pub async fn stop(&mut self, index: usize) -> End {
        self.signal(index, Signal::TERM);
        self.ended(index).await
    }

    /// Waits for a node to end by itself.
    ///
    /// # Panics
    ///
    /// If it still runs after [`SOON`].
    pub async fn ended(&mut self, index: usize) -> End {
        let what = format!("node {index} ends");
        let node = &mut self.nodes[index];
        until(&what, SOON, async || node.end()).await
    }

    /// Waits for one of some nodes to end by itself. Returns which one did first, and how.
    ///
    /// # Panics
    ///
    /// If all of them still run after [`SOON`].
    pub async fn first_to_end(&mut self, indexes: &[usize]) -> (usize, End) {
        let what = format!("one of the nodes {indexes:?} ends");
        let nodes = &mut self.nodes;
        until(&what, SOON, async || {
            let mut ends = indexes.iter();
            ends.find_map(|&index| Some((index, nodes[index].end()?)))
        })
        .await
    }

    /// Sends a signal to a node.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn signal(&self, index: usize, signal: Signal) {
        self.nodes[index].signal(signal);
    }

    /// Lets a node that runs have `most` open files from now on.
    ///
    /// # Panics
    ///
    /// If it does not run, or may not have as many.
    pub fn allow_files(&self, index: usize, most: usize) {
        self.nodes[index].allow_files(most);
    }

    /// Waits for a node to serve clients.
    ///
    /// # Panics
    ///
    /// If it does not within [`SOON`].
    pub async fn is_ready(&self, index: usize) {
        let node = &self.nodes[index];
        let what = format!("node {index} is ready");
        until(&what, SOON, async || node.is_ready().await.then_some(())).await;
    }

    /// Waits for every node that runs to serve clients, under one leader.
    ///
    /// # Panics
    ///
    /// If they do not within [`SOON`].
    pub async fn serves(&self) {
        for node in self.nodes.iter().filter(|node| node.runs()) {
            self.is_ready(node.index).await;
        }
        self.leader().await;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
        if std::thread::panicking() {
            for node in &self.nodes {
                node.show_log();
            }
        }
    }
}
