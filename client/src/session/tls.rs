//! The settings of TLS.

use crate::session::error::BuildError;
use std::fmt;
use std::fs;
use std::path::Path;
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
/// let tls = ClientTls::from_files("ca.pem", "client.pem", "client.key")?;
/// let client = Client::builder().addresses(["a:7001"]).tls(tls).connect()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ClientTls {
    ca: Vec<u8>,
    identity: Option<Pair>,
    domain_name: Option<String>,
}

/// A certificate and its key.
type Pair = (Vec<u8>, Vec<u8>);

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

    /// Trusts nodes with certificates that were signed by an authority in the file `ca`, and authenticates the client by
    /// the certificate and the key in the other two, all in PEM. The files are read now.
    ///
    /// # Errors
    ///
    /// [`BuildError::TlsFile`] for the first file that cannot be read or holds nothing of the kind.
    ///
    /// ```
    /// use aliquot_client::ClientTls;
    ///
    /// let error = ClientTls::from_files("no/ca.pem", "client.pem", "client.key").unwrap_err();
    /// assert!(error.to_string().starts_with("tls: \"no/ca.pem\" cannot be read"));
    /// ```
    pub fn from_files(
        ca: impl AsRef<Path>,
        cert: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, BuildError> {
        let (cert, key) = (cert.as_ref(), key.as_ref());
        let tls = Self::from_ca_file(ca)?;
        let certs = Self::read_certs(cert).map_err(|reason| unusable(cert, reason))?;
        let secret = Self::read_key(key).map_err(|reason| unusable(key, reason))?;
        Ok(tls.identity(certs, secret))
    }

    /// [`ClientTls::from_files`] without a certificate of the client, for nodes that require none.
    ///
    /// # Errors
    ///
    /// As [`ClientTls::from_files`].
    ///
    /// ```no_run
    /// use aliquot_client::{Client, ClientTls};
    ///
    /// let tls = ClientTls::from_ca_file("ca.pem")?;
    /// let builder = Client::builder().addresses(["a:7001"]).tls(tls).token("a secret");
    /// # Ok::<(), aliquot_client::BuildError>(())
    /// ```
    pub fn from_ca_file(ca: impl AsRef<Path>) -> Result<Self, BuildError> {
        let ca = ca.as_ref();
        let certs = Self::read_certs(ca).map_err(|reason| unusable(ca, reason))?;
        Ok(Self::new(certs))
    }

    /// Reads a file of certificates, or returns why it cannot be used.
    pub(super) fn read_certs(path: &Path) -> Result<Vec<u8>, String> {
        read_pem(path, "certificate", "-----BEGIN CERTIFICATE-----")
    }

    /// Reads a file of a private key, in any of the forms that PEM has for keys.
    pub(super) fn read_key(path: &Path) -> Result<Vec<u8>, String> {
        read_pem(path, "private key", "PRIVATE KEY-----")
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

    #[cfg(test)]
    pub(super) fn files(&self) -> (Vec<u8>, Option<Pair>) {
        (self.ca.clone(), self.identity.clone())
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

fn unusable(path: &Path, reason: String) -> BuildError {
    BuildError::TlsFile {
        path: path.to_owned(),
        reason,
    }
}

/// Reads a file that must have a line with this mark. Whether what follows is valid is found out at the first
/// connection.
fn read_pem(path: &Path, what: &str, mark: &str) -> Result<Vec<u8>, String> {
    let pem = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    match String::from_utf8_lossy(&pem).contains(mark) {
        true => Ok(pem),
        false => Err(format!("holds no {what} in PEM")),
    }
}
