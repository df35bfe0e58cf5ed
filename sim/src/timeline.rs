//! The timeline of a run: a recording of demand, admissions and traffic over time.
//!
//! Keys are recorded in bins of 100 ms of true time, clients in bins of one second. The figures of any window
//! are computed from these bins.

use crate::ideal::{Ideal, Use, Wanted, amounts};
use crate::keys::Keys;
use aliquot_core::budget::{Budget, Key};
use aliquot_core::share::Kind;

/// The width of a bin in nanoseconds.
pub const BIN: u64 = 100_000_000;
const SEC: u64 = 1_000_000_000;

/// A bin of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bin {
    /// Tokens requested, first attempts only.
    pub offered: u64,
    /// Tokens admitted.
    pub admitted: u64,
    /// Tokens that one ideal limiter would have admitted of everything that callers wanted.
    pub ideal: f64,
    /// Requests refused.
    pub refused: u64,
    /// Permits in flight, on average.
    pub held: f64,
    /// Tokens per second of the limit in force when the bin began; for permits, their number.
    pub rate: f64,
    /// Burst of that limit; 0 if the budget is not a rate.
    pub burst: f64,
}

/// The recording of one key, or of the keys of a template that a group uses together.
#[derive(Clone, Debug)]
pub struct KeyTimeline {
    /// The key, or the pattern of the keys.
    pub key: String,
    /// Tokens per second of the limit as first configured. For a quota: its tokens divided by its period, or
    /// 0 if the period's length varies. For permits: their number. Of several keys: the sum.
    pub limit: f64,
    /// True if the budget is a rate.
    pub is_rate: bool,
    /// True if the budget limits permits in flight.
    pub is_permits: bool,
    /// The bins, from the start of the run.
    pub bins: Vec<Bin>,
    /// Periods of a quota: their begin in nanoseconds of true time, and their tokens. Not recorded of several keys,
    /// whose periods begin at different times.
    pub periods: Vec<(u64, f64)>,
    /// The limit in force: tokens per second and burst, see [`amounts`]. Of several keys: the sum.
    amounts: (f64, f64),
    /// The keys that are recorded here.
    pub members: Vec<Member>,
    /// Maximum number of tokens by which the fleet was ahead of the ideal bucket of any key.
    pub ahead: i64,
}

/// One key of a recording.
#[derive(Clone, Debug)]
pub struct Member {
    /// The key.
    pub key: String,
    ideal: Ideal,
    /// The limit in force: tokens per second and burst, see [`amounts`].
    amounts: (f64, f64),
    admitted: u64,
    ideally: f64,
    /// Tokens admitted, and those that one ideal limiter would have admitted, by second. Recorded only of a key that
    /// shares its recording with others.
    seconds: Vec<(f32, f32)>,
}

/// Traffic between hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Messages to or from coordinator nodes.
    pub messages: u64,
    /// Bytes of these messages, if bytes were counted.
    pub bytes: u64,
    /// Messages sent by clients.
    pub of_clients: u64,
    /// Bytes of messages from and to clients, if bytes were counted.
    pub client_bytes: u64,
    /// Log entries applied.
    pub entries: u64,
}

/// The recording of a run.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// The keys. Those that a group uses together are one recording.
    pub keys: Vec<KeyTimeline>,
    /// Tokens requested and admitted, by client and second.
    pub clients: Vec<Vec<(u32, u32)>>,
    /// Index of each client's key, or keys, in `keys`.
    pub key_of: Vec<usize>,
    /// True times at which a node became the ready leader, with the node. A leader is ready once it has
    /// applied an entry of its own term.
    pub ready_leaders: Vec<(u64, usize)>,
    /// True times of elections, with the elected node.
    pub elections: Vec<(u64, usize)>,
    /// Number of clients that should have a lease and have none, with the true time from which on it is that.
    pub unleased: Vec<(u64, u32)>,
    /// Nodes of which a former process is still booked, with the true time from which on they are these.
    pub lingering: Vec<(u64, Vec<usize>)>,
    /// True times of reclaims, with the node of the reclaimed process.
    pub reclaims: Vec<(u64, usize)>,
    /// Faults that took effect: begin, end, description.
    pub faults: Vec<(u64, u64, String)>,
    /// Messages and log entries.
    pub traffic: Traffic,
    /// Clock errors of every node and of some clients, sampled once a second, in nanoseconds. Counted from
    /// the first sample.
    pub skews: Vec<(String, Vec<i64>)>,
    /// The end of the safety phase, and the end of the run.
    pub ends: (u64, u64),
}

impl Timeline {
    /// `queues` has the most tokens waited for of each key, `key_of` the recording of each client's keys.
    pub(crate) fn new(keys: &Keys, queues: &[f64], key_of: Vec<usize>) -> Self {
        let row = |name: &String| KeyTimeline {
            key: name.clone(),
            limit: 0.0,
            is_rate: false,
            is_permits: false,
            bins: Vec::new(),
            periods: Vec::new(),
            amounts: (0.0, 0.0),
            members: Vec::new(),
            ahead: 0,
        };
        let mut rows: Vec<KeyTimeline> = keys.rows.iter().map(row).collect();
        for (index, &(row, _)) in keys.places.iter().enumerate() {
            rows[row].add(&keys.keys[index], &keys.budgets[index], queues[index]);
        }
        let keys = rows;
        Self {
            keys,
            clients: vec![Vec::new(); key_of.len()],
            key_of,
            ready_leaders: Vec::new(),
            elections: Vec::new(),
            unleased: Vec::new(),
            lingering: Vec::new(),
            reclaims: Vec::new(),
            faults: Vec::new(),
            traffic: Traffic::default(),
            skews: Vec::new(),
            ends: (0, 0),
        }
    }

    pub(crate) fn elected(&mut self, now: u64, node: usize) {
        self.elections.push((now, node));
    }

    pub(crate) fn became_ready(&mut self, now: u64, node: usize) {
        self.ready_leaders.push((now, node));
    }

    /// Records the clients without a lease, and the nodes of which a former process is still booked.
    pub(crate) fn inspected(&mut self, now: u64, unleased: usize, lingering: &[usize]) {
        let unleased = unleased as u32;
        if self.unleased.last().map_or(0, |last| last.1) != unleased {
            self.unleased.push((now, unleased));
        }
        if self
            .lingering
            .last()
            .map_or(&[][..], |last| last.1.as_slice())
            != lingering
        {
            self.lingering.push((now, lingering.to_vec()));
        }
    }

    fn slot(&mut self, now: u64, client: usize) -> &mut (u32, u32) {
        let second = (now / SEC) as usize;
        let of = &mut self.clients[client];
        if of.len() <= second {
            of.resize(second + 1, (0, 0));
        }
        &mut of[second]
    }

    /// Records a first attempt of a request of a client.
    pub(crate) fn offered(&mut self, now: u64, client: usize, cost: u64) {
        let key = self.key_of[client];
        self.keys[key].bin(now).offered += cost;
        self.slot(now, client).0 += cost as u32;
    }

    /// Records an admission of a key, by its recording and its place in it. Clones are not counted among the clients.
    pub(crate) fn admitted(
        &mut self,
        now: u64,
        (row, place): (usize, usize),
        client: Option<usize>,
        cost: u64,
    ) {
        if let Some(client) = client.filter(|client| *client < self.clients.len()) {
            self.slot(now, client).1 += cost as u32;
        }
        self.keys[row].admitted(now, place, cost);
    }

    pub(crate) fn refused(&mut self, now: u64, key: usize) {
        self.keys[key].bin(now).refused += 1;
    }
}

impl KeyTimeline {
    fn add(&mut self, key: &Key, budget: &Budget, queue: f64) {
        let amounts = amounts(budget);
        if self.members.is_empty() {
            self.is_rate = budget.kind() == Kind::Rate;
            self.is_permits = budget.kind() == Kind::Concurrency;
        }
        self.limit += amounts.0;
        self.amounts = (self.amounts.0 + amounts.0, self.amounts.1 + amounts.1);
        self.members.push(Member {
            key: key.to_string(),
            ideal: Ideal::new(budget, queue),
            amounts,
            admitted: 0,
            ideally: 0.0,
            seconds: Vec::new(),
        });
    }

    /// Returns true if several keys are recorded together.
    #[must_use]
    pub const fn is_many(&self) -> bool {
        self.members.len() > 1
    }

    /// Returns true if the ideal limiter of a key would admit a request.
    pub(crate) fn has(&mut self, now: u64, place: usize, wanted: Wanted) -> bool {
        let has = self.members[place].ideal.has(now, wanted);
        self.note_ideal(now, place);
        has
    }

    /// Records what callers want of a key. The ideal limiter decides it.
    pub(crate) fn wanted(&mut self, now: u64, place: usize, wanted: Wanted) {
        self.members[place].ideal.offer(now, wanted);
        self.note_ideal(now, place);
    }

    /// Records that the configured limit of a key was changed.
    pub(crate) fn change(&mut self, now: u64, place: usize, budget: &Budget) {
        self.bin(now);
        let member = &mut self.members[place];
        member.ideal.change(now, budget);
        let (new, old) = (
            amounts(budget),
            std::mem::replace(&mut member.amounts, amounts(budget)),
        );
        self.amounts.0 += new.0 - old.0;
        self.amounts.1 += new.1 - old.1;
    }

    /// Records that a period of a quota began.
    pub(crate) fn begin_period(&mut self, now: u64, place: usize) {
        if !self.is_many() {
            self.periods.push((now, self.amounts.1));
        }
        self.members[place].ideal.begin_period(now);
        self.note_ideal(now, place);
    }

    /// Records the permits in flight, for the `span` before `now`.
    pub(crate) fn held(&mut self, now: u64, permits: usize, span: u64) {
        self.bin(now.saturating_sub(1)).held += permits as f64 * span as f64 / BIN as f64;
    }

    /// Returns what the fleet used of a key in the whole run, and what the ideal limiter did.
    pub(crate) fn totals(&mut self, now: u64, place: usize) -> (Use, Use) {
        self.members[place].ideal.advance(now);
        self.note_ideal(now, place);
        // Of several keys, the time for which permits are held is not recorded one by one.
        let held: f64 = match self.is_many() {
            true => 0.0,
            false => self.bins.iter().map(|bin| bin.held).sum(),
        };
        let many = self.is_many();
        let member = &mut self.members[place];
        let used = Use {
            tokens: member.admitted as f64,
            held: held * BIN as f64 / 1e9,
        };
        let ideal_held = member.ideal.take_held();
        let ideal = Use {
            tokens: member.ideally,
            held: if many { 0.0 } else { ideal_held },
        };
        (used, ideal)
    }

    fn note_ideal(&mut self, now: u64, place: usize) {
        let many = self.is_many();
        let member = &mut self.members[place];
        let used = member.ideal.take_used();
        member.ideally += used;
        if many && used > 0.0 {
            member.second(now).1 += used as f32;
        }
        self.bin(now).ideal += used;
    }

    fn bin(&mut self, now: u64) -> &mut Bin {
        let index = (now / BIN) as usize;
        if self.bins.len() <= index {
            let (rate, burst) = self.amounts;
            let burst = if self.is_rate { burst } else { 0.0 };
            self.bins.resize(
                index + 1,
                Bin {
                    rate,
                    burst,
                    ..Bin::default()
                },
            );
        }
        &mut self.bins[index]
    }

    fn admitted(&mut self, now: u64, place: usize, cost: u64) {
        self.members[place].ideal.advance(now);
        self.note_ideal(now, place);
        self.bin(now).admitted += cost;
        let many = self.is_many();
        let member = &mut self.members[place];
        member.admitted += cost;
        if many {
            member.second(now).0 += cost as f32;
        }
        let ahead = member.admitted as i64 - member.ideally as i64;
        self.ahead = self.ahead.max(ahead);
    }
}

impl Member {
    fn second(&mut self, now: u64) -> &mut (f32, f32) {
        let second = (now / SEC) as usize;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, (0.0, 0.0));
        }
        &mut self.seconds[second]
    }

    /// Returns the tokens admitted in every second that overlaps a window, and those that one ideal limiter would
    /// have admitted. Zero of a key with a recording of its own.
    #[must_use]
    pub fn admitted_and_ideal(&self, from: u64, to: u64) -> (f64, f64) {
        let (from, to) = ((from / SEC) as usize, to.div_ceil(SEC) as usize);
        let last = self.seconds.len();
        let seconds = self.seconds.get(from.min(last)..to.min(last));
        let seconds = seconds.unwrap_or_default().iter();
        seconds.fold((0.0, 0.0), |sum, (admitted, ideal)| {
            (sum.0 + f64::from(*admitted), sum.1 + f64::from(*ideal))
        })
    }
}

#[cfg(test)]
#[path = "../tests/unit/timeline.rs"]
mod tests;
