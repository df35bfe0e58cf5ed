//! The open connections of a port: their maximum, the ones without a request, and counts of those that
//! were refused.
//!
//! A port has a maximum of connections, and so has each remote address. If a connection arrives while the port
//! is full, it displaces the connection that has waited longest without a request in progress. Sessions
//! and links between nodes always have one, so idle connections cannot keep them out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A port of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// For clients and operators.
    Clients,
    /// For other nodes.
    Peers,
    /// For metrics and probes.
    Metrics,
    /// For services that embed no client: the ports of all faces.
    Faces,
    /// For Envoys that ask `aliquot rls`.
    Rls,
    /// For health, debugging and metrics of `aliquot rls`.
    RlsHttp,
}

impl Port {
    /// Returns the label in the metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Peers => "peers",
            Self::Metrics => "metrics",
            Self::Faces => "faces",
            Self::Rls => "rls",
            Self::RlsHttp => "rls_http",
        }
    }

    /// Returns the setting of the port's address.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Clients => "listen",
            Self::Peers => "peer_listen",
            Self::Metrics => "metrics_listen",
            Self::Faces => "faces",
            Self::Rls => "GRPC_PORT",
            Self::RlsHttp => "PORT",
        }
    }
}

/// Reason for which a port refused a connection, or ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The connection could not be accepted, for example without free file descriptors. It stays in the queue, and
    /// each attempt counts.
    NotAccepted,
    /// The port has its maximum of connections, and each of them has a request in progress.
    PortFull,
    /// The remote address has its maximum of connections.
    AddressFull,
    /// The port was full, and this connection had waited longest without a request.
    Displaced,
    /// No request came in time, TLS handshake included.
    NoRequest,
    /// The caller sent plaintext to a port with TLS.
    Plaintext,
    /// The caller spoke TLS to a port without.
    TlsToPlaintext,
    /// The caller has no certificate, and needs one.
    NoCertificate,
    /// The caller's certificate is not signed by the authority of this node.
    UnknownAuthority,
    /// The caller's certificate has expired, or is not valid yet.
    Expired,
    /// The caller's certificate cannot be used for another reason.
    BadCertificate,
    /// The caller does not accept the certificate of this node.
    NodeRefused,
    /// Any other failure of the TLS handshake.
    OtherTls,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 13] = [
        Self::NotAccepted,
        Self::PortFull,
        Self::AddressFull,
        Self::Displaced,
        Self::NoRequest,
        Self::Plaintext,
        Self::TlsToPlaintext,
        Self::NoCertificate,
        Self::UnknownAuthority,
        Self::Expired,
        Self::BadCertificate,
        Self::NodeRefused,
        Self::OtherTls,
    ];

    /// Returns the label in the metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotAccepted => "not_accepted",
            Self::PortFull => "port_full",
            Self::AddressFull => "address_full",
            Self::Displaced => "displaced",
            Self::NoRequest => "no_request",
            Self::Plaintext => "plaintext",
            Self::TlsToPlaintext => "tls_to_plaintext",
            Self::NoCertificate => "no_certificate",
            Self::UnknownAuthority => "unknown_authority",
            Self::Expired => "expired",
            Self::BadCertificate => "bad_certificate",
            Self::NodeRefused => "node_refused",
            Self::OtherTls => "other",
        }
    }

    /// Returns true if TLS, or the lack of it, is the reason.
    #[must_use]
    pub const fn is_tls(self) -> bool {
        !matches!(
            self,
            Self::NotAccepted
                | Self::PortFull
                | Self::AddressFull
                | Self::Displaced
                | Self::NoRequest
        )
    }

    /// Returns a sentence for the log.
    const fn text(self) -> &'static str {
        match self {
            Self::NotAccepted => "connections cannot be accepted",
            Self::PortFull => "connections were refused: the port has its maximum, all in use",
            Self::AddressFull => {
                "connections were refused: the remote address has its maximum (connections.per_address)"
            }
            Self::Displaced => {
                "connections without a request were closed to make room: the port has its maximum"
            }
            Self::NoRequest => "connections were closed: no request came in time",
            Self::Plaintext => "callers sent plaintext to a port with TLS",
            Self::TlsToPlaintext => "callers spoke TLS to a port without",
            Self::NoCertificate => "callers without a certificate were refused",
            Self::UnknownAuthority => {
                "callers were refused: their certificate is not signed by tls.ca"
            }
            Self::Expired => {
                "callers were refused: their certificate has expired, or is not valid yet"
            }
            Self::BadCertificate => "callers were refused: their certificate cannot be used",
            Self::NodeRefused => "callers do not accept the certificate of this node (tls.cert)",
            Self::OtherTls => "TLS handshakes failed",
        }
    }
}

/// Maximum numbers of connections of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortLimits {
    /// Maximum number of connections.
    pub most: usize,
    /// Maximum number of connections of one remote address. Loopback has none.
    pub per_address: usize,
}

/// The open connections of a port. Clones share them.
#[derive(Clone, Debug)]
pub struct Connections(Arc<Table>);

#[derive(Debug)]
struct Table {
    port: Port,
    limits: PortLimits,
    /// Numbers connections, and the waits of connections in the order in which they began.
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<u64, Arc<Entry>>,
    by_address: BTreeMap<IpAddr, usize>,
    /// Connections by the number of a wait. One that was used since then waits later, or not at all: that is looked at when
    /// its turn comes, so that a request changes nothing here.
    waiting: BTreeMap<u64, u64>,
    tallies: [Tally; Cause::ALL.len()],
}

/// A connection, shared by the table, its task and its requests. The table lets go of it when the task ends.
#[derive(Debug)]
struct Entry {
    table: Arc<Table>,
    id: u64,
    remote: SocketAddr,
    /// Address under which it is counted, if it is.
    address: Option<IpAddr>,
    usage: Mutex<Usage>,
    displaced: Notify,
}

/// Use of a connection. It is locked after the state of the table, if both are.
#[derive(Debug)]
struct Usage {
    /// Requests in progress.
    requests: usize,
    /// Requests that were begun.
    begun: u64,
    /// Number of its latest wait.
    waits: u64,
    /// Its place in [`State::waiting`].
    place: Option<u64>,
}

#[derive(Debug, Default)]
struct Tally {
    count: u64,
    /// Part of the count that was logged.
    logged: u64,
    /// True if it was logged within the last minute.
    fresh: bool,
    latest: String,
}

impl Connections {
    /// Creates an empty table.
    #[must_use]
    pub fn new(port: Port, limits: PortLimits) -> Self {
        let state = Mutex::default();
        Self(Arc::new(Table {
            port,
            limits,
            next: AtomicU64::default(),
            state,
        }))
    }

    /// Returns the port.
    #[must_use]
    pub fn port(&self) -> Port {
        self.0.port
    }

    /// Returns the maximum number of open connections.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.limits.most
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn open(&self) -> usize {
        self.0.state().open.len()
    }

    /// Returns the number of connections that were refused or ended for a reason.
    #[must_use]
    pub fn refused(&self, cause: Cause) -> u64 {
        self.0.state().tallies[cause as usize].count
    }

    /// Adds an accepted connection, and displaces another one if the port is full. Returns `None` if the
    /// connection must be closed, which is counted.
    #[must_use]
    pub fn admit(&self, remote: SocketAddr) -> Option<Connection> {
        let limits = self.0.limits;
        let address = counted_as(remote.ip());
        let mut state = self.0.state();
        let of_address = address.and_then(|address| state.by_address.get(&address));
        if of_address.is_some_and(|count| *count >= limits.per_address) {
            drop(state);
            self.refuse(Cause::AddressFull, remote);
            return None;
        }
        let mut made_way = None;
        if state.open.len() >= limits.most {
            made_way = state.displace();
            if made_way.is_none() {
                drop(state);
                self.refuse(Cause::PortFull, remote);
                return None;
            }
        }
        let entry = Arc::new(Entry::new(&self.0, remote, address));
        state.insert(&entry);
        drop(state);
        if let Some(remote) = made_way {
            self.refuse(Cause::Displaced, remote);
        }
        Some(Connection(entry))
    }

    /// Counts a connection that is refused or ended. Logs the count and `latest`, which is the remote address or an
    /// error, unless the same cause was logged within the last minute.
    pub fn refuse(&self, cause: Cause, latest: impl ToString) {
        let mut state = self.0.state();
        let tally = &mut state.tallies[cause as usize];
        tally.count += 1;
        tally.latest = latest.to_string();
        if !tally.fresh {
            tally.warn(cause, self.0.port);
        }
    }

    /// Logs what was counted since the last line of each cause. Call it once a minute.
    pub fn warn(&self) {
        let mut state = self.0.state();
        for (cause, tally) in Cause::ALL.into_iter().zip(&mut state.tallies) {
            match tally.count > tally.logged {
                true => tally.warn(cause, self.0.port),
                false => tally.fresh = false,
            }
        }
    }
}

impl Tally {
    fn warn(&mut self, cause: Cause, port: Port) {
        let (port, count) = (port.setting(), self.count - self.logged);
        let remote = &self.latest;
        tracing::warn!(port, count, latest = %remote, cause = cause.label(), "{}", cause.text());
        self.logged = self.count;
        self.fresh = true;
    }
}

/// Returns the address under which a connection is counted. A host of IPv6 has as many addresses as it
/// likes in its network of 64 bits, which therefore count as one. Loopback is not counted: its callers run
/// on this machine.
fn counted_as(ip: IpAddr) -> Option<IpAddr> {
    let ip = ip.to_canonical();
    match ip {
        _ if ip.is_loopback() => None,
        IpAddr::V4(_) => Some(ip),
        IpAddr::V6(ip) => {
            let network = ip.to_bits() >> 64 << 64;
            Some(Ipv6Addr::from_bits(network).into())
        }
    }
}

impl Table {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves nothing under this lock half done that matters after it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(table: &Arc<Table>, remote: SocketAddr, address: Option<IpAddr>) -> Self {
        let id = table.number();
        Self {
            table: Arc::clone(table),
            id,
            remote,
            address,
            usage: Mutex::new(Usage {
                requests: 0,
                begun: 0,
                waits: id,
                place: None,
            }),
            displaced: Notify::new(),
        }
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        // As for the table.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, entry: &Arc<Entry>) {
        self.open.insert(entry.id, Arc::clone(entry));
        self.wait(entry.id);
        if let Some(address) = entry.address {
            *self.by_address.entry(address).or_default() += 1;
        }
    }

    /// Notes the wait of a connection, if it is open and no request is in progress.
    fn wait(&mut self, id: u64) {
        let Some(entry) = self.open.get(&id) else {
            return;
        };
        let mut usage = entry.usage();
        if usage.requests == 0 && usage.place.is_none() {
            usage.place = Some(usage.waits);
            self.waiting.insert(usage.waits, id);
        }
    }

    /// Ends the connection that waits longest, and returns its address. Returns `None` if none waits.
    fn displace(&mut self) -> Option<SocketAddr> {
        while let Some((place, id)) = self.waiting.pop_first() {
            let entry = Arc::clone(self.open.get(&id)?);
            let latest = {
                let mut usage = entry.usage();
                usage.place = None;
                usage.requests == 0 && usage.waits == place
            };
            if latest {
                self.remove(id);
                entry.displaced.notify_one();
                return Some(entry.remote);
            }
            self.wait(id);
        }
        None
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.open.remove(&id) else {
            return;
        };
        if let Some(place) = entry.usage().place.take() {
            self.waiting.remove(&place);
        }
        if let Some(address) = entry.address
            && let Some(count) = self.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

/// An open connection. It leaves the table when it is dropped.
#[derive(Debug)]
pub struct Connection(Arc<Entry>);

impl Connection {
    /// Completes when another connection takes the place of this one.
    pub async fn displaced(&self) {
        self.0.displaced.notified().await;
    }

    /// Notes the beginning of a request, which lasts until the result is dropped.
    #[must_use]
    pub fn begin(&self) -> OpenRequest {
        let mut usage = self.0.usage();
        usage.requests += 1;
        usage.begun += 1;
        OpenRequest(Arc::clone(&self.0))
    }

    /// Returns the number of requests that were begun, and the number of those in progress.
    #[must_use]
    pub fn requests(&self) -> (u64, usize) {
        let usage = self.0.usage();
        (usage.begun, usage.requests)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.table.state().remove(self.0.id);
    }
}

/// A request in progress.
#[derive(Debug)]
pub struct OpenRequest(Arc<Entry>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let Entry { table, id, .. } = &*self.0;
        let mut usage = self.0.usage();
        usage.requests -= 1;
        if usage.requests > 0 {
            return;
        }
        usage.waits = table.number();
        let has_place = usage.place.is_some();
        drop(usage);
        if !has_place {
            table.state().wait(*id);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/api/connections.rs"]
mod tests;
