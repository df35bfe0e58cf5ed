//! Events of streams, for the actor.

use super::outbox::Outbox;
use super::stream_end::StreamEnd;
use aliquot_core::budget::Key;
use aliquot_core::central::{DecisionRequest, Release};
use aliquot_core::message::Report;
use aliquot_core::unit::Edge;
use aliquot_wire::session::{SessionOpen, SessionOpened};
use tokio::sync::oneshot;

/// One stream of this process. An id is never issued twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub(super) u64);

impl StreamId {
    /// Creates the id of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// A session, together with the stream that carries it now. When a session is resumed over another
/// stream, further messages of the old stream are ignored: see [`Registry::is_current`](super::Registry::is_current).
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
    /// A session asks for the names of keys, at most [`LINES_MAX`](aliquot_wire::limits::LINES_MAX).
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
    pub reply: oneshot::Sender<Result<SessionOpened, StreamEnd>>,
}
