//! Deadlines of sessions, ordered by time, so that a check costs only as much as the entries that are due.

use crate::unit::{BudgetId, Incarnation, Tick};
use alloc::collections::BTreeSet;

/// Deadlines of sessions and of what closed sessions leave behind.
#[derive(Debug, Default, Hash)]
pub(super) struct Deadlines {
    /// Sessions that had a lease, by the end of the last one.
    leased: BTreeSet<(Tick, Incarnation)>,
    /// Sessions without a lease so far, by the time at which they were opened.
    fresh: BTreeSet<(Tick, Incarnation)>,
    /// Booked rests of closed sessions, by the end of their wait.
    kept: BTreeSet<(Tick, BudgetId, Incarnation)>,
}

impl Deadlines {
    pub(super) fn begin(&mut self, client: Incarnation, opened: Tick) {
        self.fresh.insert((opened, client));
    }

    /// Moves a session's deadline to `to`. `from` is the former one: the end of its last lease, or its
    /// opening.
    pub(super) fn renew(&mut self, client: Incarnation, from: Tick, to: Tick) {
        if !self.leased.remove(&(from, client)) {
            self.fresh.remove(&(from, client));
        }
        self.leased.insert((to, client));
    }

    /// Removes a session. `promised` is the end of its last lease, or its opening.
    pub(super) fn end(&mut self, client: Incarnation, promised: Tick) {
        self.leased.remove(&(promised, client));
        self.fresh.remove(&(promised, client));
    }

    pub(super) fn keep(&mut self, budget: BudgetId, client: Incarnation, until: Tick) {
        self.kept.insert((until, budget, client));
    }

    /// Returns the sessions whose leases are all over at `now`, each with the end of its last one.
    pub(super) fn over(&self, now: Tick) -> impl Iterator<Item = (Tick, Incarnation)> + Clone {
        let over = self
            .leased
            .iter()
            .take_while(move |(until, _)| *until <= now);
        over.copied()
    }

    /// Returns the sessions without a lease whose opening time satisfies `then`.
    pub(super) fn idle(&self, then: impl Fn(Tick) -> bool) -> BTreeSet<Incarnation> {
        let idle = self.fresh.iter().take_while(|(opened, _)| then(*opened));
        idle.map(|&(_, client)| client).collect()
    }

    /// Removes and returns the rests whose wait ended before `now`.
    pub(super) fn take_kept(&mut self, now: Tick) -> BTreeSet<(BudgetId, Incarnation)> {
        let mut over = BTreeSet::new();
        while let Some(&(until, budget, client)) = self.kept.first() {
            if until >= now {
                break;
            }
            self.kept.pop_first();
            over.insert((budget, client));
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    fn at(nanos: u64) -> Tick {
        Tick::from_nanos(nanos)
    }

    fn draw(random: &mut u64, below: u64) -> u64 {
        *random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (*random >> 33) % below
    }

    /// Compares with a walk over all sessions, some of which have a lease.
    #[test]
    fn what_is_due_is_what_a_walk_over_all_finds() {
        let (mut deadlines, mut random) = (Deadlines::default(), 1);
        let mut naive: BTreeMap<Incarnation, (Tick, bool)> = BTreeMap::new();
        for now in 0..20_000 {
            let client = Incarnation::new(draw(&mut random, 60));
            match (draw(&mut random, 4), naive.get(&client).copied()) {
                (0, None) => {
                    deadlines.begin(client, at(now));
                    naive.insert(client, (at(now), false));
                }
                (1, Some((from, _))) => {
                    let to = from.max(at(now + draw(&mut random, 50)));
                    deadlines.renew(client, from, to);
                    naive.insert(client, (to, true));
                }
                (2, Some((until, _))) => {
                    deadlines.end(client, until);
                    naive.remove(&client);
                }
                _ => {}
            }
            let over: BTreeSet<_> = deadlines.over(at(now)).collect();
            let all = naive
                .iter()
                .map(|(&client, &(until, leased))| (until, client, leased));
            let due = all.clone().filter(|of| of.2 && of.0 <= at(now));
            assert_eq!(over, due.map(|of| (of.0, of.1)).collect::<BTreeSet<_>>());
            let idle = |opened: Tick| at(now).since(opened).nanos() > 30;
            let due = all.filter(|of| !of.2 && idle(of.0)).map(|of| of.1);
            assert_eq!(deadlines.idle(idle), due.collect::<BTreeSet<_>>());
        }
    }

    #[test]
    fn what_is_kept_is_forgotten_after_its_time_in_the_order_of_its_budget() {
        let mut deadlines = Deadlines::default();
        for (budget, until) in [(3, 10), (1, 12), (2, 11), (4, 20)] {
            deadlines.keep(BudgetId::new(budget), Incarnation::new(7), at(until));
        }
        let mut taken = |now| -> Vec<u64> {
            let taken = deadlines.take_kept(at(now)).into_iter();
            taken.map(|(budget, _)| budget.get()).collect()
        };
        assert_eq!(taken(10), [0; 0], "it is kept at its end");
        assert_eq!(taken(13), [1, 2, 3]);
        assert_eq!(taken(13), [0; 0]);
        assert_eq!(taken(21), [4]);
    }
}
