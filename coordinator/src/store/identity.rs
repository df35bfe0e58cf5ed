//! Whose a data directory is: its stamp, and the lock that keeps others out.

mod error;
mod stamp;

pub use error::DataDirError;

use super::file;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use stamp::{FORMAT, Place, Stamp, StampError};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A data directory that is this node's, and locked for as long as this lives.
///
/// Its stamp, `identity.toml`, says of which cluster and which node it is, and
/// in which place it was written: by the inode numbers of the directory and of
/// the file, and by when the file was born. A copy, or a backup that was put
/// back, has others, and is refused: it forgot what the node has promised since.
/// A copy of the whole file system, block by block, cannot be told apart; nor
/// can the numbers of devices help, for they may change when a machine starts.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    cluster_id: String,
    node_id: u64,
    origin: Origin,
    /// Holds the lock until it is closed.
    _lock: File,
}

/// What can be done about a node's directory that cannot be used any more.
pub(super) const START_ANEW: &str = "move the node's data directory away and start it again: it joins as a new \
     node and gets everything from the others, at its old address by itself, at another one \
     by `aliquot cluster replace OLD NEW`";

/// Where the stamp comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Found,
    Made,
}

impl DataDir {
    /// Opens a data directory for a node of a cluster; creates and stamps it if
    /// it is missing or empty, with the number that `new_node_id` gives.
    ///
    /// # Errors
    ///
    /// [`DataDirError`], which says what to do.
    pub fn open(
        path: impl AsRef<Path>,
        cluster_id: &str,
        new_node_id: impl FnOnce() -> u64,
    ) -> Result<Self, DataDirError> {
        let dir = Opening {
            path: path.as_ref(),
        };
        dir.create()?;
        // Before anything is created in what may not be ours.
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
        Ok(Self {
            path: dir.path.to_owned(),
            cluster_id: stamp.cluster,
            node_id: stamp.node,
            origin,
            _lock: lock,
        })
    }

    /// The number of the node whose directory it is.
    #[must_use]
    pub fn node_id(&self) -> u64 {
        self.node_id
    }

    /// The cluster of the node.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Whether it was stamped just now: the node never ran before.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.origin == Origin::Made
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the node's [`super::SledDisk`] belongs: its log, values and snapshot.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        self.path.join("store")
    }
}

/// What a stamp is called.
const STAMP: &str = "identity.toml";

/// What is locked.
const LOCK: &str = "lock";

/// What may lie in a directory that was never stamped: what an attempt leaves
/// that was interrupted before its stamp was there.
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
        // For whoever is kept out.
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

    /// A directory where nothing can be written is better known now than later.
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
        let mut made = None;
        let write = file::replace_with(&self.path.join(STAMP), |file| {
            let stamp = Stamp {
                cluster: cluster_id.to_owned(),
                node: node_id,
                place: Place::of(self.path, file)?,
            };
            file.write_all(stamp.to_text().as_bytes())?;
            made = Some(stamp);
            Ok(())
        });
        match (write, made) {
            (Ok(()), Some(stamp)) => Ok(stamp),
            (Ok(()), None) => Err(self.unusable("writing", &io::ErrorKind::WriteZero.into())),
            (Err(error), _) => Err(self.unusable("writing identity.toml", &error)),
        }
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
