//! Where a run keeps its files.

use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory for one run: a temporary one, which is removed when this is
/// dropped unless somebody wants to look into it, or one that was asked for,
/// which stays.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl WorkDir {
    /// The directory `wanted`, or a new one among the system's temporary ones,
    /// whose name nobody could foresee and which nobody else can read.
    ///
    /// # Errors
    ///
    /// The system's, if it cannot be made; and one that says so if `wanted` has
    /// something in it, because a run must begin with nothing.
    pub fn new(wanted: Option<&Path>) -> io::Result<Self> {
        let Some(wanted) = wanted else {
            let made = tempfile::Builder::new().prefix("aliquot-demo-").tempdir()?;
            let path = made.path().canonicalize()?;
            return Ok(Self {
                path,
                temporary: Some(made),
            });
        };
        std::fs::create_dir_all(wanted)?;
        if std::fs::read_dir(wanted)?.next().is_some() {
            return Err(io::Error::new(
                io::ErrorKind::DirectoryNotEmpty,
                format!("{} must be an empty directory", wanted.display()),
            ));
        }
        Ok(Self {
            // Its children work in directories of their own.
            path: wanted.canonicalize()?,
            temporary: None,
        })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory where it is.
    pub fn keep(&mut self) {
        // It is the same one that is known by its path.
        let _ = self.temporary.take().map(TempDir::keep);
    }
}
