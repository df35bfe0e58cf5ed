//! Client sessions on the server.
//!
//! | module | contents |
//! |---|---|
//! | [`event`] | events that streams send to the actor |
//! | [`outbox`] | pending messages to one client: only the latest of each kind, not a queue |
//! | [`stream_end`] | reasons why a stream ends |
//! | [`stream`] | the task of one stream, which checks a client's messages |
//! | [`registry`] | the actor's table of sessions and of the names of their keys |
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

pub mod event;
pub mod outbox;
pub mod registry;
pub mod stream;
pub mod stream_end;

pub use event::{Caller, Event, Opening, Remote, StreamId};
pub use outbox::{Outbox, Outgoing};
pub use registry::{Name, Registry, Session};
pub use stream::{Gate, GateLimits};
pub use stream_end::StreamEnd;

use aliquot_wire::limits::{LINES_MAX, MESSAGE_BYTES_MAX};

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
