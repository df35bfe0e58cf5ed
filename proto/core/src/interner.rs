//! Values that many entries have in common, stored once.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

/// Shares equal values among the entries that keep them.
///
/// Nearly all keys of a template have the same terms, and terms are larger than what else is kept of a key. A
/// value that is not among the latest is stored again, so sharing never takes more than a few comparisons.
#[derive(Clone, Debug)]
pub(crate) struct Interner<T> {
    /// The latest distinct values, the latest first.
    latest: Vec<Arc<T>>,
}

impl<T: Clone + PartialEq> Interner<T> {
    /// Maximum number of remembered values.
    const LATEST: usize = 8;

    /// Returns a shared value that equals `value`.
    pub(crate) fn share(&mut self, value: &T) -> Arc<T> {
        let place = self.latest.iter().position(|known| **known == *value);
        let shared = match place {
            Some(place) => self.latest.remove(place),
            None => Arc::new(value.clone()),
        };
        self.latest.insert(0, Arc::clone(&shared));
        self.latest.truncate(Self::LATEST);
        shared
    }
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { latest: Vec::new() }
    }
}

/// Any two are equal: a machine acts alike whatever its values are shared with.
impl<T> PartialEq for Interner<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Hash for Interner<T> {
    /// Hashes nothing, as any two are equal.
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[cfg(test)]
#[path = "../tests/unit/interner.rs"]
mod tests;
