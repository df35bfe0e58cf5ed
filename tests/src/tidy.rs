//! Style as a test: rules that read the tree and return findings.
//!
//! A rule is a function from a [`Tree`] to [`Finding`]s. A tree is a map of
//! paths to texts, so each rule is also tested on a bad one: a test that cannot
//! fail is worthless. Where the tree does not keep a rule yet, an [`Allowed`]
//! entry states the difference; the list can only shrink.

pub mod allowed;
pub mod atomics;
pub mod banned;
pub mod circles;
pub mod counts;
pub mod dead;
pub mod floors;
pub mod glossary;
pub mod modules;
pub mod openings;
pub mod placement;
pub mod prose;
pub mod pure;
pub mod retired;
pub mod signatures;
pub mod size;
pub mod source;
pub mod tree;
pub mod words;

pub use allowed::Allowed;
pub use tree::Tree;

use std::fmt;

/// A violation of a rule, and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// Makes a finding at `line` of `path`, counted from 1.
    pub fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }

    /// Makes a finding about a file as a whole.
    pub fn of(path: &str, what: impl Into<String>) -> Self {
        Self::at(path, 1, what)
    }
}

/// Formats as `path:line: what`, which terminals and editors can follow.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Panics with every finding, one per line.
///
/// # Panics
///
/// If there is a finding.
#[track_caller]
pub fn assert_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(|f| format!("  {f}\n")).collect();
    assert!(lines.is_empty(), "untidy:\n{}", lines.concat());
}

/// Asserts the findings of a rule on a small tree: each must contain the
/// expected text, in order.
#[cfg(test)]
#[track_caller]
pub(crate) fn check(rule: impl Fn(&Tree) -> Vec<Finding>, files: &[(&str, &str)], expect: &[&str]) {
    let found: Vec<String> = rule(&Tree::of(files))
        .iter()
        .map(Finding::to_string)
        .collect();
    let as_expected = found.len() == expect.len()
        && found
            .iter()
            .zip(expect)
            .all(|(found, expect)| found.contains(expect));
    assert!(as_expected, "said {found:#?}, expected {expect:#?}");
}
