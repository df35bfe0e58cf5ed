//! TLS: turns the configured files into the configurations of servers and clients.
//!
//! The client port asks for certificates as configured. The peer port always requires them, with names
//! of nodes ([`Auth`](super::auth::Auth) checks the names). Every certificate must be signed by the one
//! configured authority.

use crate::config::{ClientCerts, TlsConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// A TLS file cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read.
    #[error("{setting} = {} cannot be read: {error}", path.display())]
    Unreadable {
        /// Name of the setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The file does not contain what it should.
    #[error("{setting} = {} holds no {expected} in PEM: {reason}", path.display())]
    NotPem {
        /// Name of the setting.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// The expected contents.
        expected: &'static str,
        /// Description of what is wrong.
        reason: String,
    },
}

/// TLS files of a node or an operator, as read.
#[derive(Clone)]
pub struct TlsFiles {
    ca: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    client_certs: ClientCerts,
    warnings: Vec<String>,
}

/// Keeps the private key out of logs.
impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsFiles")
            .field("client_certs", &self.client_certs)
            .finish_non_exhaustive()
    }
}

impl TlsFiles {
    /// Reads a node's files.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for the first that cannot be used.
    pub fn of_node(config: &TlsConfig) -> Result<Self, TlsError> {
        Ok(Self {
            client_certs: config.client_certs,
            ..Self::of_client(&config.ca, Some((&config.cert, &config.key)))?
        })
    }

    /// Reads the files of a connecting client: an authority, and optionally a certificate with its key.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for the first that cannot be used.
    pub fn of_client(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<Self, TlsError> {
        let mut warnings = Vec::new();
        let identity = identity.map(|(cert, key)| {
            warnings.extend(secret_is_open(key));
            Ok((read_certs("tls.cert", cert)?, read_key("tls.key", key)?))
        });
        Ok(Self {
            ca: read_certs("tls.ca", ca)?,
            identity: identity.transpose()?,
            client_certs: ClientCerts::Required,
            warnings,
        })
    }

    /// Returns warnings that do not prevent the start, such as a key that all users may read.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the configuration for the port of clients and operators.
    #[must_use]
    pub fn server(&self) -> ServerTlsConfig {
        let optional = self.client_certs == ClientCerts::Optional;
        self.peer_server().client_auth_optional(optional)
    }

    /// Returns the configuration for the peer port, where callers must present certificates.
    #[must_use]
    pub fn peer_server(&self) -> ServerTlsConfig {
        let config = ServerTlsConfig::new().client_ca_root(Certificate::from_pem(&self.ca));
        match self.identity() {
            Some(identity) => config.identity(identity),
            None => config,
        }
    }

    /// Returns the configuration for connections to another node, or as a client. The host's name or
    /// address must be in the server's certificate.
    #[must_use]
    pub fn client(&self) -> ClientTlsConfig {
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca));
        match self.identity() {
            Some(identity) => config.identity(identity),
            None => config,
        }
    }

    fn identity(&self) -> Option<Identity> {
        let (cert, key) = self.identity.as_ref()?;
        Some(Identity::from_pem(cert, key))
    }
}

/// Returns a warning if a secret file can be read by users other than its owner.
pub(super) fn secret_is_open(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        format!(
            "{} is a secret that others may read (mode {:03o}): chmod 600 it",
            path.display(),
            mode & 0o777
        )
    })
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Unreadable {
        setting,
        path: path.to_owned(),
        error,
    })
}

fn read_certs(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let pem = read(setting, path)?;
    let not_pem = |reason: String| TlsError::NotPem {
        setting,
        path: path.to_owned(),
        expected: "certificate",
        reason,
    };
    let certs: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certs {
        Ok(certs) if certs.is_empty() => Err(not_pem("there is none".to_owned())),
        Ok(_) => Ok(pem),
        Err(error) => Err(not_pem(error.to_string())),
    }
}

fn read_key(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let pem = read(setting, path)?;
    match PrivateKeyDer::from_pem_slice(&pem) {
        Ok(_) => Ok(pem),
        Err(error) => Err(TlsError::NotPem {
            setting,
            path: path.to_owned(),
            expected: "private key",
            reason: error.to_string(),
        }),
    }
}
