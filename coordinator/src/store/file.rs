//! Small files that are there whole or not at all, and a checksum for them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file: the parts are written beside it, flushed, and renamed over
/// it; then the directory is flushed. After an error the file is either the old
/// or the new one.
///
/// # Errors
///
/// What the operating system said.
pub(super) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    replace_with(path, |file| {
        parts.iter().try_for_each(|part| file.write_all(part))
    })
}

/// As [`replace`], where the writer sees the very file that will be there.
///
/// # Errors
///
/// What the writer or the operating system said.
pub(super) fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let fresh = path.with_extension("tmp");
    // Not what an earlier attempt left: a file of its own.
    remove_if_there(&fresh)?;
    let mut file = File::create_new(&fresh)?;
    write(&mut file)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&fresh, path)?;
    match path.parent() {
        Some(dir) => sync_dir(dir),
        None => Ok(()),
    }
}

/// Removes a file, unless there is none.
///
/// # Errors
///
/// What the operating system said.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes what a directory lists durable.
///
/// # Errors
///
/// What the operating system said.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// What a file says, or `None` if there is none.
///
/// # Errors
///
/// What the operating system said.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The CRC-64/XZ of the parts, one after another: polynomial of ECMA-182,
/// reflected, begun and ended with all bits set.
pub(super) fn checksum(parts: &[&[u8]]) -> u64 {
    let mut crc = u64::MAX;
    for byte in parts.iter().copied().flatten() {
        let [low, ..] = crc.to_le_bytes();
        crc = CRC64[usize::from(low ^ byte)] ^ (crc >> 8);
    }
    !crc
}

const CRC64: [u64; 256] = crc64_table();

const fn crc64_table() -> [u64; 256] {
    let mut table = [0u64; 256];
    let mut at = 0;
    while at < table.len() {
        let mut crc = at as u64;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 1;
            crc >>= 1;
            if carry == 1 {
                crc ^= 0xC96C_5795_D787_0F42;
            }
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
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
}
