//! The messages of a client's session.
//!
//! Keys are spelled out once: a node names each by the generation of its
//! budget, and from then on reports and answers use that.

use crate::codec::{self, Wire, wire};
use crate::common::{drift, read_labels, write_labels};
use crate::error::WireError;
use crate::limits::{FORMER_MAX, LABELS_MAX, LINES_MAX, MEMBERS_MAX, MESSAGE_BYTES_MAX};
use crate::pb;
use crate::read::{self, choice};
use aliquot_core::budget::{Key, Labels};
use aliquot_core::central::{DecisionReply, DecisionRequest, Release};
use aliquot_core::message::{Answer, Report};
use aliquot_core::unit::{BudgetId, Drift, Edge, Span};

/// A message from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// The first message of a session, and only the first.
    Open(SessionOpen),
    /// Keys that it needs names for.
    Intern(Vec<Key>),
    /// The client's report.
    Report(Report),
    /// A request for a central decision.
    DecisionRequest(DecisionRequest),
    /// Returns permits that a central decision granted.
    Release(Release),
}

/// A message from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeMessage {
    /// The reply to the first message, once.
    Opened(SessionOpened),
    /// New names of keys.
    Interned(Vec<Interned>),
    /// The node's answer.
    Answer(Answer),
    /// The address of a node that the client should switch to. It may stay.
    Move(String),
    /// The reply to a request for a central decision.
    DecisionReply(DecisionReply),
    /// The addresses for clients of all members of the cluster. At most [`MEMBERS_MAX`].
    Members(Vec<String>),
}

/// The first message of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOpen {
    /// Labels of the client. At most [`LABELS_MAX`].
    pub labels: Labels,
    /// The first keys. At most [`LINES_MAX`].
    pub keys: Vec<Key>,
    /// Edges of its former incarnations, whose floors it no longer uses. At most [`FORMER_MAX`].
    pub former: Vec<Edge>,
    /// The edge to resume after a lost connection, if it is still open.
    pub resume: Option<Edge>,
    /// True if the client wants [`NodeMessage::Members`].
    pub wants_members: bool,
    /// Time for which the client's process has run, if the client sends it.
    pub age: Option<Span>,
}

/// The reply to the first message of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOpened {
    /// The new edge: the incarnations of the node, and of the client as issued by the node.
    pub edge: Edge,
    /// The drift bound.
    pub drift: Drift,
    /// Time between reports of the client; never zero.
    pub report_every: Span,
    /// Names of its keys on this edge.
    pub keys: Vec<Interned>,
}

/// The name of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interned {
    /// The key.
    pub key: Key,
    /// The generation of its budget, or the reason that there is none.
    pub budget: Result<BudgetId, KeyRefusal>,
}

/// The reason that a key has no budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// No rule matches the key.
    NoRule,
    /// Its template has reached its maximum number of instances.
    TooManyInstances,
    /// The budget does not exist yet; ask again.
    NotYet,
    /// The session has as many keys as it may have.
    SessionFull,
}

wire!(ClientMessage, ClientMessage, MESSAGE_BYTES_MAX);
wire!(NodeMessage, NodeMessage, MESSAGE_BYTES_MAX);

choice!(
    KeyRefusal,
    KeyRefusal,
    "1 (no rule), 2 (too many instances), 3 (not yet) or 4 (session full)",
    NoRule,
    TooManyInstances,
    NotYet,
    SessionFull
);

impl From<&ClientMessage> for pb::ClientMessage {
    fn from(message: &ClientMessage) -> Self {
        use pb::client_message::Kind;
        let kind = match message {
            ClientMessage::Open(open) => Kind::Open(open.into()),
            ClientMessage::Intern(keys) => Kind::Intern(pb::InternKeys {
                keys: write_keys(keys),
            }),
            ClientMessage::Report(report) => Kind::Report(report.to_bytes()),
            ClientMessage::DecisionRequest(ask) => Kind::Ask(ask.into()),
            ClientMessage::Release(release) => Kind::Release(release.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<pb::ClientMessage> for ClientMessage {
    type Error = WireError;

    fn try_from(message: pb::ClientMessage) -> Result<Self, WireError> {
        use pb::client_message::Kind;
        Ok(match message.kind {
            Some(Kind::Open(open)) => Self::Open(
                open.try_into()
                    .map_err(|error: WireError| error.within("open"))?,
            ),
            Some(Kind::Intern(intern)) => Self::Intern(read_keys(intern.keys, "intern.keys")?),
            Some(Kind::Report(report)) => Self::Report(codec::encoded(report, "report")?),
            Some(Kind::Ask(ask)) => Self::DecisionRequest(read::required(Some(ask), "ask")?),
            Some(Kind::Release(release)) => {
                Self::Release(read::required(Some(release), "release")?)
            }
            None => return Err(unknown("open, intern, report, ask or release")),
        })
    }
}

impl From<&NodeMessage> for pb::NodeMessage {
    fn from(message: &NodeMessage) -> Self {
        use pb::node_message::Kind;
        let kind = match message {
            NodeMessage::Opened(opened) => Kind::Opened(opened.into()),
            NodeMessage::Interned(keys) => Kind::Interned(pb::InternedKeys {
                keys: keys.iter().map(Into::into).collect(),
            }),
            NodeMessage::Answer(answer) => Kind::Answer(answer.to_bytes()),
            NodeMessage::Move(address) => Kind::Move(pb::Move {
                address: address.clone(),
            }),
            NodeMessage::DecisionReply(reply) => Kind::Told(reply.into()),
            NodeMessage::Members(addresses) => Kind::Members(pb::Members {
                addresses: addresses.clone(),
            }),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<pb::NodeMessage> for NodeMessage {
    type Error = WireError;

    fn try_from(message: pb::NodeMessage) -> Result<Self, WireError> {
        use pb::node_message::Kind;
        Ok(match message.kind {
            Some(Kind::Opened(opened)) => Self::Opened(
                opened
                    .try_into()
                    .map_err(|error: WireError| error.within("opened"))?,
            ),
            Some(Kind::Interned(interned)) => {
                Self::Interned(read::list(interned.keys, "interned.keys", LINES_MAX)?)
            }
            Some(Kind::Answer(answer)) => Self::Answer(codec::encoded(answer, "answer")?),
            Some(Kind::Move(to)) => Self::Move(read::address(to.address, "move.address")?),
            Some(Kind::Told(reply)) => Self::DecisionReply(read::required(Some(reply), "told")?),
            Some(Kind::Members(members)) => {
                let addresses = members.addresses;
                read::at_most(addresses.len(), "members.addresses", MEMBERS_MAX)?;
                Self::Members(read::each(addresses, "members.addresses", |address| {
                    read::address(address, "")
                })?)
            }
            None => {
                let kinds = "opened, interned, answer, move, told or members";
                return Err(unknown(kinds));
            }
        })
    }
}

/// Makes the error for a message of a kind that this version does not know.
fn unknown(kinds: &str) -> WireError {
    WireError::field(
        "kind",
        "nothing",
        format!("a kind that is known here: {kinds}"),
    )
}

impl From<&SessionOpen> for pb::SessionOpen {
    fn from(open: &SessionOpen) -> Self {
        Self {
            labels: write_labels(&open.labels),
            keys: write_keys(&open.keys),
            former: open.former.iter().map(Into::into).collect(),
            resume: open.resume.as_ref().map(Into::into),
            wants_members: open.wants_members,
            age_ns: open.age.map(Span::nanos),
        }
    }
}

impl TryFrom<pb::SessionOpen> for SessionOpen {
    type Error = WireError;

    fn try_from(open: pb::SessionOpen) -> Result<Self, WireError> {
        Ok(Self {
            labels: read_labels(open.labels, LABELS_MAX)?,
            keys: read_keys(open.keys, "keys")?,
            former: read::list(open.former, "former", FORMER_MAX)?,
            resume: read::optional(open.resume, "resume")?,
            wants_members: open.wants_members,
            age: open.age_ns.map(Span::from_nanos),
        })
    }
}

impl From<&SessionOpened> for pb::SessionOpened {
    fn from(opened: &SessionOpened) -> Self {
        Self {
            edge: Some((&opened.edge).into()),
            drift_ppm: opened.drift.ppm(),
            report_every_ns: opened.report_every.nanos(),
            keys: opened.keys.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::SessionOpened> for SessionOpened {
    type Error = WireError;

    fn try_from(opened: pb::SessionOpened) -> Result<Self, WireError> {
        if opened.report_every_ns == 0 {
            return Err(WireError::field("report_every_ns", 0, "at least 1"));
        }
        Ok(Self {
            edge: read::required(opened.edge, "edge")?,
            drift: drift(opened.drift_ppm)?,
            report_every: Span::from_nanos(opened.report_every_ns),
            keys: read::list(opened.keys, "keys", LINES_MAX)?,
        })
    }
}

impl From<&Interned> for pb::InternedKey {
    fn from(interned: &Interned) -> Self {
        use pb::interned_key::Outcome;
        let outcome = match interned.budget {
            Ok(budget) => Outcome::Budget(budget.get()),
            Err(refusal) => Outcome::Refusal(pb::KeyRefusal::from(refusal).into()),
        };
        Self {
            key: interned.key.to_string(),
            outcome: Some(outcome),
        }
    }
}

impl TryFrom<pb::InternedKey> for Interned {
    type Error = WireError;

    fn try_from(interned: pb::InternedKey) -> Result<Self, WireError> {
        use pb::interned_key::Outcome;
        let budget = match interned.outcome {
            Some(Outcome::Budget(budget)) => Ok(BudgetId::new(budget)),
            Some(Outcome::Refusal(refusal)) => Err(read::chosen(refusal, "refusal")?),
            None => {
                return Err(WireError::field(
                    "outcome",
                    "nothing",
                    "a budget or a refusal",
                ));
            }
        };
        let key = read_key(interned.key).map_err(|error| error.within("key"))?;
        Ok(Self { key, budget })
    }
}

fn write_keys(keys: &[Key]) -> Vec<String> {
    keys.iter().map(ToString::to_string).collect()
}

fn read_keys(keys: Vec<String>, field: &str) -> Result<Vec<Key>, WireError> {
    read::at_most(keys.len(), field, LINES_MAX)?;
    read::each(keys, field, read_key)
}

/// Reads a key. The path of the error is empty; the caller completes it.
pub(crate) fn read_key(text: String) -> Result<Key, WireError> {
    Key::try_from(text.as_str()).map_err(|error| {
        let allowed = format!("a key, which {error}");
        WireError::field("", format_args!("{text:?}"), allowed)
    })
}
