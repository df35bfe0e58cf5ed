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
#[path = "../../tests/unit/decider/settled.rs"]
mod tests;
