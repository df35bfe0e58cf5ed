//! Sessions are balanced from any start, and with outdated counts.

use aliquot_core::rebalance::{OwnSessions, Rebalancer, ServingNode};
use aliquot_core::unit::{Incarnation, Span, Tick};
use proptest::prelude::*;

/// Nodes that each see the counts of other nodes as of some rounds ago.
struct Fleet {
    counts: Vec<u64>,
    history: Vec<Vec<u64>>,
    rebalancers: Vec<Rebalancer>,
    /// Clients that are moving, with their target.
    under_way: Vec<(usize, u64)>,
    /// Ages, in rounds, of the counts that nodes see. They are used one after the other, in a cycle.
    ages: Vec<usize>,
    looks: usize,
    /// Round of the count that each node saw last of each other node. It never goes back.
    seen: Vec<Vec<usize>>,
    moved: u64,
    most_at_once: f64,
}

/// Returns sessions of which none holds permits.
const fn all(staying: u64) -> OwnSessions {
    OwnSessions {
        staying,
        without_permits: staying,
    }
}

impl Fleet {
    fn new(counts: &[u64], ages: &[usize]) -> Self {
        let incarnations = 1..=counts.len() as u64;
        let oldest = ages.iter().copied().max().unwrap_or_default();
        Self {
            counts: counts.to_vec(),
            history: vec![counts.to_vec(); oldest + 1],
            rebalancers: incarnations
                .map(|incarnation| Rebalancer::new(Incarnation::new(incarnation)))
                .collect(),
            under_way: Vec::new(),
            ages: ages.to_vec(),
            looks: 0,
            seen: vec![vec![0; counts.len()]; counts.len()],
            moved: 0,
            most_at_once: 0.0,
        }
    }

    /// Simulates one second. Clients that are asked to move leave now, and arrive in the next round.
    fn round(&mut self) {
        for (to, clients) in std::mem::take(&mut self.under_way) {
            self.counts[to] += clients;
        }
        for node in 0..self.counts.len() {
            let own = self.counts[node];
            let others = self.others(node);
            let mut left = 0;
            for ask in self.rebalancers[node].round(all(own), &others) {
                left += ask.sessions;
                self.under_way
                    .push((ask.address.parse().unwrap(), ask.sessions));
            }
            assert!(left <= (own / 10).max(1), "{left} of {own} at once");
            self.counts[node] -= left;
            self.moved += left;
            self.most_at_once = self.most_at_once.max(left as f64 / own.max(1) as f64);
        }
        self.history.push(self.counts.clone());
    }

    /// Returns the other nodes as a node sees them.
    fn others(&mut self, node: usize) -> Vec<ServingNode<String>> {
        let mut others = Vec::new();
        for other in (0..self.counts.len()).filter(|other| *other != node) {
            let age = self.ages[self.looks % self.ages.len()];
            self.looks += 1;
            let seen = &mut self.seen[node][other];
            *seen = (*seen).max(self.history.len() - 1 - age);
            others.push(ServingNode {
                incarnation: Incarnation::new(other as u64 + 1),
                address: other.to_string(),
                sessions: self.history[*seen][other],
            });
        }
        others
    }

    fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.round();
        }
    }

    /// Returns the minimum number of moves that balance the sessions.
    fn needed(counts: &[u64]) -> u64 {
        let total: u64 = counts.iter().sum();
        let part = total.div_ceil(counts.len() as u64);
        counts.iter().map(|count| count.saturating_sub(part)).sum()
    }
}

#[track_caller]
fn check(start: &[u64], rounds: usize, expect: &[u64]) {
    let mut fleet = Fleet::new(start, &[1]);
    fleet.rounds(rounds);
    let mut end = fleet.counts.clone();
    end.sort_unstable();
    assert_eq!(end, expect, "from {start:?}, {} moved", fleet.moved);
}

#[test]
fn few_clients_are_spread_as_evenly_as_they_can_be() {
    check(&[8, 0, 0], 20, &[2, 3, 3]);
    check(&[4, 3, 1], 10, &[2, 3, 3]);
    check(&[3, 3, 2], 10, &[2, 3, 3]);
    check(&[4, 4, 0], 10, &[2, 3, 3]);
    check(&[3, 3, 3, 0], 10, &[2, 2, 2, 3]);
    check(&[1, 0, 0], 10, &[0, 0, 1]);
    check(&[0, 0], 10, &[0, 0]);
    check(&[5], 10, &[5]);
}

#[test]
fn what_is_even_enough_is_left_alone() {
    for counts in [[1_000, 1_050, 950], [100, 95, 105], [3, 3, 2], [10, 11, 9]] {
        let mut fleet = Fleet::new(&counts, &[1]);
        fleet.rounds(50);
        assert_eq!(fleet.moved, 0, "{counts:?}");
    }
}

#[test]
fn a_node_that_returns_fills_within_half_a_minute() {
    let mut fleet = Fleet::new(&[7_500, 7_500, 0], &[1]);
    fleet.rounds(30);
    let counts = fleet.counts.clone();
    println!("after 30 rounds {counts:?}, {} moved", fleet.moved);
    assert!(
        counts.iter().all(|count| count.abs_diff(5_000) <= 250),
        "{counts:?}"
    );
    assert!(fleet.moved <= 5_000, "{}", fleet.moved);
}

/// Simulates a round of two nodes with these counts. They see each other and `third`. Returns the
/// number of moves.
fn round_of_two(
    rebalancers: &mut [Rebalancer; 2],
    counts: [u64; 2],
    third: Option<&ServingNode<String>>,
) -> u64 {
    let nodes_seen = [1, 2].map(|incarnation| ServingNode {
        incarnation: Incarnation::new(incarnation),
        address: incarnation.to_string(),
        sessions: counts[incarnation as usize - 1],
    });
    let mut left = 0;
    for (node, rebalancer) in rebalancers.iter_mut().enumerate() {
        let others: Vec<ServingNode<String>> = [Some(&nodes_seen[1 - node]), third]
            .into_iter()
            .flatten()
            .cloned()
            .collect();
        let redirects = rebalancer.round(all(counts[node]), &others);
        left += redirects
            .iter()
            .map(|redirect| redirect.sessions)
            .sum::<u64>();
    }
    left
}

#[test]
fn a_node_that_was_killed_and_is_back_has_its_part_within_seconds() {
    let mut rebalancers = [1, 2].map(|incarnation| Rebalancer::new(Incarnation::new(incarnation)));
    let mut third = ServingNode {
        incarnation: Incarnation::new(3),
        address: "3".into(),
        sessions: 10,
    };
    assert_eq!(round_of_two(&mut rebalancers, [10, 10], Some(&third)), 0);
    // Its clients arrive here before the other nodes notice that it is dead.
    for _ in 0..2 {
        round_of_two(&mut rebalancers, [15, 15], Some(&third));
    }
    assert_eq!(round_of_two(&mut rebalancers, [15, 15], None), 0);
    (third.incarnation, third.sessions) = (Incarnation::new(4), 0);
    let mut counts = [15, 15];
    for _ in 0..6 {
        let mut left = round_of_two(&mut rebalancers, counts, Some(&third));
        third.sessions += left;
        for count in &mut counts {
            let goes = left.min(1);
            (*count, left) = (*count - goes, left - goes);
        }
        assert_eq!(left, 0, "one of each at a time");
    }
    let ends = [counts[0], counts[1], third.sessions];
    assert!(ends.iter().all(|end| end.abs_diff(10) <= 1), "{ends:?}");
}

#[test]
fn a_silent_node_takes_no_clients() {
    let mut rebalancer = Rebalancer::new(Incarnation::new(1));
    let (incarnation, now) = (Incarnation::new(2), Tick::from_nanos(5_000_000_000));
    assert!(!rebalancer.is_reachable(incarnation, now));
    rebalancer.note_announced(incarnation, now);
    assert!(rebalancer.is_reachable(incarnation, now.after(Span::from_secs(2))));
    assert!(!rebalancer.is_reachable(incarnation, now.after(Rebalancer::SILENCE)));
}

#[test]
fn no_clients_are_sent_where_none_are_taken() {
    let mut rebalancer = Rebalancer::new(Incarnation::new(1));
    assert!(rebalancer.round::<String>(all(1_000), &[]).is_empty());
}

/// Checks that sessions are balanced within a minute and do not move from then on. At most a tenth of
/// the required moves, and `in_vain` for each node, may be unnecessary.
fn settles(start: &[u64], ages: &[usize], in_vain: u64) {
    let mut fleet = Fleet::new(start, ages);
    fleet.rounds(60);
    let (counts, moved) = (fleet.counts.clone(), fleet.moved);
    let total: u64 = counts.iter().sum();
    let nodes = counts.len() as u64;
    assert_eq!(total, start.iter().sum::<u64>());
    for count in &counts {
        let off = (count * nodes).abs_diff(total);
        assert!(off <= nodes.max(total / 20), "{counts:?}");
    }
    fleet.rounds(30);
    assert_eq!(fleet.moved, moved, "it is at rest");
    let needed = Fleet::needed(start);
    let most = needed + needed / 10 + in_vain * nodes;
    assert!(moved <= most, "{moved} moved, {needed} needed");
}

/// A node must not send another client because others have sent one.
#[test]
fn where_many_have_one_too_many_each_of_them_sends_one() {
    settles(&[8, 9, 8, 9, 9, 1, 8], &[1], 1);
    settles(&[8, 9, 9, 0, 1], &[1], 1);
    let mut fleet = Fleet::new(&[8, 9, 8, 9, 9, 1, 8], &[1]);
    fleet.rounds(30);
    assert_eq!((fleet.moved, fleet.counts[5]), (6, 7));
}

proptest! {
    #[test]
    fn from_any_start_it_is_even_in_a_minute_and_stays_so(
        start in proptest::collection::vec(prop_oneof![0_u64..12, 0_u64..5_000], 1..8),
        stale in 0_usize..=1,
    ) {
        settles(&start, &[stale], 1);
    }

    #[test]
    fn nodes_of_which_each_has_other_news_settle_as_well(
        start in proptest::collection::vec(prop_oneof![0_u64..12, 0_u64..5_000], 1..8),
        ages in proptest::collection::vec(0_usize..=1, 1..64),
    ) {
        settles(&start, &ages, 1);
    }

    /// Counts that are two rounds old are older than remembered moves, so one more client of each node
    /// may move.
    #[test]
    fn news_two_rounds_old_does_no_harm(
        start in proptest::collection::vec(prop_oneof![0_u64..12, 0_u64..5_000], 1..8),
        ages in proptest::collection::vec(0_usize..=2, 1..64),
    ) {
        settles(&start, &ages, 2);
    }
}
