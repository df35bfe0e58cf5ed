//! How many sessions go where, so that nodes carry the same.

use aliquot_core::unit::{Incarnation, Span, Tick};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many sessions a life has, and where it takes clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// The life.
    pub life: Incarnation,
    /// Where clients reach it.
    pub address: String,
    /// How many sessions it has, as it said last.
    pub sessions: u64,
}

/// So many clients are to be asked to go on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Where: the address of another node for clients.
    pub address: String,
    /// How many.
    pub sessions: u64,
}

/// Decides, once a second at each node, how many of its clients to send away.
///
/// With `n` nodes that take clients and `T` sessions, the fair part of each is
/// `⌊T/n⌋` or one more, which goes to those who have the most (of equals, to
/// the lowest life). Nothing moves while every node is within
/// `max(1, 5 %)` of the mean `T/n`; once one is not, those above their part
/// send their surplus to those below theirs: surpluses and shortfalls are laid
/// side by side in the order of the lives, so that nodes which know the same
/// never send two clients for one place. A node asks at most a fifth of its
/// surplus in a round, and at most a tenth of its sessions, but at least one: a
/// returning node fills in some 20 s, without a stampede.
///
/// A node knows its own count now, but of others what they said a round or two ago, and a
/// client is nowhere while it goes. Three things keep nodes that know different things from
/// sending many more than is lacked:
///
/// - Who was asked here in the last [`Spread::REMEMBERED`] rounds is counted where it was sent.
///   But who has the most, and so keeps one more, is decided as if they were still here, for
///   that is what others know. If having sent one made a node one of the lesser, it would have
///   to send another, and so would all who had one too many.
/// - `T` is the greatest sum that was seen in [`Spread::TOTALS`] rounds. Who is missing from it
///   was sent by others, and nobody here knows where to: all shortfalls are taken to be smaller
///   in proportion, by so many that they make up just the surpluses that are seen.
/// - What a node sends goes to all its places in proportion, so that it is where others take it
///   to be.
///
/// Where a node comes or goes, its clients were counted twice, there and where they
/// went: then what was remembered is forgotten. A node that was not heard of for [`Spread::SILENCE`]
/// takes no clients.
#[derive(Debug)]
pub struct Spread {
    life: Incarnation,
    asked: VecDeque<Vec<(Incarnation, u64)>>,
    totals: VecDeque<u128>,
    /// The others of the last round.
    others: BTreeSet<Incarnation>,
    /// When each life last said how many sessions it has.
    heard: BTreeMap<Incarnation, Tick>,
}

impl Spread {
    /// Every node says once a second how many sessions it has: one of whom two such sayings are
    /// missing is dead, or cannot be reached from here.
    pub const SILENCE: Span = Span::from_millis(2_500);

    /// So many rounds an ask is counted as done, though nobody has said so: one
    /// to go, and one until the news of it is here.
    pub const REMEMBERED: usize = 2;

    /// So many rounds a client that is counted nowhere is not taken for gone.
    pub const TOTALS: usize = 10;

    /// A node asks at most one in so many of its surplus a round.
    pub const SURPLUS_ONE_IN: u64 = 5;

    /// A node asks at most one in so many of its sessions a round.
    pub const AT_MOST_ONE_IN: u64 = 10;

    /// Out of the band is who is further from the mean than one in so many.
    pub const BAND_ONE_IN: u64 = 20;

    /// Spreads the sessions of the node that lives as `life`.
    #[must_use]
    pub const fn new(life: Incarnation) -> Self {
        Self {
            life,
            asked: VecDeque::new(),
            totals: VecDeque::new(),
            others: BTreeSet::new(),
            heard: BTreeMap::new(),
        }
    }

    /// A life said how many sessions it has.
    pub fn hear(&mut self, life: Incarnation, now: Tick) {
        self.heard
            .retain(|_, at| now.since(*at) < Self::SILENCE.times_or_max(2));
        self.heard.insert(life, now);
    }

    /// Whether a life was heard of lately, so that clients may be sent there.
    #[must_use]
    pub fn hears(&self, life: Incarnation, now: Tick) -> bool {
        let heard = self.heard.get(&life);
        heard.is_some_and(|at| now.since(*at) < Self::SILENCE)
    }

    /// Decides one round. `own` is how many sessions are here now that were not
    /// asked to go ([`Registry::staying`](super::Registry::staying)), `others` what
    /// the other nodes that take clients said of themselves.
    #[must_use]
    pub fn round(&mut self, own: u64, others: &[Seat]) -> Vec<Ask> {
        let addresses: BTreeMap<Incarnation, &str> = others
            .iter()
            .filter(|seat| seat.life != self.life)
            .map(|seat| (seat.life, seat.address.as_str()))
            .collect();
        self.follow(others);
        let total = self.total(own, others);
        let counts = self.counts(own, others);
        let flows = match is_even(&counts, total) {
            true => Vec::new(),
            false => flows(&counts, &parts(&self.as_known(&counts), total)),
        };
        let mine = flows.into_iter().filter(|(from, ..)| *from == self.life);
        let mine: Vec<(Incarnation, u64)> = mine.map(|(_, to, sessions)| (to, sessions)).collect();
        let surplus: u64 = mine.iter().map(|(_, sessions)| sessions).sum();
        let most = (own / Self::AT_MOST_ONE_IN).min(surplus / Self::SURPLUS_ONE_IN);
        let asked = in_proportion(&mine, most.max(1).min(surplus).into());
        let asks = asked.iter().filter_map(|(to, sessions)| {
            let address = (*addresses.get(to)?).to_owned();
            let sessions = *sessions;
            Some(Ask { address, sessions })
        });
        let asks = asks.collect();
        remember(&mut self.asked, asked, Self::REMEMBERED);
        asks
    }

    /// Forgets what was counted with other nodes than these.
    fn follow(&mut self, others: &[Seat]) {
        let others: BTreeSet<Incarnation> = others.iter().map(|seat| seat.life).collect();
        if others != self.others {
            self.others = others;
            self.totals.clear();
        }
    }

    /// How many sessions there are, those that are nowhere now among them.
    fn total(&mut self, own: u64, others: &[Seat]) -> u128 {
        let others = others.iter().map(|seat| u128::from(seat.sessions));
        let total = u128::from(own) + others.sum::<u128>();
        remember(&mut self.totals, total, Self::TOTALS);
        self.totals.iter().copied().max().unwrap_or_default()
    }

    /// How many sessions each will have once who was asked has arrived.
    fn counts(&self, own: u64, others: &[Seat]) -> BTreeMap<Incarnation, u64> {
        let others = others.iter().map(|seat| (seat.life, seat.sessions));
        let mut counts: BTreeMap<Incarnation, u64> = others.collect();
        for (to, sessions) in self.asked.iter().flatten() {
            if let Some(count) = counts.get_mut(to) {
                *count = count.saturating_add(*sessions);
            }
        }
        counts.insert(self.life, own);
        counts
    }

    /// The counts as the others know them: who was asked to go from here is here still.
    fn as_known(&self, counts: &BTreeMap<Incarnation, u64>) -> BTreeMap<Incarnation, u64> {
        let mut known = counts.clone();
        let own = known.entry(self.life).or_default();
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

/// Who sends how many to whom, so that each comes to have its part.
fn flows(
    counts: &BTreeMap<Incarnation, u64>,
    parts: &[u64],
) -> Vec<(Incarnation, Incarnation, u64)> {
    let gaps = |over: fn(u64, u64) -> u64| -> Vec<(Incarnation, u64)> {
        let both = counts.iter().zip(parts);
        both.map(|((&life, &count), &part)| (life, over(count, part)))
            .filter(|(_, gap)| *gap > 0)
            .collect()
    };
    let surpluses = gaps(u64::saturating_sub);
    let lacks = gaps(|count, part| part.saturating_sub(count));
    // What is lacked beyond that is under way.
    let mut places = in_proportion(&lacks, sum(&surpluses).min(sum(&lacks))).into_iter();
    let mut place = places.next();
    let mut flows = Vec::new();
    for (from, mut surplus) in surpluses {
        while surplus > 0
            && let Some((to, room)) = place
        {
            let sessions = surplus.min(room);
            flows.push((from, to, sessions));
            surplus -= sessions;
            place = if room > sessions {
                Some((to, room - sessions))
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

/// `whole`, which is at most the sum of `amounts`, in proportion to them: every sum from the
/// first on is rounded to the nearest, so that all of them are `whole`. Leaves out who has none.
fn in_proportion(amounts: &[(Incarnation, u64)], whole: u128) -> Vec<(Incarnation, u64)> {
    let all = sum(amounts).max(1);
    let (mut before, mut given) = (0_u128, 0);
    let scaled = amounts.iter().map(|&(life, amount)| {
        before += u128::from(amount);
        let here = before.saturating_mul(whole).saturating_add(all / 2) / all;
        let share = here - given;
        given = here;
        (life, u64::try_from(share).unwrap_or(u64::MAX))
    });
    scaled.filter(|(_, share)| *share > 0).collect()
}

/// The fair part of each, in the order of the lives.
fn parts(counts: &BTreeMap<Incarnation, u64>, total: u128) -> Vec<u64> {
    let nodes = counts.len() as u128;
    let (part, more) = (total / nodes.max(1), total % nodes.max(1));
    let mut ranked: Vec<(usize, u64)> = counts.values().copied().enumerate().collect();
    ranked.sort_by_key(|&(index, count)| (u64::MAX - count, index));
    let mut parts = vec![0; counts.len()];
    for (rank, (index, _)) in ranked.into_iter().enumerate() {
        let part = part + u128::from((rank as u128) < more);
        // A mean of 64-bit counts is one too.
        parts[index] = u64::try_from(part).unwrap_or(u64::MAX);
    }
    parts
}

/// Whether everybody is within `max(1, 5 %)` of the mean; all times `n`.
fn is_even(counts: &BTreeMap<Incarnation, u64>, total: u128) -> bool {
    let nodes = counts.len() as u128;
    let band = nodes.max(total / u128::from(Spread::BAND_ONE_IN));
    let mut counts = counts.values().copied().map(u128::from);
    counts.all(|count| (count * nodes).abs_diff(total) <= band)
}
