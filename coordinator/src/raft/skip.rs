//! Entries that cannot be read: the log ends there, until operators consent to skip the entry.
//!
//! If one replica skipped an entry and another applied it, their states would differ. Three rules
//! prevent this.
//!
//! - A consent names the entry by index and checksum. It is refused if this version can read the entry.
//! - The consent is written to the disk before any later entry is applied. From then on every version
//!   skips the entry.
//! - The cluster name that a node uses contains what it skips ([`Skips::cluster`]). Nodes with
//!   different skips neither replicate to each other, nor vote for each other, nor confirm each other's
//!   reports.

use super::halt::Halt;
use super::log::{failed, wait, waiter};
use super::outcome::RaftError;
use crate::config::SkipEntry;
use crate::store::{Disk, StoreError};
use aliquot_wire::Wire;
use aliquot_wire::raft as wire;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Key of the stored list of skipped entries.
const SKIPPED: &str = "raft.skipped";

/// Maximum number of entries that a node skips: their list must fit in a value of the store.
const SKIPS_MAX: usize = 64;

/// The entries that a node skips: those already skipped, and those that its operator consents to skip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// Checksums of the entries, by index.
    entries: BTreeMap<u64, u64>,
    /// Entries that the disk lists. They are skipped without another check.
    written: BTreeSet<u64>,
}

impl Skips {
    /// Returns the skips that the disk lists, and those that the operator consents to.
    ///
    /// # Errors
    ///
    /// [`RaftError::Storage`] if the disk cannot be read. [`RaftError::Halted`] if a consent contradicts the
    /// disk, or there are too many.
    pub fn open(disk: &dyn Disk, consents: &[SkipEntry]) -> Result<Self, RaftError> {
        let storage = |error: StoreError| RaftError::Storage {
            reason: error.to_string(),
        };
        let written = disk.value(SKIPPED).map_err(storage)?;
        let mut skips = Self::default();
        let written = written.unwrap_or_default();
        for text in String::from_utf8_lossy(&written).split_terminator(',') {
            let entry: SkipEntry = text.parse().map_err(|error| RaftError::Storage {
                reason: format!("the stored value {SKIPPED}: {text:?} {error}"),
            })?;
            skips.entries.insert(entry.index, entry.checksum);
            skips.written.insert(entry.index);
        }
        let reached = snapshot_index(disk)?;
        for &entry in consents {
            let refuse = |reason: String| RaftError::Halted(Halt::Consent { entry, reason });
            let known = skips.entries.insert(entry.index, entry.checksum);
            if let Some(known) = known.filter(|known| *known != entry.checksum) {
                let reason = format!("this node skips entry {} as {known:016x}", entry.index);
                return Err(refuse(reason));
            }
            if skips.entries.len() > SKIPS_MAX {
                return Err(refuse(format!("{SKIPS_MAX} entries are the most")));
            }
            if entry.index <= reached && !skips.written.contains(&entry.index) {
                return Err(refuse(format!(
                    "this node's snapshot is of entry {reached} and was made without skipping it: another version read \
                     the entry. Move the data directory away and start the node, which joins as a new one; or, if all \
                     nodes are past the entry, remove the consent"
                )));
            }
        }
        Ok(skips)
    }

    /// Returns the cluster name that a node uses: the configured name, and a hash of what it skips.
    #[must_use]
    pub fn cluster(&self, name: &str) -> String {
        if self.entries.is_empty() {
            return name.to_owned();
        }
        // A configured name never contains a `+`.
        format!("{name}+skips-{:016x}", checksum(self.list().as_bytes()))
    }

    fn list(&self) -> String {
        let texts = self.entries.iter().map(|(&index, &checksum)| {
            let entry = SkipEntry { index, checksum };
            format!("{entry},")
        });
        texts.collect()
    }

    /// Decides whether an entry is skipped, before it is applied. Before this returns, an entry that is
    /// skipped for the first time is recorded on the disk.
    pub(super) async fn skips(
        &mut self,
        index: u64,
        command: &Bytes,
        readable: fn(&Bytes) -> Result<(), String>,
        disk: &Arc<dyn Disk>,
    ) -> io::Result<Result<bool, Halt>> {
        let Some(&consented) = self.entries.get(&index) else {
            return Ok(Ok(false));
        };
        let entry = SkipEntry {
            index,
            checksum: consented,
        };
        let refuse = |reason: String| Ok(Err(Halt::Consent { entry, reason }));
        let found = checksum(command);
        if found != consented {
            return refuse(format!("the checksum of entry {index} is {found:016x}"));
        }
        if self.written.contains(&index) {
            return Ok(Ok(true));
        }
        if readable(command).is_ok() {
            return refuse(format!(
                "this version reads entry {index}: remove the consent on every node and start this version on every node. \
                 If another node has skipped it, move this one's data directory away instead"
            ));
        }
        self.write_upto(index, disk).await?;
        tracing::warn!(%entry, "an entry of the log was skipped, by its operator's consent");
        Ok(Ok(true))
    }

    /// Records on the disk that the consented entries up to an index are skipped.
    pub(super) async fn write_upto(&mut self, index: u64, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let upto = self.entries.range(..=index).map(|(&index, _)| index);
        let new: Vec<u64> = upto.filter(|at| !self.written.contains(at)).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.written.extend(new);
        let mut written = self.clone();
        written
            .entries
            .retain(|index, _| self.written.contains(index));
        let (done, finished) = waiter();
        disk.put(SKIPPED, written.list().into(), done);
        wait(finished).await
    }
}

/// Returns the index of the last entry of the stored snapshot, or 0 without one.
fn snapshot_index(disk: &dyn Disk) -> Result<u64, RaftError> {
    let storage = |reason: String| RaftError::Storage { reason };
    let item = disk.snapshot().map_err(failed);
    let item = item.map_err(|error| storage(error.to_string()))?;
    let meta = item.map(|item| wire::SnapshotMeta::from_bytes(item.meta));
    let meta = meta.transpose();
    let meta = meta.map_err(|error| storage(format!("the stored snapshot: {error}")))?;
    Ok(meta.and_then(|meta| meta.last).map_or(0, |last| last.index))
}

/// Returns the 64-bit FNV-1a hash (draft-eastlake-fnv, §2). It guards against mistakes, not against
/// malice.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
#[path = "../../tests/unit/raft/skip.rs"]
mod tests;
