//! Requests of clients: arrays of bulk strings, and inline commands.
//!
//! Clients of Redis send nothing else, so a request has no depth: there is nothing that could recurse. The general
//! codecs for RESP read nested frames by recursion without a limit, where a few kilobytes of `*1\r\n` overflow the
//! stack of a server.

use bytes::{Buf, Bytes, BytesMut};

/// A request is no request of Redis, or is larger than allowed. The connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ProtocolError {
    #[error("Protocol error: invalid multibulk length")]
    Count,
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    NoBulk(u8),
    #[error("Protocol error: invalid bulk length")]
    Length,
    #[error("Protocol error: a bulk string must end in CRLF")]
    NoEnd,
    #[error("Protocol error: too big inline request")]
    Inline,
    #[error(
        "Protocol error: a request may have {} bytes in {} parts",
        Parser::BYTES_MAX,
        Parser::PARTS_MAX
    )]
    TooLarge,
}

/// Splits the bytes of a connection into requests.
///
/// It keeps its place within an unfinished request, so that no byte is looked at twice, and holds at most one
/// request of [`Parser::BYTES_MAX`] bytes. A length that a client announces reserves nothing.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Parts of the unfinished request.
    parts: Vec<Bytes>,
    /// Number of parts that are missing.
    missing: usize,
    /// Length of the next part, if its header was read.
    length: Option<usize>,
    /// Bytes of the unfinished request so far.
    bytes: usize,
}

impl Parser {
    /// Maximum number of bytes of a request. Scripts of rate limiters have up to 4 KiB.
    pub(super) const BYTES_MAX: usize = 64 * 1_024;

    /// Maximum number of parts of a request.
    pub(super) const PARTS_MAX: usize = 1_024;

    /// Maximum number of bytes of the header of a part: its kind, a sign, 19 digits and the end of the line.
    const HEADER_MAX: usize = 23;

    /// Takes the next whole request from the buffer. Returns `None` if it has no whole one yet. An empty request
    /// has no parts.
    pub(super) fn next(
        &mut self,
        buffer: &mut BytesMut,
    ) -> Result<Option<Vec<Bytes>>, ProtocolError> {
        if self.missing == 0 {
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {
                    let Some(parts) = header(buffer, ProtocolError::Count)? else {
                        return Ok(None);
                    };
                    match usize::try_from(parts) {
                        Ok(parts) if parts > Self::PARTS_MAX => {
                            return Err(ProtocolError::TooLarge);
                        }
                        Ok(parts) if parts > 0 => self.missing = parts,
                        // As Redis, which ignores an array of no or of negative length.
                        _ => return Ok(Some(Vec::new())),
                    }
                }
                Some(_) => return inline(buffer),
            }
        }
        while self.missing > 0 {
            match self.part(buffer)? {
                Some(part) => self.parts.push(part),
                None => return Ok(None),
            }
            self.missing -= 1;
        }
        self.bytes = 0;
        Ok(Some(std::mem::take(&mut self.parts)))
    }

    fn part(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, ProtocolError> {
        let length = match (self.length, buffer.first()) {
            (Some(length), _) => length,
            (None, None) => return Ok(None),
            (None, Some(b'$')) => {
                let Some(length) = header(buffer, ProtocolError::Length)? else {
                    return Ok(None);
                };
                let length = usize::try_from(length).map_err(|_| ProtocolError::Length)?;
                self.bytes = self.bytes.saturating_add(length);
                if self.bytes > Self::BYTES_MAX {
                    return Err(ProtocolError::TooLarge);
                }
                self.length = Some(length);
                length
            }
            (None, Some(byte)) => return Err(ProtocolError::NoBulk(*byte)),
        };
        if buffer.len() < length + 2 {
            return Ok(None);
        }
        if buffer[length..length + 2] != *b"\r\n" {
            return Err(ProtocolError::NoEnd);
        }
        self.length = None;
        // A copy, so that a small argument does not keep the whole buffer of a connection alive.
        let part = Bytes::copy_from_slice(&buffer[..length]);
        buffer.advance(length + 2);
        Ok(Some(part))
    }
}

/// Takes a header such as `*3` or `$12` with the end of its line. Returns `None` if the line is not whole yet.
fn header(buffer: &mut BytesMut, wrong: ProtocolError) -> Result<Option<i64>, ProtocolError> {
    let shown = &buffer[..buffer.len().min(Parser::HEADER_MAX)];
    let Some(end) = shown.windows(2).position(|pair| pair == b"\r\n") else {
        return match buffer.len() >= Parser::HEADER_MAX {
            true => Err(wrong),
            false => Ok(None),
        };
    };
    let digits = &shown[1..end];
    let number = str::from_utf8(digits)
        .ok()
        .filter(|text| !text.starts_with('+'));
    let number = number.and_then(|text| text.parse().ok()).ok_or(wrong)?;
    buffer.advance(end + 2);
    Ok(Some(number))
}

/// Takes a line of words, as a person types them into `nc`.
fn inline(buffer: &mut BytesMut) -> Result<Option<Vec<Bytes>>, ProtocolError> {
    const LINE_MAX: usize = 4 * 1_024;
    let shown = &buffer[..buffer.len().min(LINE_MAX)];
    let Some(end) = shown.iter().position(|byte| *byte == b'\n') else {
        return match buffer.len() >= LINE_MAX {
            true => Err(ProtocolError::Inline),
            false => Ok(None),
        };
    };
    let words = shown[..end].split(u8::is_ascii_whitespace);
    let words = words.filter(|word| !word.is_empty());
    let words: Vec<Bytes> = words.map(Bytes::copy_from_slice).collect();
    buffer.advance(end + 1);
    match words.len() > Parser::PARTS_MAX {
        true => Err(ProtocolError::TooLarge),
        false => Ok(Some(words)),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/resp/request.rs"]
mod tests;
