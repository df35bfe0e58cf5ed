//! How nodes reach each other: channels out, and a server in.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tonic::transport::{Channel, Endpoint, Server};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How often either side asks whether the other is there, and how long it
/// waits for the answer. On both sides and also while idle: a connection that
/// lost a segment into a silent network never recovers by itself.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens channels to nodes: plainly, over TLS, or in a simulator.
pub trait Connector: fmt::Debug + Send + Sync {
    /// A channel to a peer's address. It connects when it is first used, and
    /// again whenever it is used after a failure.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] if no connection could ever come of it.
    fn channel(&self, address: &str) -> Result<Channel, ConnectError>;
}

/// Why an address cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the address {address}: {reason}")]
pub struct ConnectError {
    /// The address.
    pub address: String,
    /// What is wrong with it.
    pub reason: String,
}

/// Plain TCP, without delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn channel(&self, address: &str) -> Result<Channel, ConnectError> {
        Ok(endpoint("http", address)?.connect_lazy())
    }
}

/// An endpoint with the timeouts and keep-alives that peers need, for
/// connectors to complete.
///
/// # Errors
///
/// [`ConnectError`] if the address is none.
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

/// A server with the keep-alives that peers need. Set no-delay on the listener
/// itself: the server's own setting does nothing for connections that it is
/// handed.
#[must_use]
pub fn server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

/// Channels to each address: one for replication, one for what nodes ask each other beside it, and
/// one for each snapshot. A call that is given up, of which there may be many, can end its
/// connection; heartbeats and votes do not share it. Whoever asks for a channel first, its
/// connection is served by the log's own runtime: heartbeats wait behind nobody's streams.
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
    /// Of the present runtime.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub(super) fn new(connector: Arc<dyn Connector>) -> Self {
        Self {
            connector,
            runtime: Handle::current(),
            replication: Mutex::default(),
            requests: Mutex::default(),
        }
    }

    /// The runtime of the log.
    pub(super) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The channel to an address, for appends and votes alone.
    pub(super) fn to(&self, address: &str) -> Result<Channel, ConnectError> {
        self.among(&self.replication, address)
    }

    /// The channel to an address, for everything else that is short.
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

    /// A channel of its own: what is long must not stand before heartbeats.
    pub(super) fn apart(&self, address: &str) -> Result<Channel, ConnectError> {
        let _own = self.runtime.enter();
        self.connector.channel(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::runtime::Builder;
    use tower::Service;

    #[test]
    fn a_channel_lives_on_the_runtime_of_the_log_whoever_asked_for_it_first() {
        let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
        let (log, other) = (runtime(), runtime());
        let links = log.block_on(async { Links::new(Arc::new(TcpConnector)) });
        let mut channel = other.block_on(async { links.to("127.0.0.1:1") }).unwrap();
        drop(other);
        let ready = log.block_on(poll_fn(|context| channel.poll_ready(context)));
        ready.unwrap();
    }
}
