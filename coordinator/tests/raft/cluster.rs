//! Nodes in this process, on real sockets, whose state is a list of texts.

use aliquot_coordinator::raft::{
    Committed, ConnectError, Connector, Encode, Machine, MachineError, Options, Outcome,
    ProposeError, Raft, Skips, Status, Timing, endpoint, server,
};
use aliquot_coordinator::store::MemoryDisk;
use aliquot_core::state::Effect;
use aliquot_core::unit::RuleId;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use hyper_util::rt::TokioIo;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::transport::server::TcpIncoming;
use tower::service_fn;
use tower::util::MapRequestLayer;

/// Maximum time for any condition: far more than it needs, for busy machines.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);

pub(crate) const TIMING: Timing = Timing {
    heartbeat: Duration::from_millis(150),
    election_min: Duration::from_millis(500),
    election_max: Duration::from_millis(1_000),
};

/// Waits for a future, but not forever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(LIMIT, future).await;
    done.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"))
}

/// A state machine that records the texts it applies. Tests read them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book {
    pub(crate) texts: watch::Sender<Vec<String>>,
    pub(crate) restored: watch::Sender<u64>,
}

impl Machine for Book {
    fn apply(
        &mut self,
        entries: Vec<Committed>,
    ) -> BoxFuture<'_, Result<Vec<Outcome>, MachineError>> {
        let mut outcomes = Vec::new();
        for entry in entries {
            if let Some(command) = entry.command {
                let text = String::from_utf8(command.to_vec()).unwrap();
                self.texts.send_modify(|texts| texts.push(text));
            }
            let effect = Effect::RuleChanged(RuleId::new(entry.index));
            outcomes.push(Arc::new(vec![effect]));
        }
        Box::pin(ready(Ok(outcomes)))
    }

    fn snapshot(&mut self) -> BoxFuture<'_, Result<Encode, MachineError>> {
        let bytes = Bytes::from(self.texts.borrow().join("\n"));
        let encode: Encode = Box::new(move || bytes);
        Box::pin(ready(Ok(encode)))
    }

    fn restore(&mut self, index: u64, bytes: Bytes) -> BoxFuture<'_, Result<(), MachineError>> {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let texts = text.lines().map(ToOwned::to_owned).collect();
        self.texts.send_replace(texts);
        self.restored.send_replace(index);
        Box::pin(ready(Ok(())))
    }
}

/// Returns the index at which a command was applied.
pub(crate) fn index(outcome: &Outcome) -> u64 {
    match outcome.as_slice() {
        [Effect::RuleChanged(index)] => index.get(),
        other => panic!("{other:?}"),
    }
}

fn encode(outcome: &Outcome) -> Bytes {
    Bytes::from(index(outcome).to_string())
}

fn forget(node: u64) -> Option<Bytes> {
    Some(Bytes::from(format!("forget {node}")))
}

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(watch::Sender<BTreeMap<String, u64>>);

impl Counts {
    fn count(&self, name: &str) {
        self.0
            .send_modify(|counts| *counts.entry(name.to_owned()).or_default() += 1);
    }

    pub(crate) fn of(&self, name: &str) -> u64 {
        self.0.borrow().get(name).copied().unwrap_or(0)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<BTreeMap<String, u64>> {
        self.0.subscribe()
    }
}

/// TCP connector that counts the attempts for each address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counting {
    pub(crate) attempts: Counts,
}

impl Connector for Counting {
    fn channel(&self, address: &str) -> Result<Channel, ConnectError> {
        let (attempts, address) = (self.attempts.clone(), address.to_owned());
        let endpoint = endpoint("http", &address)?;
        let connect = service_fn(move |_| {
            attempts.count(&address);
            let connected = TcpStream::connect(address.clone());
            async move {
                let stream = connected.await?;
                stream.set_nodelay(true)?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        Ok(endpoint.connect_with_connector_lazy(connect))
    }
}

/// Address and disk of a node that may or may not be running.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) peers: Vec<String>,
    pub(crate) cluster: String,
    pub(crate) disk: Arc<MemoryDisk>,
    pub(crate) snapshot_every: u64,
    pub(crate) listener: Option<TcpListener>,
}

/// A running node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) raft: Raft,
    pub(crate) book: Book,
    pub(crate) calls: Counts,
    pub(crate) connector: Counting,
    pub(crate) formed: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

/// Creates sites that know each other, with ids from 1 on in the order of their addresses.
pub(crate) async fn sites(count: u64) -> Vec<Site> {
    let mut listeners = BTreeMap::new();
    for _ in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listeners.insert(listener.local_addr().unwrap().to_string(), listener);
    }
    let peers: Vec<String> = listeners.keys().cloned().collect();
    let sites = (1..).zip(listeners).map(|(id, (address, listener))| Site {
        id,
        address,
        peers: peers.clone(),
        cluster: "test".to_owned(),
        disk: Arc::new(MemoryDisk::synced()),
        snapshot_every: 100_000,
        listener: Some(listener),
    });
    sites.collect()
}

impl Site {
    pub(crate) fn options(&self) -> Options {
        Options {
            node: self.id,
            cluster: self.cluster.clone(),
            address: self.address.clone(),
            peers: self.peers.clone(),
            timing: TIMING,
            snapshot_every: self.snapshot_every,
            keep_entries: 0,
            chunk_bytes: 1_024,
            seed: 1,
            encode_outcome: encode,
            readable: |_| Ok(()),
            log_version: aliquot_wire::log::APPLY_VERSION,
            skips: Skips::default(),
            forget_node: forget,
        }
    }

    async fn listen(&mut self) -> TcpListener {
        if let Some(listener) = self.listener.take() {
            return listener;
        }
        let bound = async {
            loop {
                match TcpListener::bind(&self.address).await {
                    Ok(listener) => return listener,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        soon("the address to be free", bound).await
    }

    /// Starts the node and lets it form or join the cluster.
    pub(crate) async fn start(&mut self) -> Node {
        let (book, calls, connector) = (Book::default(), Counts::default(), Counting::default());
        let listener = self.listen().await;
        let started = Raft::start(
            self.options(),
            self.disk.clone(),
            Box::new(book.clone()),
            Arc::new(connector.clone()),
        );
        let raft = started.await.unwrap();
        let counts = calls.clone();
        let counted = MapRequestLayer::new(move |request: http::Request<_>| {
            counts.count(request.uri().path());
            request
        });
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server()
            .layer(counted)
            .add_routes(raft.service())
            .serve_with_incoming_shutdown(incoming, async {
                let _ = stopped.await;
            });
        let served = tokio::spawn(async move { serving.await.unwrap() });
        let bootstrap = raft.form();
        let formed = tokio::spawn(async move {
            let _ = bootstrap.await;
        });
        Node {
            raft,
            book,
            calls,
            connector,
            formed,
            stop,
            served,
        }
    }

    /// Replaces the node by one with another id and an empty disk at the same address.
    pub(crate) fn wipe(&mut self, id: u64) {
        self.id = id;
        self.disk = Arc::new(MemoryDisk::synced());
    }
}

impl Node {
    /// Stops the node as a crash would: writes that were not durable are lost.
    pub(crate) async fn stop(self, site: &Site) {
        self.formed.abort();
        self.raft.shutdown().await;
        let _ = self.stop.send(());
        soon("the server to end", self.served).await.unwrap();
        site.disk.crash();
    }

    pub(crate) fn status(&self) -> Status {
        self.raft.status().borrow().clone()
    }

    /// Waits until the node's status meets a condition.
    pub(crate) async fn when(&self, what: &str, such: impl FnMut(&Status) -> bool) -> Status {
        let mut status = self.raft.status();
        let met = soon(what, status.wait_for(such)).await;
        met.unwrap().clone()
    }

    pub(crate) async fn propose(&self, text: &str) -> Outcome {
        let command = Bytes::from(text.to_owned());
        let committed = async {
            loop {
                match self.raft.propose(command.clone()).await {
                    // It leads, but no quorum has acknowledged it yet.
                    Err(ProposeError::NotLeader { leader: None }) => {}
                    proposed => return proposed.unwrap(),
                }
                let term = self.status().term;
                let _ = self.raft.barrier(term).await;
            }
        };
        soon("a commit", committed).await
    }

    /// Waits until the node has applied exactly these texts.
    pub(crate) async fn reads(&self, texts: &[&str]) {
        let mut seen = self.book.texts.subscribe();
        let read = seen.wait_for(|seen| seen.len() >= texts.len());
        assert_eq!(*soon("the texts", read).await.unwrap(), texts);
    }
}

/// Starts all nodes, and waits until they form one cluster.
pub(crate) async fn form(sites: &mut [Site]) -> Vec<Node> {
    let mut nodes = Vec::new();
    for site in sites.iter_mut() {
        nodes.push(site.start().await);
    }
    let ids: BTreeSet<u64> = sites.iter().map(|site| site.id).collect();
    for node in &nodes {
        let whole = |status: &Status| {
            status.voters.keys().copied().eq(ids.iter().copied()) && status.leader.is_some()
        };
        node.when("a cluster of all", whole).await;
    }
    nodes
}

/// Returns the index of the leader, once all other nodes follow it.
pub(crate) async fn leader(nodes: &[Node]) -> usize {
    let agreed = async {
        loop {
            let statuses: Vec<Status> = nodes.iter().map(Node::status).collect();
            let leads = statuses.iter().position(|status| status.leads);
            if let Some(place) = leads {
                let leader = &statuses[place];
                let follows = |status: &Status| {
                    (status.leader, status.term) == (Some(leader.node), leader.term)
                };
                if leader.applied > 0 && statuses.iter().all(follows) {
                    return place;
                }
            }
            changed(nodes).await;
        }
    };
    soon("a leader", agreed).await
}

/// Waits until the status of any node changes.
async fn changed(nodes: &[Node]) {
    let waits = nodes.iter().map(|node| {
        let mut status = node.raft.status();
        Box::pin(async move {
            status.mark_unchanged();
            let _ = status.changed().await;
        })
    });
    let any = futures_util::future::select_all(waits);
    // A change between the check and this wait would be missed without the timeout.
    let _ = tokio::time::timeout(Duration::from_millis(50), any).await;
}
