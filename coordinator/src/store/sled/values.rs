//! State of the log, and the named values, as one record under one key.
//!
//! A single item is written completely or not at all, and is older or newer than another as a whole. Of
//! several items, one could be the latest and another an old one.
//!
//! ```text
//! format (1) ++ number of the flush (8) ++ floor (8) ++ has entries (1) ++ first (8) ++ last (8)
//!            ++ for each value: bytes of the name (2) ++ name ++ bytes of the value (2) ++ value
//! ```
//!
//! Numbers are big-endian. Earlier versions had one key for the floor and one for each value. Those are
//! read, and replaced by the record when the store is opened.

use super::error::{WHAT_TO_DO, io_error};
use super::watermark::Level;
use crate::store::StoreError;
use bytes::{Buf, BufMut, Bytes, TryGetError};
use sled::{Batch, IVec, Tree};
use std::collections::BTreeMap;

/// Key of the record.
const RECORD: &[u8] = b"record";

/// The format that this version writes.
const FORMAT: u8 = 1;

/// Key under which earlier versions stored the floor: eight bytes, big-endian.
const OLD_FLOOR: &[u8] = b"floor";

/// Prefix of the keys of named values in earlier versions.
const OLD_VALUE: &[u8] = b"value:";

/// State of the log, and the named values.
///
/// The record is written before the log shrinks, and after it grows. Whatever a crash leaves, the log
/// therefore has at least the entries that the record lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Number of times that a record was written.
    pub(super) flush: u64,
    /// Smallest index that an entry may have: one above what was purged.
    pub(super) floor: u64,
    /// The first and the last index.
    pub(super) bounds: Option<(u64, u64)>,
    pub(super) values: BTreeMap<String, Bytes>,
}

/// Contents of a store when it is opened.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) record: Record,
    /// Keys of an earlier version, if that version was the last to write.
    pub(super) old: Vec<IVec>,
}

/// The sled tree of the record.
#[derive(Debug)]
pub(super) struct Values {
    tree: Tree,
}

impl Record {
    /// Returns how much the store holds.
    pub(super) fn level(&self) -> Level {
        Level {
            flush: self.flush,
            last: self.bounds.map_or(0, |(_, last)| last),
        }
    }

    fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let (first, last) = self.bounds.unwrap_or_default();
        let mut bytes = vec![FORMAT];
        bytes.put_u64(self.flush);
        bytes.put_u64(self.floor);
        bytes.put_u8(u8::from(self.bounds.is_some()));
        bytes.put_u64(first);
        bytes.put_u64(last);
        for (name, value) in &self.values {
            for part in [name.as_bytes(), value] {
                let length = u16::try_from(part.len()).map_err(|_| StoreError::Refused {
                    what: format!("writing the value {name}"),
                    reason: format!("{} bytes are more than 64 KiB", part.len()),
                })?;
                bytes.put_u16(length);
                bytes.put_slice(part);
            }
        }
        Ok(bytes)
    }

    fn parse(mut bytes: &[u8]) -> Result<Self, StoreError> {
        match bytes.try_get_u8() {
            Ok(FORMAT) => Self::parse_fields(bytes).map_err(|_| damaged("its record is too short")),
            _ => Err(damaged(
                "its record has a format that this version does not write",
            )),
        }
    }

    fn parse_fields(mut bytes: &[u8]) -> Result<Self, TryGetError> {
        let mut record = Self {
            flush: bytes.try_get_u64()?,
            floor: bytes.try_get_u64()?,
            ..Self::default()
        };
        let has_entries = bytes.try_get_u8()? != 0;
        let bounds = (bytes.try_get_u64()?, bytes.try_get_u64()?);
        record.bounds = has_entries.then_some(bounds);
        while bytes.has_remaining() {
            let name = parse_part(&mut bytes)?;
            let value = parse_part(&mut bytes)?;
            let name = String::from_utf8_lossy(&name).into_owned();
            record.values.insert(name, value);
        }
        Ok(record)
    }
}

fn parse_part(bytes: &mut &[u8]) -> Result<Bytes, TryGetError> {
    let length = usize::from(bytes.try_get_u16()?);
    let Some((part, rest)) = bytes.split_at_checked(length) else {
        let available = bytes.len();
        return Err(TryGetError {
            requested: length,
            available,
        });
    };
    *bytes = rest;
    Ok(Bytes::copy_from_slice(part))
}

impl Values {
    pub(super) fn new(tree: Tree) -> Self {
        Self { tree }
    }

    /// Returns the record, or an empty one if there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], or [`StoreError::Damaged`] if there is unknown data.
    pub(super) fn read(&self) -> Result<Found, StoreError> {
        let (mut record, mut old) = (None, Vec::new());
        let mut before = Record::default();
        for pair in &self.tree {
            let (key, value) = pair.map_err(|error| io_error("reading the values", &error))?;
            if &*key == RECORD {
                record = Some(Record::parse(&value)?);
                continue;
            }
            if let Some(name) = key.strip_prefix(OLD_VALUE) {
                let name = String::from_utf8_lossy(name).into_owned();
                before.values.insert(name, Bytes::copy_from_slice(&value));
            } else if &*key == OLD_FLOOR {
                let bytes = <[u8; 8]>::try_from(&*value);
                let bytes = bytes.map_err(|_| damaged("its floor is no number"))?;
                before.floor = u64::from_be_bytes(bytes);
            } else {
                return Err(damaged("there is a value that this version never writes"));
            }
            old.push(key);
        }
        match record {
            Some(_) if !old.is_empty() => Err(damaged("an earlier version wrote into it")),
            Some(record) => Ok(Found { record, old }),
            None => Ok(Found {
                record: before,
                old,
            }),
        }
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the record cannot be written.
    pub(super) fn write(&self, record: &Record) -> Result<(), StoreError> {
        let inserted = self.tree.insert(RECORD, record.to_bytes()?);
        inserted.map(drop).map_err(|error| write_error(&error))
    }

    /// Replaces the data of an earlier version by a record, both or neither.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the record cannot be written.
    pub(super) fn replace(&self, record: &Record, old: Vec<IVec>) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.insert(RECORD, record.to_bytes()?);
        for key in old {
            batch.remove(key);
        }
        let applied = self.tree.apply_batch(batch);
        applied.map_err(|error| write_error(&error))
    }
}

fn write_error(error: &sled::Error) -> StoreError {
    io_error("writing a value", error)
}

fn damaged(reason: &str) -> StoreError {
    StoreError::Damaged {
        what: "the store of named values".to_owned(),
        reason: format!("{reason}; {WHAT_TO_DO}"),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/store/sled/values.rs"]
mod tests;
