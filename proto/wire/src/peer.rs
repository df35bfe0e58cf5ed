//! Calls between nodes beside replication: discovery, joining, and changes that
//! only the leader can make.

use crate::codec::wire;
use crate::error::WireError;
use crate::limits::{
    CLUSTER_BYTES_MAX, ENTRY_BYTES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::pb;
use crate::read;
use bytes::Bytes;

/// A node and its address for peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// The node.
    pub node: u64,
    /// Its address for peers.
    pub address: String,
}

/// Asks a node about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The cluster.
    pub cluster: String,
    /// The calling node.
    pub sender: PeerAddress,
}

/// A node's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The cluster.
    pub cluster: String,
    /// The node.
    pub node: u64,
    /// True if it has any entry of a log.
    pub formed: bool,
    /// The leader, as far as the node knows.
    pub leader: Option<PeerAddress>,
    /// The addresses of the peers in its configuration, in rising order.
    pub peers: Vec<String>,
}

/// Asks for a node to become a voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The cluster.
    pub cluster: String,
    /// The node that joins.
    pub node: PeerAddress,
    /// True if another node forwarded this.
    pub forwarded: bool,
}

/// The joining node is a voter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Former nodes at the same address, which it replaced.
    pub replaced: Vec<u64>,
}

/// A command for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Propose {
    /// The cluster.
    pub cluster: String,
    /// The command, opaque here. At most [`ENTRY_BYTES_MAX`].
    pub command: Bytes,
}

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// It was applied. Its effect, opaque here.
    Applied(Bytes),
    /// It was not written: another node leads, if any is known.
    NotLeading(Option<PeerAddress>),
    /// It may have been written, or not.
    Unknown,
}

/// A change of the members, for the leader to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeOrder {
    /// The cluster.
    pub cluster: String,
    /// The change.
    pub change: Change,
}

/// A change of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node becomes a learner.
    Add(PeerAddress),
    /// A learner becomes a voter, once it has caught up.
    Promote(u64),
    /// A node is removed.
    Remove(u64),
    /// A node replaces another, without waiting for the other one.
    Replace {
        /// The node that is gone.
        former: u64,
        /// The node that replaces it.
        successor: PeerAddress,
    },
    /// Leadership moves to another node.
    Transfer(u64),
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is committed.
    Made,
    /// Nothing was changed: another node leads, if any is known.
    NotLeading(Option<PeerAddress>),
    /// Nothing was changed; the reason.
    Refused(String),
    /// It may have been made, in part or whole; the details that are known.
    Unknown(String),
}

wire!(Hello, HelloRequest, 1_024);
wire!(Greeting, HelloResponse, MESSAGE_BYTES_MAX);
wire!(Join, JoinRequest, 1_024);
wire!(Joined, JoinResponse, 64 << 10);
wire!(Propose, ProposeRequest, ENTRY_BYTES_MAX + 1_024);
wire!(Proposed, ProposeResponse, MESSAGE_BYTES_MAX);
wire!(ChangeOrder, ChangeRequest, 1_024);
wire!(Changed, ChangeResponse, 2_048);

fn cluster(name: String) -> Result<String, WireError> {
    read::text(name, "cluster", CLUSTER_BYTES_MAX)
}

fn leader(not_leading: pb::NotLeading) -> Result<Option<PeerAddress>, WireError> {
    let leader = read::optional(not_leading.leader, "leader");
    leader.map_err(|error| error.within("not_leading"))
}

fn not_leading(leader: Option<&PeerAddress>) -> pb::NotLeading {
    pb::NotLeading {
        leader: leader.map(Into::into),
    }
}

fn nothing(field: &str, what: &str) -> WireError {
    WireError::field(field, "nothing", format!("{what} that is known here"))
}

/// Cuts a text to the length of the field.
fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned()
}

impl From<&PeerAddress> for pb::PeerAddress {
    fn from(peer: &PeerAddress) -> Self {
        Self {
            node: peer.node,
            address: peer.address.clone(),
        }
    }
}

impl TryFrom<pb::PeerAddress> for PeerAddress {
    type Error = WireError;

    fn try_from(peer: pb::PeerAddress) -> Result<Self, WireError> {
        Ok(Self {
            node: peer.node,
            address: read::address(peer.address, "address")?,
        })
    }
}

impl From<&Hello> for pb::HelloRequest {
    fn from(hello: &Hello) -> Self {
        Self {
            cluster: hello.cluster.clone(),
            sender: Some((&hello.sender).into()),
        }
    }
}

impl TryFrom<pb::HelloRequest> for Hello {
    type Error = WireError;

    fn try_from(request: pb::HelloRequest) -> Result<Self, WireError> {
        Ok(Self {
            cluster: cluster(request.cluster)?,
            sender: read::required(request.sender, "sender")?,
        })
    }
}

impl From<&Greeting> for pb::HelloResponse {
    fn from(greeting: &Greeting) -> Self {
        Self {
            cluster: greeting.cluster.clone(),
            node: greeting.node,
            formed: greeting.formed,
            leader: greeting.leader.as_ref().map(Into::into),
            peers: greeting.peers.clone(),
        }
    }
}

impl TryFrom<pb::HelloResponse> for Greeting {
    type Error = WireError;

    fn try_from(response: pb::HelloResponse) -> Result<Self, WireError> {
        read::at_most(response.peers.len(), "peers", MEMBERS_MAX)?;
        Ok(Self {
            cluster: cluster(response.cluster)?,
            node: response.node,
            formed: response.formed,
            leader: read::optional(response.leader, "leader")?,
            peers: read::each(response.peers, "peers", |peer| read::address(peer, ""))?,
        })
    }
}

impl From<&Join> for pb::JoinRequest {
    fn from(join: &Join) -> Self {
        Self {
            cluster: join.cluster.clone(),
            node: Some((&join.node).into()),
            forwarded: join.forwarded,
        }
    }
}

impl TryFrom<pb::JoinRequest> for Join {
    type Error = WireError;

    fn try_from(request: pb::JoinRequest) -> Result<Self, WireError> {
        Ok(Self {
            cluster: cluster(request.cluster)?,
            node: read::required(request.node, "node")?,
            forwarded: request.forwarded,
        })
    }
}

impl From<&Joined> for pb::JoinResponse {
    fn from(joined: &Joined) -> Self {
        Self {
            replaced: joined.replaced.clone(),
        }
    }
}

impl TryFrom<pb::JoinResponse> for Joined {
    type Error = WireError;

    fn try_from(response: pb::JoinResponse) -> Result<Self, WireError> {
        read::at_most(response.replaced.len(), "replaced", MEMBERS_MAX)?;
        Ok(Self {
            replaced: response.replaced,
        })
    }
}

impl From<&Propose> for pb::ProposeRequest {
    fn from(propose: &Propose) -> Self {
        Self {
            cluster: propose.cluster.clone(),
            command: propose.command.clone(),
        }
    }
}

impl TryFrom<pb::ProposeRequest> for Propose {
    type Error = WireError;

    fn try_from(request: pb::ProposeRequest) -> Result<Self, WireError> {
        read::at_most(request.command.len(), "command", ENTRY_BYTES_MAX)?;
        Ok(Self {
            cluster: cluster(request.cluster)?,
            command: request.command,
        })
    }
}

impl From<&Proposed> for pb::ProposeResponse {
    fn from(proposed: &Proposed) -> Self {
        use pb::propose_response::Outcome;
        let outcome = match proposed {
            Proposed::Applied(outcome) => Outcome::Applied(outcome.clone()),
            Proposed::NotLeading(leader) => Outcome::NotLeading(not_leading(leader.as_ref())),
            Proposed::Unknown => Outcome::Unknown(pb::Done {}),
        };
        Self {
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<pb::ProposeResponse> for Proposed {
    type Error = WireError;

    fn try_from(response: pb::ProposeResponse) -> Result<Self, WireError> {
        use pb::propose_response::Outcome;
        let outcome = response.outcome;
        Ok(
            match outcome.ok_or_else(|| nothing("outcome", "an outcome"))? {
                Outcome::Applied(outcome) => Self::Applied(outcome),
                Outcome::NotLeading(not_leading) => Self::NotLeading(leader(not_leading)?),
                Outcome::Unknown(pb::Done {}) => Self::Unknown,
            },
        )
    }
}

impl From<&ChangeOrder> for pb::ChangeRequest {
    fn from(order: &ChangeOrder) -> Self {
        use pb::change_request::Change as Said;
        let change = match &order.change {
            Change::Add(peer) => Said::Add(peer.into()),
            Change::Promote(node) => Said::Promote(*node),
            Change::Remove(node) => Said::Remove(*node),
            Change::Replace { former, successor } => Said::Replace(pb::Succession {
                former: *former,
                successor: Some(successor.into()),
            }),
            Change::Transfer(node) => Said::Transfer(*node),
        };
        Self {
            cluster: order.cluster.clone(),
            change: Some(change),
        }
    }
}

impl TryFrom<pb::ChangeRequest> for ChangeOrder {
    type Error = WireError;

    fn try_from(request: pb::ChangeRequest) -> Result<Self, WireError> {
        use pb::change_request::Change as Said;
        let change = request
            .change
            .ok_or_else(|| nothing("change", "a change"))?;
        let change = match change {
            Said::Add(peer) => Change::Add(read::required(Some(peer), "add")?),
            Said::Promote(node) => Change::Promote(node),
            Said::Remove(node) => Change::Remove(node),
            Said::Replace(replacement) => Change::Replace {
                former: replacement.former,
                successor: read::required(replacement.successor, "replace.successor")?,
            },
            Said::Transfer(node) => Change::Transfer(node),
        };
        Ok(Self {
            cluster: cluster(request.cluster)?,
            change,
        })
    }
}

impl From<&Changed> for pb::ChangeResponse {
    fn from(changed: &Changed) -> Self {
        use pb::change_response::Outcome;
        let outcome = match changed {
            Changed::Made => Outcome::Made(pb::Done {}),
            Changed::NotLeading(leader) => Outcome::NotLeading(not_leading(leader.as_ref())),
            Changed::Refused(why) => Outcome::Refused(cut(why)),
            Changed::Unknown(what) => Outcome::Unknown(cut(what)),
        };
        Self {
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<pb::ChangeResponse> for Changed {
    type Error = WireError;

    fn try_from(response: pb::ChangeResponse) -> Result<Self, WireError> {
        use pb::change_response::Outcome;
        let outcome = response.outcome;
        Ok(
            match outcome.ok_or_else(|| nothing("outcome", "an outcome"))? {
                Outcome::Made(pb::Done {}) => Self::Made,
                Outcome::NotLeading(not_leading) => Self::NotLeading(leader(not_leading)?),
                Outcome::Refused(why) => Self::Refused(read::text(why, "refused", TEXT_BYTES_MAX)?),
                Outcome::Unknown(what) => {
                    Self::Unknown(read::text(what, "unknown", TEXT_BYTES_MAX)?)
                }
            },
        )
    }
}
