//! Replies, and their bytes in both versions of the protocol.

use bytes::{BufMut, Bytes, BytesMut};
use std::fmt::Display;

/// Version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Resp2,
    Resp3,
}

/// A reply to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Simple(&'static str),
    /// An error. Its first word is its code, such as `ERR` or `NOSCRIPT`.
    Error(String),
    Int(i64),
    Bulk(Bytes),
    Nil,
    Array(Vec<Self>),
    /// A map; in RESP2 an array of its keys and values.
    Map(Vec<(Self, Self)>),
}

impl Reply {
    pub(super) const OK: Self = Self::Simple("OK");

    /// Returns an error with the code `ERR`.
    pub(super) fn err(text: impl Display) -> Self {
        Self::Error(format!("ERR {text}"))
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Bulk(Bytes::from(text.into()))
    }

    pub(super) fn int(int: u64) -> Self {
        Self::Int(i64::try_from(int).unwrap_or(i64::MAX))
    }

    /// Appends the bytes of the reply.
    pub(super) fn write(&self, version: Version, to: &mut BytesMut) {
        match self {
            Self::Simple(text) => line(to, b'+', text.as_bytes()),
            Self::Error(text) => {
                // A line of its own in the text would be a second reply.
                let text: Vec<u8> = text
                    .bytes()
                    .map(|b| if b < b' ' { b' ' } else { b })
                    .collect();
                line(to, b'-', &text);
            }
            Self::Int(int) => number(to, b':', *int),
            Self::Bulk(bytes) => {
                number(to, b'$', bytes.len());
                to.put_slice(bytes);
                to.put_slice(b"\r\n");
            }
            Self::Nil => to.put_slice(match version {
                Version::Resp2 => b"$-1\r\n",
                Version::Resp3 => b"_\r\n",
            }),
            Self::Array(items) => {
                number(to, b'*', items.len());
                items.iter().for_each(|item| item.write(version, to));
            }
            Self::Map(pairs) => {
                let (kind, length) = match version {
                    Version::Resp2 => (b'*', pairs.len() * 2),
                    Version::Resp3 => (b'%', pairs.len()),
                };
                number(to, kind, length);
                for (key, value) in pairs {
                    key.write(version, to);
                    value.write(version, to);
                }
            }
        }
    }
}

/// Writes a number on a line of its own. Most replies are numbers, so the line is written at once.
fn number(to: &mut BytesMut, kind: u8, number: impl itoa::Integer) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    // A number of 64 bits has up to 20 characters.
    let (mut line, end) = ([kind; 23], 1 + digits.len());
    line[1..end].copy_from_slice(digits);
    line[end..end + 2].copy_from_slice(b"\r\n");
    to.put_slice(&line[..end + 2]);
}

fn line(to: &mut BytesMut, kind: u8, text: &[u8]) {
    to.put_u8(kind);
    to.put_slice(text);
    to.put_slice(b"\r\n");
}

#[cfg(test)]
#[path = "../../tests/unit/resp/reply.rs"]
mod tests;
