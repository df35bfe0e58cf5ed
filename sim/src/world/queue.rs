//! The queue of events, ordered by true time.

use super::event::Due;
use std::collections::BTreeMap;

/// Events ordered by time and, within an instant, by the order in which they were created.
///
/// Nearly all events are due within seconds. They wait unsorted in slots of about a millisecond. Only the
/// present slot is sorted, and it holds so few events that sorting costs next to nothing.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Events that are due in the present slot or earlier, sorted so that the next one is last.
    present: Vec<Due>,
    slot: u64,
    /// The slots after the present one, each at its number modulo `SLOTS`.
    soon: Vec<Vec<Due>>,
    /// Number of events in `soon`.
    waiting: usize,
    /// Events in later slots.
    late: BTreeMap<u64, Vec<Due>>,
}

impl Queue {
    /// Binary logarithm of a slot's width: slots are 2²⁰ nanoseconds wide.
    const WIDTH: u32 = 20;
    const SLOTS: u64 = 1_024;

    pub(crate) fn new() -> Self {
        Self {
            present: Vec::new(),
            slot: 0,
            soon: (0..Self::SLOTS).map(|_| Vec::new()).collect(),
            waiting: 0,
            late: BTreeMap::new(),
        }
    }

    pub(crate) fn push(&mut self, due: Due) {
        let slot = due.at >> Self::WIDTH;
        if slot <= self.slot {
            let place = self.present.partition_point(|other| *other < due);
            self.present.insert(place, due);
        } else if slot - self.slot < Self::SLOTS {
            self.soon[(slot % Self::SLOTS) as usize].push(due);
            self.waiting += 1;
        } else {
            self.late.entry(slot).or_default().push(due);
        }
    }

    /// Returns the next events of the present slot, at most `most`, the last one first.
    pub(crate) fn upcoming(&self, most: usize) -> &[Due] {
        &self.present[self.present.len().saturating_sub(most)..]
    }

    /// Returns the next event, if it is due by `end`.
    pub(crate) fn pop_by(&mut self, end: u64) -> Option<Due> {
        if self.present.is_empty() {
            self.advance();
        }
        self.present.pop_if(|due| due.at <= end)
    }

    /// Advances to the next slot that holds an event.
    fn advance(&mut self) {
        let late = self.late.keys().next().copied();
        let soon = (self.slot + 1..self.slot + Self::SLOTS)
            .filter(|_| self.waiting > 0)
            .find(|slot| !self.soon[(slot % Self::SLOTS) as usize].is_empty());
        let Some(next) = soon.into_iter().chain(late).min() else {
            return;
        };
        self.slot = next;
        if soon == Some(next) {
            // Swapped, so that the slot reuses the capacity of the previous one.
            let slot = &mut self.soon[(next % Self::SLOTS) as usize];
            std::mem::swap(&mut self.present, slot);
            self.waiting -= self.present.len();
        }
        if late == Some(next) {
            self.present
                .extend(self.late.remove(&next).unwrap_or_default());
        }
        self.present.sort_unstable();
    }
}

#[cfg(test)]
#[path = "../../tests/unit/world/queue.rs"]
mod tests;
