//! A data directory belongs to one node of one cluster.

use crate::completions::{Completions, items};
use aliquot_coordinator::store::{DataDir, DataDirError, Disk, SledDisk};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn open(path: &Path) -> Result<DataDir, DataDirError> {
    DataDir::open(path, "main", || 42)
}

/// Creates a stamped directory, and closes it.
fn stamped() -> (tempfile::TempDir, std::path::PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    open(&path).unwrap();
    (parent, path)
}

/// Copies a file or a directory with its contents and times, as a backup does.
fn copy_all(from: &Path, to: &Path) {
    let found = fs::metadata(from).unwrap();
    if found.is_dir() {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_all(&entry.path(), &to.join(entry.file_name()));
        }
    } else {
        fs::copy(from, to).unwrap();
    }
    let times = fs::FileTimes::new()
        .set_accessed(found.accessed().unwrap())
        .set_modified(found.modified().unwrap());
    fs::File::open(to).unwrap().set_times(times).unwrap();
}

#[test]
fn a_missing_directory_is_created_and_keeps_its_number() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b/data");
    let dir = DataDir::open(&path, "main", || u64::MAX).unwrap();
    assert!(dir.is_new());
    assert_eq!((dir.node_id(), dir.cluster_id()), (u64::MAX, "main"));
    assert!(dir.store_path().starts_with(dir.path()));
    drop(dir);
    let dir = DataDir::open(&path, "main", || panic!("it has a number")).unwrap();
    assert!(!dir.is_new());
    assert_eq!(dir.node_id(), u64::MAX);
}

#[test]
fn a_directory_in_use_is_refused_with_the_process_that_has_it() {
    let (_parent, path) = stamped();
    let dir = open(&path).unwrap();
    let error = open(&path).unwrap_err();
    let pid = std::process::id();
    assert!(
        matches!(error, DataDirError::InUse { pid: Some(by), .. } if by == pid),
        "{error}"
    );
    drop(dir);
    open(&path).unwrap();
}

#[test]
fn a_directory_of_another_cluster_is_refused() {
    let (_parent, path) = stamped();
    let error = DataDir::open(&path, "other", || 1).unwrap_err();
    assert!(matches!(error, DataDirError::WrongCluster { .. }));
    assert!(error.to_string().contains("\"main\""), "{error}");
    assert_eq!(open(&path).unwrap().node_id(), 42);
}

#[test]
fn a_directory_of_a_newer_version_is_refused() {
    let (_parent, path) = stamped();
    let stamp = path.join("identity.toml");
    let text = fs::read_to_string(&stamp).unwrap();
    fs::write(
        &stamp,
        text.replace("format = 2", "format = 3\nmore = true"),
    )
    .unwrap();
    let error = open(&path).unwrap_err();
    assert!(
        matches!(
            error,
            DataDirError::Newer {
                found: 3,
                known: 2,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_damaged_stamp_is_refused() {
    let (_parent, path) = stamped();
    let stamp = path.join("identity.toml");
    let text = fs::read_to_string(&stamp).unwrap();
    let cases = [
        String::new(),
        "\u{0}\u{0}".to_owned(),
        text.replace("42", "43"),
        text.replace("main", "mean"),
        text[..text.len() / 2].to_owned(),
        format!("{text}more = 1\n"),
    ];
    for case in cases {
        fs::write(&stamp, &case).unwrap();
        let error = open(&path).unwrap_err();
        assert!(
            matches!(error, DataDirError::Damaged { .. }),
            "{case}: {error}"
        );
        assert!(
            error
                .to_string()
                .contains("move the node's data directory away"),
            "{error}"
        );
    }
}

#[test]
fn a_directory_with_something_else_in_it_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("letter.txt"), "dear all").unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, DataDirError::NotOurs { .. }), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let file = dir.path().join("letter.txt");
    let error = open(&file).unwrap_err();
    assert!(matches!(error, DataDirError::Unusable { .. }), "{error}");
}

#[test]
fn a_lost_stamp_makes_no_new_node_of_an_old_store() {
    let (_parent, path) = stamped();
    fs::create_dir(path.join("store")).unwrap();
    fs::remove_file(path.join("identity.toml")).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, DataDirError::NotOurs { .. }), "{error}");
}

#[test]
fn what_an_interrupted_first_start_leaves_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["lock", "identity.tmp", "write-check.tmp"] {
        fs::write(dir.path().join(name), "half").unwrap();
    }
    assert!(open(dir.path()).unwrap().is_new());
}

#[test]
fn a_copied_directory_is_refused_and_the_original_and_its_new_name_are_not() {
    let (parent, path) = stamped();
    let copy = parent.path().join("copy");
    copy_all(&path, &copy);
    let error = open(&copy).unwrap_err();
    assert!(matches!(error, DataDirError::Copied { .. }), "{error}");
    assert_eq!(open(&path).unwrap().node_id(), 42);
    // Moved within its file system, it is still the same directory.
    let moved = parent.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    assert_eq!(open(&moved).unwrap().node_id(), 42);
}

#[test]
fn a_backup_restored_into_the_same_directory_is_refused() {
    let (parent, path) = stamped();
    let backup = parent.path().join("backup.toml");
    let stamp = path.join("identity.toml");
    fs::copy(&stamp, &backup).unwrap();
    fs::remove_file(&stamp).unwrap();
    // If the same inode is used again, the time of creation shows the difference.
    fs::copy(&backup, &stamp).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, DataDirError::Copied { .. }), "{error}");
}

/// Root may write everywhere. Then nothing can be refused, and the test says so.
#[test]
fn an_unwritable_directory_is_refused() {
    let (_parent, path) = stamped();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
    let opened = open(&path);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    match opened {
        Ok(_) => eprintln!("skipped: this user may write to a read-only directory"),
        Err(error) => assert!(matches!(error, DataDirError::Unusable { .. }), "{error}"),
    }
    // No user can write into this directory, which is not a real one.
    let error = open(Path::new("/proc/aliquot")).unwrap_err();
    assert!(matches!(error, DataDirError::Unusable { .. }), "{error}");
}

/// A directory whose store is in its stamp, too.
fn sealed() -> (tempfile::TempDir, std::path::PathBuf) {
    let (parent, path) = stamped();
    let mut dir = open(&path).unwrap();
    let store = SledDisk::open(dir.store_path()).unwrap();
    dir.seal(&store).unwrap();
    (parent, path)
}

#[test]
fn a_stamped_store_that_is_missing_is_refused_and_left_alone() {
    for part in ["store", "store/db/db", "store.watermark"] {
        let (_parent, path) = sealed();
        assert_eq!(open(&path).unwrap().node_id(), 42);
        let part = path.join(part);
        match part.is_dir() {
            true => fs::remove_dir_all(&part).unwrap(),
            false => fs::remove_file(&part).unwrap(),
        }
        let error = open(&path).unwrap_err();
        assert!(
            matches!(&error, DataDirError::Incomplete { missing, .. } if *missing == part),
            "{error}"
        );
        assert!(!part.exists());
    }
}

#[test]
fn a_stamped_store_that_was_put_back_is_refused() {
    for part in ["store", "store/db/db", "store.watermark"] {
        let (parent, path) = sealed();
        let (part, backup) = (path.join(part), parent.path().join("backup"));
        copy_all(&part, &backup);
        match part.is_dir() {
            true => fs::remove_dir_all(&part).unwrap(),
            false => fs::remove_file(&part).unwrap(),
        }
        fs::rename(&backup, &part).unwrap();
        let error = open(&path).unwrap_err();
        assert!(matches!(error, DataDirError::Copied { .. }), "{error}");
    }
}

/// After a kill between the two stamps, the store exists but is not in the stamp.
#[test]
fn what_an_interrupted_first_start_leaves_of_a_store_is_no_obstacle() {
    let (_parent, path) = stamped();
    drop(SledDisk::open(open(&path).unwrap().store_path()).unwrap());
    let mut dir = open(&path).unwrap();
    let store = SledDisk::open(dir.store_path()).unwrap();
    dir.seal(&store).unwrap();
    drop((dir, store));
    assert_eq!(open(&path).unwrap().node_id(), 42);
}

#[test]
fn a_store_that_was_written_does_not_become_a_new_nodes() {
    let (_parent, path) = stamped();
    let mut dir = open(&path).unwrap();
    let store = SledDisk::open(dir.store_path()).unwrap();
    let mut completions = Completions::default();
    store.append(items(1..=1, 10), completions.done());
    completions.all_in_order();
    let error = dir.seal(&store).unwrap_err();
    assert!(matches!(error, DataDirError::Copied { .. }), "{error}");
}
