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
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn sized(requests: &[(u64, u64)], refuse: f64, refill: u64) -> Sized {
        let requests = requests.iter().map(|&(at, cost)| Request { at, cost });
        let recorded = Recorded {
            key: "a".into(),
            requests: requests.collect(),
        };
        recorded.size(refuse, refill)
    }

    /// Ten at once, once in ten seconds.
    fn bursts() -> Vec<(u64, u64)> {
        (0..100).map(|n| (n / 10 * 10 * SECOND, 1)).collect()
    }

    #[test]
    fn each_limit_of_the_front_has_a_higher_rate_and_a_lower_burst() {
        let steady: Vec<_> = (0..100).map(|n| (n * SECOND / 7, 3)).collect();
        for requests in [bursts(), steady] {
            let of = sized(&requests, 0.0, 100 * SECOND);
            let bursts: Vec<u64> = of.front.iter().map(|limit| limit.burst).collect();
            assert!(bursts.is_sorted_by(|one, next| one > next), "{bursts:?}");
            let rates = of.front.iter().map(|limit| limit.rate.tokens_per_second());
            assert!(rates.is_sorted_by(|one, next| one < next));
            assert_eq!(of.refused(), 0);
        }
    }

    #[test]
    fn what_one_bucket_refuses_is_counted() {
        let of = sized(&bursts(), 0.5, 100 * SECOND);
        assert!((1..=50).contains(&of.refused()), "{}", of.refused());
    }

    /// Ten within a second, in each tenth second.
    fn spread() -> Vec<(u64, u64)> {
        let at = |n: u64| n / 10 * 10 * SECOND + n % 10 * SECOND / 10;
        (0..100).map(|n| (at(n), 1)).collect()
    }

    /// The largest request may be refused, so that a lower burst would do as well.
    #[test]
    fn the_front_ends_at_the_burst_of_the_largest_request() {
        for largest in 1..=10 {
            let mut requests = spread();
            requests.push((105 * SECOND, largest));
            let front = sized(&requests, 0.01, 1).front;
            let mut bursts = front.iter().map(|limit| limit.burst).rev();
            assert!(bursts.next() <= Some(largest), "{front:?}");
            assert!(bursts.all(|burst| burst > largest), "{front:?}");
        }
    }

    #[test]
    fn a_burst_that_takes_exactly_the_permitted_time_is_chosen() {
        let front = sized(&spread(), 0.0, 1).front;
        assert!(front.len() > 1, "{front:?}");
        for limit in &front[..front.len() - 1] {
            let refill = u64::try_from(limit.rate.time_for(limit.burst)).unwrap();
            assert_eq!(sized(&spread(), 0.0, refill).chosen, *limit);
            assert_ne!(sized(&spread(), 0.0, refill - 1).chosen, *limit);
        }
    }
}
