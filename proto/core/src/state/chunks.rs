//! A map whose copies share the parts that neither has changed since.

use crate::unit::{BudgetId, RuleId};
use alloc::collections::{BTreeMap, btree_map};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::slice;

/// An id that the log issues in rising order.
pub(super) trait Issued: Copy + Ord {
    fn number(self) -> u64;
}

impl Issued for BudgetId {
    fn number(self) -> u64 {
        self.get()
    }
}

impl Issued for RuleId {
    fn number(self) -> u64 {
        self.get()
    }
}

/// A map by issued ids, in chunks of [`Chunks::SIZE`] neighbours.
///
/// A copy shares the chunks. A change copies the chunk that it affects, once. So a snapshot is taken in the
/// time of a few entries and written by another thread, while the state continues to change.
///
/// A chunk is a sorted list. Ids are issued in rising order, so an entry is appended, and a chunk whose ids are all in
/// use has no room to spare. A tree that grows at its end is half empty.
///
/// No chunk is empty, so equal maps are equal chunk by chunk.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Chunks<K, V> {
    chunks: BTreeMap<u64, Chunk<K, V>>,
    len: usize,
}

type Chunk<K, V> = Arc<Vec<(K, V)>>;

impl<K, V> Default for Chunks<K, V> {
    fn default() -> Self {
        Self {
            chunks: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<K: Issued, V: Clone> Chunks<K, V> {
    /// Number of ids of a chunk: few enough to be copied in microseconds, and many enough that the chunks of
    /// a million ids are shared in a millisecond or two.
    const SIZE: u64 = 64;

    const fn chunk(number: u64) -> u64 {
        number / Self::SIZE
    }

    /// Returns the place of an entry, or the one that it would have. If no id before it is missing, no search is needed.
    fn place(chunk: &[(K, V)], key: &K) -> Result<usize, usize> {
        let full = usize::try_from(key.number() % Self::SIZE).unwrap_or(usize::MAX);
        match chunk.get(full) {
            Some((at, _)) if at == key => Ok(full),
            _ => chunk.binary_search_by(|(at, _)| at.cmp(key)),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        let chunk = self.chunks.get(&Self::chunk(key.number()))?;
        let place = Self::place(chunk, key).ok()?;
        chunk.get(place).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let chunk = self.chunks.get_mut(&Self::chunk(key.number()))?;
        // A missing key must not copy a chunk.
        let place = Self::place(chunk, key).ok()?;
        let entry = Arc::make_mut(chunk).get_mut(place);
        entry.map(|(_, value)| value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let chunk = self.chunks.entry(Self::chunk(key.number())).or_default();
        let chunk = Arc::make_mut(chunk);
        match Self::place(chunk, &key) {
            Ok(place) => {
                let entry = chunk.get_mut(place)?;
                Some(core::mem::replace(&mut entry.1, value))
            }
            Err(place) => {
                chunk.insert(place, (key, value));
                self.len = self.len.saturating_add(1);
                None
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let number = Self::chunk(key.number());
        let chunk = self.chunks.get_mut(&number)?;
        let place = Self::place(chunk, key).ok()?;
        let chunk = Arc::make_mut(chunk);
        let (_, former) = chunk.remove(place);
        // A few entries of many ids must not keep the room of all.
        if chunk.len() <= chunk.capacity() / 4 {
            chunk.shrink_to_fit();
        }
        if chunk.is_empty() {
            self.chunks.remove(&number);
        }
        self.len = self.len.saturating_sub(1);
        Some(former)
    }

    pub(super) fn iter(&self) -> Iter<'_, K, V> {
        Iter {
            chunks: self.chunks.values(),
            chunk: slice::Iter::default(),
            left: self.len,
        }
    }

    /// Iterates over the keys of at least `key`, in order.
    pub(super) fn from(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        let chunks = self.chunks.range(Self::chunk(key.number())..);
        let all = chunks.flat_map(|(_, chunk)| chunk.iter().map(|(at, value)| (at, value)));
        all.skip_while(move |(at, _)| **at < key)
    }

    pub(super) fn to_vec(&self) -> Vec<(K, V)> {
        let pairs = self.iter();
        pairs.map(|(key, value)| (*key, value.clone())).collect()
    }
}

/// Iterator over all entries of a map, in the order of keys.
pub(super) struct Iter<'a, K, V> {
    chunks: btree_map::Values<'a, u64, Chunk<K, V>>,
    chunk: slice::Iter<'a, (K, V)>,
    left: usize,
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((key, value)) = self.chunk.next() {
                self.left = self.left.saturating_sub(1);
                return Some((key, value));
            }
            self.chunk = self.chunks.next()?.iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}

impl<K: Issued, V: Clone> FromIterator<(K, V)> for Chunks<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut chunks = Self::default();
        for (key, value) in pairs {
            chunks.insert(key, value);
        }
        chunks
    }
}

#[cfg(test)]
#[path = "../../tests/unit/state/chunks.rs"]
mod tests;
