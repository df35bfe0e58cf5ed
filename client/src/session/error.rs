//! Errors that are found before anything is decided.

use std::path::PathBuf;

/// An invalid setting of a client. No client was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No address was given.
    #[error("addresses: none are given; at least one \"host:port\" is needed")]
    NoAddress,
    /// An address is not a valid `host:port`.
    #[error("addresses: {address:?} is not a \"host:port\" ({reason})")]
    Address {
        /// Address that was given.
        address: String,
        /// Reason why it is invalid.
        reason: String,
    },
    /// There are too many labels.
    #[error("labels: {labels} are given; at most {most} are allowed")]
    Labels {
        /// Number of labels that was given.
        labels: usize,
        /// Maximum number of labels.
        most: usize,
    },
    /// The maximum number of keys is out of range.
    #[error("keys_max: {value}; 1 to {most} are allowed")]
    KeysMax {
        /// Number that was given.
        value: usize,
        /// Largest number that is allowed.
        most: usize,
    },
    /// The rate or the burst of the default rule is out of range.
    #[error("default_rule: {reason}")]
    DefaultRule {
        /// Reason why it is invalid.
        reason: String,
    },
    /// The rate or the burst of the outage rule is out of range.
    #[error("outage_rule: {reason}")]
    OutageRule {
        /// Reason why it is invalid.
        reason: String,
    },
    /// A file of the TLS settings cannot be used.
    #[error("tls: {path:?} {reason}")]
    TlsFile {
        /// File that was given.
        path: PathBuf,
        /// Reason why it cannot be used.
        reason: String,
    },
    /// An environment variable has a value that cannot be used, or has none.
    #[error("{name}: {value:?} {reason}; {allowed}")]
    Variable {
        /// Name of the variable.
        name: &'static str,
        /// Value of the variable; empty if it is not set.
        value: String,
        /// Reason why it cannot be used.
        reason: String,
        /// Values that are allowed.
        allowed: &'static str,
    },
    /// The token contains characters that cannot be sent in a header.
    #[error("token: it must be visible ASCII")]
    Token,
    /// The call was made outside a tokio runtime.
    #[error("a client must be created inside a tokio runtime")]
    NoRuntime,
}
