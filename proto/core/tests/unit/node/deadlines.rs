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
