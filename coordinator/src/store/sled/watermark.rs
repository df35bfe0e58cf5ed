//! Record beside the store of how much was on the disk.
//!
//! sled ends its log at the first page that it cannot read, without an error. The rest looks like an
//! older or empty store. Each flush therefore has a number, which is written into the store before the
//! flush, and here after it. A store with a lower number has lost data that was reported to be on the
//! disk.
//!
//! The watermark reaches the page cache with every flush, and so survives the end of the process. It
//! reaches the medium within a second. After a loss of power it may therefore be lower than it should,
//! but never higher.
//!
//! ```text
//! two places, 512 bytes apart, written in turns; of two intact ones the higher one counts
//! place = magic (8) ++ number of the flush (8, LE) ++ last entry, or 0 (8, LE) ++ CRC-64/XZ of all before (8, LE)
//! ```

use super::error::{WHAT_TO_DO, path_error};
use crate::store::StoreError;
use crate::store::file;
use bytes::Buf;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Start of each place. Its last character is the version of the format.
const MAGIC: &[u8; 8] = b"ALQMARK1";

const PLACE_BYTES: usize = 32;

/// Offsets of the places. No disk sector holds both, so that at least one of them is intact.
const PLACES: [u64; 2] = [0, 512];

/// Amount of data in a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level {
    /// Number of the last flush, which only grows.
    pub(super) flush: u64,
    /// Index of the last entry, or 0. Used only in messages, and may go back.
    pub(super) last: u64,
}

/// The file beside the store.
#[derive(Debug)]
pub(super) struct Watermark {
    path: PathBuf,
    file: File,
    contents: Mutex<Contents>,
    pub(super) is_synced: AtomicBool,
}

/// Contents of the file, and the place for the next level.
#[derive(Clone, Copy, Debug)]
struct Contents {
    level: Level,
    next: u64,
}

impl Watermark {
    /// Opens the file. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], or [`StoreError::Damaged`] if neither place is intact.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let opened = match File::options().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.and_then(|file| Ok((read(&file)?, file))),
        };
        let (contents, file) = opened.map_err(|error| path_error("reading", path, &error))?;
        let contents = contents.ok_or_else(|| StoreError::Damaged {
            what: format!("the watermark {}", path.display()),
            reason: format!("none of its checksums matches its content; {WHAT_TO_DO}"),
        })?;
        Ok(Some(Self::of(path, file, contents)))
    }

    /// Creates the file, for a store at this level.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`]. Then the file does not exist.
    pub(super) fn create(path: &Path, level: Level) -> Result<Self, StoreError> {
        let make = || {
            let [first, second] = [encode(level), encode(Level::default())];
            let between = [0; 512 - PLACE_BYTES];
            file::replace(path, &[&first, &between, &second])?;
            File::options().read(true).write(true).open(path)
        };
        let file = make().map_err(|error| path_error("writing", path, &error))?;
        let [_, next] = PLACES;
        Ok(Self::of(path, file, Contents { level, next }))
    }

    fn of(path: &Path, file: File, contents: Contents) -> Self {
        Self {
            path: path.to_owned(),
            file,
            contents: contents.into(),
            is_synced: true.into(),
        }
    }

    /// Returns the level that was written last.
    pub(super) fn level(&self) -> Level {
        self.contents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .level
    }

    /// Writes a level that was reached: all of it must be on the medium. Returns true if it is the
    /// first since [`Self::sync`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] if the file cannot be written.
    pub(super) fn raise(&self, level: Level) -> Result<bool, StoreError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        if level.flush <= contents.level.flush {
            return Ok(false);
        }
        let written = self.file.write_all_at(&encode(level), contents.next);
        written.map_err(|error| path_error("writing", &self.path, &error))?;
        *contents = Contents {
            level,
            next: other(contents.next),
        };
        Ok(self.is_synced.swap(false, Ordering::AcqRel))
    }

    /// Flushes the written level to the medium.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] if the file cannot be written.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        if self.is_synced.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let synced = self.file.sync_data();
        synced.map_err(|error| path_error("flushing", &self.path, &error))
    }
}

fn other(place: u64) -> u64 {
    let [first, second] = PLACES;
    if place == first { second } else { first }
}

fn encode(level: Level) -> [u8; PLACE_BYTES] {
    let (flush, last) = (level.flush.to_le_bytes(), level.last.to_le_bytes());
    let sum = file::checksum(&[MAGIC, &flush, &last]).to_le_bytes();
    let mut place = [0; PLACE_BYTES];
    for (to, from) in place
        .iter_mut()
        .zip([*MAGIC, flush, last, sum].as_flattened())
    {
        *to = *from;
    }
    place
}

fn decode(place: &[u8; PLACE_BYTES]) -> Option<Level> {
    let mut fields = place.get(MAGIC.len()..)?;
    let level = Level {
        flush: fields.get_u64_le(),
        last: fields.get_u64_le(),
    };
    (encode(level) == *place).then_some(level)
}

/// Returns the higher level of the intact places.
fn read(file: &File) -> io::Result<Option<Contents>> {
    let mut highest: Option<Contents> = None;
    for at in PLACES {
        let mut place = [0; PLACE_BYTES];
        match file.read_exact_at(&mut place, at) {
            // A file that is too short lacks this place.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            read => read?,
        }
        let Some(level) = decode(&place) else {
            continue;
        };
        if highest.is_none_or(|contents| contents.level < level) {
            highest = Some(Contents {
                level,
                next: other(at),
            });
        }
    }
    Ok(highest)
}

#[cfg(test)]
#[path = "../../../tests/unit/store/sled/watermark.rs"]
mod tests;
