//! The length of files and functions.

use super::source::Source;
use super::{Allowed, Finding, Tree};
use std::collections::BTreeMap;

/// Maximum number of lines in a file. One idea may need that many.
pub const FILE_LINES_MAX: usize = 700;

/// Maximum number of lines in a function, so that it fits a screen.
pub const FUNCTION_LINES_MAX: usize = 70;

/// No file is too long, and the exceptions only get shorter.
#[must_use]
pub fn files_are_short(tree: &Tree, allowed: &Allowed) -> Vec<Finding> {
    let files = tree.ending(".rs");
    let sizes =
        files.map(|(path, text)| (path.to_owned(), path.to_owned(), 1, text.lines().count()));
    ratchet(sizes.collect(), FILE_LINES_MAX, &allowed.file_lines)
}

/// No function is too long, and the exceptions only get shorter.
#[must_use]
pub fn functions_are_short(tree: &Tree, allowed: &Allowed) -> Vec<Finding> {
    let mut sizes = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let source = Source::parse(path, text).unwrap_or_default();
        for function in source.functions() {
            let name = format!("{path}::{}", function.name);
            sizes.push((name, path.to_owned(), function.line, function.lines));
        }
    }
    ratchet(sizes, FUNCTION_LINES_MAX, &allowed.function_lines)
}

/// Compares (name, path, line, lines) with the limit and the list. An entry must
/// have the exact length.
fn ratchet(
    sizes: Vec<(String, String, usize, usize)>,
    limit: usize,
    allowed: &BTreeMap<String, usize>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut longest: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, path, line, lines) in &sizes {
        let most = allowed.get(name).copied().unwrap_or(0).max(limit);
        if *lines > most {
            let what = format!("`{name}` has {lines} lines, {most} are the most");
            findings.push(Finding::at(path, *line, what));
        }
        let longest = longest.entry(name).or_default();
        *longest = (*longest).max(*lines);
    }
    for (name, entry) in allowed {
        let real = longest.get(name.as_str()).copied().unwrap_or(0);
        if real <= limit {
            let what = format!("`{name}` is no longer too long: drop the entry");
            findings.push(Finding::of(Allowed::PATH, what));
        } else if real < *entry {
            let what = format!("`{name}` has only {real} lines now: lower the entry");
            findings.push(Finding::of(Allowed::PATH, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    fn list(text: &str) -> Allowed {
        Allowed::parse(text).unwrap()
    }

    #[test]
    fn a_long_file_needs_an_exact_entry() {
        let text = "\n".repeat(701);
        let says = |lines: usize, expect: &[&str]| {
            let list = list(&format!("[file_lines]\n\"a/src/a.rs\" = {lines}"));
            check(
                |tree| files_are_short(tree, &list),
                &[("a/src/a.rs", &text)],
                expect,
            );
        };
        let none = list("");
        let whole = ["a.rs:1: `a/src/a.rs` has 701 lines, 700"];
        check(
            |tree| files_are_short(tree, &none),
            &[("a/src/a.rs", &text)],
            &whole,
        );
        check(
            |tree| files_are_short(tree, &none),
            &[("a/src/a.rs", &text[1..])],
            &[],
        );
        says(701, &[]);
        says(702, &["lower the entry"]);
        says(700, &["has 701 lines"]);
    }

    #[test]
    fn an_entry_for_what_is_short_or_gone_is_dropped() {
        let list =
            list("[file_lines]\n\"a/src/a.rs\" = 800\n[function_lines]\n\"a/src/a.rs::f\" = 80");
        let files = [("a/src/a.rs", "fn g() {}")];
        check(
            |tree| files_are_short(tree, &list),
            &files,
            &["drop the entry"],
        );
        check(
            |tree| functions_are_short(tree, &list),
            &files,
            &["drop the entry"],
        );
    }

    #[test]
    fn a_long_function_is_seen() {
        let text = format!("\nfn f() {{{}}}\nfn g() {{}}\n", "\n".repeat(70));
        let files = [("a/src/a.rs", text.as_str())];
        let none = list("");
        check(
            |tree| functions_are_short(tree, &none),
            &files,
            &["a.rs:2: `a/src/a.rs::f` has 71"],
        );
        let exact = list("[function_lines]\n\"a/src/a.rs::f\" = 71");
        check(|tree| functions_are_short(tree, &exact), &files, &[]);
    }
}
