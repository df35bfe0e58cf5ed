//! The network between hosts: what becomes of what is sent, and of connections.
//!
//! Sockets are turmoil's, and never lose anything. What goes wrong happens above them,
//! where a connection is read ([`Pipe`](super::pipe::Pipe)): what a cut link carries
//! waits, as TCP would send it again; what a dead machine or a black hole carries is
//! never read by anybody.

use super::host::{Host, now};
use crate::course::Traffic;
use crate::world::net::Net;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use tokio::sync::Notify;

/// What one turmoil message takes, in nanoseconds: links' delays count from there.
pub(super) const SOCKET: u64 = super::MS;

/// A connection between a host that opened it and one that listens.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) ends: [usize; 2],
    /// Nothing that is on it is ever read.
    severed: AtomicBool,
    /// Both ends are told that it is over.
    reset: AtomicBool,
    wakers: Mutex<[Option<Waker>; 2]>,
}

/// A piece that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery<'a> {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: &'a [u8],
    pub(super) is_message: bool,
}

/// What happened to what was sent, for marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) cut: u64,
    pub(super) twice: u64,
    pub(super) late: u64,
    pub(super) lost: u64,
    pub(super) reset: u64,
}

/// What is written down of a delivery, if somebody wants it: true time, from, to,
/// how many bytes, and a digest of them.
pub(super) type Noted = (u64, usize, usize, usize, u64);

#[derive(Debug)]
struct Inner {
    net: Net,
    connections: BTreeMap<(SocketAddr, SocketAddr), Arc<Connection>>,
    traffic: Traffic,
    seen: Seen,
    noted: Option<Vec<Noted>>,
}

/// The network, and the hosts on it: nodes first, then clients.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) hosts: Vec<Arc<Host>>,
    up: Vec<AtomicBool>,
    inner: Mutex<Inner>,
    /// Links were mended: whoever waits to connect tries again.
    pub(super) mended: Notify,
    pub(super) pieces: AtomicU64,
}

/// What becomes of a piece: when its copies arrive.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Arrives(u64),
    Lost(u64),
    Twice(u64, u64),
}

impl Fabric {
    pub(super) fn new(
        seed: u64,
        nodes: usize,
        hosts: Vec<Arc<Host>>,
        net: Net,
        notes: bool,
    ) -> Self {
        let inner = Inner {
            net,
            connections: BTreeMap::new(),
            traffic: Traffic::default(),
            seen: Seen::default(),
            noted: notes.then(Vec::new),
        };
        Self {
            seed,
            nodes,
            up: hosts.iter().map(|_| AtomicBool::new(false)).collect(),
            hosts,
            inner: Mutex::new(inner),
            mended: Notify::new(),
            pieces: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn with_net<T>(&self, change: impl FnOnce(&mut Net) -> T) -> T {
        change(&mut self.lock().net)
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.lock().traffic
    }

    pub(super) fn seen(&self) -> Seen {
        self.lock().seen
    }

    pub(super) fn take_noted(&self) -> Vec<Noted> {
        self.lock()
            .noted
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    pub(super) fn is_up(&self, host: usize) -> bool {
        self.up[host].load(Ordering::Relaxed)
    }

    pub(super) fn set_up(&self, host: usize, up: bool) {
        self.up[host].store(up, Ordering::Relaxed);
    }

    /// Whether both ways are open.
    pub(super) fn joined(&self, a: usize, b: usize) -> bool {
        let inner = self.lock();
        inner.net.reaches(a, b) && inner.net.reaches(b, a)
    }

    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        self.lock().net.reaches(from, to)
    }

    /// A host has opened a connection; its ends' addresses name it.
    pub(super) fn connected(
        &self,
        ends: [usize; 2],
        addresses: (SocketAddr, SocketAddr),
    ) -> Arc<Connection> {
        let connection = Arc::new(Connection {
            ends,
            ..Connection::default()
        });
        self.lock()
            .connections
            .insert(addresses, Arc::clone(&connection));
        connection
    }

    /// The connection that its opener has told of.
    pub(super) fn find(&self, addresses: (SocketAddr, SocketAddr)) -> Option<Arc<Connection>> {
        self.lock().connections.get(&addresses).cloned()
    }

    pub(super) fn forget(&self, gone: &Arc<Connection>) {
        // One end's half is enough: the other end has its own.
        self.lock()
            .connections
            .retain(|_, connection| !Arc::ptr_eq(connection, gone));
    }

    /// Decides on a piece that arrived just now: when it is read, and how often.
    pub(super) fn fate(&self, from: usize, to: usize) -> Fate {
        /// After this TCP sends again what was lost.
        const AGAIN: u64 = 200 * super::MS;
        let mut inner = self.lock();
        let fate = inner.net.send(now(), from, to);
        let slow = inner.net.slowness(to);
        let due = |delay: u64| now() + delay.saturating_sub(SOCKET) + slow;
        inner.seen.late += u64::from(fate.late);
        match fate.copies {
            // It waits where the link is cut.
            [None, _] if fate.cut => {
                inner.seen.cut += 1;
                Fate::Arrives(due(SOCKET))
            }
            [None, _] => {
                inner.seen.lost += 1;
                Fate::Lost(due(AGAIN))
            }
            [Some(delay), None] => Fate::Arrives(due(delay)),
            [Some(first), Some(second)] => {
                inner.seen.twice += 1;
                Fate::Twice(due(first), due(second.max(first)))
            }
        }
    }

    /// A piece is read.
    pub(super) fn delivered(&self, delivery: Delivery<'_>) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        let Delivery {
            from,
            to,
            bytes,
            is_message,
        } = delivery;
        let mut inner = self.lock();
        let of_client = from >= self.nodes || to >= self.nodes;
        let traffic = &mut inner.traffic;
        traffic.bytes += bytes.len() as u64;
        traffic.messages += u64::from(is_message);
        traffic.of_clients += u64::from(is_message && from >= self.nodes);
        if of_client {
            traffic.client_bytes += bytes.len() as u64;
        }
        if let Some(noted) = &mut inner.noted {
            noted.push((now(), from, to, bytes.len(), digest(bytes)));
        }
    }

    /// Does something to every connection with such ends.
    pub(super) fn each(
        &self,
        with: impl Fn([usize; 2]) -> bool,
        act: impl Fn(&Connection),
    ) -> usize {
        let all: Vec<Arc<Connection>> = {
            let inner = self.lock();
            let all = inner.connections.values();
            all.filter(|connection| with(connection.ends))
                .cloned()
                .collect()
        };
        all.iter().for_each(|connection| act(connection));
        all.len()
    }

    /// Whoever waits looks again.
    pub(super) fn wake_all(&self) {
        self.each(|_| true, Connection::wake);
        self.mended.notify_waiters();
    }

    pub(super) fn count_resets(&self, count: usize) {
        self.lock().seen.reset += count as u64;
    }
}

impl Connection {
    pub(super) fn is_severed(&self) -> bool {
        self.severed.load(Ordering::Relaxed)
    }

    pub(super) fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }

    pub(super) fn sever(&self) {
        self.severed.store(true, Ordering::Relaxed);
    }

    pub(super) fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
        self.wake();
    }

    pub(super) fn wait(&self, end: usize, waker: &Waker) {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers[end] = Some(waker.clone());
    }

    fn wake(&self) {
        let taken = {
            let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *wakers)
        };
        taken.into_iter().flatten().for_each(Waker::wake);
    }
}

/// FNV-1a, word by word of eight bytes.
fn digest(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^= hash >> 29;
    }
    hash ^ bytes.len() as u64
}
