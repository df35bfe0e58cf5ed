//! A simulated fleet with recorded requests as its load, whose leader crashes at the busiest second.

use super::window::Window;
use super::{Limit, Sized, refusals};
use crate::plan::Plan;
use crate::scenario::{Scenario, Shape};
use crate::tier::{self, Observe};
use crate::timeline::KeyTimeline;
use std::collections::BTreeSet;
use std::fmt::Write;
use toml::Value;

/// True time at which the recorded requests begin: by then there is a leader, and clients have sessions.
const BEGIN: u64 = 5_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// A fleet in the kernel tier.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Number of coordinator nodes.
    pub nodes: usize,
    /// Number of clients among which the requests of each key are dealt in turn.
    pub clients: usize,
    /// Longest part of the record that is simulated, in nanoseconds: the busiest.
    pub window: u64,
    /// The seed.
    pub seed: u64,
}

/// The outcome of a key in a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Number of requests in the part that was simulated.
    pub requests: u64,
    /// Number of these that the fleet refused.
    pub refused: u64,
    /// Maximum number of these that may be refused, if one bucket decides the rest of the record.
    pub allowed: u64,
}

impl Confirmed {
    /// Returns true if the fleet refused few enough.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.refused <= self.allowed
    }
}

impl Fleet {
    /// Runs the keys together. While the fleet refuses too many requests of a key, its burst grows by a quarter, at
    /// most a dozen times. Returns the invariants that were broken.
    ///
    /// # Errors
    ///
    /// A message, if a key has too many different costs, or a limit is none that a budget may have.
    pub fn confirm(&self, sized: &mut [Sized]) -> Result<Vec<String>, String> {
        const TIMES: usize = 12;
        let window = Window::of(sized, self.window);
        for time in 0..=TIMES {
            let breaches = self.run(sized, window)?;
            let fails = |of: &Sized| of.fleet.is_some_and(|fleet| !fleet.holds());
            if time == TIMES || !breaches.is_empty() || !sized.iter().any(fails) {
                return Ok(breaches);
            }
            for Limit { burst, .. } in sized
                .iter_mut()
                .filter(|of| fails(of))
                .map(|of| &mut of.chosen)
            {
                *burst += (*burst / 4).max(1);
            }
        }
        Ok(Vec::new())
    }

    /// Runs the keys together, and records how each did.
    fn run(&self, sized: &mut [Sized], window: Window) -> Result<Vec<String>, String> {
        let mut scenario = self.scenario(sized, window)?;
        let mut groups = scenario.clients.iter_mut();
        for of in sized.iter() {
            for (cost, group) in costs(of)?.into_iter().zip(&mut groups) {
                group.shape = arrivals(of, cost, window);
            }
        }
        let observe = Observe {
            tracer: None,
            bytes: false,
            reached: None,
        };
        let result = tier::live(Plan::draw(&scenario, self.seed), observe);
        for of in sized {
            let key = &of.recorded.key;
            let found = result.timeline.keys.iter().find(|known| known.key == *key);
            of.fleet = found.map(|found| confirmed(of, found, window));
        }
        Ok(result.breaches.iter().map(ToString::to_string).collect())
    }

    fn scenario(&self, sized: &[Sized], window: Window) -> Result<Scenario, String> {
        let seconds = (BEGIN + window.to - window.from).div_ceil(SECOND) + 5;
        let crash = (BEGIN + window.busiest - window.from).saturating_sub(SECOND / 2) / 1_000_000;
        let mut text = format!(
            "[run]\nduration = \"{seconds}s\"\nheal = \"0s\"\navailability = \"0%\"\n\
             availability_through_faults = \"0%\"\n[topology]\nnodes = {}\n\
             [[fault]]\nkind = \"crash\"\nat = \"{crash}ms\"\nfor = \"5s\"\ntarget = \"@leader\"\n",
            self.nodes
        );
        for (index, of) in sized.iter().enumerate() {
            let key = Value::String(of.recorded.key.clone());
            let Limit { rate, burst } = of.chosen;
            let _ = writeln!(
                text,
                "[[budget]]\nkey = {key}\nrate = \"{rate}\"\nburst = {burst}"
            );
            for cost in costs(of)? {
                let _ = writeln!(
                    text,
                    "[[clients]]\nname = \"k{index}x{cost}\"\ncount = {}\nkey = {key}\ncost = {cost}\nrate = \"1/s\"",
                    self.clients
                );
            }
        }
        Scenario::parse("plan", &text, None).map_err(|problems| problems.to_string())
    }
}

/// Returns the costs of a key's requests. Each cost has clients of its own.
fn costs(of: &Sized) -> Result<BTreeSet<u64>, String> {
    const MOST: usize = 8;
    let requests = of.recorded.requests.iter();
    let costs: BTreeSet<u64> = requests.map(|request| request.cost).collect();
    match costs.len() <= MOST {
        true => Ok(costs),
        false => Err(format!(
            "key {:?} has requests of {} different costs: the simulated fleet takes at most {MOST}; leave it out with --fleet 0",
            of.recorded.key,
            costs.len()
        )),
    }
}

/// Returns the requests of a cost as a load.
fn arrivals(of: &Sized, cost: u64, window: Window) -> Shape {
    let requests = of.recorded.requests.iter();
    let within = requests.filter(|request| request.cost == cost && window.has(request.at));
    Shape::Arrivals(
        within
            .map(|request| BEGIN + request.at - window.from)
            .collect(),
    )
}

fn confirmed(of: &Sized, found: &KeyTimeline, window: Window) -> Confirmed {
    let requests = &of.recorded.requests;
    let Limit { rate, burst } = of.chosen;
    let elsewhere =
        refusals(requests, rate, burst).filter(|index| !window.has(requests[*index].at));
    let within: Vec<u64> = requests
        .iter()
        .filter(|request| window.has(request.at))
        .map(|request| request.cost)
        .collect();
    let admitted: u64 = found.bins.iter().map(|bin| bin.admitted).sum();
    let cost = within.first().copied().unwrap_or(1);
    let refused = match within.iter().all(|other| *other == cost) {
        true => (within.iter().sum::<u64>().saturating_sub(admitted)) / cost,
        false => found.bins.iter().map(|bin| bin.refused).sum(),
    };
    Confirmed {
        requests: within.len() as u64,
        refused,
        allowed: of.allowed.saturating_sub(elsewhere.count() as u64),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/sizing/fleet.rs"]
mod tests;
