use super::CompactMap;
use alloc::collections::BTreeMap;
use std::format;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::vec::Vec;

const SIZE: usize = CompactMap::<u64, u64>::SIZE;

/// A map of each kind, which must be equal.
#[derive(Default)]
struct Both {
    compact: CompactMap<u64, u64>,
    tree: BTreeMap<u64, u64>,
}

impl Both {
    fn insert(&mut self, key: u64, value: u64) {
        let replaced = self.compact.insert(key, value);
        assert_eq!(replaced, self.tree.insert(key, value));
    }

    fn remove(&mut self, key: u64) {
        assert_eq!(self.compact.remove(&key), self.tree.remove(&key));
    }

    fn compare(&mut self) {
        let Self { compact, tree } = self;
        assert_eq!(
            (compact.len(), compact.is_empty()),
            (tree.len(), tree.is_empty())
        );
        assert!(compact.iter().eq(&*tree) && compact.keys().eq(tree.keys()));
        assert!(compact.iter_mut().eq(&mut *tree));
        for key in tree.keys().step_by(31).chain(&[0, u64::MAX]) {
            assert!(compact.entries_from(key).eq(tree.range(key..)), "{key}");
        }
        assert_eq!(format!("{compact:?}"), format!("{tree:?}"));
        assert_eq!(hashed(compact), hashed(tree));
        assert!(compact.clone().into_entries().eq(tree.clone()));
        assert_eq!(*compact, tree.clone().into_iter().collect());
        let chunks = &compact.chunks;
        let lengths = chunks.iter().map(|chunk| chunk.entries.len());
        assert!(lengths.clone().all(|len| (1..=SIZE).contains(&len)));
        assert_eq!(lengths.sum::<usize>(), tree.len());
        assert!(chunks.iter().all(|chunk| chunk.first == chunk.entries[0].0));
    }

    /// Returns the number of entries for which there is room.
    fn capacity(&self) -> usize {
        let chunks = self.compact.chunks.iter();
        chunks.map(|chunk| chunk.entries.capacity()).sum()
    }
}

fn hashed(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Returns the numbers below `many` in an order without a pattern.
fn shuffled(many: u64) -> impl Iterator<Item = u64> {
    // A prime that does not divide `many`.
    (0..many).map(move |number| number * 7_919 % many)
}

#[test]
fn it_is_a_tree_map_in_whatever_order_keys_come_and_go() {
    const MANY: u64 = 1_000;
    let rising = || (0..MANY).collect::<Vec<_>>();
    let falling = || (0..MANY).rev().collect::<Vec<_>>();
    let mixed = || shuffled(MANY).collect::<Vec<_>>();
    for come in [rising(), falling(), mixed()] {
        for go in [rising(), falling(), mixed()] {
            let mut both = Both::default();
            for &key in &come {
                both.insert(2 * key, key);
                assert_eq!(both.compact.get(&(2 * key + 1)), None);
            }
            both.compare();
            for &key in &come {
                *both.compact.get_or_insert_with(key, || 7) += 1;
                *both.tree.entry(key).or_insert(7) += 1;
                assert_eq!(both.compact.get(&key), both.tree.get(&key));
                assert_eq!(both.compact.get_mut(&key), both.tree.get_mut(&key));
            }
            both.compare();
            for &key in &go {
                both.insert(2 * key, 0);
                both.remove(key);
                both.remove(key);
                if key % 100 == 0 {
                    both.compare();
                }
            }
            both.compare();
        }
    }
}

#[test]
fn keys_in_order_leave_no_room_unused_and_others_little() {
    const MANY: u64 = 10_000;
    let mut both = Both::default();
    for key in 0..MANY {
        both.insert(key, key);
    }
    let last = SIZE - both.compact.chunks.last().expect("a chunk").entries.len();
    assert!(both.capacity() <= both.tree.len() + last);
    let mut both = Both::default();
    for key in shuffled(MANY) {
        both.insert(key, key);
    }
    assert!(both.capacity() * 3 <= both.tree.len() * 4);
}

#[test]
fn shorter_chunks_leave_less_room_in_a_map_of_dozens_of_entries() {
    fn room<const BYTES: usize>(entries: u64) -> usize {
        let mut map: CompactMap<u64, [u64; 7], BYTES> = CompactMap::new();
        map.extend(shuffled(entries).map(|key| (key, [key; 7])));
        assert_eq!(map.len() as u64, entries);
        assert!(map.keys().is_sorted());
        let chunks = map.chunks.iter();
        chunks.map(|chunk| chunk.entries.capacity()).sum()
    }
    let (short, long): (usize, usize) = (9..100)
        .map(|entries| (room::<512>(entries), room::<1_024>(entries)))
        .fold((0, 0), |sum, rooms| (sum.0 + rooms.0, sum.1 + rooms.1));
    assert!(
        short * 100 < long * 95,
        "{short} in short chunks, {long} in long ones"
    );
}

#[test]
fn a_map_that_lost_its_entries_has_few_chunks() {
    const MANY: u64 = 10_000;
    let mut both = Both::default();
    for key in 0..MANY {
        both.insert(key, key);
    }
    for key in (0..MANY).filter(|key| key % 16 != 0) {
        both.remove(key);
    }
    both.compare();
    assert!(both.compact.chunks.len() * SIZE <= both.tree.len() * 8);
    assert!(both.capacity() <= both.tree.len() * 4);
}
