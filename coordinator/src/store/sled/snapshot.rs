//! The last snapshot, in a file of its own.
//!
//! ```text
//! magic (8) ++ bytes of meta (8, LE) ++ bytes of data (8, LE) ++ meta ++ data ++ CRC-64/XZ of all before (8, LE)
//! ```

use super::error::WHAT_TO_DO;
use crate::store::file;
use crate::store::{SnapshotItem, StoreError};
use bytes::{Buf, Bytes};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Start of the file. Its last character is the version of the format.
const MAGIC: &[u8; 8] = b"ALQSNAP1";

/// Bytes before the metadata.
const HEADER_BYTES: usize = 24;

/// The file of the last snapshot.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    path: PathBuf,
    /// Number of the last snapshot that was written since the store was opened, counted from 1. Locked
    /// while a snapshot is written.
    written: Mutex<u64>,
}

impl SnapshotFile {
    /// Opens the file, which may be missing, and checks its contents.
    ///
    /// # Errors
    ///
    /// The same as for [`Self::read`].
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        file::remove_if_there(&path.with_extension("tmp"))
            .map_err(|error| failed("tidying beside the snapshot", &path, &error))?;
        let snapshots = Self {
            path,
            written: Mutex::new(0),
        };
        snapshots.read()?;
        Ok(snapshots)
    }

    /// Writes a snapshot, unless it or a later one was written already.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]. The file is then either the old or the new one.
    pub(super) fn write(&self, number: u64, snapshot: &SnapshotItem) -> Result<(), StoreError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if *written >= number {
            return Ok(());
        }
        let meta_len = length(&snapshot.meta);
        let data_len = length(&snapshot.data);
        let parts: [&[u8]; 5] = [MAGIC, &meta_len, &data_len, &snapshot.meta, &snapshot.data];
        let sum = file::checksum(&parts).to_le_bytes();
        let [magic, meta_len, data_len, meta, data] = parts;
        file::replace(&self.path, &[magic, meta_len, data_len, meta, data, &sum])
            .map_err(|error| failed("writing the snapshot", &self.path, &error))?;
        *written = number;
        Ok(())
    }

    /// Returns the snapshot, or `None` if there is no file.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], or [`StoreError::Damaged`] if the contents differ from what was written.
    pub(super) fn read(&self) -> Result<Option<SnapshotItem>, StoreError> {
        let bytes = file::read(&self.path)
            .map_err(|error| failed("reading the snapshot", &self.path, &error))?;
        let Some(bytes) = bytes else { return Ok(None) };
        match parse(Bytes::from(bytes)) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(reason) => Err(StoreError::Damaged {
                what: format!("the snapshot {}", self.path.display()),
                reason: format!("{reason}; {WHAT_TO_DO}"),
            }),
        }
    }
}

fn length(bytes: &Bytes) -> [u8; 8] {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes()
}

fn parse(mut bytes: Bytes) -> Result<SnapshotItem, String> {
    let body_bytes = match bytes.len().checked_sub(8) {
        Some(body_bytes) if body_bytes >= HEADER_BYTES => body_bytes,
        _ => return Err(format!("it has only {} bytes", bytes.len())),
    };
    let mut sum = bytes.split_off(body_bytes);
    if file::checksum(&[&bytes]) != sum.get_u64_le() {
        return Err("its checksum does not match its content".to_owned());
    }
    if bytes.split_to(MAGIC.len()) != MAGIC.as_slice() {
        return Err("it has another format, perhaps that of a newer version of aliquot".to_owned());
    }
    let meta_len = usize::try_from(bytes.get_u64_le()).unwrap_or(usize::MAX);
    let data_len = usize::try_from(bytes.get_u64_le()).unwrap_or(usize::MAX);
    if meta_len.checked_add(data_len) != Some(bytes.len()) {
        return Err("its lengths do not add up".to_owned());
    }
    let meta = bytes.split_to(meta_len);
    Ok(SnapshotItem { meta, data: bytes })
}

fn failed(what: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io {
        what: format!("{what} {}", path.display()),
        reason: error.to_string(),
    }
}
