//! The names of settled reservations, and the order in which they are forgotten if there are too many.

use crate::scope::Scope;
use std::collections::BTreeMap;

/// The result for one part of a settled reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledPart {
    /// Key of the budget.
    pub key: String,
    /// Tokens put back.
    pub restored: u64,
    /// Additional tokens taken.
    pub taken: u64,
}

/// Name of a reservation. Callers that may ask for other keys have names of their own.
pub(super) type Name = (Scope, String);

/// Names of settled reservations.
///
/// Those that charged nothing are forgotten first: a caller can make any number of them for nothing, so they must not
/// displace others. Then come those of the scope that has the most parts, so that no scope displaces one that has fewer.
/// Of these, the oldest is the first.
#[derive(Debug, Default)]
pub(super) struct SettledNames {
    queues: BTreeMap<(Charge, Scope), Queue>,
    len: usize,
}

/// Treatment of what a reservation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Charge {
    /// All of it was put back.
    Nothing,
    /// Some of it stays charged.
    Something,
}

impl Charge {
    /// Compares what was reserved with what came of it.
    pub(super) fn of(reserved: &[(String, u64)], settled: &[SettledPart]) -> Self {
        let mut parts = reserved.iter().zip(settled);
        match parts.all(|((_, cost), part)| part.restored == *cost && part.taken == 0) {
            true => Self::Nothing,
            false => Self::Something,
        }
    }
}

/// Names by the numbers of their reservations, each with its number of parts.
#[derive(Debug, Default)]
struct Queue {
    ids: BTreeMap<u64, (String, usize)>,
    parts: usize,
}

impl SettledNames {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds the reservation of this number.
    pub(super) fn insert(&mut self, number: u64, (scope, id): Name, charge: Charge, parts: usize) {
        let queue = self.queues.entry((charge, scope)).or_default();
        queue.ids.insert(number, (id, parts));
        queue.parts += parts;
        self.len += 1;
    }

    /// Takes the reservation of this number out.
    pub(super) fn remove(&mut self, number: u64, scope: &Scope, charge: Charge) {
        let of = (charge, scope.clone());
        let Some(queue) = self.queues.get_mut(&of) else {
            return;
        };
        if let Some((_, parts)) = queue.ids.remove(&number) {
            queue.parts -= parts;
            self.len -= 1;
        }
        if queue.ids.is_empty() {
            self.queues.remove(&of);
        }
    }

    /// Returns the name of the reservation to forget first.
    pub(super) fn first(&self) -> Option<Name> {
        let queues = self.queues.iter();
        let ((_, scope), queue) =
            queues.min_by_key(|((charge, _), queue)| (*charge, usize::MAX - queue.parts))?;
        let (_, (id, _)) = queue.ids.first_key_value()?;
        Some((scope.clone(), id.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(restored: u64, taken: u64) -> SettledPart {
        SettledPart {
            key: "a".to_owned(),
            restored,
            taken,
        }
    }

    #[test]
    fn a_charge_of_nothing_is_one_of_which_all_was_put_back() {
        let reserved = [("a".to_owned(), 4), ("a".to_owned(), 2)];
        for (settled, expect) in [
            ([part(4, 0), part(2, 0)], Charge::Nothing),
            ([part(4, 0), part(1, 0)], Charge::Something),
            ([part(0, 0), part(2, 0)], Charge::Something),
            ([part(4, 0), part(2, 1)], Charge::Something),
        ] {
            assert_eq!(Charge::of(&reserved, &settled), expect, "{settled:?}");
        }
    }

    /// Takes out the name to forget first, until there is none. Returns their numbers.
    fn forget_all(names: &mut SettledNames, charges: &[Charge]) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some((scope, id)) = names.first() {
            let number: usize = id.parse().expect("its number");
            let before = names.len();
            names.remove(number as u64, &scope, charges[number]);
            assert_eq!(names.len() + 1, before);
            order.push(number);
        }
        order
    }

    #[test]
    fn free_names_are_forgotten_first_and_then_those_of_the_scope_with_most_parts() {
        use Charge::{Nothing, Something};
        let scope = |prefix: &str| Scope::under([prefix.to_owned()]);
        let rows = [
            ("few", Something, 3),
            ("many", Something, 2),
            ("many", Something, 2),
            ("few", Nothing, 1),
            ("few", Nothing, 1),
            ("many", Nothing, 1),
        ];
        let mut names = SettledNames::default();
        for (number, (of, charge, parts)) in rows.iter().enumerate() {
            let name = (scope(of), number.to_string());
            names.insert(number as u64, name, *charge, *parts);
            assert_eq!(names.len(), number + 1);
        }
        let charges = rows.map(|(_, charge, _)| charge);
        assert_eq!(forget_all(&mut names, &charges), [3, 4, 5, 1, 0, 2]);
        assert_eq!(names.len(), 0);
    }
}
