//! The stamp of a data directory, stored in `identity.toml`.

use crate::store::file::checksum;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, fstat, stat, statx};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The format that this version writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 2;

/// The format of stamps that do not describe the store.
pub(super) const FORMAT_WITHOUT_STORE: u32 = 1;

/// The owner of a directory, and the place where it was stamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) format: u32,
    pub(super) cluster: String,
    pub(super) node: u64,
    pub(super) place: Place,
    /// The parts of the store, once it exists.
    pub(super) store: Option<[StampPlace; 3]>,
}

/// Place of a directory and its stamp, which differs in a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    directory_inode: u64,
    file_inode: u64,
    /// Nanoseconds since the Unix epoch, or 0 if the file system does not know.
    file_born_ns: i128,
}

/// Identity of a file, which differs in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StampPlace {
    inode: u64,
    /// Nanoseconds since the Unix epoch, or 0 if the file system does not know.
    born_ns: i128,
}

/// Error of reading a stamp.
#[derive(Debug)]
pub(super) enum StampError {
    /// It has this newer format.
    Newer(u32),
    /// It is damaged, as described.
    Damaged(String),
}

/// The file contents. 64-bit numbers are strings, because TOML integers have only 63 bits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: u32,
    cluster: String,
    node: String,
    directory_inode: String,
    file_inode: String,
    file_born_ns: String,
    /// Inode and creation time of each part, separated by a space.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    store: Vec<String>,
    checksum: String,
}

/// The fields that every format has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl Stamp {
    /// # Errors
    ///
    /// [`StampError`] if the stamp is damaged, or of a newer format.
    pub(super) fn parse(text: &[u8]) -> Result<Self, StampError> {
        let damaged = |reason: String| StampError::Damaged(reason);
        let text = std::str::from_utf8(text).map_err(|_| damaged("it is not text".to_owned()))?;
        let any: AnyFormat = toml::from_str(text).map_err(|error| damaged(one_line(&error)))?;
        if any.format > FORMAT {
            return Err(StampError::Newer(any.format));
        }
        let text: Text = toml::from_str(text).map_err(|error| damaged(one_line(&error)))?;
        let is_known =
            any.format == FORMAT || (any.format == FORMAT_WITHOUT_STORE && text.store.is_empty());
        if text.sum() != text.checksum || !is_known {
            return Err(damaged("its checksum does not match its fields".to_owned()));
        }
        Ok(Self {
            format: any.format,
            node: number("node", &text.node)?,
            place: Place {
                directory_inode: number("directory_inode", &text.directory_inode)?,
                file_inode: number("file_inode", &text.file_inode)?,
                file_born_ns: number("file_born_ns", &text.file_born_ns)?,
            },
            store: spots(&text.store)?,
            cluster: text.cluster,
        })
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = Text {
            format: self.format,
            cluster: self.cluster.clone(),
            node: self.node.to_string(),
            directory_inode: self.place.directory_inode.to_string(),
            file_inode: self.place.file_inode.to_string(),
            file_born_ns: self.place.file_born_ns.to_string(),
            store: self
                .store
                .iter()
                .flatten()
                .map(StampPlace::to_string)
                .collect(),
            checksum: String::new(),
        };
        text.checksum = text.sum();
        let fields = toml::to_string(&text).expect("strings and one number are TOML");
        format!(
            "# Written by aliquot. Do not copy or edit this file: aliquot refuses a copy or a changed file.\n{fields}"
        )
    }
}

impl Text {
    fn sum(&self) -> String {
        let format = self.format.to_string();
        let end: &[u8] = &[0];
        let mut parts = vec![
            format.as_bytes(),
            end,
            self.cluster.as_bytes(),
            end,
            self.node.as_bytes(),
            end,
            self.directory_inode.as_bytes(),
            end,
            self.file_inode.as_bytes(),
            end,
            self.file_born_ns.as_bytes(),
        ];
        for spot in &self.store {
            parts.extend([end, spot.as_bytes()]);
        }
        format!("{:016x}", checksum(&parts))
    }
}

impl Place {
    /// Returns the place of a directory and of the file of its stamp.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub(super) fn of(dir: &Path, file: &File) -> io::Result<Self> {
        Ok(Self {
            directory_inode: stat(dir)?.st_ino,
            file_inode: fstat(file)?.st_ino,
            file_born_ns: born_ns(file)?,
        })
    }

    /// Returns a description of how `now` differs from the place in the stamp, if it does.
    pub(super) fn moved_to(&self, now: &Self) -> Option<String> {
        let names = ["its directory", "its stamp"];
        let inodes = [
            (self.directory_inode, now.directory_inode),
            (self.file_inode, now.file_inode),
        ];
        for (name, (then, now)) in names.into_iter().zip(inodes) {
            if then != now {
                return Some(format!("{name} had the inode {then} and has {now}"));
            }
        }
        (self.file_born_ns != now.file_born_ns)
            .then(|| "its stamp was created at another time than it says".to_owned())
    }
}

impl StampPlace {
    /// Returns the identity of the file at a path.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            inode: stat(path)?.st_ino,
            born_ns: born(statx(CWD, path, AtFlags::empty(), StatxFlags::BTIME))?,
        })
    }
}

impl fmt::Display for StampPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.inode, self.born_ns)
    }
}

impl FromStr for StampPlace {
    type Err = StampError;

    fn from_str(text: &str) -> Result<Self, StampError> {
        let (inode, born_ns) = text.split_once(' ').unwrap_or((text, ""));
        Ok(Self {
            inode: number("store", inode)?,
            born_ns: number("store", born_ns)?,
        })
    }
}

fn spots(text: &[String]) -> Result<Option<[StampPlace; 3]>, StampError> {
    if text.is_empty() {
        return Ok(None);
    }
    let spots: Vec<StampPlace> = text
        .iter()
        .map(|spot| spot.parse())
        .collect::<Result<_, _>>()?;
    let spots = spots.try_into();
    let spots = spots.map_err(|spots: Vec<StampPlace>| {
        let count = spots.len();
        StampError::Damaged(format!("its store has {count} parts, and should have 3"))
    });
    spots.map(Some)
}

/// Returns the identities of the parts of a store, or the first part that is missing.
///
/// # Errors
///
/// The error of the operating system.
pub(super) fn look_at(
    [first, second, third]: &[PathBuf; 3],
) -> io::Result<Result<[StampPlace; 3], PathBuf>> {
    let mut missing = None;
    let mut look = |part: &PathBuf| match StampPlace::of(part) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            missing.get_or_insert_with(|| part.clone());
            Ok(None)
        }
        looked => looked.map(Some),
    };
    let found = (look(first)?, look(second)?, look(third)?);
    Ok(match found {
        (Some(first), Some(second), Some(third)) => Ok([first, second, third]),
        _ => Err(missing.unwrap_or_default()),
    })
}

fn born_ns(file: &File) -> io::Result<i128> {
    born(statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME))
}

fn born(found: rustix::io::Result<Statx>) -> io::Result<i128> {
    let found = match found {
        Ok(found) => found,
        // Systems without this call: only the inodes are compared.
        Err(rustix::io::Errno::NOSYS) => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    if found.stx_mask & StatxFlags::BTIME.bits() == 0 {
        return Ok(0);
    }
    let secs = i128::from(found.stx_btime.tv_sec);
    Ok(secs
        .saturating_mul(1_000_000_000)
        .saturating_add(i128::from(found.stx_btime.tv_nsec)))
}

fn number<T: FromStr>(field: &str, text: &str) -> Result<T, StampError> {
    text.parse()
        .map_err(|_| StampError::Damaged(format!("its {field} is {text:?}, which is not a number")))
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().replace('\n', " ")
}

#[cfg(test)]
#[path = "../../../tests/unit/store/identity/stamp.rs"]
mod tests;
