//! Many seeds, two at a time, and their figures.

use crate::kernel::{Plan, Seen, World};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) seeds: Vec<(u64, Seen)>,
    pub(crate) wall: Duration,
}

/// Runs every seed, on two threads.
pub(crate) fn run(
    seeds: std::ops::Range<u64>,
    plan: impl Fn(u64) -> Plan + Sync,
) -> Vec<(u64, Seen)> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut seen = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return seen;
            }
            seen.push((seed, World::new(plan(seed)).run()));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut mine = work();
        mine.extend(other.join().expect("a world panicked"));
        mine
    });
    all.sort_by_key(|(seed, _)| *seed);
    all
}

impl Summary {
    fn least(&self, of: impl Fn(&Seen) -> f64) -> f64 {
        self.seeds
            .iter()
            .map(|(_, seen)| of(seen))
            .fold(f64::MAX, f64::min)
    }

    pub(crate) fn median(&self, of: impl Fn(&Seen) -> f64) -> f64 {
        let mut all: Vec<f64> = self.seeds.iter().map(|(_, seen)| of(seen)).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    }

    pub(crate) fn faults_least(&self) -> f64 {
        self.least(|seen| seen.faults as f64)
    }

    pub(crate) fn healed_least(&self) -> f64 {
        self.least(|seen| seen.healed)
    }

    pub(crate) fn breaches(&self) -> impl Iterator<Item = String> {
        self.seeds.iter().filter_map(|(seed, seen)| {
            let breach = seen.breach.as_ref()?;
            let at = breach.at as f64 / 1e9;
            Some(format!(
                "seed {seed} at {at:.4} s, {}: {}",
                breach.by, breach.what
            ))
        })
    }

    fn count(&self, by: &str) -> usize {
        let breaches = self
            .seeds
            .iter()
            .filter_map(|(_, seen)| seen.breach.as_ref());
        breaches.filter(|breach| breach.by == by).count()
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let simulated: f64 = self.seeds.iter().map(|(_, seen)| seen.simulated).sum();
        let events: u64 = self.seeds.iter().map(|(_, seen)| seen.events).sum();
        let wall = self.wall.as_secs_f64();
        let slack = self.least(|seen| seen.slack as f64 * seen.tokens_per_grain);
        writeln!(f, "seeds                      {:>12}", self.seeds.len())?;
        writeln!(f, "simulated seconds          {simulated:>12.0}")?;
        writeln!(
            f,
            "events                     {events:>12}   ({:.2} M/s)",
            events as f64 / wall / 1e6
        )?;
        writeln!(
            f,
            "faults that took effect    {:>12}   per seed at least, {} in the median",
            self.faults_least(),
            self.median(|seen| seen.faults as f64)
        )?;
        writeln!(
            f,
            "utilisation during faults  {:>11.1}%   in the median, {:.1}% at least",
            100.0 * self.median(|seen| seen.utilisation),
            100.0 * self.least(|seen| seen.utilisation)
        )?;
        writeln!(
            f,
            "admitted once healed       {:>11.2}%   of R at least, {:.2}% in the median",
            100.0 * self.healed_least(),
            100.0 * self.median(|seen| seen.healed)
        )?;
        writeln!(
            f,
            "least slack                {slack:>12.6}   tokens under the envelope"
        )?;
        for by in [
            "envelope",
            "dominance",
            "conservation",
            "disjointness",
            "monotone edges",
        ] {
            writeln!(f, "broken: {by:<18} {:>12}", self.count(by))?;
        }
        write!(f, "wall time                  {wall:>12.1} s")
    }
}
