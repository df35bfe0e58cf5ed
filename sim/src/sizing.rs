//! Sizes limits by recorded requests: the rates and bursts with which a token bucket refuses at most a stated part of
//! them, and how a simulated fleet does with these.
//!
//! | file | contents |
//! |---|---|
//! | `bucket` | one token bucket, in exact arithmetic |
//! | `rate` | rates that people write, and the grid of candidates |
//! | `window` | the busiest part of a record |
//! | `fleet` | the simulated fleet with the recorded requests as its load |

mod bucket;
mod fleet;
mod rate;
mod window;

pub use bucket::{Request, least_burst, refusals};
pub use fleet::{Confirmed, Fleet};
pub use rate::Rate;

/// The recorded requests of a key, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The key.
    pub key: String,
    /// The requests; at least one.
    pub requests: Vec<Request>,
}

/// A limit: a token bucket that is full at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The rate.
    pub rate: Rate,
    /// The burst in tokens.
    pub burst: u64,
}

/// A key with the limits that fit its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sized {
    /// The recorded requests.
    pub recorded: Recorded,
    /// Maximum number of requests that may be refused.
    pub allowed: u64,
    /// The limits that refuse no more than that, such that no other has both a lower rate and a lower burst: the
    /// Pareto front, from the lowest rate on.
    pub front: Vec<Limit>,
    /// The limit of the front that was chosen; its burst grows if the fleet needs more than one bucket.
    pub chosen: Limit,
    /// The outcome of the simulated fleet, if there was one.
    pub fleet: Option<Confirmed>,
}

impl Recorded {
    /// Returns the time from the first request of all keys to this key's last, in nanoseconds; at least a second.
    #[must_use]
    pub fn length(&self) -> u64 {
        let last = self.requests.last().map_or(0, |request| request.at);
        last.max(1_000_000_000)
    }

    /// Returns the tokens of all requests.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.requests.iter().map(|request| request.cost).sum()
    }

    /// Finds the limits that refuse at most the part `refuse` of the requests, and chooses one: the lowest rate
    /// whose burst is made again within `refill` nanoseconds. If there is none, the highest rate of the front.
    #[must_use]
    pub fn size(self, refuse: f64, refill: u64) -> Sized {
        let allowed = (self.requests.len() as f64 * refuse + 1e-9) as u64;
        let largest = self.requests.iter().map(|request| request.cost).max();
        let mut front: Vec<Limit> = Vec::new();
        for rate in rate::grid(self.tokens(), self.length()) {
            let burst = least_burst(&self.requests, rate, allowed);
            if front.last().is_none_or(|before| burst < before.burst) {
                front.push(Limit { rate, burst });
            }
            // A bucket below the largest request never admits it.
            if burst <= largest.unwrap_or(1) {
                break;
            }
        }
        let refills = |limit: &&Limit| limit.rate.time_for(limit.burst) <= u128::from(refill);
        let found = front.iter().find(refills).or(front.last());
        let chosen = found.copied().unwrap_or(Limit {
            rate: Rate::per_second(1),
            burst: 1,
        });
        Sized {
            recorded: self,
            allowed,
            front,
            chosen,
            fleet: None,
        }
    }
}

impl Sized {
    /// Returns the number of requests that one bucket with the chosen limit refuses.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let Limit { rate, burst } = self.chosen;
        refusals(&self.recorded.requests, rate, burst).count() as u64
    }
}

#[cfg(test)]
#[path = "../tests/unit/sizing.rs"]
mod tests;
