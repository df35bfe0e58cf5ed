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
mod tests {
    use super::*;

    fn data(stream: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0, 0, payload.len() as u8, DATA, flags, 0, 0, 0, stream];
        frame.extend_from_slice(payload);
        frame
    }

    fn message(text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, 0, text.len() as u8];
        bytes.extend_from_slice(text);
        bytes
    }

    fn pieces(frames: &mut Frames) -> Vec<Piece> {
        std::iter::from_fn(|| frames.next()).collect()
    }

    #[test]
    fn frames_are_whole_however_they_come_and_messages_are_known() {
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let both = [message(b"a"), message(b"bc")].concat();
        let split = message(b"long");
        let mut bytes = PREFACE.to_vec();
        for frame in [
            settings.to_vec(),
            data(1, 0, &both),
            data(1, 0, &split[..6]),
            data(1, END_STREAM, &split[6..]),
            data(3, 0, &message(b"x")),
        ] {
            bytes.extend_from_slice(&frame);
        }
        for step in [1, 7, bytes.len()] {
            let mut frames = Frames::default();
            let mut got = Vec::new();
            for chunk in bytes.chunks(step) {
                frames.feed(chunk);
                got.extend(pieces(&mut frames));
            }
            let kinds: Vec<Option<bool>> = got
                .iter()
                .map(|piece| match piece {
                    Piece::Messages { later, .. } => Some(*later),
                    Piece::Other(_) => None,
                })
                .collect();
            assert_eq!(kinds, [None, None, Some(false), None, None, Some(false)]);
            let all = got.into_iter().flat_map(|piece| match piece {
                Piece::Messages { frame, .. } | Piece::Other(frame) => frame,
            });
            assert_eq!(all.collect::<Vec<u8>>(), bytes);
        }
    }

    #[test]
    fn what_is_lost_is_as_long_for_flow_control_and_says_nothing() {
        for len in [1_usize, 5, 256, 257, 1_000] {
            let mut frame = vec![0, (len >> 8) as u8, len as u8, DATA, END_STREAM, 0, 0, 0, 9];
            frame.resize(HEADER + len, 7);
            let padding = lost(&Bytes::from(frame));
            let (mut at, mut sum) = (0, 0);
            while at < padding.len() {
                let size = usize::from(padding[at + 1]) << 8 | usize::from(padding[at + 2]);
                assert_eq!(padding[at + 3..at + HEADER], [DATA, PADDED, 0, 0, 0, 9]);
                assert_eq!(
                    usize::from(padding[at + HEADER]),
                    size - 1,
                    "all of it is padding"
                );
                (at, sum) = (at + HEADER + size, sum + size);
            }
            assert_eq!(sum, len);
        }
    }
}
