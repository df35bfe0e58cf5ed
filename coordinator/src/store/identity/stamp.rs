//! The stamp of a data directory, as it stands in `identity.toml`.

use crate::store::file::checksum;
use rustix::fs::{AtFlags, StatxFlags, fstat, stat, statx};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::Path;

/// The format that this version writes, and the newest that it reads.
pub(super) const FORMAT: u32 = 1;

/// Whose a directory is, and where it was stamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) cluster: String,
    pub(super) node: u64,
    pub(super) place: Place,
}

/// What a copy of a file does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    directory_inode: u64,
    file_inode: u64,
    /// Nanoseconds since the Unix epoch; 0 where the file system does not say.
    file_born_ns: i128,
}

/// Why a stamp cannot be taken.
#[derive(Debug)]
pub(super) enum StampError {
    /// It has this format.
    Newer(u32),
    /// What is wrong with it.
    Damaged(String),
}

/// The text. Numbers of 64 bits are strings: TOML's go to 63 bits only.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: u32,
    cluster: String,
    node: String,
    directory_inode: String,
    file_inode: String,
    file_born_ns: String,
    checksum: String,
}

/// What every format has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl Stamp {
    /// # Errors
    ///
    /// [`StampError`].
    pub(super) fn parse(text: &[u8]) -> Result<Self, StampError> {
        let damaged = |reason: String| StampError::Damaged(reason);
        let text = std::str::from_utf8(text).map_err(|_| damaged("it is no text".to_owned()))?;
        let any: AnyFormat = toml::from_str(text).map_err(|error| damaged(one_line(&error)))?;
        if any.format > FORMAT {
            return Err(StampError::Newer(any.format));
        }
        let text: Text = toml::from_str(text).map_err(|error| damaged(one_line(&error)))?;
        if text.sum() != text.checksum || any.format != FORMAT {
            return Err(damaged("its checksum is not that of its fields".to_owned()));
        }
        Ok(Self {
            node: number("node", &text.node)?,
            place: Place {
                directory_inode: number("directory_inode", &text.directory_inode)?,
                file_inode: number("file_inode", &text.file_inode)?,
                file_born_ns: number("file_born_ns", &text.file_born_ns)?,
            },
            cluster: text.cluster,
        })
    }

    pub(super) fn to_text(&self) -> String {
        let mut text = Text {
            format: FORMAT,
            cluster: self.cluster.clone(),
            node: self.node.to_string(),
            directory_inode: self.place.directory_inode.to_string(),
            file_inode: self.place.file_inode.to_string(),
            file_born_ns: self.place.file_born_ns.to_string(),
            checksum: String::new(),
        };
        text.checksum = text.sum();
        let fields = toml::to_string(&text).expect("strings and one number are TOML");
        format!("# Written by aliquot, once. Whoever edits or copies it makes it void.\n{fields}")
    }
}

impl Text {
    fn sum(&self) -> String {
        let format = self.format.to_string();
        let end: &[u8] = &[0];
        let sum = checksum(&[
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
        ]);
        format!("{sum:016x}")
    }
}

impl Place {
    /// Where a directory and the file of its stamp are.
    ///
    /// # Errors
    ///
    /// What the operating system said.
    pub(super) fn of(dir: &Path, file: &File) -> io::Result<Self> {
        Ok(Self {
            directory_inode: stat(dir)?.st_ino,
            file_inode: fstat(file)?.st_ino,
            file_born_ns: born_ns(file)?,
        })
    }

    /// What shows that `now` is another place than the one in the stamp.
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

fn born_ns(file: &File) -> io::Result<i128> {
    let found = match statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME) {
        Ok(found) => found,
        // A system without this call: the inodes must do.
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

fn number<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, StampError> {
    text.parse()
        .map_err(|_| StampError::Damaged(format!("its {field} is {text:?}, which is no number")))
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp {
            cluster: "main \"one\"\n".to_owned(),
            node: u64::MAX,
            place: Place {
                directory_inode: 7,
                file_inode: u64::MAX,
                file_born_ns: 1_700_000_000_123_456_789,
            },
        }
    }

    #[test]
    fn a_stamp_reads_as_it_was_written() {
        let text = stamp().to_text();
        assert_eq!(Stamp::parse(text.as_bytes()).unwrap(), stamp());
    }

    #[test]
    fn every_changed_digit_of_a_stamp_is_damage() {
        let text = stamp().to_text();
        let begin = text.find("cluster").unwrap();
        for (at, was) in text.char_indices().filter(|(at, _)| *at > begin) {
            if !was.is_ascii_digit() {
                continue;
            }
            let digit = if was == '0' { "1" } else { "0" };
            let mut changed = text.clone();
            changed.replace_range(at..=at, digit);
            let parsed = Stamp::parse(changed.as_bytes());
            assert!(matches!(parsed, Err(StampError::Damaged(_))), "{changed}");
        }
    }

    #[test]
    fn a_newer_format_is_recognised_whatever_else_it_has() {
        let parsed = Stamp::parse(b"format = 2\nanything = [1]");
        assert!(matches!(parsed, Err(StampError::Newer(2))));
        let parsed = Stamp::parse(b"format = 0\n");
        assert!(matches!(parsed, Err(StampError::Damaged(_))));
    }
}
