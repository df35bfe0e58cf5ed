//! What may be done now, by a node that is asked for more than it can do.

use crate::unit::{Span, Tick};

/// How much of something may be done now.
///
/// A node that is told more than it can follow must above all go on hearing its
/// clients, or it loses them all: what it spends on plans, and on telling clients what they did
/// not ask for, is bounded, and what is left over waits.
#[derive(Debug, Hash)]
pub(super) struct Effort {
    /// One is worked off in so long.
    each: Span,
    /// So many may be done at once after a rest.
    most: u64,
    /// How many were done and not yet worked off.
    spent: u64,
    since: Tick,
}

impl Effort {
    /// Planning, in claimants at the table. As one takes a microsecond or more, with what is
    /// booked and told, that is a tenth of a core, whatever the number of clients.
    pub(super) const PLANNING: Self = Self::new(Span::from_nanos(12_000), 4_000);

    /// Answers that no report asked for. To make one, send it and have it read takes 30 to 50
    /// microseconds; a client that must wait for one hears more at once.
    pub(super) const TELLING: Self = Self::new(Span::from_nanos(200_000), 500);

    const fn new(each: Span, most: u64) -> Self {
        Self {
            each,
            most,
            spent: 0,
            since: Tick::from_nanos(0),
        }
    }

    /// How many may be done at `now`; zero if there were too many of late.
    pub(super) fn left_at(&mut self, now: Tick) -> usize {
        let passed = now.since(self.since).nanos();
        let done = passed.checked_div(self.each.nanos()).unwrap_or_default();
        self.spent = self.spent.saturating_sub(done);
        self.since = self.since.after(self.each.times_or_max(done));
        usize::try_from(self.most.saturating_sub(self.spent)).unwrap_or(usize::MAX)
    }

    /// So many were done.
    pub(super) fn spend(&mut self, done: usize) {
        let done = u64::try_from(done).unwrap_or(u64::MAX);
        self.spent = self.spent.saturating_add(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_worked_off_by_time_alone() {
        let at = |micros: u64| Tick::from_nanos(micros.saturating_mul(1_000));
        let mut effort = Effort::new(Span::from_nanos(5_000), 4_000);
        assert_eq!(effort.left_at(at(1_000_000)), 4_000);
        effort.spend(3_999);
        assert_eq!(effort.left_at(at(1_000_000)), 1);
        effort.spend(501);
        assert_eq!(effort.left_at(at(1_002_499)), 0, "one was too large");
        assert_eq!(effort.left_at(at(1_002_504)), 0);
        assert_eq!(effort.left_at(at(1_002_505)), 1);
        assert_eq!(effort.left_at(at(1_002_509)), 1, "no time is lost");
        assert_eq!(effort.left_at(at(1_002_510)), 2);
        assert_eq!(effort.left_at(at(1_000_000)), 2, "nor gained by going back");
        assert_eq!(effort.left_at(at(9_000_000)), 4_000);
    }
}
