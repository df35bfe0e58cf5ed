//! The keys that a caller may ask for.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// Keys of budgets that a caller may ask for: all, or those under some prefixes.
///
/// A prefix is one or more whole segments: `tenant/42` covers `tenant/42` and `tenant/42/reads`, but not `tenant/420`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope(Option<Arc<[String]>>);

impl Scope {
    /// All keys.
    pub const ALL: Self = Self(None);

    /// Confines a caller to the keys under these prefixes.
    #[must_use]
    pub fn under(prefixes: impl IntoIterator<Item = String>) -> Self {
        // In order, so that callers with the same prefixes have equal scopes.
        let prefixes: BTreeSet<String> = prefixes.into_iter().collect();
        Self(Some(prefixes.into_iter().collect()))
    }

    /// Confines a caller to the keys under the prefixes that follow a token or a name. Without prefixes, it may ask for
    /// all keys.
    #[must_use]
    pub fn of(prefixes: Vec<String>) -> Self {
        match prefixes.is_empty() {
            true => Self::ALL,
            false => Self::under(prefixes),
        }
    }

    /// Covers what either of two covers.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(these), Some(those)) => {
                let both = these.iter().chain(those.iter()).cloned();
                Self::under(both)
            }
            _ => Self::ALL,
        }
    }

    /// Returns true if it does not cover all keys.
    #[must_use]
    pub const fn is_confined(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true if the caller may ask for this key of a budget.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        let under = |prefix: &String| {
            let rest = key.strip_prefix(prefix.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.0
            .as_ref()
            .is_none_or(|prefixes| prefixes.iter().any(under))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("all keys"),
            Some(prefixes) => write!(f, "keys under {}", prefixes.join(", ")),
        }
    }
}

#[cfg(test)]
#[path = "../tests/unit/scope.rs"]
mod tests;
