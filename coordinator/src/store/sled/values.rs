//! The named values and the floor of the log, in their tree.

use super::{WHAT_TO_DO, io_error};
use crate::store::StoreError;
use bytes::Bytes;
use sled::{Batch, Tree};
use std::collections::BTreeMap;

/// Under which key the floor is kept: the least index an entry may have, eight
/// bytes, big-endian.
const FLOOR: &[u8] = b"floor";

/// What the key of a named value begins with.
const VALUE: &[u8] = b"value:";

/// The tree of the named values.
#[derive(Debug)]
pub(super) struct Values {
    tree: Tree,
}

impl Values {
    pub(super) fn new(tree: Tree) -> Self {
        Self { tree }
    }

    /// All values, and the floor.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]; [`StoreError::Damaged`] if a key is none of ours.
    pub(super) fn read(&self) -> Result<(BTreeMap<String, Bytes>, u64), StoreError> {
        let mut values = BTreeMap::new();
        let mut floor = 0;
        for pair in &self.tree {
            let (key, value) = pair.map_err(|error| io_error("reading the values", &error))?;
            if let Some(name) = key.strip_prefix(VALUE) {
                let name = String::from_utf8_lossy(name).into_owned();
                values.insert(name, Bytes::copy_from_slice(&value));
            } else if &*key == FLOOR {
                let bytes = <[u8; 8]>::try_from(&*value);
                floor = u64::from_be_bytes(bytes.map_err(|_| damaged("its floor is no number"))?);
            } else {
                return Err(damaged("there is a value that this version never writes"));
            }
        }
        Ok((values, floor))
    }

    /// Writes a value.
    pub(super) fn put(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let inserted = self.tree.insert(value_key(name), value);
        inserted.map(drop).map_err(|error| write_error(&error))
    }

    /// Writes a value and the floor, both or none.
    pub(super) fn put_floor(&self, floor: u64, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.insert(value_key(name), value);
        batch.insert(FLOOR, &floor.to_be_bytes());
        self.apply(batch)
    }

    fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.tree
            .apply_batch(batch)
            .map_err(|error| write_error(&error))
    }
}

fn write_error(error: &sled::Error) -> StoreError {
    io_error("writing a value", error)
}

fn value_key(name: &str) -> Vec<u8> {
    [VALUE, name.as_bytes()].concat()
}

fn damaged(reason: &str) -> StoreError {
    StoreError::Damaged {
        what: "the store of named values".to_owned(),
        reason: format!("{reason}; {WHAT_TO_DO}"),
    }
}
