//! A network between processes that can be cut: every connection goes through
//! a proxy in this process, which knows who speaks to whom.
//!
//! A cut holds bytes back, one way or both, and loses none: to those at the ends
//! it looks like a network that lost every packet and then, when it is healed, has
//! them all arrive late. Nobody is told that a connection is over, and none begins
//! while either way is cut, as no hands are shaken then.

mod who;

pub use who::Who;

use super::node::Node;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// From whom, to whom.
type Way = (Who, Who);

type Cuts = BTreeSet<Way>;

type Pids = Arc<Mutex<Vec<Option<u32>>>>;

/// A network that can be cut.
#[derive(Debug)]
pub struct Net {
    cuts: watch::Sender<Cuts>,
    pids: Pids,
    ears: Vec<JoinHandle<()>>,
}

impl Net {
    /// Puts itself before every port of these nodes: from now on they are reached
    /// through it alone.
    pub(super) async fn between(nodes: &mut [Node]) -> Self {
        let (cuts, _) = watch::channel(Cuts::new());
        let pids = Arc::new(Mutex::new(vec![None; nodes.len()]));
        let mut ears = Vec::new();
        for node in nodes {
            let mut before = async |real: &str| {
                let listener = TcpListener::bind("127.0.0.1:0").await;
                let listener = listener.expect("there is a free port");
                let address = listener.local_addr().expect("it is bound").to_string();
                let door = Door {
                    listener,
                    to: Who::Node(node.index),
                    real: real.to_owned(),
                    cuts: cuts.clone(),
                    pids: Arc::clone(&pids),
                };
                ears.push(tokio::spawn(door.listen()));
                address
            };
            let (client, peer) = (before(&node.listen).await, before(&node.peer_listen).await);
            (node.client, node.peer) = (client, peer);
        }
        Self { cuts, pids, ears }
    }

    pub(super) fn knows(&self, index: usize, pid: Option<u32>) {
        let mut pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner);
        pids[index] = pid;
    }

    /// Nothing that `from` says reaches `to` any more.
    pub fn cut(&self, from: Who, to: Who) {
        self.cuts.send_modify(|cuts| {
            cuts.insert((from, to));
        });
    }

    /// Nothing reaches `one` from `others`, nor they hear from it.
    pub fn isolate(&self, one: Who, others: &[Who]) {
        for other in others {
            self.cut(one, *other);
            self.cut(*other, one);
        }
    }

    /// Everything that was held back arrives, and nothing is held back any more.
    pub fn heal(&self) {
        self.cuts.send_modify(Cuts::clear);
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for ear in &self.ears {
            ear.abort();
        }
    }
}

/// A port before a port.
struct Door {
    listener: TcpListener,
    to: Who,
    real: String,
    cuts: watch::Sender<Cuts>,
    pids: Pids,
}

impl Door {
    async fn listen(self) {
        loop {
            let Ok((stream, from)) = self.listener.accept().await else {
                continue;
            };
            let pids = self.pids.lock();
            let pids = pids.unwrap_or_else(PoisonError::into_inner).clone();
            let from = Who::behind(from.port(), &pids);
            let (mut cuts, to, real) = (self.cuts.subscribe(), self.to, self.real.clone());
            tokio::spawn(async move {
                // Shaking hands takes both ways.
                let is_open = |cuts: &Cuts| {
                    let either = [(from, to), (to, from)];
                    either.iter().all(|way| !cuts.contains(way))
                };
                let _ = cuts.wait_for(is_open).await;
                // Whoever is not there refuses: the connection ends at once.
                let Ok(behind) = TcpStream::connect(&real).await else {
                    return;
                };
                let _ = (stream.set_nodelay(true), behind.set_nodelay(true));
                let (stream_in, stream_out) = stream.into_split();
                let (behind_in, behind_out) = behind.into_split();
                let there = carry(stream_in, behind_out, (from, to), cuts.clone());
                let back = carry(behind_in, stream_out, (to, from), cuts);
                tokio::join!(there, back);
            });
        }
    }
}

/// Carries what comes until it ends, holding it back while the way is cut.
async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    way: Way,
    mut cuts: watch::Receiver<Cuts>,
) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut bytes).await;
        // A net that is gone holds nothing back.
        let _ = cuts.wait_for(|cuts| !cuts.contains(&way)).await;
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
