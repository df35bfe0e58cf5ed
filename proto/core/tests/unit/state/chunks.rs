use super::*;
use proptest::prelude::*;

type Map = Chunks<BudgetId, u32>;

fn shared(one: &Map, other: &Map) -> usize {
    let pairs = one.chunks.values().zip(other.chunks.values());
    pairs.filter(|(one, other)| Arc::ptr_eq(one, other)).count()
}

#[test]
fn a_change_copies_the_chunk_that_it_meets_and_no_other() {
    let mut map: Map = (0..640).map(|id| (BudgetId::new(id), 0)).collect();
    let frozen = map.clone();
    assert_eq!(shared(&map, &frozen), 10);
    assert_eq!(map.get_mut(&BudgetId::new(9_999)), None);
    assert_eq!(map.remove(&BudgetId::new(9_999)), None);
    assert_eq!(shared(&map, &frozen), 10);
    *map.get_mut(&BudgetId::new(70)).unwrap() = 7;
    assert_eq!(shared(&map, &frozen), 9);
    assert_eq!(frozen.get(&BudgetId::new(70)), Some(&0));
}

#[test]
fn a_chunk_takes_the_memory_of_its_entries() {
    let mut map: Map = (0..64).map(|id| (BudgetId::new(id), 0)).collect();
    let room = |map: &Map| {
        map.chunks
            .values()
            .map(|chunk| chunk.capacity())
            .sum::<usize>()
    };
    assert_eq!(room(&map), 64);
    (1..64).for_each(|id| assert_eq!(map.remove(&BudgetId::new(id)), Some(0)));
    assert!(room(&map) <= 4, "{}", room(&map));
    assert_eq!(map.get(&BudgetId::new(0)), Some(&0));
}

proptest! {
    #[test]
    fn it_is_a_map_and_a_copy_stays_as_it_was(
        steps in prop::collection::vec((0..300_u64, any::<u32>(), 0..4_u8), 0..200),
    ) {
        let (mut map, mut model) = (Map::default(), BTreeMap::new());
        let mut frozen = None;
        for (step, (id, value, kind)) in steps.into_iter().enumerate() {
            let id = BudgetId::new(id);
            match kind {
                0 => prop_assert_eq!(map.remove(&id), model.remove(&id)),
                1 => prop_assert_eq!(map.get_mut(&id).copied(), model.get_mut(&id).copied()),
                _ => prop_assert_eq!(map.insert(id, value), model.insert(id, value)),
            }
            if step == 100 {
                frozen = Some((map.clone(), model.clone()));
            }
            prop_assert_eq!(map.iter().len(), model.len());
        }
        let pairs: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(map.to_vec(), pairs.clone());
        prop_assert_eq!(&map, &pairs.into_iter().collect::<Map>());
        let from = BudgetId::new(130);
        let after: Vec<_> = map.from(from).map(|(id, _)| *id).collect();
        let expected: Vec<_> = model.range(from..).map(|(id, _)| *id).collect();
        prop_assert_eq!(after, expected);
        if let Some((frozen, model)) = frozen {
            prop_assert_eq!(frozen.to_vec(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
