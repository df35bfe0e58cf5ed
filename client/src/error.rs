//! What can be wrong before anything is decided.

use aliquot_core::budget::KeyError;

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no address to connect to.
    #[error("addresses: there are none; at least one \"host:port\" is needed")]
    NoAddress,
    /// An address cannot be one.
    #[error("addresses: {address:?} is no \"host:port\" ({reason})")]
    Address {
        /// What stood there.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There are too many labels.
    #[error("labels: there are {labels}; at most {most} are allowed")]
    Labels {
        /// How many there are.
        labels: usize,
        /// The most that there may be.
        most: usize,
    },
    /// The cap on keys is out of range.
    #[error("keys_max: {value}; 1 to {most} are allowed")]
    KeysMax {
        /// What stood there.
        value: usize,
        /// The most that it may be.
        most: usize,
    },
    /// The default rule's rate or burst is out of range.
    #[error("default_rule: {reason}")]
    DefaultRule {
        /// What is wrong with it.
        reason: String,
    },
    /// The token cannot be sent in a header.
    #[error("token: it must be visible ASCII")]
    Token,
    /// It was not called within a tokio runtime.
    #[error("a client needs a tokio runtime to be made in; there is none")]
    NoRuntime,
}

/// Why there is no limiter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRefused {
    /// The text is no key.
    #[error("key {key:?}: it {error}")]
    Invalid {
        /// What stood there, cut to the length of a key.
        key: String,
        /// What is wrong with it.
        error: KeyError,
    },
    /// The client has as many keys as it may have, and all of them are needed.
    #[error("the client has {most} keys, all of them needed, and no room for another")]
    TooMany {
        /// The most keys.
        most: usize,
    },
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}
