//! Identity of a data directory: its stamp, and the lock that keeps other processes out.

mod error;
mod stamp;

pub use error::DataDirError;

use super::{SledDisk, file, sled};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use stamp::{FORMAT, FORMAT_WITHOUT_STORE, Place, Stamp, StampError, StampPlace, look_at};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The data directory of this node, locked for as long as this value exists.
///
/// Its stamp, `identity.toml`, names the cluster and the node. It also describes the place where it was
/// written: the inode numbers of the directory and of the stamp, and the time at which the stamp was
/// created. A copy or a restored backup differs in these and is refused, because it lacks the promises
/// that the node has made since. Once [`DataDir::seal`] was called, the stamp describes the store in
/// the same way, so that a missing or exchanged store is refused too. A block copy of the whole file
/// system cannot be detected. Device numbers would not help, because they can change at a boot.
///
/// The stamps of earlier versions do not describe the store. Such a directory is accepted with the
/// store that is in it, which the stamp then describes.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    stamp: Stamp,
    origin: Origin,
    /// Holds the lock until it is closed.
    _lock: File,
}

/// Origin of the stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Found,
    Made,
}

impl DataDir {
    /// Opens the data directory of a node of a cluster. If it is missing or empty, it is created and
    /// stamped, with the id that `new_node_id` returns.
    ///
    /// # Errors
    ///
    /// [`DataDirError`], which describes to the operator how to proceed.
    pub fn open(
        path: impl AsRef<Path>,
        cluster_id: &str,
        new_node_id: impl FnOnce() -> u64,
    ) -> Result<Self, DataDirError> {
        let dir = Opening {
            path: path.as_ref(),
        };
        dir.create()?;
        // Checked before anything is created in a directory that may belong to another program.
        let text = dir.read_stamp()?;
        if text.is_none() {
            dir.refuse_what_is_not_ours()?;
        }
        let lock = dir.lock()?;
        dir.try_writing()?;
        let (stamp, origin) = match dir.read_stamp()? {
            Some(text) => (dir.check_stamp(&text, cluster_id)?, Origin::Found),
            None => {
                dir.refuse_what_is_not_ours()?;
                (dir.make_stamp(cluster_id, new_node_id())?, Origin::Made)
            }
        };
        dir.check_store(&stamp)?;
        Ok(Self {
            path: dir.path.to_owned(),
            stamp,
            origin,
            _lock: lock,
        })
    }

    /// Returns the id of the node.
    #[must_use]
    pub fn node_id(&self) -> u64 {
        self.stamp.node
    }

    /// Returns the name of the cluster.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.stamp.cluster
    }

    /// Returns true if it was stamped just now, so that the node never ran before.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.origin == Origin::Made
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path for the node's [`super::SledDisk`], which holds its log, values and snapshot.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        store_in(&self.path)
    }

    /// Adds the store that was opened in [`Self::store_path`] to the stamp, if it is not in it. Must be
    /// called before anything is written into the store.
    ///
    /// # Errors
    ///
    /// [`DataDirError`], also if the directory is new and the store is not.
    pub fn seal(&mut self, store: &SledDisk) -> Result<(), DataDirError> {
        if self.stamp.store.is_some() {
            return Ok(());
        }
        let dir = Opening { path: &self.path };
        if self.stamp.format > FORMAT_WITHOUT_STORE && store.was_written() {
            let reason = "its store was written before its stamp".to_owned();
            let path = self.path.clone();
            return Err(DataDirError::Copied { path, reason });
        }
        let mut stamp = self.stamp.clone();
        stamp.format = FORMAT;
        stamp.store = Some(dir.look_at_store()?);
        self.stamp = dir.write_stamp(stamp)?;
        Ok(())
    }
}

fn store_in(path: &Path) -> PathBuf {
    path.join("store")
}

/// File name of the stamp.
const STAMP: &str = "identity.toml";

/// File name of the lock.
const LOCK: &str = "lock";

/// Files that may be in a directory without a stamp: the remains of an attempt that was interrupted
/// before the stamp was written.
const BEFORE_STAMP: [&str; 3] = [LOCK, "identity.tmp", "write-check.tmp"];

/// A directory that is being opened.
struct Opening<'a> {
    path: &'a Path,
}

impl Opening<'_> {
    fn create(&self) -> Result<(), DataDirError> {
        if self.path.is_dir() {
            return Ok(());
        }
        let parent = self.path.parent().filter(|dir| !dir.as_os_str().is_empty());
        fs::create_dir_all(self.path)
            .and_then(|()| file::sync_dir(parent.unwrap_or(Path::new("."))))
            .map_err(|error| self.unusable("creating it", &error))
    }

    fn read_stamp(&self) -> Result<Option<Vec<u8>>, DataDirError> {
        file::read(&self.path.join(STAMP))
            .map_err(|error| self.unusable("reading identity.toml", &error))
    }

    fn refuse_what_is_not_ours(&self) -> Result<(), DataDirError> {
        let list = |error: io::Error| self.unusable("listing it", &error);
        for item in fs::read_dir(self.path).map_err(list)? {
            let name = item.map_err(list)?.file_name();
            let name = name.to_string_lossy();
            if !BEFORE_STAMP.contains(&name.as_ref()) {
                return Err(DataDirError::NotOurs {
                    path: self.path.to_owned(),
                    found: name.into_owned(),
                });
            }
        }
        Ok(())
    }

    fn lock(&self) -> Result<File, DataDirError> {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let open = options.open(self.path.join(LOCK));
        let mut lock = open.map_err(|error| self.unusable("opening its lock", &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(self.in_use(&mut lock)),
            Err(error) => return Err(self.unusable("locking it", &error.into())),
        }
        // The process id, for the error of a process that is kept out.
        lock.set_len(0)
            .and_then(|()| write!(lock, "{}", std::process::id()))
            .map_err(|error| self.unusable("writing its lock", &error))?;
        Ok(lock)
    }

    fn in_use(&self, lock: &mut File) -> DataDirError {
        let mut pid = String::new();
        let read = lock.read_to_string(&mut pid);
        DataDirError::InUse {
            path: self.path.to_owned(),
            pid: read.ok().and_then(|_| pid.trim().parse().ok()),
        }
    }

    /// Checks that files can be written, so that an error shows at the start.
    fn try_writing(&self) -> Result<(), DataDirError> {
        let path = self.path.join("write-check.tmp");
        let try_it = || {
            let mut file = File::create(&path)?;
            file.write_all(b"can this be written?")?;
            file.sync_all()?;
            fs::remove_file(&path)
        };
        try_it().map_err(|error| self.unusable("writing a file", &error))
    }

    fn make_stamp(&self, cluster_id: &str, node_id: u64) -> Result<Stamp, DataDirError> {
        self.write_stamp(Stamp {
            format: FORMAT,
            cluster: cluster_id.to_owned(),
            node: node_id,
            place: Place::default(),
            store: None,
        })
    }

    /// Writes a stamp that describes the place of its own file.
    fn write_stamp(&self, mut stamp: Stamp) -> Result<Stamp, DataDirError> {
        let write = file::replace_with(&self.path.join(STAMP), |file| {
            stamp.place = Place::of(self.path, file)?;
            file.write_all(stamp.to_text().as_bytes())
        });
        write.map_err(|error| self.unusable("writing identity.toml", &error))?;
        Ok(stamp)
    }

    /// Checks that the store is the one that the stamp describes, if it describes one.
    fn check_store(&self, stamp: &Stamp) -> Result<(), DataDirError> {
        let Some(then) = stamp.store else {
            return Ok(());
        };
        let now = self.look_at_store()?;
        let parts = sled::parts(&store_in(self.path));
        let mut parts = parts.iter().zip(then.iter().zip(&now));
        match parts.find(|(_, (then, now))| then != now) {
            None => Ok(()),
            Some((part, _)) => Err(DataDirError::Copied {
                path: self.path.to_owned(),
                reason: format!("{} is not the one that the stamp names", part.display()),
            }),
        }
    }

    fn look_at_store(&self) -> Result<[StampPlace; 3], DataDirError> {
        let looked = look_at(&sled::parts(&store_in(self.path)));
        let looked = looked.map_err(|error| self.unusable("looking at its store", &error))?;
        looked.map_err(|missing| DataDirError::Incomplete {
            path: self.path.to_owned(),
            missing,
        })
    }

    fn check_stamp(&self, text: &[u8], cluster_id: &str) -> Result<Stamp, DataDirError> {
        let path = self.path.to_owned();
        let stamp = match Stamp::parse(text) {
            Ok(stamp) => stamp,
            Err(StampError::Damaged(reason)) => return Err(DataDirError::Damaged { path, reason }),
            Err(StampError::Newer(found)) => {
                let known = FORMAT;
                return Err(DataDirError::Newer { path, found, known });
            }
        };
        let place = File::open(self.path.join(STAMP)).and_then(|file| Place::of(self.path, &file));
        let place = place.map_err(|error| self.unusable("looking at identity.toml", &error))?;
        if let Some(reason) = stamp.place.moved_to(&place) {
            return Err(DataDirError::Copied { path, reason });
        }
        if stamp.cluster != cluster_id {
            return Err(DataDirError::WrongCluster {
                path,
                found: stamp.cluster,
                expected: cluster_id.to_owned(),
            });
        }
        Ok(stamp)
    }

    fn unusable(&self, what: &str, error: &io::Error) -> DataDirError {
        DataDirError::Unusable {
            path: self.path.to_owned(),
            what: what.to_owned(),
            reason: error.to_string(),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/store/identity.rs"]
mod tests;
