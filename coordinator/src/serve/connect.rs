//! Connections of this node to its peers.

use crate::gossip;
use crate::raft::{ConnectError, Connector, endpoint};
use std::fmt;
use std::sync::Arc;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

/// Connects with TLS and the node's own certificate, to peers of the same authority.
#[derive(Clone)]
pub struct TlsConnector {
    config: ClientTlsConfig,
}

impl TlsConnector {
    /// Creates a connector with these certificates.
    #[must_use]
    pub const fn new(config: ClientTlsConfig) -> Self {
        Self { config }
    }
}

/// Omits the private key, to keep it out of logs.
impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsConnector").finish_non_exhaustive()
    }
}

impl Connector for TlsConnector {
    fn channel(&self, address: &str) -> Result<Channel, ConnectError> {
        let endpoint = endpoint("https", address)?;
        let secured = endpoint.tls_config(self.config.clone());
        let secured = secured.map_err(|error| ConnectError {
            address: address.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(secured.connect_lazy())
    }
}

/// Adapts a connector for gossip links.
pub(super) fn for_gossip(connector: &Arc<dyn Connector>) -> gossip::Connector {
    let connector = Arc::clone(connector);
    Arc::new(move |address| {
        connector.channel(address).unwrap_or_else(|error| {
            // A member's address was checked when it joined. If it cannot be used after
            // all, return a channel whose every connection attempt fails.
            tracing::error!(%error, "a member's address cannot be used");
            Endpoint::from_static("http://0.0.0.0:0").connect_lazy()
        })
    })
}
