//! The settings of TLS.

use std::fmt;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Settings of TLS between a client and its nodes, for [`ClientBuilder::tls`](crate::ClientBuilder::tls).
///
/// The host's name or address must be in the certificate of the node. If a certificate or a key cannot be used,
/// the client does not connect, and [`Status::failure`](crate::observe::Status::failure) says why.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use aliquot_client::{Client, ClientTls};
///
/// let tls = ClientTls::new(std::fs::read("ca.pem")?)
///     .identity(std::fs::read("client.pem")?, std::fs::read("client.key")?);
/// let client = Client::builder().addresses(["a:7001"]).tls(tls).connect()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientTls {
    ca: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    domain_name: Option<String>,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls")
            .field("domain_name", &self.domain_name)
            .finish_non_exhaustive()
    }
}

impl ClientTls {
    /// Trusts nodes with certificates that were signed by one of these authorities, in PEM.
    #[must_use]
    pub fn new(ca: impl Into<Vec<u8>>) -> Self {
        Self {
            ca: ca.into(),
            identity: None,
            domain_name: None,
        }
    }

    /// Sets the certificate that authenticates the client, and its key, in PEM.
    #[must_use]
    pub fn identity(mut self, cert: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some((cert.into(), key.into()));
        self
    }

    /// Sets the name that must be in the certificates of nodes, instead of the host of their address.
    #[must_use]
    pub fn domain_name(mut self, name: impl Into<String>) -> Self {
        self.domain_name = Some(name.into());
        self
    }

    /// Returns the settings as tonic wants them.
    pub(crate) fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        if let Some((cert, key)) = &self.identity {
            config = config.identity(Identity::from_pem(cert, key));
        }
        if let Some(name) = &self.domain_name {
            config = config.domain_name(name);
        }
        config
    }
}
