//! What is damaged is said, with what to do; what only looks so is mended.

use crate::told::{Told, items, text};
use aliquot_coordinator::store::{Disk, SledDisk, SnapshotItem, StoreError};
use std::fs;
use std::path::Path;

fn filled(dir: &Path) {
    let mut told = Told::default();
    let disk = SledDisk::open(dir).unwrap();
    disk.append(items(1..=200, 3000), told.done());
    disk.put("vote", text("seven"), told.done());
    let snapshot = SnapshotItem {
        meta: text("meta"),
        data: items(1..=1, 10_000).remove(0).bytes,
    };
    disk.put_snapshot(snapshot, told.done());
    drop(disk);
    told.all();
}

/// Opens, expecting damage, and gives what is said.
fn damage(dir: &Path) -> String {
    match SledDisk::open(dir) {
        Err(error @ StoreError::Damaged { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_with_any_byte_changed_or_missing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let path = dir.path().join("snapshot");
    let whole = fs::read(&path).unwrap();
    for at in [0, 7, 8, 16, 23, 24, 30, 5000, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let said = damage(dir.path());
        assert!(said.contains("remove this node's data directory"), "{said}");
    }
    for length in [0, 10, 32, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        damage(dir.path());
    }
    fs::write(&path, whole).unwrap();
    SledDisk::open(dir.path()).unwrap();
}

#[test]
fn an_unfinished_snapshot_file_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    fs::write(dir.path().join("snapshot.tmp"), b"half").unwrap();
    let disk = SledDisk::open(dir.path()).unwrap();
    assert_eq!(disk.snapshot().unwrap().unwrap().meta, "meta");
    assert!(!dir.path().join("snapshot.tmp").exists());
}

#[test]
fn what_a_kill_leaves_of_sleds_own_snapshot_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let path = dir.path().join("db/snap.00000000000FFFFF.generating");
    fs::write(&path, b"").unwrap();
    let disk = SledDisk::open(dir.path()).unwrap();
    assert_eq!(disk.bounds().unwrap(), Some((1, 200)));
    assert_eq!(disk.value("vote").unwrap(), Some(text("seven")));
    assert!(!path.exists());
}

#[test]
fn a_second_opener_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SledDisk::open(dir.path()).unwrap();
    let second = SledDisk::open(dir.path());
    assert!(matches!(second, Err(StoreError::Io { .. })), "{second:?}");
    drop(disk);
    SledDisk::open(dir.path()).unwrap();
}

/// Sled does not flush the files in which it keeps large pages.
#[test]
fn no_page_is_so_large_that_it_goes_to_a_file_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SledDisk::open(dir.path()).unwrap();
    let mut told = Told::default();
    disk.append(items(1..=20, 300_000), told.done());
    disk.append(items(21..=600, 4096), told.done());
    disk.truncate(300, told.done());
    disk.append(items(300..=400, 9000), told.done());
    disk.purge(200, ("purged", text("200")), told.done());
    told.all_in_order();
    drop(disk);
    let blobs = fs::read_dir(dir.path().join("db/blobs")).unwrap();
    assert_eq!(blobs.count(), 0);
}
