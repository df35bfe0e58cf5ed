//! The server's side of clients' sessions.
//!
//! | module | what it is |
//! |---|---|
//! | [`outbox`] | what waits for one client: the latest of everything, never a queue |
//! | [`stream`] | the task of one stream: checks what a client says |
//! | [`registry`] | the actor's table of sessions and of what they call their keys |
//! | [`spread`] | how many sessions go where, so that nodes carry the same |
//!
//! A stream's task sends [`Event`]s to the node's actor through a bounded
//! channel and waits while that is full, so a client is read no faster than it
//! is served. The actor never waits for a client: [`Outbox::send`] always
//! succeeds at once.
//!
//! ```text
//!   client ── open ──▶ task ── Event::Opening ──▶ actor
//!          ◀─ opened ─ outbox ◀──── reply ───────
//!          ── report ▶ task ── Event::Report ───▶
//!          ◀─ answer ─ outbox ◀──── send ────────
//!          ── gone ──▶ task ── Event::Gone ─────▶
//! ```

pub mod outbox;
pub mod registry;
pub mod spread;
pub mod stream;

pub use outbox::{Outbox, Outgoing};
pub use registry::{Name, Registry, Session};
pub use spread::{Seat, Spread};
pub use stream::{Gate, GateLimits};

use aliquot_core::budget::Key;
use aliquot_core::central::{Ask, Release};
use aliquot_core::message::Report;
use aliquot_core::unit::Edge;
use aliquot_wire::limits::{LINES_MAX, MESSAGE_BYTES_MAX};
use aliquot_wire::session::{SessionOpen, SessionOpened};
use std::fmt;
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::{Code, Status};

/// The most streams of a node unless it is configured otherwise.
pub const STREAMS_MAX: usize = 20_000;

/// The most streams of one connection, for the server's builder: several
/// processes behind one proxy, not all of a fleet.
pub const STREAMS_PER_CONNECTION_MAX: u32 = 256;

/// How many connections may wait to be accepted, for the clients' listener
/// (`TcpSocket::listen`): with the usual 1,024 a fleet that comes back at once
/// sees connections reset.
pub const BACKLOG: u32 = 4_096;

/// The most keys of a session, so that an answer that speaks of all of them
/// fits one message whatever the counters say: a line takes at most 320 bytes.
pub const KEYS_MAX: usize = LINES_MAX / 2;

const _: () = assert!(KEYS_MAX * 320 < MESSAGE_BYTES_MAX);

/// One stream of this process; never issued twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u64);

impl StreamId {
    /// The stream of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Who speaks: a session, and the stream that carries it now. A session that is
/// resumed goes on over another stream, and what the old one still says is void:
/// [`Registry::is_current`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The session's edge: this node's life and the client's.
    pub edge: Edge,
    /// Its stream.
    pub stream: StreamId,
}

/// Where a client is, as far as the transport knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Its address and port; empty where the transport has none.
    pub address: String,
    /// The name that its certificate or token proved; empty for none.
    pub name: String,
}

/// What streams tell the actor.
#[derive(Debug)]
pub enum Event {
    /// A client asks for a session, or to go on with one.
    Opening(Box<Opening>),
    /// A session asks what keys are called. At most [`LINES_MAX`].
    Intern {
        /// Who asks.
        caller: Caller,
        /// The keys.
        keys: Vec<Key>,
    },
    /// A session reports; the report is on the caller's edge.
    Report {
        /// Who reports.
        caller: Caller,
        /// What it says.
        report: Report,
    },
    /// A session asks for an answer to one request; the question is on the caller's edge.
    Ask {
        /// Who asks.
        caller: Caller,
        /// The question.
        ask: Ask,
    },
    /// Permits that were given centrally come back, or a question is given up.
    Release {
        /// Which.
        release: Release,
    },
    /// A stream has ended. Its session's lease runs on, and it may be resumed.
    Gone {
        /// Whose stream it was.
        caller: Caller,
    },
}

/// A client's first message, with what the actor needs to answer it.
#[derive(Debug)]
pub struct Opening {
    /// The stream that it came by.
    pub stream: StreamId,
    /// What the client says.
    pub open: SessionOpen,
    /// Where it is.
    pub remote: Remote,
    /// Where the actor puts what is for the client. Nothing leaves it before
    /// the reply does.
    pub outbox: Outbox,
    /// What becomes of it. After a session was opened, exactly one
    /// [`Event::Gone`] follows, even if the client has left meanwhile.
    pub reply: oneshot::Sender<Result<SessionOpened, Refused>>,
}

/// Why a stream is not served, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The node has as many streams as it may have. Nothing was opened.
    #[error("sessions = more than {most}: must be at most {most} on this node; try another")]
    Full {
        /// How many it may have.
        most: usize,
    },
    /// The node takes no sessions now. Nothing was opened.
    #[error("this node takes no sessions now: {reason}; try another")]
    NotServing {
        /// Why.
        reason: String,
    },
    /// A message says what it must not. It was not looked at further; the
    /// session's lease runs on.
    #[error("{0}")]
    Malformed(String),
    /// A message came out of order; the session's lease runs on.
    #[error("{0}")]
    OutOfOrder(String),
    /// The first message did not come in time. Nothing was opened.
    #[error("open = nothing within {within:?}: must be the first message of the stream")]
    Late {
        /// How long the client had.
        within: Duration,
    },
    /// Another stream goes on with the session.
    #[error("another stream resumed this session")]
    Replaced,
    /// The session's lease is over, and its edge is closed: open another.
    #[error("the session's lease is over; open another")]
    Lapsed,
    /// The node is stopping.
    #[error("this node is stopping; try another")]
    Stopping,
}

impl Refused {
    /// What a message is that must have another value.
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
