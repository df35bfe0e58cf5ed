//! Connections between nodes: channels to peers, and the server for them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::transport::{Channel, Endpoint, Server};

/// Maximum time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval of keep-alives, and time to wait for their answer. Both sides send them, also while idle: a
/// connection that lost a segment in a network that drops packets silently does not recover by itself.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
pub(crate) const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens channels to nodes: over plain TCP, over TLS, or in a simulator.
pub trait Connector: fmt::Debug + Send + Sync {
    /// Returns a channel to a peer's address. It connects when it is first used, and again when it is
    /// used after a failure.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if the address can never be connected to.
    fn channel(&self, address: &str) -> Result<Channel, ConnectError>;
}

/// Error of an address that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address {address}: {reason}")]
pub struct ConnectError {
    /// The address.
    pub address: String,
    /// Description of what is wrong with the address.
    pub reason: String,
}

/// Connects over plain TCP with `TCP_NODELAY`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn channel(&self, address: &str) -> Result<Channel, ConnectError> {
        Ok(endpoint("http", address)?.connect_lazy())
    }
}

/// Returns an endpoint with the timeouts and keep-alives that peers need, for connectors to complete.
///
/// # Errors
///
/// [`ConnectError`] if the address is not valid.
pub fn endpoint(scheme: &str, address: &str) -> Result<Endpoint, ConnectError> {
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
    let endpoint = endpoint.map_err(|error| ConnectError {
        address: address.to_owned(),
        reason: format!("{error}: must be host:port"),
    })?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(KEEPALIVE_INTERVAL))
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true))
}

/// Returns a server with the keep-alives that peers need, for a simulated network. Set `TCP_NODELAY` on the listener itself: the
/// setting of the server does not apply to connections that it is handed.
#[must_use]
pub fn server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

/// Channels by address: one for replication, one for requests beside it, and one for each snapshot.
///
/// A call that is given up can end its connection. Heartbeats and votes therefore do not share a
/// connection with other requests. All connections are served by the log's own runtime, whichever task
/// opens them, so that heartbeats do not wait behind client streams.
#[derive(Debug)]
pub(super) struct Links {
    connector: Arc<dyn Connector>,
    runtime: Handle,
    replication: Channels,
    requests: Channels,
}

/// One channel for each address.
type Channels = Mutex<BTreeMap<String, Channel>>;

impl Links {
    /// Creates the links on the current runtime.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub(super) fn new(connector: Arc<dyn Connector>) -> Self {
        Self {
            connector,
            runtime: Handle::current(),
            replication: Mutex::default(),
            requests: Mutex::default(),
        }
    }

    /// Returns the runtime of the log.
    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the channel to an address for appends and votes only.
    pub(super) fn to(&self, address: &str) -> Result<Channel, ConnectError> {
        self.among(&self.replication, address)
    }

    /// Returns the channel to an address for other short requests.
    pub(super) fn beside(&self, address: &str) -> Result<Channel, ConnectError> {
        self.among(&self.requests, address)
    }

    fn among(&self, channels: &Channels, address: &str) -> Result<Channel, ConnectError> {
        let channels = channels.lock();
        let mut channels = channels.unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(address) {
            return Ok(channel.clone());
        }
        let channel = self.apart(address)?;
        channels.insert(address.to_owned(), channel.clone());
        Ok(channel)
    }

    /// Opens a separate channel, so that long transfers do not delay heartbeats.
    pub(super) fn apart(&self, address: &str) -> Result<Channel, ConnectError> {
        let _own = self.runtime.enter();
        self.connector.channel(address)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/raft/connect.rs"]
mod tests;
