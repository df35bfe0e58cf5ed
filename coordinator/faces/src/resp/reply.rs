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

/// Writes a number on a line of its own. Most replies are numbers.
fn number(to: &mut BytesMut, kind: u8, number: impl itoa::Integer) {
    to.put_u8(kind);
    to.put_slice(itoa::Buffer::new().format(number).as_bytes());
    to.put_slice(b"\r\n");
}

fn line(to: &mut BytesMut, kind: u8, text: &[u8]) {
    to.put_u8(kind);
    to.put_slice(text);
    to.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reply: &Reply, resp2: &str, resp3: &str) {
        for (version, expect) in [(Version::Resp2, resp2), (Version::Resp3, resp3)] {
            let mut bytes = BytesMut::new();
            reply.write(version, &mut bytes);
            assert_eq!(str::from_utf8(&bytes), Ok(expect), "{version:?}");
        }
    }

    #[test]
    fn replies_have_the_bytes_of_the_protocol() {
        check(&Reply::OK, "+OK\r\n", "+OK\r\n");
        for int in [0, 9, 10, -1, i64::MIN, i64::MAX] {
            let expect = format!(":{int}\r\n");
            check(&Reply::Int(int), &expect, &expect);
        }
        check(&Reply::Nil, "$-1\r\n", "_\r\n");
        check(&Reply::text(""), "$0\r\n\r\n", "$0\r\n\r\n");
        let array = Reply::Array(vec![Reply::Int(0), Reply::Nil, Reply::text("a\r\nb")]);
        check(
            &array,
            "*3\r\n:0\r\n$-1\r\n$4\r\na\r\nb\r\n",
            "*3\r\n:0\r\n_\r\n$4\r\na\r\nb\r\n",
        );
        let map = Reply::Map(vec![(Reply::text("proto"), Reply::Int(3))]);
        check(
            &map,
            "*2\r\n$5\r\nproto\r\n:3\r\n",
            "%1\r\n$5\r\nproto\r\n:3\r\n",
        );
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let reply = Reply::err("no such key \"a\r\n+OK\r\n\"");
        let expect = "-ERR no such key \"a  +OK  \"\r\n";
        check(&reply, expect, expect);
    }
}
