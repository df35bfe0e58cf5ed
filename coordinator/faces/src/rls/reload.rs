//! Rules from a directory, read again when its files change.

use super::rules::{Reading, Rules, RulesFile, Unreadable};
use super::service::Rls;
use aliquot_core::budget::BudgetDraft;
use futures_util::future::LocalBoxFuture;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tracing::{error, info, warn};

/// Interval at which the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Writes budgets to the cluster.
pub trait Budgets {
    /// Applies budgets. Those in force as written are left alone, and so are others.
    ///
    /// # Errors
    ///
    /// The reason for which nothing, or not everything, was applied.
    fn apply(&self, drafts: Vec<BudgetDraft>) -> LocalBoxFuture<'_, Result<(), String>>;
}

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
            Ok(RulesFile { name, text })
        };
        paths.into_iter().map(file).collect()
    }
}

/// Keeps the rules of a service as its directory says.
pub struct Reloader<B> {
    rls: Rls,
    directory: Directory,
    reading: Reading,
    budgets: B,
    /// Result of the last reading.
    seen: Option<Result<Vec<RulesFile>, String>>,
}

impl<B> std::fmt::Debug for Reloader<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Reason why rules are not in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLoaded {
    /// A file cannot be read.
    #[error("{0}")]
    File(String),
    /// A rule is wrong.
    #[error(transparent)]
    Rules(Unreadable),
    /// The cluster did not take the budgets.
    #[error("the budgets were not applied: {0}")]
    Budgets(String),
}

impl<B: Budgets> Reloader<B> {
    /// Creates the reloader. Nothing is read yet.
    pub const fn new(rls: Rls, directory: Directory, reading: Reading, budgets: B) -> Self {
        Self {
            rls,
            directory,
            reading,
            budgets,
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
        let loaded = self.load_files(files).await;
        let stats = self.rls.stats();
        match loaded {
            Ok(()) => stats.loaded.fetch_add(1, Ordering::Relaxed),
            Err(_) => stats.not_loaded.fetch_add(1, Ordering::Relaxed),
        };
        if matches!(loaded, Err(NotLoaded::Budgets(_))) {
            self.seen = None;
        }
        loaded.map(|()| true)
    }

    async fn load_files(&self, files: Result<Vec<RulesFile>, String>) -> Result<(), NotLoaded> {
        let files = files.map_err(NotLoaded::File)?;
        let (rules, warnings) = Rules::read(&files, self.reading).map_err(NotLoaded::Rules)?;
        for warning in warnings {
            warn!("rate limit rules: {warning}");
        }
        // Budgets first: a rule without its budget could not be decided.
        let applied = self.budgets.apply(rules.drafts()).await;
        applied.map_err(NotLoaded::Budgets)?;
        for change in changes(&self.rls.rules(), &rules) {
            info!("rate limit rules: {change}");
        }
        self.rls.install(rules);
        Ok(())
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
                            "rate limit rules were not loaded, the former ones stay in force: {problem}"
                        );
                    }
                    failed = Some(problem);
                }
            }
        }
    }
}

/// Returns what differs between two sets of rules, one line each.
fn changes(before: &Rules, after: &Rules) -> Vec<String> {
    let (before, after) = (lines(before), lines(after));
    let gone = before.iter().filter(|(path, _)| !after.contains_key(*path));
    let mut changes: Vec<String> = gone
        .map(|(path, line)| format!("removed {path}: {line}"))
        .collect();
    for (path, line) in &after {
        match before.get(path) {
            None => changes.push(format!("added {path}: {line}")),
            Some(former) if former != line => {
                changes.push(format!("changed {path}: {former} is now {line}"));
            }
            Some(_) => {}
        }
    }
    changes
}

fn lines(rules: &Rules) -> BTreeMap<String, String> {
    let mut lines = BTreeMap::new();
    rules.for_each(&mut |rule| {
        lines.insert(rule.path.clone(), rule.summary());
    });
    lines
}

#[cfg(test)]
mod tests;
