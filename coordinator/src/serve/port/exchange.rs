//! Protocols of a port, and their part of a connection.

use crate::api::connections::Connection;
use ::http::Extensions;
use std::fmt;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

/// Maximum time for requests in progress to end when a connection is closed gracefully.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Protocol and encryption of a port.
#[derive(Clone)]
pub enum Protocol {
    /// gRPC, over TLS if there is an acceptor.
    Grpc {
        /// Acceptor of TLS.
        tls: Option<TlsAcceptor>,
        /// Maximum number of concurrent requests of a connection.
        streams: Option<u32>,
    },
    /// HTTP of any version, over TLS if there is an acceptor.
    Http {
        /// Acceptor of TLS.
        tls: Option<TlsAcceptor>,
    },
}

/// Keeps keys out of logs.
impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc { tls: Some(_), .. } => "gRPC over TLS",
            Self::Grpc { tls: None, .. } => "gRPC",
            Self::Http { tls: Some(_) } => "HTTP over TLS",
            Self::Http { tls: None } => "HTTP",
        })
    }
}

/// Requests and answers of one connection, after its handshake.
pub(in crate::serve) trait Exchange: Send + Sync + 'static {
    /// Serves requests until the caller ends the connection or the port stops. `caller` has its certificate.
    fn run<IO>(
        &self,
        io: IO,
        caller: Extensions,
        connection: &Connection,
    ) -> impl Future<Output = ()> + Send
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Returns the only answer to a caller who began with these bytes and did not choose the port's encryption.
    fn refusal(&self, first: &[u8; 3], text: &str) -> Vec<u8>;
}
