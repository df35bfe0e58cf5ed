//! Keys that are forgotten before anybody needs their room.

use super::line::{READY, class_of, vacated};
use super::{Group, Table};
use crate::sync::Ordering;

impl Table {
    /// Frees the slots of which `idle` says so, given class and debt.
    pub(in super::super) fn free_if(&self, idle: impl Fn(u16, u64) -> bool) -> usize {
        self.groups
            .iter()
            .map(|group| self.free_in(group, &idle))
            .sum()
    }

    /// The same in one group, the next one at each call: in as many calls as there are groups, all of them.
    pub(in super::super) fn sweep(&self, idle: impl Fn(u16, u64) -> bool) {
        let at = self.swept.fetch_add(1, Ordering::Relaxed) as usize % self.groups.len();
        self.free_in(&self.groups[at], &idle);
    }

    fn free_in(&self, group: &Group, idle: &impl Fn(u16, u64) -> bool) -> usize {
        let mut freed = 0;
        for (place, line) in group.lines.iter().enumerate() {
            let owner = line.owner.load(Ordering::Acquire);
            if owner & READY == 0 || !idle(class_of(owner), line.debt.load(Ordering::Acquire)) {
                continue;
            }
            if !line.make_busy(owner) {
                continue;
            }
            if !idle(class_of(owner), line.debt.fetch_add(0, Ordering::AcqRel)) {
                line.owner.store(owner, Ordering::Release);
                continue;
            }
            group.tags.set(place, 0);
            self.used.fetch_sub(1, Ordering::Relaxed);
            line.owner.store(vacated(owner), Ordering::Release);
            freed += 1;
        }
        freed
    }
}
