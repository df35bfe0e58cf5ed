//! Sorted maps with little unused memory.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};

/// A sorted map in chunks.
///
/// Nodes of a tree are half empty if its keys are added in order, and a third is empty in other orders. Here the chunks
/// are full in the first case, and a fifth is empty in the others. A chunk is short, so that an entry in the middle shifts few others, and grows by doubling: in smaller
/// steps, maps that grow together would leave behind many times the memory in blocks that nothing else uses.
///
/// `BYTES` is the maximum size of a chunk. Maps of dozens of entries have less unused room in shorter ones. In maps of
/// millions, a new chunk moves the headers of all later ones, so there must not be too many.
///
/// State invariants: no chunk is empty, and all keys rise from the first chunk to the last.
#[derive(Clone)]
pub(crate) struct CompactMap<K, V, const BYTES: usize = 1_024> {
    chunks: Vec<Chunk<K, V, BYTES>>,
    len: usize,
}

/// Neighbours of a map.
#[derive(Clone)]
struct Chunk<K, V, const BYTES: usize> {
    /// Key of the first entry. Beside those of the other chunks, so that a search reads no entries of these.
    first: K,
    entries: Vec<(K, V)>,
}

/// Place of an entry: its chunk, and its index there.
type Place = (usize, usize);

impl<K, V, const BYTES: usize> CompactMap<K, V, BYTES> {
    /// Maximum number of entries of a chunk.
    const SIZE: usize = match BYTES.checked_div(size_of::<(K, V)>()) {
        Some(fit) if fit <= 8 => 8,
        Some(fit) if fit <= 64 => fit,
        _ => 64,
    };

    /// Number of entries for which a new chunk has room.
    const FIRST: usize = 4;

    pub(crate) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the entries in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> + Clone {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.entries.iter());
        entries.map(|(key, value)| (key, value))
    }

    /// Returns the entries in the order of their keys, for changes.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let chunks = self.chunks.iter_mut();
        let entries = chunks.flat_map(|chunk| chunk.entries.iter_mut());
        entries.map(|(key, value)| (&*key, value))
    }

    /// Returns the entries in the order of their keys, and ends the map.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        self.chunks.into_iter().flat_map(|chunk| chunk.entries)
    }

    /// Returns the keys in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }
}

impl<K: Clone + Ord, V, const BYTES: usize> CompactMap<K, V, BYTES> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (chunk, place) = self.place(key).ok()?;
        let (_, value) = self.chunks.get(chunk)?.entries.get(place)?;
        Some(value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place(key).ok()?;
        self.at_mut(place)
    }

    /// Returns the entries with keys of at least `key`, in order.
    pub(crate) fn entries_from(
        &self,
        key: &K,
    ) -> impl Iterator<Item = (&K, &V)> + use<'_, K, V, BYTES> {
        let (Ok((index, place)) | Err((index, place))) = self.place(key);
        let chunks = self.chunks.iter().skip(index);
        let entries = chunks.flat_map(|chunk| chunk.entries.iter());
        entries.skip(place).map(|(key, value)| (key, value))
    }

    /// Returns the value of a key, which is made if there is none.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let place = match self.place(&key) {
            Ok(place) => place,
            Err(place) => self.add(place, key, make()),
        };
        self.at_mut(place).expect("an entry was found or added")
    }

    /// Sets the value of a key. Returns the one that it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(place) => {
                let known = self.at_mut(place)?;
                Some(core::mem::replace(known, value))
            }
            Err(place) => {
                self.add(place, key, value);
                None
            }
        }
    }

    /// Removes the entry of a key. Returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (index, place) = self.place(key).ok()?;
        let chunk = self.chunks.get_mut(index)?;
        let (_, value) = chunk.entries.remove(place);
        self.len = self.len.saturating_sub(1);
        match chunk.entries.first() {
            Some((first, _)) => chunk.first = first.clone(),
            None => {
                self.chunks.remove(index);
                return Some(value);
            }
        }
        if chunk.entries.len() <= chunk.entries.capacity() / 2 {
            chunk.entries.shrink_to_fit();
            self.join(index);
        }
        Some(value)
    }

    /// Moves the entries of a chunk to the one before it, if they fill no more than half of it. So a map that
    /// lost most of its entries has few chunks.
    fn join(&mut self, index: usize) {
        let (before, rest) = self.chunks.split_at_mut(index);
        if let (Some(before), [chunk, ..]) = (before.last_mut(), rest)
            && before.entries.len().saturating_add(chunk.entries.len()) <= Self::SIZE / 2
        {
            before.entries.append(&mut chunk.entries);
            self.chunks.remove(index);
        }
    }

    fn at_mut(&mut self, (chunk, place): Place) -> Option<&mut V> {
        let (_, value) = self.chunks.get_mut(chunk)?.entries.get_mut(place)?;
        Some(value)
    }

    /// Returns the place of a key, or the one at which it is added.
    fn place(&self, key: &K) -> Result<Place, Place> {
        let later = self.chunks.partition_point(|chunk| chunk.first <= *key);
        let index = later.saturating_sub(1);
        let entries = self.chunks.get(index).map(|chunk| &chunk.entries[..]);
        let place = entries
            .unwrap_or(&[])
            .binary_search_by(|(at, _)| at.cmp(key));
        match place {
            Ok(place) => Ok((index, place)),
            Err(place) => Err((index, place)),
        }
    }

    /// Adds an entry. Returns its place.
    fn add(&mut self, (index, place): Place, key: K, value: V) -> Place {
        self.len = self.len.saturating_add(1);
        let (index, place) = self.make_room((index, place));
        match self.chunks.get_mut(index) {
            Some(chunk) if chunk.entries.len() < Self::SIZE => {
                chunk.take_room(1);
                if place == 0 {
                    chunk.first = key.clone();
                }
                chunk.entries.insert(place, (key, value));
                (index, place)
            }
            full => {
                // A full chunk stays full: the entry follows its last one.
                let index = index.saturating_add(usize::from(full.is_some()));
                let mut chunk = Chunk {
                    first: key.clone(),
                    entries: Vec::with_capacity(Self::FIRST),
                };
                chunk.entries.push((key, value));
                self.chunks.insert(index, chunk);
                (index, 0)
            }
        }
    }

    /// Makes room in a full chunk. Returns where the place is then; if it is behind the last entry of a full chunk, the
    /// entry needs a chunk of its own.
    ///
    /// A neighbour takes some entries if it has room. Otherwise the chunk is divided. So with keys in any order, four
    /// fifths of the chunks' room are used; without neighbours, two thirds would be.
    fn make_room(&mut self, (index, place): Place) -> Place {
        let (before, rest) = self.chunks.split_at_mut(index);
        let Some((chunk, after)) = rest.split_first_mut() else {
            return (index, place);
        };
        if !chunk.is_full() {
            return (index, place);
        }
        let mut after = after.first_mut().filter(|after| !after.is_full());
        if place >= Self::SIZE {
            return after.map_or((index, place), |_| (index.saturating_add(1), 0));
        }
        if let Some(before) = before.last_mut().filter(|before| !before.is_full()) {
            // The place is not the first: a key below the first one belongs to the chunk before.
            let moved = before.half_of_room().min(place);
            before.take_room(moved);
            before.entries.extend(chunk.entries.drain(..moved));
            chunk.note_first();
            return (index, place.saturating_sub(moved));
        }
        if let Some(after) = &mut after {
            let moved = after.half_of_room().min(Self::SIZE.saturating_sub(place));
            after.take_room(moved);
            let last = chunk.entries.drain(Self::SIZE.saturating_sub(moved)..);
            after.entries.splice(..0, last);
            after.note_first();
            return (index, place);
        }
        self.divide((index, place))
    }

    /// Divides a full chunk. Returns where the place is then.
    fn divide(&mut self, (index, place): Place) -> Place {
        let half = Self::SIZE / 2;
        let Some(chunk) = self.chunks.get_mut(index) else {
            return (index, place);
        };
        let mut entries = Vec::with_capacity(Self::SIZE);
        entries.extend(chunk.entries.drain(half..));
        let next = index.saturating_add(1);
        if let Some(first) = entries.first().map(|(first, _)| first.clone()) {
            self.chunks.insert(next, Chunk { first, entries });
        }
        match place <= half {
            true => (index, place),
            false => (next, place.saturating_sub(half)),
        }
    }
}

impl<K: Clone, V, const BYTES: usize> Chunk<K, V, BYTES> {
    const fn is_full(&self) -> bool {
        self.entries.len() >= CompactMap::<K, V, BYTES>::SIZE
    }

    /// Returns half of the number of entries that still fit, at least one if any does.
    const fn half_of_room(&self) -> usize {
        let room = CompactMap::<K, V, BYTES>::SIZE.saturating_sub(self.entries.len());
        room.div_ceil(2)
    }

    /// Allocates room for some entries, if there is none yet. A chunk grows by doubling.
    fn take_room(&mut self, more: usize) {
        let len = self.entries.len();
        if self.entries.capacity().saturating_sub(len) < more {
            let doubled = len.min(CompactMap::<K, V, BYTES>::SIZE.saturating_sub(len));
            self.entries.reserve_exact(doubled.max(more));
        }
    }

    /// Notes the key of the first entry, after others became the first.
    fn note_first(&mut self) {
        if let Some((first, _)) = self.entries.first() {
            self.first = first.clone();
        }
    }
}

impl<K, V, const BYTES: usize> Default for CompactMap<K, V, BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Ord, V, const BYTES: usize> Extend<(K, V)> for CompactMap<K, V, BYTES> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Clone + Ord, V, const BYTES: usize> FromIterator<(K, V)> for CompactMap<K, V, BYTES> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K: PartialEq, V: PartialEq, const BYTES: usize> PartialEq for CompactMap<K, V, BYTES> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq, const BYTES: usize> Eq for CompactMap<K, V, BYTES> {}

/// Hashes like a [`BTreeMap`](alloc::collections::BTreeMap) with these entries.
impl<K: Hash, V: Hash, const BYTES: usize> Hash for CompactMap<K, V, BYTES> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len);
        self.iter().for_each(|entry| entry.hash(state));
    }
}

impl<K: fmt::Debug, V: fmt::Debug, const BYTES: usize> fmt::Debug for CompactMap<K, V, BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/few/compact.rs"]
mod tests;
