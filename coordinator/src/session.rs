//! Client sessions on the server.
//!
//! | module | contents |
//! |---|---|
//! | [`outbox`] | pending messages to one client: only the latest of each kind, not a queue |
//! | [`stream`] | the task of one stream, which checks a client's messages |
//! | [`registry`] | the actor's table of sessions and of the names of their keys |
//! | [`rebalance`] | balancing of sessions between nodes |
//!
//! A stream's task sends [`Event`]s to the node's actor through a bounded channel, and waits while that
//! is full. A client's messages are therefore read no faster than they are handled. The actor never
//! waits for a client: [`Outbox::send`] always succeeds at once.
//!
//! ```text
//!   client ── open ──▶ task ── Event::Opening ──▶ actor
//!          ◀─ opened ─ outbox ◀──── reply ───────
//!          ── report ▶ task ── Event::Report ───▶
//!          ◀─ answer ─ outbox ◀──── send ────────
//!          ── gone ──▶ task ── Event::Gone ─────▶
//! ```

pub mod outbox;
pub mod rebalance;
pub mod registry;
pub mod stream;

pub use outbox::{Outbox, Outgoing};
pub use rebalance::{Rebalancer, Redirect, ServingNode};
pub use registry::{Name, Registry, Session};
pub use stream::{Gate, GateLimits};

use aliquot_core::budget::Key;
use aliquot_core::central::{DecisionRequest, Release};
use aliquot_core::message::Report;
use aliquot_core::unit::Edge;
use aliquot_wire::limits::{LINES_MAX, MESSAGE_BYTES_MAX};
use aliquot_wire::session::{SessionOpen, SessionOpened};
use std::fmt;
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::{Code, Status};

/// Default maximum number of streams of a node.
pub const STREAMS_MAX: usize = 20_000;

/// Maximum number of streams of one connection, for the server's builder. It allows for several
/// processes behind one proxy, but not for a whole fleet.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 256;

/// Maximum number of connections that wait to be accepted, for the clients' listener
/// (`TcpSocket::listen`). With the usual 1,024, connections are reset when a whole fleet reconnects at
/// once.
pub const BACKLOG: u32 = 4_096;

/// Maximum number of keys of a session. An answer with a line for each of them fits into one message,
/// whatever the counters are: a line takes at most 320 bytes.
pub const KEYS_MAX: usize = LINES_MAX / 2;

const _: () = assert!(KEYS_MAX * 320 < MESSAGE_BYTES_MAX);

/// One stream of this process. An id is never issued twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u64);

impl StreamId {
    /// Creates the id of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// A session, together with the stream that carries it now. When a session is resumed over another
/// stream, further messages of the old stream are ignored: see [`Registry::is_current`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The edge of the session: the incarnations of this node and of the client.
    pub edge: Edge,
    /// The stream.
    pub stream: StreamId,
}

/// Address and identity of a client, as far as the transport knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Address and port. Empty if the transport has none.
    pub address: String,
    /// Name that the client's certificate or token proved. Empty if there is none.
    pub name: String,
}

/// Events of streams, for the actor.
#[derive(Debug)]
pub enum Event {
    /// A client asks to open a session, or to resume one.
    Opening(Box<Opening>),
    /// A session asks for the names of keys, at most [`LINES_MAX`].
    Intern {
        /// The session.
        caller: Caller,
        /// The keys.
        keys: Vec<Key>,
    },
    /// A session reports. The report is on the caller's edge.
    Report {
        /// The session.
        caller: Caller,
        /// The report.
        report: Report,
    },
    /// A session requests a central decision. The request is on the caller's edge.
    DecisionRequest {
        /// The session.
        caller: Caller,
        /// The request.
        ask: DecisionRequest,
    },
    /// A client returns permits of a central decision, or gives up a request.
    Release {
        /// The permits or the request.
        release: Release,
    },
    /// A stream has ended. Its session's lease runs on, and the session may be resumed.
    Gone {
        /// The session, and the stream that ended.
        caller: Caller,
    },
}

/// A client's first message, with all that the actor needs to answer it.
#[derive(Debug)]
pub struct Opening {
    /// The stream of the message.
    pub stream: StreamId,
    /// The message.
    pub open: SessionOpen,
    /// Address and identity of the client.
    pub remote: Remote,
    /// Outbox for the client. It sends nothing before the reply.
    pub outbox: Outbox,
    /// Sender for the result. After a session was opened, exactly one [`Event::Gone`] follows, even if
    /// the client has left meanwhile.
    pub reply: oneshot::Sender<Result<SessionOpened, Refused>>,
}

/// Reason why a stream is not served, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The node has its maximum number of streams. Nothing was opened.
    #[error("sessions = more than {most}: must be at most {most} on this node; try another")]
    Full {
        /// The maximum number.
        most: usize,
    },
    /// The node takes no sessions now. Nothing was opened.
    #[error("this node takes no sessions now: {reason}; try another")]
    NotServing {
        /// The reason.
        reason: String,
    },
    /// A message has an invalid value, and was not handled. The session's lease runs on.
    #[error("{0}")]
    Malformed(String),
    /// A message came out of order. The session's lease runs on.
    #[error("{0}")]
    OutOfOrder(String),
    /// The first message did not come in time. Nothing was opened.
    #[error("open = nothing within {within:?}: must be the first message of the stream")]
    Late {
        /// The time that the client had.
        within: Duration,
    },
    /// Another stream goes on with the session.
    #[error("another stream resumed this session")]
    Replaced,
    /// The session's lease has ended, and its edge is closed. The client must open another session.
    #[error("the session's lease is over; open another")]
    Lapsed,
    /// The node is stopping.
    #[error("this node is stopping; try another")]
    Stopping,
}

impl Refused {
    /// Describes a field whose value is not allowed.
    fn field(field: &str, value: impl fmt::Debug, allowed: impl fmt::Display) -> String {
        format!("{field} = {value:?}: must be {allowed}")
    }

    const fn code(&self) -> Code {
        match self {
            Self::Full { .. } => Code::ResourceExhausted,
            Self::NotServing { .. } | Self::Stopping => Code::Unavailable,
            Self::Malformed(_) => Code::InvalidArgument,
            Self::OutOfOrder(_) => Code::FailedPrecondition,
            Self::Late { .. } => Code::DeadlineExceeded,
            Self::Replaced | Self::Lapsed => Code::Aborted,
        }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        Self::new(refused.code(), refused.to_string())
    }
}
