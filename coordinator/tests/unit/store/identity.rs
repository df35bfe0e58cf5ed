use super::*;
use crate::store::{Disk, LogItem};
use bytes::Bytes;

#[test]
fn a_directory_that_an_earlier_version_stamped_is_taken_with_its_store() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("data");
    drop(DataDir::open(&path, "main", || 42).unwrap());
    let dir = Opening { path: &path };
    let old = Stamp {
        format: FORMAT_WITHOUT_STORE,
        cluster: "main".to_owned(),
        node: 42,
        place: Place::default(),
        store: None,
    };
    dir.write_stamp(old).unwrap();
    let item = LogItem {
        index: 1,
        bytes: Bytes::new(),
    };
    let disk = SledDisk::open(store_in(&path)).unwrap();
    disk.append(vec![item], Box::new(drop));
    drop(disk);
    for _ in 0..2 {
        let mut data = DataDir::open(&path, "main", || 1).unwrap();
        assert_eq!(data.node_id(), 42);
        let disk = SledDisk::open(data.store_path()).unwrap();
        assert_eq!(disk.bounds().unwrap(), Some((1, 1)));
        data.seal(&disk).unwrap();
        assert_eq!(data.stamp.format, FORMAT);
    }
    fs::remove_dir_all(store_in(&path)).unwrap();
    let error = DataDir::open(&path, "main", || 1).unwrap_err();
    assert!(matches!(error, DataDirError::Incomplete { .. }), "{error}");
}

#[test]
fn a_folder_in_the_current_one_is_created() {
    // Without a parent in its path, as `--data-dir data`.
    let name = format!("identity-{}", std::process::id());
    let path = Path::new(&name);
    let created = Opening { path }.create();
    let is_there = path.is_dir();
    let _ = fs::remove_dir(path);
    created.unwrap();
    assert!(is_there);
}
