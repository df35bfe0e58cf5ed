//! What a run was like: who asked for how much, who got it, what it cost.
//!
//! Everything is counted in bins of 100 ms of true time, per key, and in bins
//! of a second per client; figures are made of them for any window.

use aliquot_core::budget::{Budget, Length};
use aliquot_core::share::Kind;

/// The width of a bin in nanoseconds.
pub const BIN: u64 = 100_000_000;
const SEC: u64 = 1_000_000_000;

/// One bucket of the limit as it is written, without drift, that sees everything.
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

/// One bin of a key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bin {
    /// Tokens that were offered to it, first attempts only.
    pub offered: u64,
    /// Tokens that were admitted.
    pub admitted: u64,
    /// Tokens that one ideal bucket would have admitted of the same decisions.
    pub ideal: u64,
    /// Refusals.
    pub refused: u64,
    /// Tokens per second of the limit that was in force when the bin began.
    pub rate: f64,
    /// Its burst, if it is a rate.
    pub burst: f64,
}

/// One key's course.
#[derive(Clone, Debug)]
pub struct KeyCourse {
    /// The key.
    pub key: String,
    /// Tokens per second, as it was first written: of a quota per its period, where
    /// that has a fixed length; of permits their number.
    pub limit: f64,
    /// Whether it is a rate.
    pub is_rate: bool,
    /// Whether it is permits in flight.
    pub is_permits: bool,
    /// Its bins.
    pub bins: Vec<Bin>,
    ideal: Option<Ideal>,
    admitted: u64,
    ideally: u64,
    /// By how many tokens the fleet was ahead of the ideal bucket at most.
    pub ahead: i64,
}

/// Traffic between hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Messages to or from coordinator nodes.
    pub messages: u64,
    /// Their bytes, where they were counted.
    pub bytes: u64,
    /// Messages of clients.
    pub of_clients: u64,
    /// Bytes of clients' messages and of answers to them, where they were counted.
    pub client_bytes: u64,
    /// Entries that were applied.
    pub entries: u64,
}

/// What a run was like.
#[derive(Clone, Debug)]
pub struct Course {
    /// The keys.
    pub keys: Vec<KeyCourse>,
    /// Per client and second: tokens offered and admitted.
    pub clients: Vec<Vec<(u32, u32)>>,
    /// The key of each client.
    pub key_of: Vec<usize>,
    /// Who was in office from when on: true time and node.
    pub offices: Vec<(u64, usize)>,
    /// Who was elected when.
    pub elections: Vec<(u64, usize)>,
    /// Faults that took effect: begin, end, what.
    pub faults: Vec<(u64, u64, String)>,
    /// Messages and entries.
    pub traffic: Traffic,
    /// How far each node's and some clients' clocks were off, once a second, in nanoseconds.
    pub skews: Vec<(String, Vec<i64>)>,
    /// The end of the safety phase, and of everything.
    pub ends: (u64, u64),
}

impl Course {
    pub(crate) fn new(keys: &[(String, Budget)], key_of: Vec<usize>) -> Self {
        let keys = keys
            .iter()
            .map(|(key, budget)| KeyCourse::new(key, budget))
            .collect();
        Self {
            keys,
            clients: vec![Vec::new(); key_of.len()],
            key_of,
            offices: Vec::new(),
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

    pub(crate) fn in_office(&mut self, now: u64, node: usize) {
        self.offices.push((now, node));
    }

    fn slot(&mut self, now: u64, client: usize) -> &mut (u32, u32) {
        let second = (now / SEC) as usize;
        let of = &mut self.clients[client];
        if of.len() <= second {
            of.resize(second + 1, (0, 0));
        }
        &mut of[second]
    }

    /// A request came for the first time. Clones are not counted among clients.
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

impl KeyCourse {
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

    /// The limit as it is written was changed.
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
