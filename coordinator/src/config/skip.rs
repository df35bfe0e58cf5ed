//! Names of log entries that an operator skips.

use std::fmt;
use std::str::FromStr;

/// Names an entry of the log by its index and the checksum of its command, so that no other entry
/// is skipped by mistake: `1234:00c0ffee00c0ffee`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SkipEntry {
    /// Index of the entry, from 1.
    pub index: u64,
    /// FNV-1a hash of the entry's command.
    pub checksum: u64,
}

/// The text does not name an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be INDEX:CHECKSUM, as printed in the error that stopped the node")]
pub struct SkipEntryError;

impl fmt::Display for SkipEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.index, self.checksum)
    }
}

impl FromStr for SkipEntry {
    type Err = SkipEntryError;

    fn from_str(text: &str) -> Result<Self, SkipEntryError> {
        let (index, checksum) = text.split_once(':').ok_or(SkipEntryError)?;
        let read = Self {
            index: index.parse().map_err(|_| SkipEntryError)?,
            checksum: u64::from_str_radix(checksum, 16).map_err(|_| SkipEntryError)?,
        };
        // Each entry has exactly one text: no sign, no other padding, no capitals.
        let exact = read.index > 0 && read.to_string() == text;
        exact.then_some(read).ok_or(SkipEntryError)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/config/skip.rs"]
mod tests;
