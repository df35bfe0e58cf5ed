//! The terms of `docs/glossary.md`: each once, in order, with its place.

use super::retired::{GLOSSARY, HEADING, spans};
use super::{Finding, Tree};
use std::collections::BTreeSet;

/// Maximum number of terms, so that a newcomer can read all of them.
pub const TERMS_MAX: usize = 122;

/// Every term occurs once and in alphabetical order within its table, has a
/// meaning, and names only paths that exist.
#[must_use]
pub fn terms_are_in_order(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut at = |line: usize, what: String| findings.push(Finding::at(GLOSSARY, line + 1, what));
    let mut terms = BTreeSet::new();
    let mut before = String::new();
    let text = tree.text(GLOSSARY).unwrap_or_default();
    let text = text.split(HEADING).next().unwrap_or_default();
    for (line, row) in text.lines().enumerate() {
        if !row.starts_with("| **") {
            if row.is_empty() {
                before.clear();
            }
            continue;
        }
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [term, meaning, place] = cells[..] else {
            at(line, "a term has three columns".into());
            continue;
        };
        let term = term.trim_matches('*').to_lowercase();
        if meaning.is_empty() || place.is_empty() {
            at(line, format!("\"{term}\" has no meaning or no place"));
        }
        if term <= before {
            at(line, format!("\"{term}\" stands behind \"{before}\""));
        }
        if !terms.insert(term.clone()) {
            at(line, format!("\"{term}\" stands here twice"));
        }
        for path in spans(place).filter(|path| !tree.has(path.trim_end_matches('/'))) {
            at(line, format!("\"{term}\": there is no `{path}`"));
        }
        before = term;
    }
    if terms.len() > TERMS_MAX {
        at(
            0,
            format!("{} terms, {TERMS_MAX} are the most", terms.len()),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[track_caller]
    fn sees(rows: &str, expect: &[&str]) {
        let text = format!(
            "| term | meaning | where |\n|---|---|---|\n{rows}\n## Retired words\n| **a** |"
        );
        check(
            terms_are_in_order,
            &[(GLOSSARY, &text), ("a/b.rs", "x")],
            expect,
        );
    }

    #[test]
    fn a_term_stands_once_and_in_order() {
        sees("| **a** | m | `a/b.rs` |\n| **B c** | m | `a/` |", &[]);
        sees(
            "| **b** | m | `a` |\n| **A** | m | `a` |",
            &[":4: \"a\" stands behind"],
        );
        let apart = "| **b** | m | `a` |\n\n| **a** | m | `a` |\n| **b** | m | `a` |";
        sees(apart, &[":6: \"b\" stands here twice"]);
    }

    #[test]
    fn a_term_has_a_meaning_and_a_place_that_exists() {
        sees("| **a** | | `a` |", &["no meaning"]);
        sees("| **a** | m |", &["three columns"]);
        sees("| **a** | m | `a/c.rs`, `a` |", &["there is no `a/c.rs`"]);
    }

    #[test]
    fn there_are_not_too_many() {
        let rows = |n: usize| -> String {
            (0..n)
                .map(|i| format!("| **t{i:03}** | m | `a` |\n"))
                .collect()
        };
        sees(&rows(TERMS_MAX), &[]);
        let many = format!(":1: {} terms", TERMS_MAX + 1);
        sees(&rows(TERMS_MAX + 1), &[&many]);
    }
}
