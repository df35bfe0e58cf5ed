//! The end of a store, and its next start.

use crate::completions::item;
use aliquot_coordinator::store::{Disk, Done, SledDisk};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

#[test]
fn a_done_may_write_and_may_own_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(SledDisk::open(dir.path().join("store")).unwrap());
    let (finished, wait) = channel();
    let last = Arc::clone(&disk);
    let (go, gate) = channel::<()>();
    let write: Done = Box::new(move |result| {
        result.unwrap();
        gate.recv().unwrap();
        let finished = finished.clone();
        last.append(
            vec![item(2, 5)],
            Box::new(move |result| finished.send(result).unwrap()),
        );
    });
    disk.append(vec![item(1, 5)], write);
    drop(disk);
    go.send(()).unwrap();
    wait.recv().unwrap().unwrap();
}

/// The lock is released with the last process that has the file open. A process that is being started
/// briefly has all open files of its parent.
#[test]
fn a_database_whose_lock_is_let_go_soon_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SledDisk::open(dir.path().join("store")).unwrap();
    let opened = thread::scope(|scope| {
        let opening = scope.spawn(|| SledDisk::open(dir.path().join("store")));
        drop(disk);
        opening.join().unwrap()
    });
    opened.unwrap();
}
