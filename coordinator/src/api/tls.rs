//! TLS: turns the configured files into the configurations of servers and clients.
//!
//! The client port asks for certificates as configured. The peer port always requires them, with names
//! of nodes ([`Auth`](super::auth::Auth) checks the names). Every certificate must be signed by the one
//! configured authority.

use crate::api::connections::Cause;
use crate::config::{ClientCerts, TlsConfig};
use aliquot_client::ClientTls;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, CertificateError, RootCertStore, ServerConfig};
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

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
        error: io::Error,
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
    /// The files do not fit each other.
    #[error("tls.cert, tls.key and tls.ca cannot be used together: {reason}")]
    Unusable {
        /// Description of what is wrong.
        reason: String,
    },
}

/// Returns the cause of a handshake that failed at the server.
#[must_use]
pub fn cause(error: &io::Error) -> Cause {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    match inner {
        Some(rustls::Error::NoCertificatesPresented) => Cause::NoCertificate,
        Some(rustls::Error::InvalidCertificate(error)) => match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                Cause::UnknownAuthority
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Cause::Expired,
            _ => Cause::BadCertificate,
        },
        // The only alerts that a client sends during a handshake refuse the server's certificate.
        Some(rustls::Error::AlertReceived(_)) => Cause::NodeRefused,
        _ => Cause::OtherTls,
    }
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

    /// Reads the files of `aliquot rls`. Without an authority, callers need no certificate.
    ///
    /// # Errors
    ///
    /// [`TlsError`] for the first that cannot be used.
    pub fn of_rls(cert: &Path, key: &Path, ca: Option<&Path>) -> Result<Self, TlsError> {
        let identity = (
            read_certs("GRPC_SERVER_TLS_CERT", cert)?,
            read_key("GRPC_SERVER_TLS_KEY", key)?,
        );
        let ca = ca.map(|ca| read_certs("GRPC_CLIENT_TLS_CACERT", ca));
        Ok(Self {
            ca: ca.transpose()?.unwrap_or_default(),
            identity: Some(identity),
            client_certs: ClientCerts::Required,
            warnings: secret_is_open(key).into_iter().collect(),
        })
    }

    /// Returns warnings that do not prevent the start, such as a key that all users may read.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns the acceptor for the port of clients and operators.
    ///
    /// # Errors
    ///
    /// [`TlsError::Unusable`] if the files do not fit each other.
    pub fn server(&self) -> Result<TlsAcceptor, TlsError> {
        self.acceptor(self.client_certs, &[b"h2"])
    }

    /// Returns the acceptor for the ports of faces, which speak HTTP/1.1, too.
    ///
    /// # Errors
    ///
    /// [`TlsError::Unusable`] if the files do not fit each other.
    pub fn face_server(&self) -> Result<TlsAcceptor, TlsError> {
        self.acceptor(self.client_certs, &[b"h2", b"http/1.1"])
    }

    /// Returns the acceptor for the peer port, where callers must present certificates.
    ///
    /// # Errors
    ///
    /// [`TlsError::Unusable`] if the files do not fit each other.
    pub fn peer_server(&self) -> Result<TlsAcceptor, TlsError> {
        self.acceptor(ClientCerts::Required, &[b"h2"])
    }

    fn acceptor(
        &self,
        client_certs: ClientCerts,
        protocols: &[&[u8]],
    ) -> Result<TlsAcceptor, TlsError> {
        let unusable = |reason: String| TlsError::Unusable { reason };
        let Some((cert, key)) = &self.identity else {
            return Err(unusable("a server needs a certificate".to_owned()));
        };
        let no_pem = |error: rustls_pki_types::pem::Error| unusable(error.to_string());
        let certs = |pem| CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let provider = Arc::new(ring::default_provider());
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certs(&self.ca).map_err(no_pem)?);
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let verifier = match client_certs {
            ClientCerts::Required => verifier,
            ClientCerts::Optional => verifier.allow_unauthenticated(),
        };
        let wrong = |error: rustls::Error| unusable(error.to_string());
        let versions = match self.ca.is_empty() {
            true => versions.with_no_client_auth(),
            false => {
                let verifier = verifier.build();
                versions.with_client_cert_verifier(
                    verifier.map_err(|error| unusable(error.to_string()))?,
                )
            }
        };
        let mut config = versions
            .with_single_cert(
                certs(cert).map_err(no_pem)?,
                PrivateKeyDer::from_pem_slice(key).map_err(no_pem)?,
            )
            .map_err(wrong)?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config).into())
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

    /// Returns the same settings for the client library.
    #[must_use]
    pub fn client_library(&self) -> ClientTls {
        let tls = ClientTls::new(self.ca.clone());
        match &self.identity {
            Some((cert, key)) => tls.identity(cert.clone(), key.clone()),
            None => tls,
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
            "{} is secret, but other users can read it (mode {:03o}): run chmod 600 on it",
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
