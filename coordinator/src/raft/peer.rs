//! Requests between nodes beside replication: client and server.

use super::members;
use super::options::CHANGE_WITHIN;
use super::outcome::{ChangeError, Leader, ProposeError};
use super::service::{check_cluster, read};
use super::shared::Shared;
use crate::timer;
use aliquot_client::ConnectionError;
use aliquot_wire::limits::APPEND_BYTES_MAX;
use aliquot_wire::pb::peer_client::PeerClient;
use aliquot_wire::peer as wire;
use aliquot_wire::{Wire, WireError, pb};
use bytes::Bytes;
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

/// Timeouts of a greeting and of a proposal.
const HELLO_TIMEOUT: Duration = Duration::from_secs(1);
const PROPOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Error of a request to a peer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PeerError {
    /// The peer refused. The same request would be refused again.
    #[error("{0}")]
    Refused(String),
    /// The peer could not be reached, or not in time. It may have carried out the request.
    #[error("{0}")]
    Silent(String),
}

/// Requests to other nodes.
impl Shared {
    pub(super) async fn hello(&self, address: &str) -> Result<wire::Greeting, PeerError> {
        let hello = wire::Hello {
            cluster: self.options.cluster.clone(),
            sender: wire::PeerAddress {
                node: self.options.node,
                address: self.options.address.clone(),
            },
        };
        let mut client = self.peer(address)?;
        answer(HELLO_TIMEOUT, client.hello(hello.to_message())).await
    }

    pub(super) async fn ask_to_join(
        &self,
        address: &str,
        node: wire::PeerAddress,
        forwarded: bool,
    ) -> Result<wire::Joined, PeerError> {
        let join = wire::Join {
            cluster: self.options.cluster.clone(),
            node,
            forwarded,
        };
        let mut client = self.peer(address)?;
        answer(CHANGE_WITHIN, client.join(join.to_message())).await
    }

    pub(super) async fn propose_to(
        &self,
        address: &str,
        command: Bytes,
    ) -> Result<wire::Proposed, PeerError> {
        let propose = wire::Propose {
            cluster: self.options.cluster.clone(),
            command,
        };
        let mut client = self.peer(address)?;
        answer(PROPOSE_TIMEOUT, client.propose(propose.to_message())).await
    }

    pub(super) async fn order_change(
        &self,
        address: &str,
        change: wire::Change,
    ) -> Result<wire::Changed, PeerError> {
        let order = wire::ChangeOrder {
            cluster: self.options.cluster.clone(),
            change,
        };
        let mut client = self.peer(address)?;
        answer(CHANGE_WITHIN, client.change(order.to_message())).await
    }

    fn peer(&self, address: &str) -> Result<PeerClient<Channel>, PeerError> {
        let channel = self.links.beside(address);
        let channel = channel.map_err(|error| PeerError::Refused(error.to_string()))?;
        Ok(PeerClient::new(channel)
            .max_decoding_message_size(APPEND_BYTES_MAX)
            .max_encoding_message_size(APPEND_BYTES_MAX))
    }
}

async fn answer<T: Wire>(
    limit: Duration,
    call: impl Future<Output = Result<Response<T::Message>, Status>>,
) -> Result<T, PeerError> {
    let silent = |_| PeerError::Silent(format!("no answer within {limit:?}"));
    let answer = timer::timeout(limit, call).await.map_err(silent)?;
    let answer = answer.map_err(|status| match (status.source(), status.code()) {
        // A status with a source was not sent by the peer, whatever its code: the connection failed.
        (Some(failed), _) => PeerError::Silent(ConnectionError::of(failed).to_string()),
        (None, Code::FailedPrecondition | Code::InvalidArgument | Code::PermissionDenied) => {
            PeerError::Refused(status.message().to_owned())
        }
        (None, code) => PeerError::Silent(format!("{code}: {}", status.message())),
    })?;
    let value = T::from_message(answer.into_inner());
    value.map_err(|error: WireError| PeerError::Refused(error.to_string()))
}

pub(super) fn address_out(leader: Option<Leader>) -> Option<wire::PeerAddress> {
    leader.map(|(node, address)| wire::PeerAddress { node, address })
}

pub(super) fn address_in(leader: Option<wire::PeerAddress>) -> Option<Leader> {
    leader.map(|leader| (leader.node, leader.address))
}

/// Server for the requests of other nodes.
#[derive(Clone, Debug)]
pub(super) struct PeerService {
    pub(super) shared: Arc<Shared>,
}

type Answer<T> = Result<Response<T>, Status>;

impl PeerService {
    fn ours(&self, cluster: &str) -> Result<(), Status> {
        check_cluster(&self.shared.options.cluster, cluster)
    }

    async fn pass_on(&self, join: wire::Join) -> Answer<pb::JoinResponse> {
        if join.forwarded {
            let what = "this node does not lead, and a request is passed on only once";
            return Err(Status::unavailable(what));
        }
        let Some((_, leader)) = self.shared.now().leader_address() else {
            let what = "this node knows of no leader to pass the request on to";
            return Err(Status::unavailable(what));
        };
        let joined = self.shared.ask_to_join(&leader, join.node, true).await;
        match joined {
            Ok(joined) => Ok(Response::new(joined.to_message())),
            Err(PeerError::Refused(why)) => Err(Status::failed_precondition(why)),
            Err(PeerError::Silent(why)) => Err(Status::unavailable(why)),
        }
    }
}

#[tonic::async_trait]
impl pb::peer_server::Peer for PeerService {
    async fn hello(&self, request: Request<pb::HelloRequest>) -> Answer<pb::HelloResponse> {
        let hello: wire::Hello = read(request)?;
        self.ours(&hello.cluster)?;
        let (status, options) = (self.shared.now(), &self.shared.options);
        // This reads the disk, because the status is updated a little later.
        let formed = self.shared.store.formed();
        let formed = formed.map_err(|error| Status::unavailable(error.to_string()))?;
        let greeting = wire::Greeting {
            cluster: options.cluster.clone(),
            node: options.node,
            formed,
            leader: address_out(status.leader_address()),
            peers: options.sorted_peers(),
        };
        Ok(Response::new(greeting.to_message()))
    }

    async fn join(&self, request: Request<pb::JoinRequest>) -> Answer<pb::JoinResponse> {
        let join: wire::Join = read(request)?;
        self.ours(&join.cluster)?;
        if !self.shared.now().leads {
            return self.pass_on(join).await;
        }
        // Runs in a task of its own, so that a change is completed even if the caller disconnects.
        let shared = Arc::clone(&self.shared);
        let admitted = tokio::spawn(async move { members::admit(&shared, join.node).await });
        let admitted = admitted.await.map_err(|_| stopped())?;
        match admitted {
            Ok(replaced) => Ok(Response::new(wire::Joined { replaced }.to_message())),
            Err(ChangeError::Refused { reason }) => Err(Status::failed_precondition(reason)),
            Err(error) => Err(Status::unavailable(error.to_string())),
        }
    }

    async fn propose(&self, request: Request<pb::ProposeRequest>) -> Answer<pb::ProposeResponse> {
        let propose: wire::Propose = read(request)?;
        self.ours(&propose.cluster)?;
        // A command that this node cannot read would stop it and all others of its version.
        let readable = (self.shared.options.readable)(&propose.command);
        readable.map_err(Status::invalid_argument)?;
        let proposed = match self.shared.propose(propose.command, None).await {
            Ok(outcome) => {
                let encode = self.shared.options.encode_outcome;
                wire::Proposed::Applied(encode(&outcome))
            }
            Err(ProposeError::NotLeader { leader }) => {
                wire::Proposed::NotLeading(address_out(leader))
            }
            Err(ProposeError::Unknown) => wire::Proposed::Unknown,
            Err(ProposeError::Stopped) => return Err(stopped()),
            Err(error @ (ProposeError::TooLarge { .. } | ProposeError::Unreadable { .. })) => {
                return Err(Status::invalid_argument(error.to_string()));
            }
        };
        Ok(Response::new(proposed.to_message()))
    }

    async fn change(&self, request: Request<pb::ChangeRequest>) -> Answer<pb::ChangeResponse> {
        let order: wire::ChangeOrder = read(request)?;
        self.ours(&order.cluster)?;
        let shared = Arc::clone(&self.shared);
        let made = tokio::spawn(async move { members::make(&shared, order.change).await });
        let changed = match made.await.map_err(|_| stopped())? {
            Ok(()) => wire::Changed::Made,
            Err(ChangeError::NotLeader { leader }) => {
                wire::Changed::NotLeading(address_out(leader))
            }
            Err(ChangeError::Refused { reason }) => wire::Changed::Refused(reason),
            Err(ChangeError::Unknown { what }) => wire::Changed::Unknown(what),
            Err(ChangeError::Stopped) => return Err(stopped()),
        };
        Ok(Response::new(changed.to_message()))
    }
}

fn stopped() -> Status {
    Status::unavailable("this node has stopped")
}
