//! The rules of the rate limit service: which descriptors are limited, and by how much.
//!
//! A rule is found by the entries of a descriptor, in their order. At each depth a rule with that key and that value
//! goes first, then the rules whose value has a `*`, in the order of the file, then the rule of the key alone. The
//! rule that was found decides: another one is not tried if it has no limit, or no rule below it fits. The limit is
//! the one at the depth of the last entry.

mod entry;
mod key;
mod limit;
mod metric;
mod pattern;
mod read;
#[cfg(test)]
#[path = "../../tests/unit/rls/rules.rs"]
mod tests;

pub use entry::Entry;
pub use key::{BudgetKey, Override};
pub(crate) use key::{escaped, fitting};
pub use limit::{Counting, Unit, UnitLimit};
pub use read::{Contents, Reading, RulesFile, SameDomain, Unreadable};

use super::stats::{Hits, Stats};
use aliquot_core::budget::{BudgetDraft, KeyPattern, Written};
use metric::Metric;
use pattern::Pattern;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A rule with a limit.
#[derive(Debug)]
pub struct Rule {
    /// File and line, such as `config.yaml:7`, or the resource.
    pub place: String,
    /// Domain and keys as the reference server names them in its statistics, such as `shop.user_alice.path`.
    pub path: String,
    /// Limit, or `None` if the rule is unlimited.
    pub limit: Option<UnitLimit>,
    /// Name by which other rules replace this one; empty if it has none.
    pub name: String,
    /// Names of the rules that do not count where this one applies.
    pub replaces: Vec<String>,
    /// Set if a refusal is only counted.
    pub shadow: bool,
    /// Set if a refusal counts only if all quota rules of the request refuse.
    pub quota: bool,
    /// Metadata that a request which passes hands on.
    pub metadata: Option<serde_json::Value>,
    key: BudgetKey,
    counting: Counting,
    max_keys: Option<u64>,
    metric: Metric,
    charged_afterwards: AtomicBool,
    hits: OnceLock<Arc<Hits>>,
}

impl Rule {
    /// Returns the key of the budget that decides a descriptor with these entries.
    #[must_use]
    pub fn key(&self, entries: &[Entry<'_>]) -> String {
        self.key.of(entries)
    }

    /// Returns limit and modes, such as `unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false`.
    #[must_use]
    pub fn summary(&self) -> String {
        let limit = match self.limit {
            None => "unlimited".to_owned(),
            Some(limit) => {
                let unit = limit.unit.name().to_ascii_uppercase();
                format!("unit={unit} requests_per_unit={}", limit.requests)
            }
        };
        let Self { shadow, quota, .. } = self;
        format!("{limit}, shadow_mode: {shadow}, quota_mode: {quota}")
    }

    /// Notes that a request asked without hits, and so that the hits come when their number is known.
    pub fn note_peek(&self) {
        self.charged_afterwards.store(true, Ordering::Relaxed);
    }

    /// Returns true if hits on this rule are reported after the fact.
    #[must_use]
    pub fn is_charged_afterwards(&self) -> bool {
        self.charged_afterwards.load(Ordering::Relaxed)
    }

    /// Returns the budget of the rule, or `None` if it needs none: it is unlimited, or admits nothing.
    #[must_use]
    pub fn draft(&self) -> Option<BudgetDraft> {
        let limit = self.limit.filter(|limit| limit.requests > 0)?;
        let mut draft = limit.draft(self.key.pattern(), self.counting);
        let pattern = KeyPattern::try_from(draft.key.as_str());
        if pattern.is_ok_and(|pattern| pattern.is_template()) {
            draft.max_keys = self.max_keys.map(Written::Whole);
        }
        Some(draft)
    }

    /// Returns the counters of a descriptor with these entries; `None` if there are too many.
    #[must_use]
    pub fn hits(&self, stats: &Stats, entries: &[Entry<'_>]) -> Option<Arc<Hits>> {
        match self.metric.of(entries) {
            Some(name) => stats.hits(&name),
            None => Some(Arc::clone(match self.hits.get() {
                Some(hits) => hits,
                None => {
                    let hits = stats.hits(&self.metric.fixed())?;
                    self.hits.get_or_init(|| hits)
                }
            })),
        }
    }
}

/// The rules of all domains.
#[derive(Debug, Default)]
pub struct Rules {
    domains: BTreeMap<Box<[u8]>, Level>,
}

/// The rules of one depth, below one rule.
#[derive(Debug, Default)]
struct Level {
    by_key: BTreeMap<Box<[u8]>, ByKey>,
}

/// The rules of one depth that have the same key.
#[derive(Debug, Default)]
struct ByKey {
    exact: BTreeMap<Box<[u8]>, Node>,
    patterns: Vec<(Pattern, Node)>,
    any: Option<Node>,
}

#[derive(Debug, Default)]
struct Node {
    rule: Option<Arc<Rule>>,
    below: Level,
}

impl Rules {
    /// Returns the rule of a descriptor, or `None` if it is not limited.
    #[must_use]
    pub fn find(&self, domain: &[u8], entries: &[Entry<'_>]) -> Option<&Arc<Rule>> {
        let (last, before) = entries.split_last()?;
        let mut level = self.domains.get(domain)?;
        for entry in before {
            level = &level.node(*entry)?.below;
        }
        level.node(*last)?.rule.as_ref()
    }

    /// Returns true if there are rules of this domain, or it is named at least.
    #[must_use]
    pub fn has_domain(&self, domain: &[u8]) -> bool {
        self.domains.contains_key(domain)
    }

    /// Returns true if there is no domain.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.domains.is_empty()
    }

    /// Calls `each` with every rule that has a limit.
    pub fn for_each(&self, each: &mut dyn FnMut(&Arc<Rule>)) {
        for level in self.domains.values() {
            level.for_each(each);
        }
    }

    /// Returns the budgets of all rules, in the order of their keys.
    #[must_use]
    pub fn drafts(&self) -> Vec<BudgetDraft> {
        let mut drafts = Vec::new();
        self.for_each(&mut |rule| drafts.extend(rule.draft()));
        drafts.sort_by(|left, right| left.key.cmp(&right.key));
        drafts
    }
}

/// Writes one line for each rule, with its place in the files.
impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = Vec::new();
        self.for_each(&mut |rule| {
            lines.push(format!(
                "{}: {} ({})\n",
                rule.path,
                rule.summary(),
                rule.place
            ));
        });
        lines.sort();
        f.write_str(&lines.concat())
    }
}

impl Level {
    fn node(&self, entry: Entry<'_>) -> Option<&Node> {
        let by_key = self.by_key.get(entry.key)?;
        let wild = || {
            let mut patterns = by_key.patterns.iter();
            patterns.find(|(pattern, _)| pattern.matches(entry.value))
        };
        let exact = by_key.exact.get(entry.value);
        exact
            .or_else(|| wild().map(|(_, node)| node))
            .or(by_key.any.as_ref())
    }

    fn for_each(&self, each: &mut dyn FnMut(&Arc<Rule>)) {
        for by_key in self.by_key.values() {
            let exact = by_key.exact.values();
            let patterns = by_key.patterns.iter().map(|(_, node)| node);
            for node in exact.chain(patterns).chain(by_key.any.as_ref()) {
                node.rule.iter().for_each(&mut *each);
                node.below.for_each(each);
            }
        }
    }
}
