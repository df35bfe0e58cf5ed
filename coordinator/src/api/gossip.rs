//! The service that receives the gossip of peers.

use crate::gossip::{CLUSTER_METADATA, Event, NODE_METADATA, TARGET_METADATA};
use crate::timer;
use aliquot_core::unit::NodeId;
use aliquot_wire::Wire;
use aliquot_wire::gossip::GossipMessage;
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::gossip_server::{Gossip, GossipServer};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

/// Maximum time for which a peer may send nothing. A live peer lists all of its records every five
/// seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Receives the messages of peers of this cluster and passes them to the actor. On the same stream it answers
/// nothing but echoes, because this node has a stream of its own to each peer.
#[derive(Clone, Debug)]
pub struct GossipApi {
    cluster: String,
    node: NodeId,
    events: mpsc::Sender<Event>,
}

impl GossipApi {
    /// Creates the service of `node` in `cluster`.
    #[must_use]
    pub const fn new(cluster: String, node: NodeId, events: mpsc::Sender<Event>) -> Self {
        Self {
            cluster,
            node,
            events,
        }
    }

    /// Returns the gRPC service for the peer port.
    #[must_use]
    pub fn into_service(self) -> GossipServer<Self> {
        GossipServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Returns the calling node, if the call is meant for this node.
    fn caller(&self, metadata: &MetadataMap) -> Result<NodeId, Status> {
        let cluster = text(metadata, CLUSTER_METADATA)?;
        if cluster != self.cluster {
            let ours = &self.cluster;
            return Err(wrong(CLUSTER_METADATA, cluster, &format!("{ours:?}")));
        }
        let caller = number(metadata, NODE_METADATA)?;
        if caller == self.node.get() {
            return Err(wrong(NODE_METADATA, caller, "another node than this one"));
        }
        let target = number(metadata, TARGET_METADATA)?;
        if target != self.node.get() {
            let ours = self.node.get();
            let ours = format!("{ours}, the node that listens here");
            return Err(wrong(TARGET_METADATA, target, &ours));
        }
        Ok(NodeId::new(caller))
    }
}

#[tonic::async_trait]
impl Gossip for GossipApi {
    type ExchangeStream = ReceiverStream<Result<pb::GossipMessage, Status>>;

    async fn exchange(
        &self,
        request: Request<Streaming<pb::GossipMessage>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let peer = self.caller(request.metadata())?;
        let (answers, stream) = mpsc::channel(1);
        let messages = request.into_inner();
        let events = self.events.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                ended = listen(peer, messages, events, &answers) => {
                    tracing::debug!(%peer, ?ended, "the peer's gossip stream ended");
                    if let Err(status) = ended {
                        // A peer that is gone needs no reason.
                        let _ = answers.send(Err(status)).await;
                    }
                }
                () = answers.closed() => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Passes on the messages of a peer until its stream ends. An error is returned to the peer.
async fn listen(
    peer: NodeId,
    mut messages: Streaming<pb::GossipMessage>,
    events: mpsc::Sender<Event>,
    answers: &mpsc::Sender<Result<pb::GossipMessage, Status>>,
) -> Result<(), Status> {
    if events.send(Event::Called { peer }).await.is_err() {
        return Err(stopping());
    }
    loop {
        let next = tokio::select! {
            biased;
            () = events.closed() => return Err(stopping()),
            next = timer::timeout(SILENCE_MAX, messages.message()) => next,
        };
        let Ok(next) = next else {
            let text = format!("nothing was said for {SILENCE_MAX:?}");
            return Err(Status::deadline_exceeded(text));
        };
        let Some(message) = next? else {
            return Ok(());
        };
        if message.echo > 0 {
            let echo = pb::GossipMessage {
                echo: message.echo,
                ..pb::GossipMessage::default()
            };
            // A peer that has not taken the last one measures nothing this time.
            let _ = answers.try_send(Ok(echo));
        }
        let message = match GossipMessage::from_message(message) {
            Ok(message) => message,
            Err(error) => return Err(Status::invalid_argument(error.to_string())),
        };
        if events.send(Event::Message { peer, message }).await.is_err() {
            return Err(stopping());
        }
    }
}

fn stopping() -> Status {
    Status::unavailable("the node is stopping")
}

fn text<'a>(metadata: &'a MetadataMap, name: &str) -> Result<&'a str, Status> {
    let value = metadata.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| wrong(name, "nothing", "given, in visible ASCII"))
}

fn number(metadata: &MetadataMap, name: &str) -> Result<u64, Status> {
    let text = text(metadata, name)?;
    let number = text.parse();
    number.map_err(|_| wrong(name, text, "the number of a node, in decimal digits"))
}

fn wrong(field: &str, value: impl std::fmt::Display, allowed: &str) -> Status {
    Status::failed_precondition(format!("{field} = {value}: must be {allowed}"))
}
