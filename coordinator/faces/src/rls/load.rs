//! Puts rules into force: their budgets first, then the rules.

use super::rules::{Reading, Rules, RulesFile, Unreadable};
use super::service::Rls;
use aliquot_core::budget::BudgetDraft;
use futures_util::future::LocalBoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use tracing::{info, warn};

/// Writes budgets to the cluster.
pub trait Budgets {
    /// Applies budgets. Those in force as written are left alone, and so are others.
    ///
    /// # Errors
    ///
    /// The reason for which nothing, or not everything, was applied.
    fn apply(&self, drafts: Vec<BudgetDraft>) -> LocalBoxFuture<'_, Result<(), String>>;
}

/// Reason why rules are not in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotLoaded {
    /// A file, or the response of a management server, cannot be read.
    #[error("{0}")]
    Unread(String),
    /// A rule is wrong.
    #[error(transparent)]
    Rules(Unreadable),
    /// The cluster did not take the budgets.
    #[error("the budgets were not applied: {0}")]
    Budgets(String),
}

/// Puts rules into force, wherever they come from.
pub struct Loader<B> {
    rls: Rls,
    reading: Reading,
    budgets: B,
}

impl<B> fmt::Debug for Loader<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("reading", &self.reading)
            .finish_non_exhaustive()
    }
}

impl<B: Budgets> Loader<B> {
    /// Creates the loader of a service.
    pub const fn new(rls: Rls, reading: Reading, budgets: B) -> Self {
        Self {
            rls,
            reading,
            budgets,
        }
    }

    /// Puts the rules of these files into force, and no others. If anything is wrong, the former rules stay. Counts
    /// either outcome.
    ///
    /// # Errors
    ///
    /// [`NotLoaded`].
    pub async fn load(&self, files: Result<Vec<RulesFile>, String>) -> Result<(), NotLoaded> {
        let loaded = self.install(files).await;
        let stats = self.rls.stats();
        match loaded {
            Ok(()) => stats.loaded.fetch_add(1, Ordering::Relaxed),
            Err(_) => stats.not_loaded.fetch_add(1, Ordering::Relaxed),
        };
        loaded
    }

    async fn install(&self, files: Result<Vec<RulesFile>, String>) -> Result<(), NotLoaded> {
        let files = files.map_err(NotLoaded::Unread)?;
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
#[path = "../../tests/unit/rls/load.rs"]
mod tests;
