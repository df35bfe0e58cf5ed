//! HTTP and gRPC on a connection.

use super::arrived::Arrived;
use super::exchange::{Exchange, GRACE, Protocol};
use super::slow_reader::SlowReaderGuard;
use super::until::until;
use crate::api::connections::{Connection, OpenRequest};
use crate::raft::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use crate::timer;
use ::http::{Extensions, Request, Response};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use std::cell::RefCell;
use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tower::Service;

/// Time without a request in progress after which a connection is closed: between one and two of these.
const IDLE_MAX: Duration = Duration::from_secs(150);

/// Requests of HTTP, answered by a service.
pub(super) struct Http<S> {
    protocol: Protocol,
    service: S,
    stopping: watch::Receiver<bool>,
    /// Longest time for which a caller may read nothing of what is sent; `None` if keep-alives alone find it.
    patience: Option<Duration>,
}

impl<S> Http<S> {
    pub(super) fn new(
        protocol: &Protocol,
        service: S,
        stopping: watch::Receiver<bool>,
        patience: Option<Duration>,
    ) -> Self {
        Self {
            protocol: protocol.clone(),
            service,
            stopping,
            patience,
        }
    }
}

impl<S, B> Exchange for Http<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    async fn run<IO>(&self, io: IO, caller: Extensions, connection: &Connection)
    where
        IO: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // One for the connection: a clone for each request would count the users of all that it shares.
        let own = RefCell::new(self.service.clone());
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().extend(caller.clone());
            let open = connection.begin();
            // The services of ports are always ready.
            let response = own.borrow_mut().call(request);
            async move {
                let response = response.await?;
                Ok::<_, Infallible>(response.map(|body| Tracked { body, _open: open }))
            }
        });
        let io = TokioIo::new(SlowReaderGuard::new(io, self.patience));
        let arrived = Arrived::default();
        let http = http(&self.protocol, arrived.clone());
        // Boxed, since this future would have room for it twice: before and after it is pinned.
        let mut conversation = Box::pin(http.serve_connection(io, service));
        let mut stopping = self.stopping.clone();
        let end = async {
            tokio::select! {
                () = idle(connection) => {}
                _ = stopping.wait_for(|stop| *stop) => {}
            }
        };
        let served = pin!(poll_fn(|context| {
            let polled = conversation.as_mut().poll(context);
            // The connection is woken by the answers, and writes them together.
            arrived.answer(context);
            polled.map(|ended| {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
            })
        }));
        if until(end, served).await.is_none() {
            return;
        }
        conversation.as_mut().graceful_shutdown();
        // Requests that are still in progress after the grace period are cut off.
        let rest = poll_fn(|context| {
            let polled = conversation.as_mut().poll(context);
            arrived.answer(context);
            polled
        });
        let _ = timer::timeout(GRACE, rest).await;
    }

    fn refusal(&self, first: &[u8; 3], text: &str) -> Vec<u8> {
        match first {
            b"PRI" => http2_refusal(text),
            _ => http1_refusal(text),
        }
    }
}

/// Returns the HTTP server of a port. Keep-alives find callers that are gone. Requests that are slow to arrive
/// need no timeout of their own here, because a request counts as begun only when its header is complete.
fn http(protocol: &Protocol, arrived: Arrived) -> Builder<Arrived> {
    let mut http = Builder::new(arrived);
    // Answers are small: one copy costs less than a write from several places.
    http.http1().writev(false);
    if let Protocol::Grpc { streams, .. } = protocol {
        http = http.http2_only();
        // Nothing in gRPC reads the date of a response.
        http.http2()
            .max_concurrent_streams(*streams)
            .auto_date_header(false);
    }
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    http
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
    body: B,
    _open: OpenRequest,
}

impl<B: Body + Unpin> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
