//! Atomic replacement of small files, and a checksum for them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file. The parts are written to another file, flushed, and renamed over it, and then the
/// directory is flushed. After an error, the file is either the old or the new one.
///
/// # Errors
///
/// The error of the operating system.
pub(super) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    replace_with(path, |file| {
        parts.iter().try_for_each(|part| file.write_all(part))
    })
}

/// Does the same as [`replace`], with a writer that gets the very file that will be at the path.
///
/// # Errors
///
/// The error of the writer or of the operating system.
pub(super) fn replace_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let fresh = path.with_extension("tmp");
    // Create a new file instead of using the remains of an earlier attempt.
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

/// Removes a file, if it exists.
///
/// # Errors
///
/// The error of the operating system.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Flushes the entries of a directory.
///
/// # Errors
///
/// The error of the operating system.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Returns the contents of a file, or `None` if it does not exist.
///
/// # Errors
///
/// The error of the operating system.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the CRC-64/XZ of the concatenated parts: the reflected polynomial of ECMA-182, with all bits
/// set initially and inverted at the end.
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
#[path = "../../tests/unit/store/file.rs"]
mod tests;
