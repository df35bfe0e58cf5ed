//! Finding the rule of a key.

use super::key::{Key, KeyPattern};
use crate::planted::{self, Bug};
use crate::unit::RuleId;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use core::fmt;
use core::str::Split;

/// The set of rules, by their patterns.
///
/// **Precedence.** Of all patterns that match a key, the rule is the one whose first segment from the left
/// that differs from the others' is literal. So an exact key beats every template, `tenant/7/*` beats
/// `tenant/*/reads`, and the order in which rules were written does not matter. Exactly one rule applies;
/// rules do not add up.
///
/// A lookup walks a tree of segments, literal before `*`. It visits no more than the 2,517 ways of placing up
/// to 4 `*` in 16 segments, however many rules there are. Without templates, it visits one node per segment.
///
/// ```
/// use aliquot_core::budget::{Catalog, Key, KeyPattern};
/// use aliquot_core::unit::RuleId;
///
/// let mut catalog = Catalog::default();
/// catalog.insert(&KeyPattern::try_from("tenant/*/reads")?, RuleId::new(1))?;
/// catalog.insert(&KeyPattern::try_from("tenant/7/reads")?, RuleId::new(2))?;
/// let rule = |key| catalog.resolve(&Key::try_from(key).unwrap());
/// assert_eq!(rule("tenant/7/reads"), Some(RuleId::new(2)));
/// assert_eq!(rule("tenant/8/reads"), Some(RuleId::new(1)));
/// assert_eq!(rule("tenant/8/writes"), None);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Catalog {
    root: Node,
    rules: usize,
}

/// The rules that agree in the segments so far, by the next segment. The tree is as deep as a pattern has
/// segments, so recursion is bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    rule: Option<RuleId>,
    literals: BTreeMap<String, Node>,
    any: Option<Box<Node>>,
}

/// The pattern already has a rule. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DuplicateRule {
    /// The existing rule.
    pub rule: RuleId,
}

impl fmt::Display for DuplicateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rule {} has this key already; nothing was changed",
            self.rule
        )
    }
}

impl core::error::Error for DuplicateRule {}

impl Catalog {
    /// Adds a rule.
    ///
    /// # Errors
    ///
    /// [`DuplicateRule`] if the same pattern has a rule.
    pub fn insert(&mut self, pattern: &KeyPattern, rule: RuleId) -> Result<(), DuplicateRule> {
        if let Some(rule) = self.get(pattern) {
            return Err(DuplicateRule { rule });
        }
        let mut node = &mut self.root;
        for segment in pattern.segments() {
            node = if segment == KeyPattern::ANY {
                node.any.get_or_insert_default()
            } else {
                node.literals.entry(segment.into()).or_default()
            };
        }
        node.rule = Some(rule);
        self.rules = self.rules.saturating_add(1);
        Ok(())
    }

    /// Removes and returns a rule.
    pub fn remove(&mut self, pattern: &KeyPattern) -> Option<RuleId> {
        let removed = self.root.remove(pattern.segments())?;
        self.rules = self.rules.saturating_sub(1);
        Some(removed)
    }

    /// Returns the rule of exactly this pattern.
    #[must_use]
    pub fn get(&self, pattern: &KeyPattern) -> Option<RuleId> {
        let mut node = &self.root;
        for segment in pattern.segments() {
            node = if segment == KeyPattern::ANY {
                node.any.as_deref()?
            } else {
                node.literals.get(segment)?
            };
        }
        node.rule
    }

    /// Returns the rule that applies to a key, by the precedence above.
    #[must_use]
    pub fn resolve(&self, key: &Key) -> Option<RuleId> {
        self.root.resolve(key.segments())
    }

    /// Returns the number of rules.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rules
    }

    /// Returns true if there is no rule.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules == 0
    }
}

impl Node {
    fn resolve(&self, mut segments: Split<'_, char>) -> Option<RuleId> {
        let Some(segment) = segments.next() else {
            return self.rule;
        };
        let literal = || self.literals.get(segment)?.resolve(segments.clone());
        let any = || self.any.as_ref()?.resolve(segments.clone());
        if planted::is(Bug::TemplateFirst) {
            any().or_else(literal)
        } else {
            literal().or_else(any)
        }
    }

    /// Removes the rule and every node that is then empty.
    fn remove(&mut self, mut segments: Split<'_, char>) -> Option<RuleId> {
        let Some(segment) = segments.next() else {
            return self.rule.take();
        };
        if segment == KeyPattern::ANY {
            let removed = self.any.as_mut()?.remove(segments)?;
            self.any.take_if(|node| node.is_bare());
            return Some(removed);
        }
        let node = self.literals.get_mut(segment)?;
        let removed = node.remove(segments)?;
        if node.is_bare() {
            self.literals.remove(segment);
        }
        Some(removed)
    }

    fn is_bare(&self) -> bool {
        self.rule.is_none() && self.literals.is_empty() && self.any.is_none()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/budget/catalog.rs"]
mod tests;
