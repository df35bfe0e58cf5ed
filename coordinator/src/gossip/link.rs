//! The task that keeps a stream to one peer.

use super::{CLUSTER_METADATA, Event, NODE_METADATA, TARGET_METADATA};
use crate::timer;
use aliquot_client::ConnectionError;
use aliquot_core::unit::{NodeId, Span};
use aliquot_wire::Wire;
use aliquot_wire::gossip::GossipMessage;
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::gossip_client::GossipClient;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Returns a channel to an address without waiting for the connection. It defines TLS, keep-alives and
/// the connect timeout.
pub type Connector = Arc<dyn Fn(&str) -> Channel + Send + Sync>;

/// The nodes that a link connects, and the seed of its pauses.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Name of the cluster of both nodes: visible ASCII.
    pub cluster: String,
    /// This node.
    pub node: NodeId,
    /// The peer.
    pub peer: NodeId,
    /// Address at which the peer listens for peers.
    pub address: String,
    /// Seed for the pauses between two attempts.
    pub seed: u64,
}

/// A link to a peer. It is closed when this is dropped.
#[derive(Debug)]
pub struct Link {
    outbound: mpsc::Sender<GossipMessage>,
    again: Arc<Notify>,
    up: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Link {
    /// Maximum number of messages that wait for the transport.
    const OUTBOUND: usize = 8;

    /// Starts to connect, and reconnects until the link is dropped. [`Event::Up`] and [`Event::Down`]
    /// report its state.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    #[must_use]
    pub fn open(settings: LinkSettings, connect: Connector, events: mpsc::Sender<Event>) -> Self {
        let (outbound, waiting) = mpsc::channel(Self::OUTBOUND);
        let again = Arc::new(Notify::new());
        let up = Arc::new(AtomicBool::new(false));
        let link = LinkTask {
            again: Arc::clone(&again),
            up: Arc::clone(&up),
            rng: StdRng::seed_from_u64(settings.seed),
            settings,
            connect,
            events,
            waiting,
            echoes: 0,
            measured: None,
            lost: false,
        };
        let task = tokio::spawn(link.run());
        Self {
            outbound,
            again,
            up,
            task,
        }
    }

    /// Ends the current pause, because there is reason to think that the peer is back. If the link is
    /// not pausing, this ends the next pause instead.
    pub fn retry(&self) {
        self.again.notify_one();
    }

    /// Returns true while a stream to the peer is open. It changes before the event that reports it.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }

    /// Returns true if [`Link::send`] would take a message now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.outbound.capacity() > 0
    }

    /// Sends a message if there is room. Returns `false` and drops it if there is none, which is
    /// harmless: its contents are listed again in a later round.
    pub fn send(&self, message: GossipMessage) -> bool {
        self.outbound.try_send(message).is_ok()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Shortest and longest pause between two attempts. A peer that is back is found well within a lease,
/// and one that is gone costs next to nothing.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Maximum time for the peer to answer a call, or to take a message.
const PATIENCE: Duration = Duration::from_secs(5);

/// Interval at which the round trip to the peer is measured.
const MEASURE: Duration = Duration::from_secs(1);

struct LinkTask {
    settings: LinkSettings,
    connect: Connector,
    rng: StdRng,
    events: mpsc::Sender<Event>,
    waiting: mpsc::Receiver<GossipMessage>,
    again: Arc<Notify>,
    /// True while a stream is open.
    up: Arc<AtomicBool>,
    /// Number of the last echo that was requested.
    echoes: u64,
    /// Time at which it was requested.
    measured: Option<Duration>,
    /// True once it was logged that the peer is unreachable.
    lost: bool,
}

impl fmt::Debug for LinkTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkTask")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl LinkTask {
    async fn run(mut self) {
        let peer = self.settings.peer;
        let mut backoff = BACKOFF.0;
        // One channel serves the link for good, because it reconnects by itself.
        let channel = (self.connect)(&self.settings.address);
        loop {
            let ended = self.hold(channel.clone()).await;
            if self.up.swap(false, Ordering::Relaxed) {
                backoff = BACKOFF.0;
            }
            let Some(reason) = ended else { return };
            tracing::debug!(%peer, %reason, "the gossip link is down");
            if !std::mem::replace(&mut self.lost, true) {
                let address = &self.settings.address;
                tracing::warn!(%peer, %address, %reason, "a peer is lost; reconnecting");
            }
            if self
                .events
                .send(Event::Down { peer, reason })
                .await
                .is_err()
            {
                return;
            }
            let wait = backoff.mul_f64(self.rng.random_range(0.5..1.0));
            backoff = match timer::timeout(wait, self.again.notified()).await {
                Ok(()) => BACKOFF.0,
                Err(_) => BACKOFF.1.min(backoff * 2),
            };
        }
    }

    /// Keeps one stream open. Returns the reason why it ended, or `None` once the actor is gone.
    async fn hold(&mut self, channel: Channel) -> Option<String> {
        let (stream, messages) = mpsc::channel(1);
        let call = self.call(channel, messages);
        let mut answers = match timer::timeout(PATIENCE, call).await {
            Ok(Ok(answers)) => answers,
            Ok(Err(status)) => return Some(describe(&status)),
            Err(_) => return Some(format!("no answer within {PATIENCE:?}")),
        };
        self.up.store(true, Ordering::Relaxed);
        // Drop messages queued while there was no stream: the book sends newer ones once the link is up.
        while self.waiting.try_recv().is_ok() {}
        let peer = self.settings.peer;
        if std::mem::take(&mut self.lost) {
            tracing::info!(%peer, address = %self.settings.address, "a peer is back");
        }
        self.events.send(Event::Up { peer }).await.ok()?;
        loop {
            tokio::select! {
                biased;
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => self.echoed(answer.echo).await?,
                    Ok(None) => return Some("the peer ended the stream".into()),
                    Err(status) => return Some(describe(&status)),
                },
                message = self.waiting.recv() => {
                    let mut message = message?.to_message();
                    message.echo = self.echo();
                    let sent = stream.send_timeout(message, PATIENCE).await;
                    if sent.is_err() {
                        return Some(format!("the peer took nothing for {PATIENCE:?}"));
                    }
                }
            }
        }
    }

    /// Returns the number by which the peer is to answer the next message; zero if the round trip was measured a
    /// moment ago.
    fn echo(&mut self) -> u64 {
        let now = timer::uptime();
        if self
            .measured
            .is_some_and(|at| now.saturating_sub(at) < MEASURE)
        {
            return 0;
        }
        self.measured = Some(now);
        self.echoes += 1;
        self.echoes
    }

    /// Tells the actor how long the peer's answer took. The peer sends its own messages on the stream that it opens
    /// itself. Returns `None` once the actor is gone.
    async fn echoed(&self, echo: u64) -> Option<()> {
        let Some(at) = self.measured.filter(|_| echo == self.echoes) else {
            return Some(());
        };
        let took = timer::uptime().saturating_sub(at).as_nanos();
        let took = Span::from_nanos(u64::try_from(took).unwrap_or(u64::MAX));
        let peer = self.settings.peer;
        self.events.send(Event::RoundTrip { peer, took }).await.ok()
    }

    fn call(
        &self,
        channel: Channel,
        messages: mpsc::Receiver<pb::GossipMessage>,
    ) -> impl Future<Output = Result<tonic::Streaming<pb::GossipMessage>, Status>> + use<> {
        let mut client = GossipClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut request = Request::new(ReceiverStream::new(messages));
        let named = name(&mut request, &self.settings);
        async move {
            named?;
            Ok(client.exchange(request).await?.into_inner())
        }
    }
}

/// Adds the metadata that names the cluster, this node and the peer.
fn name<T>(request: &mut Request<T>, settings: &LinkSettings) -> Result<(), Status> {
    let cluster = MetadataValue::try_from(settings.cluster.as_str()).map_err(|_| {
        let cluster = &settings.cluster;
        Status::invalid_argument(format!("cluster = {cluster:?}: must be visible ASCII"))
    })?;
    let metadata = request.metadata_mut();
    metadata.insert(CLUSTER_METADATA, cluster);
    metadata.insert(NODE_METADATA, settings.node.get().into());
    metadata.insert(TARGET_METADATA, settings.peer.get().into());
    Ok(())
}

/// Describes a status of the peer, or the failure of the connection to it.
fn describe(status: &Status) -> String {
    match status.source() {
        Some(failed) => ConnectionError::of(failed).to_string(),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}
