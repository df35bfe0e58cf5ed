//! Directory for the files of a run.

use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory for one run. A temporary one is removed when this is dropped, unless [`WorkDir::keep`]
/// was called. A directory that the user asked for is not removed.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl WorkDir {
    /// Uses the directory `wanted`, or creates a temporary one with an unpredictable name, which other
    /// users cannot read.
    ///
    /// # Errors
    ///
    /// The error of the system if the directory cannot be created, or an error if `wanted` is not
    /// empty.
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
            // Absolute, because the children have other working directories.
            path: wanted.canonicalize()?,
            temporary: None,
        })
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Prevents the removal of the directory.
    pub fn keep(&mut self) {
        // The path stays the same.
        let _ = self.temporary.take().map(TempDir::keep);
    }
}
