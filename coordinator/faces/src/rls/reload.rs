//! Rules from a directory, read again when its files change.

use super::load::{Budgets, Loader, NotLoaded};
use super::rules::{Contents, RulesFile};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::error;

/// Interval at which the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A directory with files of rules, of the names `*.yaml` and `*.yml`.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Path.
    pub path: PathBuf,
    /// Set if files whose names begin with a dot are no rules.
    pub ignore_dot_files: bool,
}

impl Directory {
    /// Reads all files, in the order of their names.
    ///
    /// # Errors
    ///
    /// The file or directory that cannot be read.
    pub fn read(&self) -> Result<Vec<RulesFile>, String> {
        let unreadable = |path: &Path, error| format!("{} cannot be read: {error}", path.display());
        let entries = fs::read_dir(&self.path).map_err(|error| unreadable(&self.path, error))?;
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| unreadable(&self.path, error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let yaml = name.ends_with(".yaml") || name.ends_with(".yml");
            // A mounted ConfigMap has directories whose names begin with two dots.
            let hidden = name.starts_with("..") || (self.ignore_dot_files && name.starts_with('.'));
            if yaml && !hidden && path.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        let file = |path: PathBuf| {
            let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
            let name = path.display().to_string();
            let contents = Contents::Yaml(text);
            Ok(RulesFile { name, contents })
        };
        paths.into_iter().map(file).collect()
    }
}

/// Keeps the rules of a service equal to those in its directory.
#[derive(Debug)]
pub struct Reloader<B> {
    loader: Loader<B>,
    directory: Directory,
    /// Result of the last reading.
    seen: Option<Result<Vec<RulesFile>, String>>,
}

impl<B: Budgets> Reloader<B> {
    /// Creates the reloader. Nothing is read yet.
    pub const fn new(loader: Loader<B>, directory: Directory) -> Self {
        Self {
            loader,
            directory,
            seen: None,
        }
    }

    /// Reads the rules if the files have changed, and puts them into force. If anything is wrong, the former rules stay.
    /// Returns true if rules were put into force.
    ///
    /// # Errors
    ///
    /// [`NotLoaded`]; the same files are not tried again, unless only the cluster failed.
    pub async fn load(&mut self) -> Result<bool, NotLoaded> {
        let files = self.directory.read();
        if self.seen.as_ref() == Some(&files) {
            return Ok(false);
        }
        self.seen = Some(files.clone());
        let loaded = self.loader.load(files).await;
        if matches!(loaded, Err(NotLoaded::Budgets(_))) {
            self.seen = None;
        }
        loaded.map(|()| true)
    }

    /// Watches the files for ever.
    pub async fn watch(mut self) {
        let mut failed = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.load().await {
                Ok(_) => failed = None,
                Err(problem) => {
                    if failed.as_ref() != Some(&problem) {
                        error!(
                            "rate limit rules were not loaded; the previous rules stay in force: {problem}"
                        );
                    }
                    failed = Some(problem);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/rls/reload.rs"]
mod tests;
