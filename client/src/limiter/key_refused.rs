//! Reasons why a key has no limiter.

/// The client has no limiter for a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRefused {
    /// The text is not a valid key.
    #[error("key {key:?}: it {reason}")]
    Invalid {
        /// Text that was given, cut to the maximum length of a key.
        key: String,
        /// Rule that it breaks, such as "must have at least one segment".
        reason: String,
    },
    /// The client has its maximum number of keys, and all of them are in use.
    #[error("the client has its maximum of {most} keys, and all of them are in use")]
    TooMany {
        /// Maximum number of keys.
        most: usize,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}
