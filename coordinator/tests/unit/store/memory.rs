use super::*;
use std::sync::Arc;

type Calls = Arc<Mutex<Vec<(u64, bool)>>>;

fn append(disk: &MemoryDisk, index: u64, calls: &Calls) {
    let calls = Arc::clone(calls);
    let item = LogItem {
        index,
        bytes: Bytes::new(),
    };
    let done = move |result: Result<(), StoreError>| {
        calls.lock().unwrap().push((index, result.is_ok()));
    };
    disk.append(vec![item], Box::new(done));
}

fn error() -> StoreError {
    StoreError::Io {
        what: "writing".to_owned(),
        reason: "planted".to_owned(),
    }
}

#[test]
fn a_crash_drops_what_was_not_synced_with_its_dones() {
    let (disk, calls) = (MemoryDisk::new(), Calls::default());
    for index in 1..=5 {
        append(&disk, index, &calls);
    }
    disk.sync_some(2);
    assert_eq!(disk.bounds().unwrap(), Some((1, 5)));
    assert_eq!(disk.waiting(), 3);
    disk.crash_keeping(1);
    disk.sync();
    assert_eq!(*calls.lock().unwrap(), [(1, true), (2, true)]);
    assert_eq!(disk.bounds().unwrap(), Some((1, 3)));
    assert_eq!(Arc::strong_count(&calls), 1);
    assert_eq!(
        MemoryDisk::from_image(disk.image()).bounds().unwrap(),
        Some((1, 3))
    );
}

#[test]
fn a_failing_disk_tells_everybody_until_it_is_opened_again() {
    let (disk, calls) = (MemoryDisk::new(), Calls::default());
    append(&disk, 1, &calls);
    disk.sync();
    append(&disk, 2, &calls);
    disk.fail_with(error());
    append(&disk, 3, &calls);
    disk.sync();
    assert_eq!(*calls.lock().unwrap(), [(1, true), (2, false), (3, false)]);
    disk.crash();
    assert_eq!(disk.bounds().unwrap(), Some((1, 1)));
    append(&disk, 2, &calls);
    disk.sync();
    assert_eq!(disk.image().bounds(), Some((1, 2)));
}

#[test]
fn a_done_may_write_and_its_write_waits_its_turn() {
    let disk = Arc::new(MemoryDisk::synced());
    let calls = Calls::default();
    let (inner, seen) = (Arc::clone(&disk), Arc::clone(&calls));
    let done = move |_| {
        append(&inner, 1, &seen);
        seen.lock().unwrap().push((0, true));
    };
    disk.put("vote", Bytes::new(), Box::new(done));
    assert_eq!(*calls.lock().unwrap(), [(0, true), (1, true)]);
    assert_eq!(disk.waiting(), 0);
}

#[test]
fn a_done_that_crashes_the_disk_ends_the_sync() {
    let disk = Arc::new(MemoryDisk::new());
    let calls = Calls::default();
    let inner = Arc::clone(&disk);
    disk.put("vote", Bytes::new(), Box::new(move |_| inner.crash()));
    append(&disk, 1, &calls);
    disk.sync();
    assert_eq!(*calls.lock().unwrap(), []);
    append(&disk, 1, &calls);
    disk.sync();
    assert_eq!(*calls.lock().unwrap(), [(1, true)]);
}
