//! Damage is reported with instructions for the operator. Harmless remains are repaired.

use crate::completions::{Completions, items, text};
use aliquot_coordinator::store::{Disk, SledDisk, SnapshotItem, StoreError};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Directory of a store and of its watermark.
struct Dir {
    store: PathBuf,
    _parent: TempDir,
}

impl Dir {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        Self {
            store: parent.path().join("store"),
            _parent: parent,
        }
    }

    fn watermark(&self) -> PathBuf {
        self.store.with_file_name("store.watermark")
    }
}

fn filled(dir: &Path) {
    let mut completions = Completions::default();
    let disk = SledDisk::open(dir).unwrap();
    disk.append(items(1..=200, 3000), completions.done());
    disk.put("vote", text("seven"), completions.done());
    let snapshot = SnapshotItem {
        meta: text("meta"),
        data: items(1..=1, 10_000).remove(0).bytes,
    };
    disk.put_snapshot(snapshot, completions.done());
    drop(disk);
    completions.all();
}

/// Opens a damaged store, and returns the error.
fn damage(dir: &Path) -> String {
    match SledDisk::open(dir) {
        Err(error @ StoreError::Damaged { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_with_any_byte_changed_or_missing_is_refused() {
    let dir = Dir::new();
    filled(&dir.store);
    let path = dir.store.join("snapshot");
    let whole = fs::read(&path).unwrap();
    for at in [0, 7, 8, 16, 23, 24, 30, 5000, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let message = damage(&dir.store);
        assert!(
            message.contains("move the node's data directory away"),
            "{message}"
        );
    }
    for length in [0, 10, 32, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        damage(&dir.store);
    }
    fs::write(&path, whole).unwrap();
    SledDisk::open(&dir.store).unwrap();
}

#[test]
fn an_unfinished_snapshot_file_is_no_damage() {
    let dir = Dir::new();
    filled(&dir.store);
    fs::write(dir.store.join("snapshot.tmp"), b"half").unwrap();
    let disk = SledDisk::open(&dir.store).unwrap();
    assert_eq!(disk.snapshot().unwrap().unwrap().meta, "meta");
    assert!(!dir.store.join("snapshot.tmp").exists());
}

#[test]
fn what_a_kill_leaves_of_sleds_own_snapshot_is_no_damage() {
    let dir = Dir::new();
    filled(&dir.store);
    let path = dir.store.join("db/snap.00000000000FFFFF.generating");
    fs::write(&path, b"").unwrap();
    let disk = SledDisk::open(&dir.store).unwrap();
    assert_eq!(disk.bounds().unwrap(), Some((1, 200)));
    assert_eq!(disk.value("vote").unwrap(), Some(text("seven")));
    assert!(!path.exists());
}

#[test]
fn a_second_opener_is_refused() {
    let dir = Dir::new();
    let disk = SledDisk::open(&dir.store).unwrap();
    let second = SledDisk::open(&dir.store);
    assert!(matches!(second, Err(StoreError::Io { .. })), "{second:?}");
    drop(disk);
    SledDisk::open(&dir.store).unwrap();
}

/// sled does not flush the files in which it keeps large pages.
#[test]
fn no_page_is_so_large_that_it_goes_to_a_file_of_its_own() {
    let dir = Dir::new();
    let disk = SledDisk::open(&dir.store).unwrap();
    let mut completions = Completions::default();
    disk.append(items(1..=20, 300_000), completions.done());
    disk.append(items(21..=600, 4096), completions.done());
    disk.truncate(300, completions.done());
    disk.append(items(300..=400, 9000), completions.done());
    disk.purge(200, ("purged", text("200")), completions.done());
    completions.all_in_order();
    drop(disk);
    let blobs = fs::read_dir(dir.store.join("db/blobs")).unwrap();
    assert_eq!(blobs.count(), 0);
}

/// Returns every file of the store with its contents.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for item in fs::read_dir(dir).unwrap() {
        let path = item.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => files.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    files
}

/// Restores a backup as an operator does: its files are overwritten in place, and others are removed.
fn put_back(dir: &Path, backup: &[(PathBuf, Vec<u8>)]) {
    for (path, _) in files(dir) {
        if !backup.iter().any(|(kept, _)| *kept == path) {
            fs::remove_file(path).unwrap();
        }
    }
    for (path, bytes) in backup {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_database_damaged_anywhere_is_refused_or_has_all_that_was_acknowledged() {
    let dir = Dir::new();
    filled(&dir.store);
    let whole = files(&dir.store);
    let mark = fs::read(dir.watermark()).unwrap();
    let db = dir.store.join("db/db");
    let length = fs::metadata(&db).unwrap().len();
    let (mut refused, step) = (0, length / 40);
    for at in (0..40).map(|part| part * step + 40) {
        put_back(&dir.store, &whole);
        fs::write(dir.watermark(), &mark).unwrap();
        let file = fs::File::options().write(true).open(&db).unwrap();
        file.write_all_at(&[0xA5; 20], at).unwrap();
        drop(file);
        match SledDisk::open(&dir.store) {
            Err(StoreError::Damaged { .. }) => {
                refused += 1;
                // A second attempt does not accept it either.
                damage(&dir.store);
            }
            Err(error) => panic!("{at}: {error}"),
            Ok(disk) => {
                // The damage hit a place that was overwritten later, or that is not used.
                let entries = disk.entries(0..u64::MAX, usize::MAX).unwrap();
                assert_eq!(entries, items(1..=200, 3000), "{at}");
                assert_eq!(disk.value("vote").unwrap(), Some(text("seven")), "{at}");
            }
        }
    }
    assert!(refused > 10, "{refused} of 40");
}

#[test]
fn a_database_damaged_near_its_beginning_is_refused_and_says_what_is_lost() {
    let dir = Dir::new();
    filled(&dir.store);
    // Without its own snapshot, sled reads its log from the beginning.
    for (path, _) in files(&dir.store.join("db")) {
        if path.to_string_lossy().contains("snap.") {
            fs::remove_file(path).unwrap();
        }
    }
    let db = fs::File::options()
        .write(true)
        .open(dir.store.join("db/db"));
    db.unwrap().write_all_at(&[0xA5; 20], 40).unwrap();
    for _ in 0..2 {
        let message = damage(&dir.store);
        assert!(message.contains("aliquot cluster replace"), "{message}");
    }
}

#[test]
fn an_older_store_put_back_is_refused() {
    let dir = Dir::new();
    filled(&dir.store);
    let old = files(&dir.store);
    let disk = SledDisk::open(&dir.store).unwrap();
    let mut completions = Completions::default();
    disk.append(items(201..=201, 10), completions.done());
    completions.all_in_order();
    drop(disk);
    put_back(&dir.store, &old);
    let message = damage(&dir.store);
    assert!(
        message.contains("(entry 200)") && message.contains("(entry 201)"),
        "{message}"
    );
    // A store that lacks only a later vote is refused too.
    let dir = Dir::new();
    filled(&dir.store);
    let old = files(&dir.store);
    let disk = SledDisk::open(&dir.store).unwrap();
    let mut completions = Completions::default();
    disk.put("vote", text("eight"), completions.done());
    completions.all_in_order();
    drop(disk);
    put_back(&dir.store, &old);
    damage(&dir.store);
}

#[test]
fn a_store_or_a_watermark_that_is_missing_is_damage_and_nothing_is_created() {
    let dir = Dir::new();
    filled(&dir.store);
    let mark = fs::read(dir.watermark()).unwrap();
    fs::remove_file(dir.watermark()).unwrap();
    let message = damage(&dir.store);
    assert!(message.contains("store.watermark"), "{message}");
    assert!(!dir.watermark().exists());
    fs::write(dir.watermark(), &mark).unwrap();
    SledDisk::open(&dir.store).unwrap();
    fs::remove_dir_all(&dir.store).unwrap();
    damage(&dir.store);
    assert!(!dir.store.exists());
}

/// A truncation is not a loss: a follower drops entries that the new leader never had.
#[test]
fn a_log_that_was_truncated_is_no_damage() {
    let dir = Dir::new();
    filled(&dir.store);
    let disk = SledDisk::open(&dir.store).unwrap();
    let mut completions = Completions::default();
    disk.truncate(150, completions.done());
    completions.all_in_order();
    drop(disk);
    let disk = SledDisk::open(&dir.store).unwrap();
    assert_eq!(disk.bounds().unwrap(), Some((1, 149)));
}

#[test]
fn a_hint_is_there_after_the_store_was_closed() {
    let dir = Dir::new();
    let disk = SledDisk::open(&dir.store).unwrap();
    disk.hint("committed", text("nine"));
    drop(disk);
    let disk = SledDisk::open(&dir.store).unwrap();
    assert_eq!(disk.value("committed").unwrap(), Some(text("nine")));
}
