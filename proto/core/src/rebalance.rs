//! Balancing of sessions between nodes.

use crate::planted::{self, Bug};
use crate::unit::{Incarnation, Span, Tick};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

/// A node that takes clients, as it described itself last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingNode<A> {
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// Address at which clients reach it.
    pub address: A,
    /// Number of its sessions.
    pub sessions: u64,
}

/// A number of clients to move to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect<A> {
    /// Client address of the other node.
    pub address: A,
    /// Number of clients.
    pub sessions: u64,
}

/// The sessions of a node that are not about to move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnSessions {
    /// Number of all of them: those asked to move in the last [`Rebalancer::GOES_WITHIN`] are left out.
    pub staying: u64,
    /// Number of those that may be asked now and hold no permits: those asked to move in the last
    /// [`Rebalancer::ASK_AGAIN`] are left out.
    pub without_permits: u64,
}

/// Decides, once a second at each node, how many of its clients to move to which nodes.
///
/// With `n` nodes that take clients and `T` sessions, the fair part of each node is `⌊T/n⌋`, or one
/// more for those that have the most (of equals, for the lowest incarnation). While every node is
/// within `max(1, 5 %)` of the mean `T/n`, nothing moves. Otherwise the nodes above their part send
/// their surplus to those below theirs. Surpluses and shortfalls are matched in the order of the
/// incarnations, so that nodes with the same knowledge never send two clients to one place. In a round,
/// a node moves at most a fifth of its surplus and at most a tenth of its sessions, but at least one. A
/// returning node thus fills in about 20 s, without a stampede.
///
/// A node knows its own count at once, but other counts only as of a round or two ago. A client that is
/// moving is counted by no node. Three rules keep nodes with different knowledge from sending too many:
///
/// - Clients asked to move in the last [`Rebalancer::REMEMBERED`] rounds are counted at their target. But
///   the choice of the nodes that keep one more is made as if these clients were still here, because
///   this is what the other nodes know. Otherwise a node that had just sent one client would rank lower
///   and have to send another, and so would all nodes that had one too many.
/// - `T` is the greatest sum of the last [`Rebalancer::TOTALS`] rounds. Sessions missing from the sum were
///   sent by other nodes to unknown targets. All shortfalls are therefore reduced in proportion, until
///   they match the surpluses that are seen.
/// - A node splits what it sends over all its targets in proportion, which is what the other nodes
///   assume.
///
/// Permits that a moving client has in flight stay booked at its former node until their maximum hold is over,
/// because that node does not learn of their release. So a client that holds permits is moved last, and only from a
/// node that has more than [`Rebalancer::CROWDED_PERCENT`] of the mean: an uneven number of sessions costs
/// some work, a permit that stays booked is missing to the whole fleet.
///
/// When a node comes or goes, its clients have been counted twice, there and at their new node. The
/// remembered sums are dropped then. A node that was not heard from for [`Rebalancer::SILENCE`] takes no
/// clients.
#[derive(Debug)]
pub struct Rebalancer {
    incarnation: Incarnation,
    asked: VecDeque<Vec<(Incarnation, u64)>>,
    totals: VecDeque<u128>,
    /// The other nodes of the last round.
    others: BTreeSet<Incarnation>,
    /// Time at which each incarnation last announced its number of sessions.
    heard: BTreeMap<Incarnation, Tick>,
}

impl Rebalancer {
    /// Time after which a node counts as dead or unreachable. Each node announces its number of
    /// sessions once a second, so that two announcements are missing by then.
    pub const SILENCE: Span = Span::from_millis(2_500);

    /// Number of rounds for which clients that were asked to move are counted at their target, without
    /// confirmation: one for the move, and one until the announcement arrives.
    pub const REMEMBERED: usize = 2;

    /// Number of rounds after which a session that no node counts is taken to be gone.
    pub const TOTALS: usize = 10;

    /// In a round, a node moves at most one in this many of its surplus.
    pub const SURPLUS_ONE_IN: u64 = 5;

    /// In a round, a node moves at most one in this many of its sessions.
    pub const AT_MOST_ONE_IN: u64 = 10;

    /// Time after which a client that was asked to move counts as staying: it could not move.
    pub const GOES_WITHIN: Span = Span::from_secs(3);

    /// Time for which a client that was asked to move, and stayed, is not asked again.
    pub const ASK_AGAIN: Span = Span::from_secs(30);

    /// A node moves clients that hold permits if it has more than this many percent of the mean. A third of all
    /// nodes may so stay empty after a restart, and one of two gets a quarter of all clients at least.
    pub const CROWDED_PERCENT: u64 = 150;

    /// A node is out of balance if it is further from the mean than one in this many.
    pub const BAND_ONE_IN: u64 = 20;

    /// Creates the balancing state of a node in this incarnation.
    #[must_use]
    pub const fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            asked: VecDeque::new(),
            totals: VecDeque::new(),
            others: BTreeSet::new(),
            heard: BTreeMap::new(),
        }
    }

    /// Notes that an incarnation announced its number of sessions.
    pub fn note_announced(&mut self, incarnation: Incarnation, now: Tick) {
        self.heard
            .retain(|_, at| now.since(*at) < Self::SILENCE.times_or_max(2));
        self.heard.insert(incarnation, now);
    }

    /// Returns true if an incarnation was heard from lately, so that clients may be sent there.
    #[must_use]
    pub fn is_reachable(&self, incarnation: Incarnation, now: Tick) -> bool {
        let heard = self.heard.get(&incarnation);
        heard.is_some_and(|at| now.since(*at) < Self::SILENCE)
    }

    /// Decides one round. `others` are the other nodes that take clients, as they described themselves.
    #[must_use]
    pub fn round<A: Clone>(
        &mut self,
        sessions: OwnSessions,
        others: &[ServingNode<A>],
    ) -> Vec<Redirect<A>> {
        let own = sessions.staying;
        let addresses: BTreeMap<Incarnation, &A> = others
            .iter()
            .filter(|node| node.incarnation != self.incarnation)
            .map(|node| (node.incarnation, &node.address))
            .collect();
        self.follow(others);
        let total = self.total(own, others);
        let counts = self.counts(own, others);
        let flows = match is_even(&counts, total) {
            true => Vec::new(),
            false => flows(&counts, &parts(&self.as_known(&counts), total)),
        };
        let mine = flows
            .into_iter()
            .filter(|(from, ..)| *from == self.incarnation);
        let mine: Vec<(Incarnation, u64)> = mine.map(|(_, to, sessions)| (to, sessions)).collect();
        let surplus: u64 = mine.iter().map(|(_, sessions)| sessions).sum();
        let part = |of: u64, one_in: u64| of.checked_div(one_in).unwrap_or(0);
        let most = part(own, Self::AT_MOST_ONE_IN).min(part(surplus, Self::SURPLUS_ONE_IN));
        let movable = match is_crowded(&counts, own, total) || planted::is(Bug::PermitsMoved) {
            true => own,
            false => sessions.without_permits,
        };
        let asked = in_proportion(&mine, most.max(1).min(surplus).min(movable).into());
        let redirects = asked.iter().filter_map(|(to, sessions)| {
            let address = (*addresses.get(to)?).clone();
            let sessions = *sessions;
            Some(Redirect { address, sessions })
        });
        let redirects = redirects.collect();
        remember(&mut self.asked, asked, Self::REMEMBERED);
        redirects
    }

    /// Drops the remembered sums if the set of other nodes has changed.
    fn follow<A>(&mut self, others: &[ServingNode<A>]) {
        let others: BTreeSet<Incarnation> = others.iter().map(|node| node.incarnation).collect();
        if others != self.others {
            self.others = others;
            self.totals.clear();
        }
    }

    /// Returns the number of all sessions, including those that are moving.
    fn total<A>(&mut self, own: u64, others: &[ServingNode<A>]) -> u128 {
        let others = others.iter().map(|node| u128::from(node.sessions));
        let total = u128::from(own).saturating_add(others.sum::<u128>());
        remember(&mut self.totals, total, Self::TOTALS);
        self.totals.iter().copied().max().unwrap_or_default()
    }

    /// Returns the number of sessions of each node once the clients that were asked to move have
    /// arrived.
    fn counts<A>(&self, own: u64, others: &[ServingNode<A>]) -> BTreeMap<Incarnation, u64> {
        let others = others.iter().map(|node| (node.incarnation, node.sessions));
        let mut counts: BTreeMap<Incarnation, u64> = others.collect();
        for (to, sessions) in self.asked.iter().flatten() {
            if let Some(count) = counts.get_mut(to) {
                *count = count.saturating_add(*sessions);
            }
        }
        counts.insert(self.incarnation, own);
        counts
    }

    /// Returns the counts as the other nodes know them: clients that were asked to move are still
    /// counted here.
    fn as_known(&self, counts: &BTreeMap<Incarnation, u64>) -> BTreeMap<Incarnation, u64> {
        let mut known = counts.clone();
        let own = known.entry(self.incarnation).or_default();
        for (_, sessions) in self.asked.iter().flatten() {
            *own = own.saturating_add(*sessions);
        }
        known
    }
}

fn remember<T>(rounds: &mut VecDeque<T>, round: T, most: usize) {
    rounds.push_back(round);
    if rounds.len() > most {
        rounds.pop_front();
    }
}

/// Returns the moves (from, to, number of sessions) that give each node its part.
fn flows(
    counts: &BTreeMap<Incarnation, u64>,
    parts: &[u64],
) -> Vec<(Incarnation, Incarnation, u64)> {
    let gaps = |over: fn(u64, u64) -> u64| -> Vec<(Incarnation, u64)> {
        let both = counts.iter().zip(parts);
        both.map(|((&incarnation, &count), &part)| (incarnation, over(count, part)))
            .filter(|(_, gap)| *gap > 0)
            .collect()
    };
    let surpluses = gaps(u64::saturating_sub);
    let lacks = gaps(|count, part| part.saturating_sub(count));
    // A shortfall beyond the surpluses is made up of clients that are moving already.
    let mut places = in_proportion(&lacks, sum(&surpluses).min(sum(&lacks))).into_iter();
    let mut place = places.next();
    let mut flows = Vec::new();
    for (from, mut surplus) in surpluses {
        while surplus > 0
            && let Some((to, room)) = place
        {
            let sessions = surplus.min(room);
            flows.push((from, to, sessions));
            surplus = surplus.saturating_sub(sessions);
            place = if room > sessions {
                Some((to, room.saturating_sub(sessions)))
            } else {
                places.next()
            };
        }
    }
    flows
}

fn sum(amounts: &[(Incarnation, u64)]) -> u128 {
    amounts.iter().map(|(_, amount)| u128::from(*amount)).sum()
}

/// Splits `whole`, which is at most the sum of `amounts`, in proportion to them. The running sums are
/// rounded to the nearest, so that the result adds up to `whole`. Leaves out those that get nothing.
fn in_proportion(amounts: &[(Incarnation, u64)], whole: u128) -> Vec<(Incarnation, u64)> {
    let all = sum(amounts).max(1);
    let (mut before, mut given) = (0_u128, 0);
    let scaled = amounts.iter().map(|&(incarnation, amount)| {
        before = before.saturating_add(u128::from(amount));
        let half = all.div_euclid(2);
        let here = before.saturating_mul(whole).saturating_add(half);
        let here = here.checked_div(all).unwrap_or(0);
        let share = here.saturating_sub(given);
        given = here;
        (incarnation, u64::try_from(share).unwrap_or(u64::MAX))
    });
    scaled.filter(|(_, share)| *share > 0).collect()
}

/// Returns the fair part of each node, in the order of the incarnations.
fn parts(counts: &BTreeMap<Incarnation, u64>, total: u128) -> Vec<u64> {
    let nodes = number_of(counts);
    let part = total.checked_div(nodes).unwrap_or(0);
    let more = total.checked_rem(nodes).unwrap_or(0);
    let mut ranked: Vec<(Incarnation, u64)> =
        counts.iter().map(|(of, count)| (*of, *count)).collect();
    ranked.sort_by_key(|&(of, count)| (core::cmp::Reverse(count), of));
    let ranked = ranked.into_iter().zip(0_u128..);
    let parts: BTreeMap<Incarnation, u64> = ranked
        .map(|((of, _), rank)| {
            let part = part.saturating_add(u128::from(rank < more));
            // A mean of 64-bit counts fits into 64 bits.
            (of, u64::try_from(part).unwrap_or(u64::MAX))
        })
        .collect();
    parts.into_values().collect()
}

/// Returns true if a node has so many sessions that clients that hold permits are moved, too.
fn is_crowded(counts: &BTreeMap<Incarnation, u64>, own: u64, total: u128) -> bool {
    let most = total.saturating_mul(Rebalancer::CROWDED_PERCENT.into());
    let own = u128::from(own).saturating_mul(number_of(counts));
    own.saturating_mul(100) > most
}

/// Returns true if all nodes are within `max(1, 5 %)` of the mean. Both sides are multiplied by `n`.
fn is_even(counts: &BTreeMap<Incarnation, u64>, total: u128) -> bool {
    let nodes = number_of(counts);
    let one_in = u128::from(Rebalancer::BAND_ONE_IN);
    let band = nodes.max(total.checked_div(one_in).unwrap_or(0));
    let mut counts = counts.values().copied().map(u128::from);
    counts.all(|count| count.saturating_mul(nodes).abs_diff(total) <= band)
}

fn number_of(counts: &BTreeMap<Incarnation, u64>) -> u128 {
    u128::try_from(counts.len()).unwrap_or(u128::MAX)
}

#[cfg(test)]
#[path = "../tests/unit/rebalance.rs"]
mod tests;
