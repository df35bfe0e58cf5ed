//! Counters under the names of envoyproxy/ratelimit, for its dashboards and alerts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Character between the domain and the depths of a name. A domain may have dots.
pub const SEPARATOR: char = '\u{1f}';

/// Hits of one rule.
#[derive(Debug, Default)]
pub struct Hits {
    total: AtomicU64,
    over_limit: AtomicU64,
    near_limit: AtomicU64,
    within_limit: AtomicU64,
    shadow_mode: AtomicU64,
}

/// Position of a request beside its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitOutcome {
    /// Below the limit.
    Within,
    /// Admitted, with less than a fifth of the limit left.
    Near,
    /// Refused.
    Over,
    /// Would have been refused by a rule that only counts.
    Shadowed,
}

impl Hits {
    /// Counts `hits`.
    pub fn add(&self, hits: u64, hit_outcome: HitOutcome) {
        let add = |counter: &AtomicU64| counter.fetch_add(hits, Ordering::Relaxed);
        add(&self.total);
        match hit_outcome {
            HitOutcome::Within => add(&self.within_limit),
            HitOutcome::Near => {
                add(&self.near_limit);
                add(&self.within_limit)
            }
            HitOutcome::Over => add(&self.over_limit),
            HitOutcome::Shadowed => {
                add(&self.over_limit);
                add(&self.shadow_mode)
            }
        };
    }

    fn counters(&self) -> [(&'static str, u64); 5] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("near_limit", read(&self.near_limit)),
            ("over_limit", read(&self.over_limit)),
            ("shadow_mode", read(&self.shadow_mode)),
            ("total_hits", read(&self.total)),
            ("within_limit", read(&self.within_limit)),
        ]
    }
}

/// Counters by name.
#[derive(Debug, Default)]
struct Named {
    by_path: BTreeMap<String, Arc<Hits>>,
    /// Bytes of the names.
    bytes: usize,
}

/// All counters. They outlive a reload of the rules.
#[derive(Debug, Default)]
pub struct Stats {
    rules: Mutex<Named>,
    /// Configurations that were read.
    pub loaded: AtomicU64,
    /// Configurations that could not be read or applied.
    pub not_loaded: AtomicU64,
    /// Requests.
    pub requests: AtomicU64,
    /// Requests that were answered with an error.
    pub errors: AtomicU64,
    /// Refusals that the global shadow mode turned into admissions.
    pub shadowed: AtomicU64,
}

impl Stats {
    /// Maximum number of names. Values of requests can be a part of them: names beyond are not counted apart.
    const NAMES_MAX: usize = 20_000;

    /// Maximum number of bytes of a name, and of all names.
    const NAME_BYTES_MAX: usize = 1_024;
    const BYTES_MAX: usize = 4 << 20;

    /// Returns the counters under a name: a domain and depths, with [`SEPARATOR`]s; `None` if the name is too long or
    /// there are too many.
    #[must_use]
    pub fn hits(&self, path: &str) -> Option<Arc<Hits>> {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hits) = rules.by_path.get(path) {
            return Some(Arc::clone(hits));
        }
        let is_full =
            rules.by_path.len() >= Self::NAMES_MAX || rules.bytes + path.len() > Self::BYTES_MAX;
        if is_full || path.len() > Self::NAME_BYTES_MAX {
            return None;
        }
        rules.bytes += path.len();
        let hits = rules.by_path.entry(path.to_owned()).or_default();
        Some(Arc::clone(hits))
    }

    /// Returns the counters of the service itself.
    fn service(&self) -> [(&'static str, u64); 5] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("config_load_success", read(&self.loaded)),
            ("config_load_error", read(&self.not_loaded)),
            ("total_requests", read(&self.requests)),
            ("should_rate_limit_error", read(&self.errors)),
            ("global_shadow_mode", read(&self.shadowed)),
        ]
    }

    fn all(&self) -> Vec<(String, Arc<Hits>)> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = rules.by_path.iter();
        pairs
            .map(|(path, hits)| (path.clone(), Arc::clone(hits)))
            .collect()
    }

    /// Returns the counters as `/stats` of the debug port does: `name: number`, line by line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.service() {
            let _ = writeln!(text, "ratelimit.service.{name}: {value}");
        }
        for (path, hits) in self.all() {
            let path = path.replace(SEPARATOR, ".");
            for (name, value) in hits.counters() {
                let _ = writeln!(text, "ratelimit.service.rate_limit.{path}.{name}: {value}");
            }
        }
        text
    }

    /// Returns the counters in the format of Prometheus, with the names and labels that the reference server's default
    /// mapping gives: the domain, and each depth of the rule.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.service() {
            let name = format!("ratelimit_service_{name}");
            let _ = writeln!(text, "# TYPE {name} counter\n{name} {value}");
        }
        let all = self.all();
        for index in 0..Hits::default().counters().len() {
            let mut named = false;
            for (path, hits) in &all {
                let (name, value) = hits.counters()[index];
                let name = format!("ratelimit_service_rate_limit_{name}");
                if !named {
                    let _ = writeln!(text, "# TYPE {name} counter");
                    named = true;
                }
                let _ = writeln!(text, "{name}{{{}}} {value}", labels(path));
            }
        }
        text
    }
}

/// Returns the labels of a name, such as `domain="shop",key1="user_alice"`.
fn labels(path: &str) -> String {
    let mut parts = path.split(SEPARATOR);
    let escaped = |part: &str| {
        part.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    let domain = parts.next().unwrap_or_default();
    let mut labels = format!("domain=\"{}\"", escaped(domain));
    for (number, part) in (1..).zip(parts) {
        let _ = write!(labels, ",key{number}=\"{}\"", escaped(part));
    }
    labels
}

#[cfg(test)]
#[path = "../../tests/unit/rls/stats.rs"]
mod tests;
