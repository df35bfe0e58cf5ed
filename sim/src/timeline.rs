//! The timeline of a run: a recording of demand, admissions and traffic over time.
//!
//! Keys are recorded in bins of 100 ms of true time, clients in bins of one second. The figures of any window
//! are computed from these bins.

use aliquot_core::budget::{Budget, Length};
use aliquot_core::share::Kind;

/// The width of a bin in nanoseconds.
pub const BIN: u64 = 100_000_000;
const SEC: u64 = 1_000_000_000;

/// An ideal bucket: a single bucket with the configured limit that decides every request, on a clock without
/// drift.
#[derive(Clone, Copy, Debug)]
struct Ideal {
    at: u64,
    level: f64,
    rate: f64,
    burst: f64,
}

impl Ideal {
    fn offer(&mut self, now: u64, cost: f64) -> bool {
        self.advance(now);
        let covered = self.level >= cost;
        if covered {
            self.level -= cost;
        }
        covered
    }

    fn advance(&mut self, now: u64) {
        let made = (now - self.at) as f64 / 1e9 * self.rate;
        (self.level, self.at) = ((self.level + made).min(self.burst), now);
    }
}

/// A bin of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bin {
    /// Tokens requested, first attempts only.
    pub offered: u64,
    /// Tokens admitted.
    pub admitted: u64,
    /// Tokens that the ideal bucket would have admitted for the same requests.
    pub ideal: u64,
    /// Requests refused.
    pub refused: u64,
    /// Tokens per second of the limit in force when the bin began.
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
    ideal: Option<Ideal>,
    admitted: u64,
    ideally: u64,
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
    pub(crate) fn new(keys: &[(String, Budget)], key_of: Vec<usize>) -> Self {
        let keys = keys
            .iter()
            .map(|(key, budget)| KeyTimeline::new(key, budget))
            .collect();
        Self {
            keys,
            clients: vec![Vec::new(); key_of.len()],
            key_of,
            ready_leaders: Vec::new(),
            elections: Vec::new(),
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

    fn slot(&mut self, now: u64, client: usize) -> &mut (u32, u32) {
        let second = (now / SEC) as usize;
        let of = &mut self.clients[client];
        if of.len() <= second {
            of.resize(second + 1, (0, 0));
        }
        &mut of[second]
    }

    /// Records a first attempt of a request. Clones are not counted among the clients.
    pub(crate) fn offered(&mut self, now: u64, client: usize, cost: u64) {
        if client >= self.clients.len() {
            return;
        }
        let key = self.key_of[client];
        self.keys[key].bin(now).offered += cost;
        self.slot(now, client).0 += cost as u32;
    }

    pub(crate) fn admitted(&mut self, now: u64, client: usize, cost: u64) {
        let key = self.key_of.get(client).copied().unwrap_or(0);
        if client < self.clients.len() {
            self.slot(now, client).1 += cost as u32;
        }
        self.keys[key].decided(now, cost, true);
    }

    pub(crate) fn refused(&mut self, now: u64, client: usize, cost: u64) {
        let key = self.key_of.get(client).copied().unwrap_or(0);
        self.keys[key].decided(now, cost, false);
    }
}

impl KeyTimeline {
    fn new(key: &str, budget: &Budget) -> Self {
        let grains = budget.scale().grains_per_token() as f64;
        let whole = budget.whole();
        let (rate, burst) = (
            whole.rate.grains() as f64 / grains,
            whole.burst.grains() as f64 / grains,
        );
        let is_rate = budget.kind() == Kind::Rate;
        let limit = match budget.kind() {
            Kind::Rate => rate,
            Kind::Quota => match budget.period().map(|period| period.length()) {
                Some(Length::Fixed(span)) => {
                    whole.tokens.grains() as f64 / grains * 1e9 / span.nanos() as f64
                }
                _ => 0.0,
            },
            Kind::Concurrency => burst,
        };
        Self {
            key: key.to_owned(),
            limit,
            is_rate,
            is_permits: budget.kind() == Kind::Concurrency,
            bins: Vec::new(),
            ideal: is_rate.then_some(Ideal {
                at: 0,
                level: burst,
                rate,
                burst,
            }),
            admitted: 0,
            ideally: 0,
            ahead: 0,
        }
    }

    /// Records that the configured limit was changed.
    pub(crate) fn change(&mut self, now: u64, budget: &Budget) {
        let grains = budget.scale().grains_per_token() as f64;
        let whole = budget.whole();
        self.bin(now);
        if let Some(ideal) = &mut self.ideal {
            ideal.advance(now);
            ideal.rate = whole.rate.grains() as f64 / grains;
            ideal.burst = whole.burst.grains() as f64 / grains;
            ideal.level = ideal.level.min(ideal.burst);
        }
    }

    fn bin(&mut self, now: u64) -> &mut Bin {
        let index = (now / BIN) as usize;
        if self.bins.len() <= index {
            let rate = self.ideal.map_or(self.limit, |ideal| ideal.rate);
            let burst = self.ideal.map_or(0.0, |ideal| ideal.burst);
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

    fn decided(&mut self, now: u64, cost: u64, admitted: bool) {
        let ideally = self
            .ideal
            .as_mut()
            .map_or(admitted, |ideal| ideal.offer(now, cost as f64));
        let bin = self.bin(now);
        if admitted {
            bin.admitted += cost;
        } else {
            bin.refused += 1;
        }
        if ideally {
            bin.ideal += cost;
            self.ideally += cost;
        }
        if admitted {
            self.admitted += cost;
            self.ahead = self.ahead.max(self.admitted as i64 - self.ideally as i64);
        }
    }
}
