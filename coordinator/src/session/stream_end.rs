//! Reasons why a stream ends.

use std::fmt;
use std::time::Duration;
use tonic::{Code, Status};

/// Reason why a stream is not served, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The node has its maximum number of streams. Nothing was opened.
    #[error("sessions = more than {most}: this node accepts at most {most}; try another node")]
    Full {
        /// The maximum number.
        most: usize,
    },
    /// The node takes no sessions now. Nothing was opened.
    #[error("this node accepts no sessions now: {reason}; try another node")]
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
    #[error("open = nothing within {within:?}: the stream must begin with this message")]
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

impl StreamEnd {
    /// Describes a field whose value is not allowed.
    pub(super) fn field(field: &str, value: impl fmt::Debug, allowed: impl fmt::Display) -> String {
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

impl From<StreamEnd> for Status {
    fn from(end: StreamEnd) -> Self {
        Self::new(end.code(), end.to_string())
    }
}
