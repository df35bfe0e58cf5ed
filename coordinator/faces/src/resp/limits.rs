//! Limits that were named for a key lately.
//!
//! Some commands read a limit and do not name it, as `DEL` and the scripts that show how much is left. They mean
//! the limit that the same client named before.

use aliquot_core::budget::NamedLimit;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The limit that each key named last.
///
/// Keys are kept in two tables. When the newer one is full, it replaces the older one. So a key that is used is
/// kept, and there are never more than [`Limits::MOST`].
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    newer: HashMap<Bytes, NamedLimit>,
    older: HashMap<Bytes, NamedLimit>,
}

impl Limits {
    /// Maximum number of keys.
    const MOST: usize = 65_536;

    /// Records the limit that a key names.
    pub(super) fn named(&self, key: &Bytes, limit: NamedLimit) {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tables.newer.get(key) == Some(&limit) {
            return;
        }
        if tables.newer.len() >= Self::MOST / 2 {
            tables.older = std::mem::take(&mut tables.newer);
        }
        tables.newer.insert(key.clone(), limit);
    }

    /// Returns the limit that a key named last.
    pub(super) fn of(&self, key: &Bytes) -> Option<NamedLimit> {
        let tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = tables.newer.get(key).or_else(|| tables.older.get(key));
        known.copied()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/resp/limits.rs"]
mod tests;
