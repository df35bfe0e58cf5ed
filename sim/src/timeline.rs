//! The timeline of a run: a recording of demand, admissions and traffic over time.
//!
//! Keys are recorded in bins of 100 ms of true time, clients in bins of one second. The figures of any window
//! are computed from these bins.

use crate::ideal::{Ideal, Use, Wanted, amounts};
use aliquot_core::budget::Budget;
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

/// The recording of one key.
#[derive(Clone, Debug)]
pub struct KeyTimeline {
    /// The key.
    pub key: String,
    /// Tokens per second of the limit as first configured. For a quota: its tokens divided by its period, or
    /// 0 if the period's length varies. For permits: their number.
    pub limit: f64,
    /// True if the budget is a rate.
    pub is_rate: bool,
    /// True if the budget limits permits in flight.
    pub is_permits: bool,
    /// The bins, from the start of the run.
    pub bins: Vec<Bin>,
    /// Periods of a quota: their begin in nanoseconds of true time, and their tokens.
    pub periods: Vec<(u64, f64)>,
    ideal: Ideal,
    /// The limit in force: tokens per second and burst, see [`amounts`].
    amounts: (f64, f64),
    admitted: u64,
    ideally: f64,
    /// Maximum number of tokens by which the fleet was ahead of the ideal bucket.
    pub ahead: i64,
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
    /// The keys.
    pub keys: Vec<KeyTimeline>,
    /// Tokens requested and admitted, by client and second.
    pub clients: Vec<Vec<(u32, u32)>>,
    /// Index of each client's key in `keys`.
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
    /// Has the name, the budget and the most tokens waited for of each key.
    pub(crate) fn new(keys: &[(String, Budget, f64)], key_of: Vec<usize>) -> Self {
        let keys = keys
            .iter()
            .map(|(key, budget, queue)| KeyTimeline::new(key, budget, *queue))
            .collect();
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

    /// Records an admission of a key; clones are not counted among the clients.
    pub(crate) fn admitted(&mut self, now: u64, key: usize, client: Option<usize>, cost: u64) {
        if let Some(client) = client.filter(|client| *client < self.clients.len()) {
            self.slot(now, client).1 += cost as u32;
        }
        self.keys[key].admitted(now, cost);
    }

    pub(crate) fn refused(&mut self, now: u64, key: usize) {
        self.keys[key].bin(now).refused += 1;
    }
}

impl KeyTimeline {
    fn new(key: &str, budget: &Budget, queue: f64) -> Self {
        Self {
            key: key.to_owned(),
            limit: amounts(budget).0,
            is_rate: budget.kind() == Kind::Rate,
            is_permits: budget.kind() == Kind::Concurrency,
            bins: Vec::new(),
            periods: Vec::new(),
            ideal: Ideal::new(budget, queue),
            amounts: amounts(budget),
            admitted: 0,
            ideally: 0.0,
            ahead: 0,
        }
    }

    /// Records what callers want. The ideal limiter decides it.
    pub(crate) fn wanted(&mut self, now: u64, wanted: Wanted) {
        self.ideal.offer(now, wanted);
        self.note_ideal(now);
    }

    /// Records that the configured limit was changed.
    pub(crate) fn change(&mut self, now: u64, budget: &Budget) {
        self.bin(now);
        self.ideal.change(now, budget);
        self.amounts = amounts(budget);
    }

    /// Records that a period of a quota began.
    pub(crate) fn begin_period(&mut self, now: u64) {
        self.periods.push((now, self.amounts.1));
        self.ideal.begin_period(now);
        self.note_ideal(now);
    }

    /// Records the permits in flight, for the `span` before `now`.
    pub(crate) fn held(&mut self, now: u64, permits: usize, span: u64) {
        self.bin(now.saturating_sub(1)).held += permits as f64 * span as f64 / BIN as f64;
    }

    /// Returns what the fleet used in the whole run, and what the ideal limiter did.
    pub(crate) fn totals(&mut self, now: u64) -> (Use, Use) {
        self.ideal.advance(now);
        self.note_ideal(now);
        let held: f64 = self.bins.iter().map(|bin| bin.held).sum();
        let used = Use {
            tokens: self.admitted as f64,
            held: held * BIN as f64 / 1e9,
        };
        let ideal = Use {
            tokens: self.ideally,
            held: self.ideal.take_held(),
        };
        (used, ideal)
    }

    fn note_ideal(&mut self, now: u64) {
        let used = self.ideal.take_used();
        self.bin(now).ideal += used;
        self.ideally += used;
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

    fn admitted(&mut self, now: u64, cost: u64) {
        self.ideal.advance(now);
        self.note_ideal(now);
        self.bin(now).admitted += cost;
        self.admitted += cost;
        self.ahead = self.ahead.max(self.admitted as i64 - self.ideally as i64);
    }
}
