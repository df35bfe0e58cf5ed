use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

type DoneResult = Result<(), StoreError>;

fn item(index: u64) -> LogItem {
    LogItem {
        index,
        bytes: Bytes::from_static(b"entry"),
    }
}

fn done() -> (Done, Receiver<DoneResult>) {
    let (reported, wait) = channel();
    let done: Done = Box::new(move |result| drop(reported.send(result)));
    (done, wait)
}

/// Makes a write and waits for its Done.
fn wait(write: impl FnOnce(Done)) -> DoneResult {
    let (done, reported) = done();
    write(done);
    reported.recv().unwrap()
}

#[test]
fn of_sled_s_files_only_unfinished_snapshots_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["snap.1", "snap.2.generating", "db.generating", "conf"] {
        fs::write(dir.path().join(name), "content").unwrap();
    }
    remove_unfinished(dir.path()).unwrap();
    let names = fs::read_dir(dir.path()).unwrap();
    let mut left: Vec<_> = names.map(|item| item.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["conf", "db.generating", "snap.1"]);
}

#[test]
fn after_one_failed_flush_no_write_succeeds_though_the_next_flush_would() {
    let dir = tempfile::tempdir().unwrap();
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let disk = SledDisk::open_with(&dir.path().join("store"), |_| {
        Box::new(move || match fails.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        })
    });
    let disk = disk.unwrap();
    wait(|done| disk.append(vec![item(1)], done)).unwrap();
    failing.store(true, Ordering::SeqCst);
    wait(|done| disk.append(vec![item(2)], done)).unwrap_err();
    failing.store(false, Ordering::SeqCst);
    wait(|done| disk.append(vec![item(3)], done)).unwrap_err();
    wait(|done| disk.put("vote", Bytes::new(), done)).unwrap_err();
    let snapshot = SnapshotItem {
        meta: Bytes::new(),
        data: Bytes::new(),
    };
    wait(|done| disk.put_snapshot(snapshot, done)).unwrap_err();
    // Reads still work, and completed writes are there.
    assert_eq!(disk.entries(1..2, 0).unwrap(), [item(1)]);
    drop(disk);
    let disk = SledDisk::open(dir.path().join("store")).unwrap();
    assert_eq!(disk.entries(1..2, 0).unwrap(), [item(1)]);
    wait(|done| disk.truncate(1, done)).unwrap();
}

#[test]
fn one_flush_serves_all_writes_that_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (entered, flushing) = channel();
    let (release, gate) = channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let disk = SledDisk::open_with(&dir.path().join("store"), |_| {
        Box::new(move || {
            entered.send(()).unwrap();
            gate.lock().unwrap().recv().unwrap();
            Ok(())
        })
    });
    let disk = disk.unwrap();
    let (first, first_told) = done();
    disk.append(vec![item(1)], first);
    flushing.recv().unwrap();
    // The first flush is running. These writes wait for the second one.
    let reported: Vec<_> = (2..100)
        .map(|index| {
            let (done, reported) = done();
            disk.append(vec![item(index)], done);
            reported
        })
        .collect();
    release.send(()).unwrap();
    first_told.recv().unwrap().unwrap();
    flushing.recv().unwrap();
    assert!(reported.iter().all(|reported| reported.try_recv().is_err()));
    release.send(()).unwrap();
    for reported in reported {
        reported.recv().unwrap().unwrap();
    }
    drop(disk);
    assert_eq!(flushing.try_iter().count(), 0);
}

#[test]
fn what_is_purged_is_swept_away_and_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let open = || SledDisk::open(dir.path().join("store")).unwrap();
    let disk = open();
    wait(|done| disk.append((1..=3000).map(item).collect(), done)).unwrap();
    wait(|done| disk.purge(2990, ("purged", Bytes::new()), done)).unwrap();
    // Most likely, this closes the store in the middle of the sweep.
    drop(disk);
    let disk = open();
    let shared = Arc::clone(disk.shared.as_ref().unwrap());
    assert_eq!(disk.bounds().unwrap(), Some((2991, 3000)));
    wait(|done| disk.append(vec![item(3001)], done)).unwrap();
    while shared.log.sweep(2991).unwrap() == log::Swept::Some {}
    assert_eq!(shared.log.check(0).unwrap(), Some((2991, 3001)));
}

/// Waits until the store's own thread has done something, however long that takes.
fn wait_until(is_done: impl Fn() -> bool) {
    while !is_done() {
        thread::yield_now();
    }
}

#[test]
fn what_is_purged_is_swept_away_while_the_store_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SledDisk::open(dir.path().join("store")).unwrap();
    wait(|done| disk.append((1..=300).map(item).collect(), done)).unwrap();
    wait(|done| disk.purge(290, ("purged", Bytes::new()), done)).unwrap();
    let shared = disk.shared.as_ref().unwrap();
    // Meanwhile there may be a hole.
    wait_until(|| matches!(shared.log.check(0), Ok(Some((291, 300)))));
}

#[test]
fn the_watermark_is_soon_on_the_medium_though_nothing_more_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SledDisk::open(dir.path().join("store")).unwrap();
    let shared = disk.shared.as_ref().unwrap();
    wait_until(|| shared.watermark.is_synced.load(Ordering::SeqCst));
    wait(|done| disk.append(vec![item(1)], done)).unwrap();
    wait_until(|| shared.watermark.is_synced.load(Ordering::SeqCst));
}

#[test]
fn a_hole_in_the_log_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SledDisk::open(dir.path().join("store")).unwrap();
    let shared = Arc::clone(disk.shared.as_ref().unwrap());
    shared.log.append(&[item(1), item(2), item(4)]).unwrap();
    let error = shared.log.check(0).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }));
    assert!(
        error.to_string().contains("after entry 2 comes entry 4"),
        "{error}"
    );
}

#[test]
fn a_store_of_an_earlier_version_is_taken_as_it_is_and_from_then_on_kept_as_now() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let db = sled::open(dir.join("db")).unwrap();
    let values = db.open_tree("values").unwrap();
    let log = Log::new(db.open_tree("log").unwrap());
    log.append(&[item(2), item(3), item(4)]).unwrap();
    values.insert("floor", &3u64.to_be_bytes()).unwrap();
    values.insert("value:vote", b"seven").unwrap();
    values.insert("value:purged", b"2").unwrap();
    db.flush().unwrap();
    drop((log, values, db));
    let mark = parent.path().join("store.watermark");
    assert!(!mark.exists());
    for round in 0..3 {
        let disk = SledDisk::open(&dir).unwrap();
        assert_eq!(disk.bounds().unwrap(), Some((3, 4)), "{round}");
        assert_eq!(disk.value("vote").unwrap().unwrap(), "seven", "{round}");
        assert_eq!(disk.value("purged").unwrap().unwrap(), "2", "{round}");
        assert!(disk.was_written() && mark.exists());
    }
    let disk = SledDisk::open(&dir).unwrap();
    let keys = disk.shared().db.open_tree("values").unwrap().len();
    assert_eq!(keys, 1);
    wait(|done| disk.append(vec![item(5)], done)).unwrap();
    drop(disk);
    fs::remove_dir_all(&dir).unwrap();
    let error = SledDisk::open(&dir).unwrap_err();
    assert!(error.to_string().contains("(entry 5)"), "{error}");
}

/// After a kill between the record and the truncation, the log has more entries than the record lists.
#[test]
fn a_record_that_went_before_its_truncation_is_no_damage() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("store");
    let disk = SledDisk::open(&dir).unwrap();
    wait(|done| disk.append((1..=9).map(item).collect(), done)).unwrap();
    let shared = Arc::clone(disk.shared.as_ref().unwrap());
    let record = Record {
        flush: 50,
        bounds: Some((1, 4)),
        ..shared.book().record.clone()
    };
    shared.values.write(&record).unwrap();
    drop((shared, disk));
    let disk = SledDisk::open(&dir).unwrap();
    assert_eq!(disk.bounds().unwrap(), Some((1, 9)));
}

#[test]
fn entries_that_a_record_speaks_of_and_that_are_gone_are_damage() {
    for (from, floor, found) in [(7, 0, "from 1 to 6"), (1, 0, "none"), (0, 4, "from 5 to 9")] {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("store");
        let disk = SledDisk::open(&dir).unwrap();
        wait(|done| disk.append((1..=9).map(item).collect(), done)).unwrap();
        let shared = Arc::clone(disk.shared.as_ref().unwrap());
        match floor {
            0 => shared.log.truncate(from).unwrap(),
            floor => while shared.log.sweep(floor + 1).unwrap() == log::Swept::Some {},
        }
        drop((shared, disk));
        let message = SledDisk::open(&dir).unwrap_err().to_string();
        assert!(
            message.contains("entries 1 to 9") && message.contains(found),
            "{message}"
        );
    }
}

/// A truncation whose record cannot be written cuts nothing.
#[test]
fn the_log_is_never_cut_before_its_record() {
    let parent = tempfile::tempdir().unwrap();
    let disk = SledDisk::open(parent.path().join("store")).unwrap();
    wait(|done| disk.append((1..=9).map(item).collect(), done)).unwrap();
    let shared = Arc::clone(disk.shared.as_ref().unwrap());
    let too_long = Bytes::from(vec![0; 1 << 17]);
    let name = "vote".to_owned();
    shared.book().record.values.insert(name, too_long);
    wait(|done| disk.truncate(5, done)).unwrap_err();
    assert_eq!(shared.log.check(0).unwrap(), Some((1, 9)));
}
