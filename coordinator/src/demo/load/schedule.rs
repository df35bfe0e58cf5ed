//! The time, the service and the key of each request.

use aliquot_core::unit::Span;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One scheduled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shot {
    /// Time at which it is due, from the start of the load.
    pub at: Span,
    /// Index of the service.
    pub service: usize,
    /// Index of the key.
    pub key: usize,
    /// Cost in whole tokens.
    pub cost: u64,
}

/// Requests in the order in which they are due.
pub type Shots = Box<dyn Iterator<Item = Shot> + Send>;

/// Requests for one key at a steady pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Index of the service. If `None`, each request goes to a random service.
    pub service: Option<usize>,
    /// Index of the key.
    pub key: usize,
    /// Requests per 1,000 seconds; at least 1.
    pub per_1000_s: u64,
}

const NANOS_PER_1000_S: u64 = 1_000_000_000_000;

impl Flow {
    /// Returns the time at which request `number`, counted from 0, is due. It is a random instant
    /// (`phase`, from 0 to 10¹² − 1) of the request's own interval, so that the pace is exact and no
    /// two flows are in step.
    fn due(&self, number: u64, phase: u64) -> Span {
        let parts = u128::from(number) * u128::from(NANOS_PER_1000_S) + u128::from(phase);
        let nanos = parts / u128::from(self.per_1000_s.max(1));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Returns the requests of all flows for `duration` and `services` services. They depend only on the
/// seed.
#[must_use]
pub fn flows(flows: Vec<Flow>, services: usize, duration: Span, seed: u64) -> Shots {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut next = BinaryHeap::new();
    for (index, flow) in flows.iter().enumerate() {
        let phase = rng.random_range(0..NANOS_PER_1000_S);
        next.push(Reverse((flow.due(0, phase), index, 0_u64)));
    }
    Box::new(std::iter::from_fn(move || {
        let Reverse((at, index, number)) = next.pop()?;
        if at >= duration {
            // The earliest request is too late, and so are all others.
            return None;
        }
        let flow = flows.get(index)?;
        let phase = rng.random_range(0..NANOS_PER_1000_S);
        let following = number.saturating_add(1);
        next.push(Reverse((flow.due(following, phase), index, following)));
        let any = || rng.random_range(0..services.max(1));
        Some(Shot {
            at,
            service: flow.service.unwrap_or_else(any),
            key: flow.key,
            cost: 1,
        })
    }))
}

/// Returns the skewed load on key 0: `per_s` requests per second, half of them to the first service and
/// the rest evenly to the others.
#[must_use]
pub fn skewed(per_s: u64, services: usize) -> Vec<Flow> {
    let total = per_s.saturating_mul(1_000);
    let others = u64::try_from(services.saturating_sub(1)).unwrap_or(u64::MAX);
    let first = if others == 0 { total } else { total / 2 };
    let flow = |service: usize| {
        let per_1000_s = match service {
            0 => first,
            _ => (total - first) / others,
        };
        Flow {
            service: Some(service),
            key: 0,
            per_1000_s: per_1000_s.max(1),
        }
    };
    (0..services).map(flow).collect()
}

/// Number of tenants whose load exceeds their limit.
pub const BUSY_TENANTS: usize = 4;

/// Returns the load on `tenants` keys, counted from 1. The first [`BUSY_TENANTS`] request 1.5 times
/// their limit of `limit_per_s`, and the others send a request every other second. Each request goes to
/// a random service.
#[must_use]
pub fn tenants(tenants: usize, limit_per_s: u64) -> Vec<Flow> {
    let flow = |tenant: usize| Flow {
        service: None,
        key: tenant + 1,
        per_1000_s: match tenant {
            0..BUSY_TENANTS => limit_per_s.saturating_mul(1_500),
            _ => 500,
        },
    };
    (0..tenants).map(flow).collect()
}

/// Draws a service for each request of a replay: the first one for half of them, and any other one for
/// the rest.
#[must_use]
pub fn spread(arrivals: Vec<(Span, usize, u64)>, services: usize, seed: u64) -> Shots {
    let mut rng = StdRng::seed_from_u64(seed);
    Box::new(arrivals.into_iter().map(move |(at, key, cost)| {
        let first = services < 2 || rng.random_bool(0.5);
        Shot {
            at,
            service: if first {
                0
            } else {
                rng.random_range(1..services)
            },
            key,
            cost,
        }
    }))
}

#[cfg(test)]
#[path = "../../../tests/unit/demo/load/schedule.rs"]
mod tests;
