use super::FewMap;
use alloc::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::format;
use std::hash::{Hash, Hasher};
use std::vec::Vec;

const KEYS: u8 = 3;
const STEPS: u32 = 5;

/// A map of each kind, which must be equal.
#[derive(Default)]
struct Both {
    few: FewMap<u8, u32>,
    tree: BTreeMap<u8, u32>,
}

impl Both {
    /// Takes a step by its number: one of three changes to one of the keys.
    fn step(&mut self, number: u8, value: u32) {
        let key = number % KEYS;
        match number / KEYS {
            0 => assert_eq!(self.few.insert(key, value), self.tree.insert(key, value)),
            1 => assert_eq!(self.few.remove(&key), self.tree.remove(&key)),
            _ => {
                let few = self.few.get_or_insert_with(key, || value);
                let tree = self.tree.entry(key).or_insert(value);
                (*few, *tree) = (*few + 100, *tree + 100);
            }
        }
    }

    fn compare(&mut self) {
        let Self { few, tree } = self;
        assert_eq!(few.len(), tree.len());
        assert_eq!(few.is_empty(), tree.is_empty());
        assert!(few.iter().eq(&*tree) && few.iter_mut().eq(&mut *tree));
        assert!(few.keys().eq(tree.keys()) && few.values().eq(tree.values()));
        assert!(few.values_mut().eq(tree.values_mut()));
        for key in 0..=KEYS {
            assert!(few.entries_from(&key).eq(tree.range(key..)), "{key}");
        }
        for key in 0..KEYS {
            assert_eq!(few.get(&key), tree.get(&key));
            assert_eq!(few.get_mut(&key), tree.get_mut(&key));
            assert_eq!(few.contains_key(&key), tree.contains_key(&key));
        }
        assert_eq!(format!("{few:?}"), format!("{tree:?}"));
        assert_eq!(hashed(few), hashed(tree));
        assert!(few.clone().into_entries().eq(tree.clone()));
    }
}

fn hashed(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn it_is_a_tree_map_after_every_sequence_of_changes() {
    let kinds = u32::from(3 * KEYS);
    for sequence in 0..kinds.pow(STEPS) {
        let steps: Vec<u8> = (0..STEPS)
            .map(|place| (sequence / kinds.pow(place) % kinds) as u8)
            .collect();
        let mut both = Both::default();
        for (value, &step) in (1..).zip(&steps) {
            both.step(step, value);
        }
        both.compare();
    }
}
