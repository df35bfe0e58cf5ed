//! Serving one port: accepts connections within its maxima, shakes hands, and ends idle ones.
//!
//! ```text
//!   accept ─▶ within the maxima? ─▶ first byte ─▶ TLS ─▶ requests ─▶ none for IDLE_MAX (HTTP) ─▶ close
//!                                   └──── all within FIRST_REQUEST ──┘
//! ```

mod arrived;
mod exchange;
mod http;
mod redis;
mod slow_reader;
mod until;

pub use exchange::Protocol;
pub(super) use redis::Redis;

use self::http::Http;
use super::accept::Failures;
use crate::api::connections::{Cause, Connection, Connections, Port};
use crate::api::tls;
use crate::session::BACKLOG;
use crate::timer;
use ::http::{Extensions, Request, Response};
use bytes::Bytes;
use exchange::Exchange;
use http_body::Body;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;
use tower::Service;
use until::until;

/// Maximum time from the accept of a connection to its first request, TLS handshake included.
const FIRST_REQUEST: Duration = Duration::from_secs(10);

/// Maximum time for which a caller may read nothing of an answer. Sessions and links between nodes have keep-alives of
/// their own, and may wait longer.
const SLOW_READER: Duration = Duration::from_secs(10);

/// Maximum time for a caller that was refused to read why.
const LINGER: Duration = Duration::from_secs(1);

/// First byte of a TLS handshake. No request of HTTP or Redis begins with it.
const CLIENT_HELLO: u8 = 0x16;

/// A bound port: of TCP, or a socket in the file system.
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixListener),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

/// An accepted connection.
enum Accepted {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Accepts a connection. A caller through a socket in the file system runs on this host: it counts as loopback.
    async fn accept(&self) -> io::Result<(Accepted, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, remote) = listener.accept().await?;
                Ok((Accepted::Tcp(stream), remote))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                Ok((Accepted::Unix(stream), local))
            }
        }
    }
}

/// Listens with a queue long enough for a whole fleet that reconnects at once.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A node that is started again after a kill must be able to bind its port at once.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves the connections of a port until `stopping` is true, and then until they end. `service` must always be ready.
pub async fn serve<S, B>(
    listener: impl Into<Listener>,
    connections: Connections,
    protocol: Protocol,
    service: S,
    stopping: watch::Receiver<bool>,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let patience = match connections.port() {
        Port::Clients | Port::Peers => None,
        _ => Some(SLOW_READER),
    };
    let exchange = Http::new(&protocol, service, stopping.clone(), patience);
    let tls = match protocol {
        Protocol::Grpc { tls, .. } | Protocol::Http { tls } => tls,
    };
    serve_exchange(listener.into(), connections, tls, exchange, stopping).await;
}

/// Serves the connections of a port of any protocol, as [`serve`] does.
pub(super) async fn serve_exchange(
    listener: Listener,
    connections: Connections,
    tls: Option<TlsAcceptor>,
    exchange: impl Exchange,
    mut stopping: watch::Receiver<bool>,
) {
    let server = Arc::new(Server {
        tls,
        connections,
        exchange,
    });
    let mut tasks = JoinSet::new();
    let mut failures = Failures::default();
    loop {
        let accepted = async {
            failures.pause().await;
            listener.accept().await
        };
        tokio::select! {
            // A dropped sender also means stop.
            _ = stopping.wait_for(|stop| *stop) => break,
            // A connection that made way needs its descriptor until its task has ended.
            accepted = accepted, if tasks.len() <= server.connections.most() => {
                let Some((stream, remote)) = failures.check(accepted, &server.connections) else {
                    continue;
                };
                if let Some(connection) = server.connections.admit(remote) {
                    let server = Arc::clone(&server);
                    tasks.spawn(async move { server.hold(stream, remote, &connection).await });
                }
            }
            Some(_) = tasks.join_next() => {}
        }
    }
    drop(listener);
    while tasks.join_next().await.is_some() {}
}

/// All that the connections of a port share.
struct Server<E> {
    tls: Option<TlsAcceptor>,
    connections: Connections,
    exchange: E,
}

impl<E: Exchange> Server<E> {
    /// Serves a connection until it ends or must end.
    async fn hold(&self, stream: Accepted, remote: SocketAddr, connection: &Connection) {
        let begun = || connection.requests().0 > 0;
        let late = async {
            timer::sleep(FIRST_REQUEST).await;
            if begun() {
                std::future::pending().await
            }
        };
        let end = async {
            tokio::select! {
                () = connection.displaced() => {}
                () = late => self.connections.refuse(Cause::NoRequest, remote),
            }
        };
        let conversation = pin!(async {
            match stream {
                Accepted::Tcp(stream) => self.converse(stream, remote, connection).await,
                Accepted::Unix(stream) => self.run(stream, Extensions::new(), connection).await,
            }
        });
        until(end, conversation).await;
    }

    /// Returns what a port knows of a caller without TLS. Only sessions have a use for the address, and to add it to
    /// each request costs three allocations.
    fn plain(&self, stream: &TcpStream) -> Extensions {
        let mut caller = Extensions::new();
        if self.connections.port() == Port::Clients {
            caller.insert(stream.connect_info());
        }
        caller
    }

    /// Serves requests. Boxed, since a connection's task would have room for the state of each kind of stream, one with
    /// TLS included, and keep it for as long as the connection.
    fn run<'a, IO>(
        &'a self,
        io: IO,
        caller: Extensions,
        connection: &'a Connection,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Box::pin(self.exchange.run(io, caller, connection))
    }

    /// Shakes hands and serves requests.
    async fn converse(&self, stream: TcpStream, remote: SocketAddr, connection: &Connection) {
        // Nothing is lost if this fails: the connection is only slower.
        let _ = stream.set_nodelay(true);
        let mut first = [0; 3];
        let Ok(1..) = stream.peek(&mut first).await else {
            return;
        };
        match (&self.tls, first[0] == CLIENT_HELLO) {
            (None, false) => {
                let caller = self.plain(&stream);
                self.run(stream, caller, connection).await;
            }
            // All that a connection without TLS does not need is boxed as well.
            (Some(tls), true) => {
                Box::pin(self.converse_encrypted(tls, stream, remote, connection)).await;
            }
            (None, true) => {
                self.connections.refuse(Cause::TlsToPlaintext, remote);
                let answer = self
                    .exchange
                    .refusal(&first, "this port does not speak TLS");
                Box::pin(linger(stream, &answer)).await;
            }
            (Some(_), false) => {
                self.connections.refuse(Cause::Plaintext, remote);
                let answer = self.exchange.refusal(&first, "this port speaks TLS only");
                Box::pin(linger(stream, &answer)).await;
            }
        }
    }

    /// Shakes hands for TLS, and serves requests.
    async fn converse_encrypted(
        &self,
        tls: &TlsAcceptor,
        stream: TcpStream,
        remote: SocketAddr,
        connection: &Connection,
    ) {
        match tls.accept(stream).into_fallible().await {
            Ok(stream) => {
                let mut caller = Extensions::new();
                caller.insert(stream.connect_info());
                self.run(stream, caller, connection).await;
            }
            Err((error, stream)) => {
                let cause = tls::cause(&error);
                self.connections.refuse(cause, format!("{remote}, {error}"));
                linger(stream, &[]).await;
            }
        }
    }
}

/// Sends a last answer, and reads what the caller still sends. If a connection is closed with unread data, the
/// operating system resets it, and the caller never sees the answer.
async fn linger(mut stream: TcpStream, answer: &[u8]) {
    let read_to_end = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(1 << 16), &mut tokio::io::sink()).await
    };
    // The caller may be gone, which is no error here.
    let _ = timer::timeout(LINGER, read_to_end).await;
}

#[cfg(test)]
#[path = "../../tests/unit/serve/port.rs"]
mod tests;
