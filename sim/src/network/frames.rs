//! The data on a connection: HTTP/2 frames, and gRPC messages within them.
//!
//! The bytes of a connection are split into whole frames. Only a frame that holds whole messages may be lost or
//! doubled. Losing anything else would break the connection in a way that no real network can.

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;

const HEADER: usize = 9;
/// The connection preface, which a client sends before its first frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const END_STREAM: u8 = 1;
const PADDED: u8 = 8;

/// A piece of a connection's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Whole messages of a stream, in one frame. `later` is set if the stream has carried messages before.
    Messages { frame: Bytes, later: bool },
    /// Any other data, which arrives exactly once.
    Other(Bytes),
}

impl Piece {
    pub(super) const fn bytes(&self) -> &Bytes {
        match self {
            Self::Messages { frame, .. } | Self::Other(frame) => frame,
        }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        match self {
            Self::Messages { frame, .. } | Self::Other(frame) => frame,
        }
    }
}

/// The position of a stream within its messages.
#[derive(Clone, Copy, Debug, Default)]
struct StreamState {
    header: [u8; 5],
    got: usize,
    left: usize,
    messages: u64,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
    begun: bool,
    streams: BTreeMap<u32, StreamState>,
}

impl Frames {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next whole piece.
    pub(super) fn next(&mut self) -> Option<Piece> {
        if !self.begun {
            let len = PREFACE.len().min(self.buffer.len());
            if self.buffer[..len] == PREFACE[..len] {
                if len < PREFACE.len() {
                    return None;
                }
                self.begun = true;
                return Some(Piece::Other(self.buffer.split_to(len).freeze()));
            }
            self.begun = true;
        }
        let header = self.buffer.get(..HEADER)?;
        let len =
            usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
        let (kind, flags) = (header[3], header[4]);
        let stream = u32::from_be_bytes([header[5] & 0x7f, header[6], header[7], header[8]]);
        if self.buffer.len() < HEADER + len {
            return None;
        }
        let frame = self.buffer.split_to(HEADER + len).freeze();
        if kind == RST_STREAM || flags & END_STREAM != 0 && kind != DATA {
            self.streams.remove(&stream);
        }
        if kind != DATA || flags & PADDED != 0 {
            return Some(Piece::Other(frame));
        }
        let state = self.streams.entry(stream).or_default();
        let later = state.messages > 0;
        let whole = state.pass(&frame[HEADER..]);
        if flags & END_STREAM != 0 {
            self.streams.remove(&stream);
        }
        Some(match whole {
            true => Piece::Messages { frame, later },
            false => Piece::Other(frame),
        })
    }
}

impl StreamState {
    /// Advances over these bytes. Returns true if they are whole messages.
    fn pass(&mut self, mut bytes: &[u8]) -> bool {
        let mut whole = self.got == 0 && self.left == 0 && !bytes.is_empty();
        while !bytes.is_empty() {
            if self.left > 0 {
                let taken = self.left.min(bytes.len());
                self.left -= taken;
                bytes = &bytes[taken..];
                continue;
            }
            let taken = (self.header.len() - self.got).min(bytes.len());
            self.header[self.got..self.got + taken].copy_from_slice(&bytes[..taken]);
            self.got += taken;
            bytes = &bytes[taken..];
            if self.got == self.header.len() {
                let [_, a, b, c, d] = self.header;
                (self.left, self.got) = (u32::from_be_bytes([a, b, c, d]) as usize, 0);
                self.messages += 1;
            }
        }
        whole &= self.got == 0 && self.left == 0;
        whole
    }
}

/// Returns the replacement of a lost frame: padding of the same length, so that flow control still adds up,
/// without the end of the stream.
pub(super) fn lost(frame: &Bytes) -> Bytes {
    const MOST: usize = 256;
    let mut left = frame.len().saturating_sub(HEADER);
    let mut padding = BytesMut::with_capacity(left + HEADER * (left / MOST + 1));
    while left > 0 {
        let len = left.min(MOST);
        padding.put_slice(&[0, (len >> 8) as u8, len as u8, DATA, PADDED]);
        padding.put_slice(&frame[5..HEADER]);
        padding.put_u8((len - 1) as u8);
        padding.put_bytes(0, len - 1);
        left -= len;
    }
    padding.freeze()
}

/// Returns a copy of the frame without the end of the stream, to be delivered before it.
pub(super) fn doubled(frame: &Bytes) -> Bytes {
    let mut copy = BytesMut::from(&frame[..]);
    copy[4] &= !END_STREAM;
    copy.freeze()
}

#[cfg(test)]
#[path = "../../tests/unit/network/frames.rs"]
mod tests;
