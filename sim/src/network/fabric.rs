//! The network between hosts ("fabric"): decides the fate of data and of connections.
//!
//! Sockets are turmoil's and never lose anything. Faults are injected above them, where a connection is read
//! (see [`Pipe`](super::pipe::Pipe)). Data on a cut link waits, as if TCP retransmitted it. Data to or from a
//! crashed machine, or into a black hole, is never read.

use super::host::{Host, now};
use crate::clock::MS;
use crate::net::{Message, Net, Packet};
use crate::timeline::Traffic;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use tokio::sync::Notify;

/// The latency of a turmoil message in nanoseconds. It is part of each link's delay.
pub(super) const SOCKET: u64 = MS;

/// A connection between the host that opened it and the host that accepted it.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) ends: [usize; 2],
    /// If set, nothing on the connection is ever read.
    severed: AtomicBool,
    /// If set, both ends fail with `ConnectionReset`.
    reset: AtomicBool,
    wakers: Mutex<[Option<Waker>; 2]>,
}

/// A piece of data that was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery<'a> {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: &'a [u8],
    pub(super) is_message: bool,
}

/// Counts of what happened to data on links, for marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkCounts {
    pub(super) cut: u64,
    pub(super) twice: u64,
    pub(super) late: u64,
    pub(super) lost: u64,
    pub(super) reset: u64,
}

/// A record of a piece that was read, kept if a tracer wants it: true time, sender, receiver, length, and a
/// digest of the bytes.
pub(super) type Noted = (u64, usize, usize, usize, u64);

#[derive(Debug)]
struct Inner {
    net: Net,
    connections: BTreeMap<(SocketAddr, SocketAddr), Arc<Connection>>,
    traffic: Traffic,
    counts: LinkCounts,
    noted: Option<Vec<Noted>>,
}

/// The network and its hosts: nodes first, then clients.
#[derive(Debug)]
pub(super) struct Fabric {
    pub(super) seed: u64,
    pub(super) nodes: usize,
    pub(super) hosts: Vec<Arc<Host>>,
    up: Vec<AtomicBool>,
    inner: Mutex<Inner>,
    /// Notified when a link has recovered: connection attempts that wait are repeated.
    pub(super) recovered: Notify,
    pub(super) pieces: AtomicU64,
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
            counts: LinkCounts::default(),
            noted: notes.then(Vec::new),
        };
        Self {
            seed,
            nodes,
            up: hosts.iter().map(|_| AtomicBool::new(false)).collect(),
            hosts,
            inner: Mutex::new(inner),
            recovered: Notify::new(),
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

    pub(super) fn counts(&self) -> LinkCounts {
        self.lock().counts
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

    /// Returns true if the link is open both ways.
    pub(super) fn joined(&self, a: usize, b: usize) -> bool {
        let inner = self.lock();
        inner.net.reaches(a, b) && inner.net.reaches(b, a)
    }

    pub(super) fn reaches(&self, from: usize, to: usize) -> bool {
        self.lock().net.reaches(from, to)
    }

    /// Registers a connection that a host has opened. The addresses of its two ends identify it.
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

    /// Returns the connection that its opener has registered under these addresses.
    pub(super) fn find(&self, addresses: (SocketAddr, SocketAddr)) -> Option<Arc<Connection>> {
        self.lock().connections.get(&addresses).cloned()
    }

    pub(super) fn forget(&self, gone: &Arc<Connection>) {
        // Only the entry in the map goes; the other end keeps its own `Arc`.
        self.lock()
            .connections
            .retain(|_, connection| !Arc::ptr_eq(connection, gone));
    }

    /// Decides when a packet that was sent just now arrives. TCP sends a lost one again.
    pub(super) fn packet(&self, from: usize, to: usize) -> u64 {
        /// The time after which TCP probes for lost data.
        const PROBE: u64 = 10 * MS;
        /// The time after which it sends the data again if the probe is lost; each further time, after twice as long.
        const AGAIN: u64 = 200 * MS;
        /// Times that data is sent again before it gets through whatever the loss.
        const TIMES: u32 = 6;
        let mut inner = self.lock();
        let (mut packet, mut waited) = (inner.net.packet(from, to), 0);
        for time in 0..TIMES {
            if !matches!(packet, Packet::Lost) {
                break;
            }
            waited += match time {
                0 => PROBE,
                _ => AGAIN << (time - 1),
            };
            packet = inner.net.packet(from, to);
        }
        let delay = match packet {
            Packet::Arrives { delay, late } => {
                inner.counts.late += u64::from(late || waited > 0);
                delay.saturating_sub(SOCKET)
            }
            Packet::Lost => 0,
            // On a cut link data waits until the link recovers.
            Packet::Cut => {
                inner.counts.cut += 1;
                0
            }
        };
        now() + delay + inner.net.slowness(to) + waited
    }

    /// Decides how often a message is read.
    pub(super) fn message(&self, from: usize, to: usize) -> Message {
        let mut inner = self.lock();
        let message = inner.net.message(from, to);
        match message {
            Message::Once => {}
            Message::Twice(_) => inner.counts.twice += 1,
            Message::Gone => inner.counts.lost += 1,
        }
        message
    }

    /// Counts a piece that was read.
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

    /// Applies `act` to each connection whose ends satisfy `with`. Returns their number.
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

    /// Wakes all tasks that wait for a connection or for a link.
    pub(super) fn wake_all(&self) {
        self.each(|_| true, Connection::wake);
        self.recovered.notify_waiters();
    }

    pub(super) fn count_resets(&self, count: usize) {
        self.lock().counts.reset += count as u64;
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

/// FNV-1a over words of eight bytes.
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
