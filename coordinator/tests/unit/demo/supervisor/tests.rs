use super::*;
use tempfile::TempDir;

mod live;

#[test]
fn a_directory_that_was_asked_for_must_be_empty_and_stays() {
    let dir = TempDir::new().unwrap();
    let wanted = dir.path().join("run");
    let work = WorkDir::new(Some(&wanted)).unwrap();
    std::fs::write(work.path().join("x"), "").unwrap();
    drop(work);
    assert!(wanted.join("x").exists());
    let error = WorkDir::new(Some(&wanted)).unwrap_err().to_string();
    assert!(error.ends_with("must be an empty directory"), "{error}");
}

#[test]
fn a_temporary_directory_goes_unless_it_is_kept() {
    let mut work = WorkDir::new(None).unwrap();
    let path = work.path().to_owned();
    work.keep();
    drop(work);
    assert!(path.exists());
    std::fs::remove_dir(&path).unwrap();
    let work = WorkDir::new(None).unwrap();
    assert_ne!(work.path(), path, "its name could be foreseen");
    let path = work.path().to_owned();
    drop(work);
    assert!(!path.exists());
}
