//! A network between processes that can be cut. Every connection goes through a
//! proxy in this process, which knows the processes at both ends.
//!
//! A cut holds bytes back in one direction or both, and loses none. To both ends it
//! looks like a network that loses every packet; when it is healed, all packets arrive
//! late. No end sees its connection close. No new connection opens while either
//! direction is cut, because a handshake needs both.
//!
//! A delayed direction delivers everything later, as a long line does.

mod who;

pub use who::Who;

use super::node::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A direction: from a process, to a process.
type Way = (Who, Who);

/// Faults of the network between these processes.
#[derive(Debug, Default)]
struct Faults {
    cuts: BTreeSet<Way>,
    delays: BTreeMap<Way, Duration>,
}

type Pids = Arc<Mutex<Vec<Option<u32>>>>;

/// A network that can be cut.
#[derive(Debug)]
pub struct Net {
    faults: watch::Sender<Faults>,
    pids: Pids,
    ears: Vec<JoinHandle<()>>,
}

impl Net {
    /// Puts a proxy before every port of these nodes. From now on they are reached
    /// only through it.
    pub(super) async fn between(nodes: &mut [Node]) -> Self {
        let (faults, _) = watch::channel(Faults::default());
        let pids = Arc::new(Mutex::new(vec![None; nodes.len()]));
        let mut ears = Vec::new();
        for node in nodes {
            let mut before = async |real: &str| {
                let listener = TcpListener::bind("127.0.0.1:0").await;
                let listener = listener.expect("there is a free port");
                let address = listener.local_addr().expect("it is bound").to_string();
                let port = PortProxy {
                    listener,
                    to: Who::Node(node.index),
                    real: real.to_owned(),
                    faults: faults.clone(),
                    pids: Arc::clone(&pids),
                };
                ears.push(tokio::spawn(port.listen()));
                address
            };
            let (client, peer) = (before(&node.listen).await, before(&node.peer_listen).await);
            (node.client, node.peer) = (client, peer);
        }
        Self { faults, pids, ears }
    }

    pub(super) fn knows(&self, index: usize, pid: Option<u32>) {
        let mut pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner);
        pids[index] = pid;
    }

    /// Stops the traffic from `from` to `to`.
    pub fn cut(&self, from: Who, to: Who) {
        self.faults.send_modify(|faults| {
            faults.cuts.insert((from, to));
        });
    }

    /// Delivers what `from` sends to `to` later by `by`.
    pub fn delay(&self, from: Who, to: Who, by: Duration) {
        self.faults.send_modify(|faults| {
            faults.delays.insert((from, to), by);
        });
    }

    /// Stops the traffic between `one` and `others` in both directions.
    pub fn isolate(&self, one: Who, others: &[Who]) {
        for other in others {
            self.cut(one, *other);
            self.cut(*other, one);
        }
    }

    /// Delivers everything that was held back, and ends all cuts and delays.
    pub fn heal(&self) {
        self.faults.send_replace(Faults::default());
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ear in &self.ears {
            ear.abort();
        }
    }
}

/// A proxy before one port.
struct PortProxy {
    listener: TcpListener,
    to: Who,
    real: String,
    faults: watch::Sender<Faults>,
    pids: Pids,
}

impl PortProxy {
    async fn listen(self) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else {
                continue;
            };
            let Ok(port) = stream.local_addr() else {
                continue;
            };
            let pids = self.pids.lock();
            let pids = pids.unwrap_or_else(PoisonError::into_inner).clone();
            let (mut faults, to, real) = (self.faults.subscribe(), self.to, self.real.clone());
            tokio::spawn(async move {
                let from = Who::behind(from, port, &pids).await;
                // A handshake needs both directions.
                let is_open = |faults: &Faults| {
                    let either = [(from, to), (to, from)];
                    either.iter().all(|way| !faults.cuts.contains(way))
                };
                let _ = faults.wait_for(is_open).await;
                // If the process does not listen, the connection ends at once.
                let Ok(behind) = TcpStream::connect(&real).await else {
                    return;
                };
                let _ = (stream.set_nodelay(true), behind.set_nodelay(true));
                let (stream_in, stream_out) = stream.into_split();
                let (behind_in, behind_out) = behind.into_split();
                let there = carry(stream_in, behind_out, (from, to), faults.clone());
                let back = carry(behind_in, stream_out, (to, from), faults);
                tokio::join!(there, back);
            });
        }
    }
}

/// Copies bytes until the connection ends, later by the delay, and holds them back during a cut.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    mut faults: watch::Receiver<Faults>,
) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut bytes).await;
        let delay = faults.borrow().delays.get(&way).copied();
        if let Some(delay) = delay {
            // What arrives meanwhile waits in the socket and is delivered by the next read.
            tokio::time::sleep(delay).await;
        }
        // A dropped net holds nothing back.
        let _ = faults.wait_for(|faults| !faults.cuts.contains(&way)).await;
        match read {
            Ok(count) if count > 0 => {
                if to.write_all(&bytes[..count]).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}
