//! Connections to nodes: one gRPC stream for each session.

use crate::session::connection_error::ConnectionError;
use crate::session::error::BuildError;
use aliquot_wire::Wire;
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::session_client::SessionClient;
use aliquot_wire::session::{ClientMessage, NodeMessage, SessionOpen};
use http::Uri;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Error};
use tower_service::Service;

/// A stream of bytes to a node.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

type Opening<S> = Pin<Box<dyn Future<Output = io::Result<S>> + Send>>;

/// Opens a stream to an address.
pub(crate) type Connector = Arc<dyn Fn(String) -> Opening<Box<dyn Stream>> + Send + Sync>;

/// The way to nodes.
#[derive(Clone)]
pub(crate) enum Network {
    /// The host's network.
    Host(Option<ClientTlsConfig>),
    /// Streams that the service opens itself.
    Own(Connector),
}

impl Network {
    const CONNECT_WAIT: Duration = Duration::from_secs(1);
    /// Interval and timeout of keep-alive pings. A dead connection is noticed within two of these.
    const KEEP_ALIVE: Duration = Duration::from_secs(2);

    async fn connect(&self, address: &str) -> Result<Channel, Error> {
        let scheme = match self {
            Self::Host(Some(_)) => "https",
            Self::Host(None) | Self::Own(_) => "http",
        };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))?
            .connect_timeout(Self::CONNECT_WAIT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Self::KEEP_ALIVE)
            .keep_alive_timeout(Self::KEEP_ALIVE)
            .keep_alive_while_idle(true);
        match self {
            Self::Host(None) => endpoint.connect().await,
            Self::Host(Some(tls)) => endpoint.tls_config(tls.clone())?.connect().await,
            Self::Own(connector) => {
                let connector = Arc::clone(connector);
                let address = address.to_owned();
                endpoint
                    .connect_with_connector(OwnStreams { connector, address })
                    .await
            }
        }
    }
}

/// A connector as tonic wants it.
struct OwnStreams {
    connector: Connector,
    address: String,
}

impl Service<Uri> for OwnStreams {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = io::Error;
    type Future = Opening<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = (self.connector)(self.address.clone());
        Box::pin(async move { stream.await.map(TokioIo::new) })
    }
}

/// Opens session streams.
#[derive(Clone)]
pub(crate) struct Dialer {
    network: Network,
    token: Option<MetadataValue<Ascii>>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

/// Sending half of a session stream. What the node sends arrives as [`Event`]s.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: u64,
    pub(crate) address: String,
    sender: mpsc::Sender<pb::ClientMessage>,
    /// Separate queue for questions and releases, so that they and reports never wait for each other's room.
    lane: mpsc::Sender<pb::ClientMessage>,
    reader: Option<tokio::task::AbortHandle>,
}

/// An event of a link, with its number.
#[derive(Debug)]
pub(crate) enum Event {
    /// The node sent a message.
    Received(u64, Box<NodeMessage>),
    /// The stream has ended, for this reason.
    Lost(u64, String),
}

impl Link {
    /// Maximum number of messages queued for a slow connection. When the queue is full, reports are skipped.
    const QUEUE: usize = 16;

    /// Maximum number of queued questions and releases. Further ones are repeated later.
    const LANE: usize = 1_024;

    /// Sends a message. Returns false if the connection does not keep up.
    pub(crate) fn send(&self, message: &ClientMessage) -> bool {
        self.sender.try_send(message.to_message()).is_ok()
    }

    /// Sends a question or a release. Returns false if the connection does not keep up.
    pub(crate) fn say(&self, message: &ClientMessage) -> bool {
        self.lane.try_send(message.to_message()).is_ok()
    }

    /// Returns true if there is room for a message.
    pub(crate) fn has_room(&self) -> bool {
        self.sender.capacity() > 0
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

impl Dialer {
    pub(crate) fn new(network: Network, token: Option<&str>) -> Result<Self, BuildError> {
        let token = match token {
            Some(token) => {
                let value = format!("Bearer {token}");
                Some(value.parse().map_err(|_| BuildError::Token)?)
            }
            None => None,
        };
        Ok(Self { network, token })
    }

    /// Opens a session stream to `address`; messages of the node arrive as events.
    pub(crate) fn dial(
        &self,
        id: u64,
        address: String,
        open: SessionOpen,
        events: mpsc::Sender<Event>,
    ) -> Link {
        let (sender, outgoing) = mpsc::channel(Link::QUEUE);
        let (lane, beside) = mpsc::channel(Link::LANE);
        let outgoing = ReceiverStream::new(outgoing).merge(ReceiverStream::new(beside));
        // Cannot fail: the channel is new and empty.
        let _ = sender.try_send(ClientMessage::Open(open).to_message());
        let (dialer, to) = (self.clone(), address.clone());
        let reader = tokio::spawn(async move {
            let reason = dialer.carry(id, to, outgoing, &events).await;
            let _ = events.send(Event::Lost(id, reason)).await;
        });
        Link {
            id,
            address,
            sender,
            lane,
            reader: Some(reader.abort_handle()),
        }
    }

    /// Connects, and forwards messages of the node until the stream ends. Returns the reason.
    async fn carry(
        &self,
        id: u64,
        address: String,
        outgoing: impl tokio_stream::Stream<Item = pb::ClientMessage> + Send + 'static,
        events: &mpsc::Sender<Event>,
    ) -> String {
        let channel = match self.network.connect(&address).await {
            Ok(channel) => channel,
            Err(error) => return ConnectionError::of(&error).to_string(),
        };
        let mut client = SessionClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let mut request = tonic::Request::new(outgoing);
        if let Some(token) = &self.token {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        let mut incoming = match client.open(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => return ended(&status),
        };
        loop {
            match incoming.message().await {
                Ok(Some(message)) => match NodeMessage::from_message(message) {
                    Ok(message) => {
                        if events
                            .send(Event::Received(id, Box::new(message)))
                            .await
                            .is_err()
                        {
                            return "the client is gone".into();
                        }
                    }
                    Err(error) => return error.to_string(),
                },
                Ok(None) => return "the node ended the stream".into(),
                Err(status) => return ended(&status),
            }
        }
    }
}

/// Describes the status that ended a stream: one of the node, or a failure of the connection.
fn ended(status: &tonic::Status) -> String {
    match ConnectionError::of_status(status) {
        Some(failed) => failed.to_string(),
        None => format!("{}: {}", status.code(), status.message()),
    }
}
