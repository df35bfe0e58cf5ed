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
mod tests {
    use super::*;
    use crate::store::{MemoryDisk, SnapshotItem};

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(checksum(b"foobar"), 0x8594_4171_f739_67e8);
    }

    fn junk(index: u64) -> SkipEntry {
        SkipEntry {
            index,
            checksum: checksum(b"junk"),
        }
    }

    fn readable(command: &Bytes) -> Result<(), String> {
        match command.as_ref() {
            b"junk" => Err("junk".to_owned()),
            _ => Ok(()),
        }
    }

    fn disk() -> Arc<dyn Disk> {
        Arc::new(MemoryDisk::synced())
    }

    async fn ask(
        skips: &mut Skips,
        index: u64,
        command: &'static [u8],
        disk: &Arc<dyn Disk>,
    ) -> Result<bool, Halt> {
        let command = Bytes::from_static(command);
        skips.skips(index, &command, readable, disk).await.unwrap()
    }

    #[tokio::test]
    async fn what_is_skipped_once_is_skipped_for_good_and_nothing_else_is() {
        let disk = disk();
        let mut skips = Skips::open(&*disk, &[junk(7)]).unwrap();
        assert_eq!(ask(&mut skips, 6, b"junk", &disk).await, Ok(false));
        assert_eq!(ask(&mut skips, 7, b"junk", &disk).await, Ok(true));
        // The consent is gone from the configuration, but stays on the disk.
        let mut later = Skips::open(&*disk, &[]).unwrap();
        assert_eq!(later.cluster("main"), skips.cluster("main"));
        assert_ne!(later.cluster("main"), "main");
        assert_eq!(ask(&mut later, 7, b"junk", &disk).await, Ok(true));
        let command = Bytes::from_static(b"junk");
        let all_readable = |_: &Bytes| Ok(());
        let asked = later.skips(7, &command, all_readable, &disk).await.unwrap();
        assert_eq!(asked.map_err(|error| error.to_string()), Ok(true));
    }

    #[tokio::test]
    async fn a_consent_that_does_not_fit_stops_the_node() {
        let disk = disk();
        let mut skips = Skips::open(&*disk, &[junk(7)]).unwrap();
        let other = ask(&mut skips, 7, b"other", &disk).await.unwrap_err();
        assert!(
            other.to_string().contains("the checksum of entry 7 is"),
            "{other}"
        );
        let entry = SkipEntry {
            index: 8,
            checksum: checksum(b"fine"),
        };
        let mut skips = Skips::open(&*disk, &[entry]).unwrap();
        let readable = ask(&mut skips, 8, b"fine", &disk).await.unwrap_err();
        assert!(
            readable.to_string().contains("this version reads entry 8"),
            "{readable}"
        );
    }

    #[tokio::test]
    async fn a_node_whose_snapshot_contains_the_entry_cannot_skip_it() {
        let disk = disk();
        let meta = wire::SnapshotMeta {
            last: Some(wire::LogId { term: 1, index: 9 }),
            ..wire::SnapshotMeta::default()
        };
        let (done, finished) = waiter();
        let item = SnapshotItem {
            meta: meta.to_bytes(),
            data: Bytes::new(),
        };
        disk.put_snapshot(item, done);
        wait(finished).await.unwrap();
        let refused = Skips::open(&*disk, &[junk(9)]).unwrap_err();
        assert!(
            matches!(refused, RaftError::Halted(Halt::Consent { .. })),
            "{refused}"
        );
        // A snapshot from a node with the same skips is recorded as such.
        let mut skips = Skips::open(&*disk, &[junk(10)]).unwrap();
        skips.write_upto(10, &disk).await.unwrap();
        assert_eq!(Skips::open(&*disk, &[junk(10)]).unwrap(), skips);
    }
}
