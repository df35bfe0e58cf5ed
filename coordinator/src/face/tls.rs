//! TLS: from the files of the configuration to what servers and clients need.
//!
//! The client port asks for certificates as configured; the peer port always
//! requires them, and the names in them must be those of nodes
//! ([`Auth`](super::auth::Auth) looks at names). Every certificate must be
//! signed by the one authority that is configured; there are no others.

use crate::config::{ClientCerts, TlsConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::{Path, PathBuf};
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

/// A file of TLS cannot be used. Nothing was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// It cannot be read.
    #[error("{setting} = {} cannot be read: {error}", path.display())]
    Unreadable {
        /// Which setting names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: std::io::Error,
    },
    /// It holds something else.
    #[error("{setting} = {} holds no {expected} in PEM: {reason}", path.display())]
    NotPem {
        /// Which setting names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// The files of a node or an operator, read.
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

    /// Reads the files of one who connects: an authority, and a certificate
    /// with its key if he has one.
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

    /// What is odd and stops nobody, such as a key that everybody may read.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// For the port of clients and operators.
    #[must_use]
    pub fn server(&self) -> ServerTlsConfig {
        let optional = self.client_certs == ClientCerts::Optional;
        self.peer_server().client_auth_optional(optional)
    }

    /// For the port of the other nodes, who must show certificates.
    #[must_use]
    pub fn peer_server(&self) -> ServerTlsConfig {
        let config = ServerTlsConfig::new().client_ca_root(Certificate::from_pem(&self.ca));
        match self.identity() {
            Some(identity) => config.identity(identity),
            None => config,
        }
    }

    /// For connecting: to another node, or as a client. The host's name or
    /// address must stand in the server's certificate.
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

/// A warning, if others than its owner may read a secret file.
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
