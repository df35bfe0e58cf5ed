//! Forgets keys before their room is needed.

use super::line::{Found, READY, class_of, vacated};
use super::{Group, Limits, Table};
use crate::sync::Ordering;

impl Table {
    /// Frees the slots whose keys are full by the limits `idle`, and returns their number.
    pub(in super::super) fn free_if(&self, idle: &impl Limits) -> usize {
        self.groups
            .iter()
            .map(|group| self.free_in(group, idle))
            .sum()
    }

    /// Does the same in one group, the next one at each call, so that as many calls as there are groups look
    /// at all of them.
    pub(in super::super) fn sweep(&self, idle: &impl Limits) {
        let at = self.swept.fetch_add(1, Ordering::Relaxed) as usize % self.groups.len();
        self.free_in(&self.groups[at], idle);
    }

    fn free_in(&self, group: &Group, idle: &impl Limits) -> usize {
        let mut freed = 0;
        for (place, line) in group.lines.iter().enumerate() {
            let owner = line.owner.load(Ordering::Acquire);
            let since = |debt| idle.full_since(class_of(owner), debt);
            if owner & READY == 0 || since(Found { line, owner }.debt()).is_none() {
                continue;
            }
            if !line.make_busy(owner) {
                continue;
            }
            let Some(since) = since(line.debt.fetch_add(0, Ordering::AcqRel)) else {
                line.owner.store(owner, Ordering::Release);
                continue;
            };
            self.forget(since);
            group.tags.set(place, 0);
            self.used.fetch_sub(1, Ordering::Relaxed);
            line.owner.store(vacated(owner), Ordering::Release);
            freed += 1;
        }
        freed
    }
}
