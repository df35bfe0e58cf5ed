//! A full disk, in a process of its own: the limit on the size of a file replaces the size of the disk.

use crate::alone;
use crate::completions::{Completions, item};
use aliquot_coordinator::store::{Disk, SledDisk, StoreError};
use std::process::Command;

/// Tells the test below that it is the child, and its directory.
const CHILD_DIR: &str = "ALIQUOT_TEST_FULL_DIR";

#[test]
fn on_a_full_disk_writes_fail_for_good_and_what_was_acknowledged_stays() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    // 4 MiB in blocks of 512 bytes. The signal is ignored, so that writes fail instead.
    let script = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "full::as_the_child_of_the_full_disk",
            "--nocapture",
        ])
        .env(CHILD_DIR, dir.path())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{message}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let last: u64 = std::fs::read_to_string(dir.path().join("last"))
        .unwrap()
        .parse()
        .unwrap();
    assert!(last > 10, "{message}");
    let disk = SledDisk::open(dir.path().join("store")).unwrap();
    let found = disk.entries(0..last + 1, usize::MAX).unwrap();
    let expected: Vec<_> = (1..=last).map(|index| item(index, 10_000)).collect();
    assert_eq!(found, expected);
}

/// Not a test by itself: run as a child of the test above. Without the variable, it does nothing.
#[test]
fn as_the_child_of_the_full_disk() {
    let Some(dir) = std::env::var_os(CHILD_DIR).map(std::path::PathBuf::from) else {
        return;
    };
    let disk = SledDisk::open(dir.join("store")).unwrap();
    let mut last = 0;
    let error = loop {
        let mut completions = Completions::default();
        disk.append(vec![item(last + 1, 10_000)], completions.done());
        match completions.all().remove(0).1 {
            Ok(()) => last += 1,
            Err(error) => break error,
        }
        assert!(last < 10_000, "nothing limits the size of a file");
    };
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    // Lost writes stay lost. Every later Done gets the error, even if its write would succeed now.
    let mut completions = Completions::default();
    disk.put("vote", item(1, 1).bytes, completions.done());
    disk.truncate(1, completions.done());
    let message = completions
        .all()
        .into_iter()
        .map(|(_, result)| result.unwrap_err().to_string());
    assert_eq!(
        message.collect::<Vec<_>>(),
        [error.to_string(), error.to_string()]
    );
    drop(disk);
    std::fs::write(dir.join("last"), last.to_string()).unwrap();
}
