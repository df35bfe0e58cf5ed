//! Maps that nearly always have one entry.

use super::compact::CompactMap;
use alloc::boxed::Box;
use core::fmt;
use core::hash::{Hash, Hasher};

/// A sorted map with its only entry stored inline.
///
/// Most clients use one key. Its state is then beside the rest of the client's, and nothing else is read first. Of
/// several entries the values are boxed: they are moved to make room for others. The map prints and hashes as a
/// [`BTreeMap`](alloc::collections::BTreeMap) does.
#[derive(Clone)]
pub struct FewMap<K, V> {
    /// The only entry, if it was always alone since the map was empty.
    one: Option<(K, V)>,
    /// All entries of a map that had more than one.
    many: CompactMap<K, Box<V>>,
}

impl<K, V> FewMap<K, V> {
    /// Returns a map without entries.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            one: None,
            many: CompactMap::new(),
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.many.len().saturating_add(self.one.iter().len())
    }

    /// Returns true if there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.one.is_none() && self.many.is_empty()
    }

    /// Returns the entries in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        let one = self.one.iter().map(|(key, value)| (key, value));
        let many = self.many.iter().map(|(key, value)| (key, &**value));
        one.chain(many)
    }

    /// Returns the entries in the order of their keys, for changes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let one = self.one.iter_mut().map(|(key, value)| (&*key, value));
        let many = self.many.iter_mut().map(|(key, value)| (key, &mut **value));
        one.chain(many)
    }

    /// Returns the entries in the order of their keys, and ends the map.
    pub fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        let many = self.many.into_entries().map(|(key, value)| (key, *value));
        self.one.into_iter().chain(many)
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Returns the values in the order of their keys, for changes.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }
}

impl<K: Clone + Ord, V> FewMap<K, V> {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        match &self.one {
            Some((known, value)) => (known == key).then_some(value),
            None => self.many.get(key).map(|value| &**value),
        }
    }

    /// Returns the value of a key, for a change.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.one {
            Some((known, value)) => (known == key).then_some(value),
            None => self.many.get_mut(key).map(|value| &mut **value),
        }
    }

    /// Returns true if there is an entry of a key.
    #[must_use]
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Returns the value of a key, which is made if there is none.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.may_be_alone(&key) {
            return &mut self.one.get_or_insert_with(|| (key, make())).1;
        }
        self.spill();
        self.many.get_or_insert_with(key, || Box::new(make()))
    }

    /// Sets the value of a key. Returns the one that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.may_be_alone(&key) {
            return self.one.replace((key, value)).map(|(_, value)| value);
        }
        self.spill();
        let before = self.many.insert(key, Box::new(value));
        before.map(|value| *value)
    }

    /// Removes the entry of a key. Returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        if self.one.is_some() {
            let removed = self.one.take_if(|(known, _)| known == key);
            return removed.map(|(_, value)| value);
        }
        self.many.remove(key).map(|value| *value)
    }

    /// Returns the entries with keys of at least `key`, in order.
    pub fn entries_from<'a>(&'a self, key: &'a K) -> impl Iterator<Item = (&'a K, &'a V)> {
        let one = self.one.iter().map(|(known, value)| (known, value));
        let one = one.filter(move |(known, _)| *known >= key);
        let many = self.many.entries_from(key);
        one.chain(many.map(|(key, value)| (key, &**value)))
    }

    /// Moves the entry that was alone to the others.
    fn spill(&mut self) {
        let one = self.one.take();
        self.many
            .extend(one.map(|(key, value)| (key, Box::new(value))));
    }

    /// Returns true if there is no entry of another key.
    fn may_be_alone(&self, key: &K) -> bool {
        self.many.is_empty() && self.one.as_ref().is_none_or(|(known, _)| known == key)
    }
}

impl<K, V> Default for FewMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash, V: Hash> Hash for FewMap<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len());
        self.iter().for_each(|entry| entry.hash(state));
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for FewMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/few/map.rs"]
mod tests;
