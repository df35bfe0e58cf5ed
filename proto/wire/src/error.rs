//! Errors in messages.

use aliquot_core::budget::FieldError;
use std::convert::Infallible;
use std::fmt;

/// The reason that bytes are no valid value. No value was made from them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes are no protobuf message of this kind.
    Malformed {
        /// The expected message.
        message: &'static str,
        /// The decoder's error.
        reason: String,
    },
    /// There are more bytes than the message may have.
    TooLarge {
        /// The expected message.
        message: &'static str,
        /// Number of bytes.
        bytes: usize,
        /// Maximum number of bytes.
        most: usize,
    },
    /// A field has a value that is not allowed.
    Field {
        /// The path of the field, such as `Report.lines[3].demand[0].band`.
        path: String,
        /// Its value, at most 80 characters of it; `nothing` if it is missing.
        value: String,
        /// The allowed values, worded to follow "must be".
        allowed: String,
    },
}

impl WireError {
    const VALUE_CHARS_MAX: usize = 80;

    pub(crate) fn field(
        path: impl Into<String>,
        value: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        let value = value.to_string();
        let mut short: String = value.chars().take(Self::VALUE_CHARS_MAX).collect();
        if short.len() < value.len() {
            short.push('…');
        }
        Self::Field {
            path: path.into(),
            value: short,
            allowed: allowed.into(),
        }
    }

    /// Adds the field of the message around to the path of the error.
    pub(crate) fn within(self, parent: impl fmt::Display) -> Self {
        match self {
            Self::Field {
                path,
                value,
                allowed,
            } => {
                let path = match path.as_str() {
                    "" => parent.to_string(),
                    path => format!("{parent}.{path}"),
                };
                Self::Field {
                    path,
                    value,
                    allowed,
                }
            }
            other => other,
        }
    }

    /// Converts the first of a budget's refused fields.
    pub(crate) fn of_budget(errors: Vec<FieldError>) -> Self {
        match errors.into_iter().next() {
            Some(error) => Self::field(error.field, error.value, error.allowed),
            None => Self::field("", "", "a budget that could be written"),
        }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { message, reason } => write!(f, "no {message}: {reason}"),
            Self::TooLarge {
                message,
                bytes,
                most,
            } => write!(f, "{message} has {bytes} bytes; at most {most}"),
            Self::Field {
                path,
                value,
                allowed,
            } => write!(f, "{path} = {value}: must be {allowed}"),
        }
    }
}

impl std::error::Error for WireError {}

impl From<Infallible> for WireError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
