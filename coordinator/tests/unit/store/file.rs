use super::*;

#[test]
fn the_checksum_is_the_one_of_the_catalogue() {
    assert_eq!(checksum(&[b"123456789"]), 0x995D_C9BB_DF19_39FA);
    assert_eq!(
        checksum(&[b"1234", b"", b"56789"]),
        checksum(&[b"123456789"])
    );
}

#[test]
fn a_file_is_replaced_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    assert_eq!(read(&path).unwrap(), None);
    replace(&path, &[b"long ", b"before"]).unwrap();
    replace(&path, &[b"after"]).unwrap();
    assert_eq!(read(&path).unwrap().unwrap(), b"after");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
