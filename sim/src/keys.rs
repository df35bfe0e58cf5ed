//! The keys that clients use, and their budgets.

use crate::scenario::{Group, Scenario};
use aliquot_core::budget::{Budget, Key};
use std::collections::BTreeMap;

/// The keys that clients use. A *row* is one key, or all keys of a group with many, which are recorded together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// All keys.
    pub(crate) keys: Vec<Key>,
    /// The budget of each key.
    pub(crate) budgets: Vec<Budget>,
    /// The row of each key, and its place in that row.
    pub(crate) places: Vec<(usize, usize)>,
    /// The name of each row: its key, or the pattern of its keys.
    pub(crate) rows: Vec<String>,
    /// The keys of each group, by their numbers.
    pub(crate) of_group: Vec<Vec<usize>>,
    /// The other key of which each request of a group needs as much.
    pub(crate) also_of_group: Vec<Option<usize>>,
}

impl Keys {
    /// Returns the keys of a scenario. A key that several groups use belongs to the row of the first of them.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut all = Self::default();
        let (mut known, mut sizes) = (BTreeMap::new(), BTreeMap::new());
        let mut number = |all: &mut Self, row: &str, text: &str| {
            let key = Key::try_from(text).ok()?;
            if let Some(index) = known.get(&key) {
                return Some(*index);
            }
            let budget = scenario.budget_of(&key)?;
            let (row_number, size) = sizes.entry(row.to_owned()).or_insert((all.rows.len(), 0));
            if *size == 0 {
                all.rows.push(row.to_owned());
            }
            all.places.push((*row_number, *size));
            *size += 1;
            let index = all.keys.len();
            known.insert(key.clone(), index);
            all.keys.push(key);
            all.budgets.push(budget.clone());
            Some(index)
        };
        for group in &scenario.clients {
            let row = scenario.key_of(group);
            let of_group = texts(group, &row)
                .filter_map(|text| number(&mut all, &row, &text))
                .collect();
            all.of_group.push(of_group);
        }
        for group in &scenario.clients {
            let also = group.also.as_deref();
            let also = also.and_then(|key| number(&mut all, key, key));
            all.also_of_group.push(also);
        }
        all
    }

    /// Returns the only key of a group; `None` if it has several.
    pub(crate) fn only_key(&self, group: usize) -> Option<usize> {
        let also = self.also_of_group.get(group).copied().flatten();
        match (self.of_group.get(group).map(Vec::as_slice), also) {
            (Some([key]), None) => Some(*key),
            _ => None,
        }
    }

    /// Returns the row of a group's first key.
    pub(crate) fn row_of_group(&self, group: usize) -> usize {
        let first = self.of_group.get(group).and_then(|keys| keys.first());
        first.map_or(0, |&key| self.places[key].0)
    }

    /// Returns the most tokens that callers wait for of each key. `groups` has the group of each client.
    pub(crate) fn queues(&self, scenario: &Scenario, groups: &[(usize, usize)]) -> Vec<f64> {
        let mut queues = vec![0.0; self.keys.len()];
        for &(group, _) in groups {
            let of = &scenario.clients[group];
            let most = (of.flows.unwrap_or(of.waiting) * of.cost) as f64;
            if most > 0.0 {
                self.of_group[group]
                    .iter()
                    .for_each(|&key| queues[key] += most);
            }
        }
        queues
    }
}

/// Returns the keys of a group, as text: its key, or those of its pattern.
fn texts<'a>(group: &'a Group, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let count = group.keys.as_ref().map_or(1, |keys| keys.count);
    let many = group.keys.is_some();
    (0..count).map(move |number| match many {
        true => name.replacen('*', &number.to_string(), 1),
        false => name.to_owned(),
    })
}
