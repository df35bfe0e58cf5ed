//! Layout of entries in sled: in pieces, under big-endian keys.
//!
//! A page of sled holds up to 16 items, and a few more before it splits. sled writes a page above an
//! eighth of a megabyte to a file of its own, which it does not flush. No item may be large, so an
//! entry is cut into pieces.
//!
//! ```text
//! key   = index (8 bytes, big-endian) ++ piece (4 bytes, big-endian, from 0)
//! value = piece 0: length of the entry (4 bytes, big-endian) ++ bytes; then: bytes
//! ```

use super::error::WHAT_TO_DO;
use crate::store::{LogItem, StoreError};
use bytes::{BufMut, Bytes, BytesMut};
use sled::IVec;
use std::iter::once;

/// Maximum number of bytes of a piece of an entry. 17 such pieces are far below the eighth of a megabyte
/// above which sled writes a page to another file.
const PIECE_BYTES: usize = 4096;

/// Returns the key of the first piece of an entry. It is greater than all keys of earlier entries.
pub(super) fn log_key(index: u64) -> [u8; 12] {
    piece_key(index, 0)
}

fn piece_key(index: u64, piece: u32) -> [u8; 12] {
    let mut key = [0; 12];
    let (high, low) = key.split_at_mut(8);
    high.copy_from_slice(&index.to_be_bytes());
    low.copy_from_slice(&piece.to_be_bytes());
    key
}

/// Returns the index and the piece number of a key.
///
/// # Errors
///
/// [`StoreError::Damaged`] if it is not a key of the log.
pub(super) fn parse_key(key: &[u8]) -> Result<(u64, u32), StoreError> {
    let parts = key.split_first_chunk::<8>().and_then(|(index, piece)| {
        let piece = <[u8; 4]>::try_from(piece).ok()?;
        Some((u64::from_be_bytes(*index), u32::from_be_bytes(piece)))
    });
    parts.ok_or_else(|| damaged(&format!("it has a key of {} bytes", key.len())))
}

/// Returns the pieces of an entry with their keys.
///
/// # Errors
///
/// [`StoreError::Refused`] if the entry is longer than the length field allows, 4 GiB.
pub(super) fn pieces(item: &LogItem) -> Result<Vec<([u8; 12], IVec)>, StoreError> {
    let length = u32::try_from(item.bytes.len()).map_err(|_| StoreError::Refused {
        what: format!("appending entry {}", item.index),
        reason: format!(
            "it has {} bytes; at most 4 GiB are allowed",
            item.bytes.len()
        ),
    })?;
    let first = item.bytes.slice(..item.bytes.len().min(PIECE_BYTES));
    let rest = item.bytes.slice(first.len()..);
    let mut value = Vec::with_capacity(first.len().saturating_add(4));
    value.extend_from_slice(&length.to_be_bytes());
    value.extend_from_slice(&first);
    let rest = (1..).zip(rest.chunks(PIECE_BYTES));
    let rest = rest.map(|(piece, bytes)| (piece_key(item.index, piece), bytes.into()));
    Ok(once((log_key(item.index), value.into()))
        .chain(rest)
        .collect())
}

/// Assembles entries from their pieces, which come in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    index: u64,
    /// Length of the entry that is being assembled. Only meaningful within an entry.
    length: usize,
    pieces: u32,
    bytes: BytesMut,
}

impl Assembly {
    /// Takes the next piece. Returns the entry that it completes, if any.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] if it is not the piece that must follow.
    pub(super) fn take(&mut self, key: &[u8], value: &IVec) -> Result<Option<LogItem>, StoreError> {
        let (index, piece) = parse_key(key)?;
        if piece != self.pieces || (piece > 0 && index != self.index) {
            return Err(damaged(&format!("entry {index} has pieces missing")));
        }
        let bytes = if piece == 0 {
            let parts = value.split_first_chunk::<4>();
            let (length, bytes) = parts.ok_or_else(|| no_length(index))?;
            self.index = index;
            self.length =
                usize::try_from(u32::from_be_bytes(*length)).map_err(|_| no_length(index))?;
            bytes
        } else {
            value
        };
        self.bytes.put_slice(bytes);
        self.pieces = self.pieces.saturating_add(1);
        if self.bytes.len() < self.length {
            return Ok(None);
        }
        if self.bytes.len() > self.length {
            return Err(damaged(&format!("entry {index} is longer than it says")));
        }
        self.pieces = 0;
        let bytes: Bytes = self.bytes.split().freeze();
        Ok(Some(LogItem { index, bytes }))
    }

    /// Returns true if no entry is incomplete.
    pub(super) fn is_between(&self) -> bool {
        self.pieces == 0
    }
}

fn no_length(index: u64) -> StoreError {
    damaged(&format!("entry {index} does not say its length"))
}

/// Returns the error of a damaged log, with instructions for the operator.
pub(super) fn damaged(reason: &str) -> StoreError {
    StoreError::Damaged {
        what: "the log".to_owned(),
        reason: format!("{reason}; {WHAT_TO_DO}"),
    }
}
