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
/// set initially and inverted at the end. Eight bytes are taken at once: a snapshot has more than a hundred megabytes.
pub(super) fn checksum(parts: &[&[u8]]) -> u64 {
    let mut crc = u64::MAX;
    for part in parts {
        let (eights, rest) = part.as_chunks::<8>();
        for eight in eights {
            let bytes = (crc ^ u64::from_le_bytes(*eight)).to_le_bytes();
            // The first byte is followed by seven others, the last by none.
            let tables = CRC64.iter().rev();
            crc = tables
                .zip(bytes)
                .fold(0, |crc, (table, byte)| crc ^ table[usize::from(byte)]);
        }
        for byte in rest {
            let [low, ..] = crc.to_le_bytes();
            crc = CRC64[0][usize::from(low ^ byte)] ^ (crc >> 8);
        }
    }
    !crc
}

/// The remainders of a byte that is followed by as many zero bytes as the number of the table.
static CRC64: [[u64; 256]; 8] = crc64_tables();

const fn crc64_tables() -> [[u64; 256]; 8] {
    let mut tables = [[0u64; 256]; 8];
    let mut at = 0;
    while at < 256 {
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
        tables[0][at] = crc;
        at += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut at = 0;
        while at < 256 {
            let crc = tables[zeros - 1][at];
            let [low, ..] = crc.to_le_bytes();
            tables[zeros][at] = tables[0][low as usize] ^ (crc >> 8);
            at += 1;
        }
        zeros += 1;
    }
    tables
}

#[cfg(test)]
#[path = "../../tests/unit/store/file.rs"]
mod tests;
