//! Where a run keeps its files.

use std::io;
use std::path::{Path, PathBuf};

/// A directory for one run: a temporary one, which is removed when this is
/// dropped unless somebody wants to look into it, or one that was asked for,
/// which stays.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    remove: bool,
}

impl WorkDir {
    /// The directory `wanted`, or a new one among the system's temporary ones.
    ///
    /// # Errors
    ///
    /// The system's, if it cannot be made; and one that says so if `wanted` has
    /// something in it, because a run must begin with nothing.
    pub fn new(wanted: Option<&Path>) -> io::Result<Self> {
        let (path, remove) = match wanted {
            Some(path) => (path.to_owned(), false),
            None => {
                let name = format!("aliquot-demo-{}", std::process::id());
                (std::env::temp_dir().join(name), true)
            }
        };
        std::fs::create_dir_all(&path)?;
        if std::fs::read_dir(&path)?.next().is_some() {
            return Err(io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                format!("{} must be an empty directory", path.display()),
            ));
        }
        // Its children work in directories of their own.
        let path = path.canonicalize()?;
        Ok(Self { path, remove })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory where it is.
    pub fn keep(&mut self) {
        self.remove = false;
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if self.remove {
            // What cannot be removed stays among the temporary files.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
