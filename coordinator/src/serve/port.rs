//! Serving one port: accepts connections within its maxima, shakes hands, and ends those that say nothing.
//!
//! ```text
//!   accept ─▶ within the maxima? ─▶ first byte ─▶ TLS ─▶ HTTP ─▶ requests ─▶ none for IDLE_MAX ─▶ close
//!                                   └──── all within FIRST_REQUEST ──┘
//! ```

use super::accept::Failures;
use crate::api::connections::{Cause, Connection, Connections, OpenRequest};
use crate::api::tls;
use crate::raft::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use crate::session::BACKLOG;
use crate::timer;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::Connected;
use tower::{Service, ServiceExt};

/// Maximum time from the accept of a connection to its first request, TLS handshake included.
const FIRST_REQUEST: Duration = Duration::from_secs(10);

/// Time without a request in progress after which a connection is closed: between one and two of these.
const IDLE_MAX: Duration = Duration::from_secs(150);

/// Maximum time for requests in progress to end when a connection is closed gracefully.
const GRACE: Duration = Duration::from_secs(5);

/// Maximum time for a caller that was refused to read why.
const LINGER: Duration = Duration::from_secs(1);

/// First byte of a TLS handshake. No request of HTTP begins with it.
const CLIENT_HELLO: u8 = 0x16;

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

/// Serves the connections of a port until `stopping` is true, and then until they end.
pub async fn serve<S, B>(
    listener: impl Into<Listener>,
    connections: Connections,
    protocol: Protocol,
    service: S,
    mut stopping: watch::Receiver<bool>,
) where
    S: Service<Request<tonic::body::Body>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let listener = listener.into();
    let server = Arc::new(Server {
        http: http(&protocol),
        tls: match protocol {
            Protocol::Grpc { tls, .. } | Protocol::Http { tls } => tls,
        },
        connections,
        service,
        stopping: stopping.clone(),
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

/// Returns the HTTP server of a port. Keep-alives find callers that are gone. Requests that are slow to arrive
/// need no timeout of their own here, because a request counts as begun only when its header is complete.
fn http(protocol: &Protocol) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    if let Protocol::Grpc { streams, .. } = protocol {
        http = http.http2_only();
        http.http2().max_concurrent_streams(*streams);
    }
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    http
}

/// All that the connections of a port share.
struct Server<S> {
    http: Builder<TokioExecutor>,
    tls: Option<TlsAcceptor>,
    connections: Connections,
    service: S,
    stopping: watch::Receiver<bool>,
}

impl<S, B> Server<S>
where
    S: Service<Request<tonic::body::Body>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    /// Serves a connection until it ends or must end.
    async fn hold(&self, stream: Accepted, remote: SocketAddr, connection: &Connection) {
        let begun = || connection.requests().0 > 0;
        let late = async {
            timer::sleep(FIRST_REQUEST).await;
            if begun() {
                std::future::pending().await
            }
        };
        let conversation = async {
            match stream {
                Accepted::Tcp(stream) => self.converse(stream, remote, connection).await,
                Accepted::Unix(stream) => {
                    let info = stream.connect_info();
                    self.exchange(stream, info, connection).await;
                }
            }
        };
        tokio::select! {
            () = conversation => {}
            () = connection.displaced() => {}
            () = late => self.connections.refuse(Cause::NoRequest, remote),
        }
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
                let info = stream.connect_info();
                self.exchange(stream, info, connection).await;
            }
            (Some(tls), true) => match tls.accept(stream).into_fallible().await {
                Ok(stream) => {
                    let info = stream.connect_info();
                    self.exchange(stream, info, connection).await;
                }
                Err((error, stream)) => {
                    let cause = tls::cause(&error);
                    self.connections.refuse(cause, format!("{remote}, {error}"));
                    linger(stream, &[]).await;
                }
            },
            (None, true) => {
                self.connections.refuse(Cause::TlsToPlaintext, remote);
                linger(stream, &http1_refusal("this port does not speak TLS")).await;
            }
            (Some(_), false) => {
                self.connections.refuse(Cause::Plaintext, remote);
                let text = "this port speaks TLS only";
                let answer = match &first {
                    b"PRI" => http2_refusal(text),
                    _ => http1_refusal(text),
                };
                linger(stream, &answer).await;
            }
        }
    }

    /// Serves requests until the caller ends the connection, is idle, or the port stops.
    async fn exchange<IO, I>(&self, io: IO, info: I, connection: &Connection)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        I: Clone + Send + Sync + 'static,
    {
        let service = hyper::service::service_fn(|request: Request<Incoming>| {
            let mut request = request.map(tonic::body::Body::new);
            request.extensions_mut().insert(info.clone());
            let (open, service) = (connection.begin(), self.service.clone());
            async move {
                let response = service.oneshot(request).await?;
                Ok::<_, Infallible>(response.map(|body| Tracked {
                    body: Box::pin(body),
                    _open: open,
                }))
            }
        });
        let conversation = self.http.serve_connection(TokioIo::new(io), service);
        tokio::pin!(conversation);
        let mut stopping = self.stopping.clone();
        tokio::select! {
            ended = conversation.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            () = idle(connection) => {}
            _ = stopping.wait_for(|stop| *stop) => {}
        }
        conversation.as_mut().graceful_shutdown();
        // Requests that are still in progress after the grace period are cut off.
        let _ = timer::timeout(GRACE, conversation).await;
    }
}

/// Completes when no request was in progress for [`IDLE_MAX`].
async fn idle(connection: &Connection) {
    let mut before = connection.requests();
    loop {
        timer::sleep(IDLE_MAX).await;
        let now = connection.requests();
        if now == before && now.1 == 0 {
            return;
        }
        before = now;
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

fn http1_refusal(text: &str) -> Vec<u8> {
    let length = text.len() + 1;
    let head = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: text/plain";
    format!("{head}\r\ncontent-length: {length}\r\n\r\n{text}\n").into_bytes()
}

/// Returns empty settings and a GOAWAY with the code INADEQUATE_SECURITY (RFC 9113, §6.5, §6.8 and §7).
fn http2_refusal(text: &str) -> Vec<u8> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const INADEQUATE_SECURITY: [u8; 4] = [0, 0, 0, 0xc];
    let length = u8::try_from(8 + text.len()).unwrap_or(u8::MAX);
    let mut frames = SETTINGS.to_vec();
    frames.extend([0, 0, length, 7, 0, 0, 0, 0, 0]);
    frames.extend([0; 4]);
    frames.extend(INADEQUATE_SECURITY);
    frames.extend(text.bytes().take(usize::from(length) - 8));
    frames
}

/// Body of a response, which keeps its request in progress until it is dropped.
struct Tracked<B> {
    body: Pin<Box<B>>,
    _open: OpenRequest,
}

impl<B: Body> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
