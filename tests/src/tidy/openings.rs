//! The openings of doc comments.

use super::allowed::beyond;
use super::{Allowed, Finding, Tree};

/// Openings that make a reader guess, in lower case.
const REFUSED: &[&str] = &[
    "what",
    "who",
    concat!("who", "ever"),
    "whether",
    "how",
    "so many",
];

/// Every doc comment begins with a verb or a noun phrase; the exceptions only get fewer.
#[must_use]
pub fn docs_begin_plainly(tree: &Tree, allowed: &Allowed) -> Vec<Finding> {
    beyond(doc_openings(tree), &allowed.doc_openings)
}

/// Returns every doc comment of Rust code that begins with a refused opening.
#[must_use]
pub fn doc_openings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".rs") {
        let mut before = None;
        for (index, line) in text.lines().enumerate() {
            let doc = doc(line);
            let begins = doc.filter(|(mark, _)| before != Some(*mark));
            if let Some(opening) = begins.and_then(|(_, text)| refused(text)) {
                let what = format!("a doc comment begins with \"{opening}\": use a verb or a noun");
                findings.push(Finding::at(path, index + 1, what));
            }
            before = doc.map(|(mark, _)| mark);
        }
    }
    findings
}

/// Returns the mark of a doc comment and the text behind it.
fn doc(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let marks = ["///", "//!"];
    let mark = marks.into_iter().find(|mark| line.starts_with(mark))?;
    let text = &line[mark.len()..];
    // Four slashes are an ordinary comment.
    (!text.starts_with('/')).then_some((mark, text))
}

fn refused(text: &str) -> Option<&'static str> {
    let mut words = text.split(|c: char| !c.is_alphanumeric());
    let mut next = || words.find(|word| !word.is_empty()).map(str::to_lowercase);
    let first = next()?;
    let two = format!("{first} {}", next().unwrap_or_default());
    let mut refused = REFUSED.iter().copied();
    refused.find(|opening| first == *opening || two == *opening)
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn each_refused_opening_is_seen() {
        for opening in REFUSED {
            let text = format!("\n    /// *{}* it is.\nfn f() {{}}", opening.to_uppercase());
            let expect = format!("a.rs:2: a doc comment begins with \"{opening}\"");
            check(doc_openings, &[("a.rs", &text)], &[&expect]);
        }
        check(
            doc_openings,
            &[("a.rs", "//! Whether it is.")],
            &["a.rs:1:"],
        );
    }

    #[test]
    fn only_the_beginning_counts() {
        let fine = "//! A module.\n//!\n//! How it works.\n\n// What a comment.\n//// Who\n\
                    /// Whose it is.\n/// So that.\n/// what follows\nfn f() {}";
        check(doc_openings, &[("a.rs", fine), ("a.md", "/// How")], &[]);
        let next = "//! A module.\n/// What follows.\nfn f() {}";
        check(doc_openings, &[("a.rs", next)], &["a.rs:2:"]);
    }

    #[test]
    fn the_list_counts_them() {
        let files = [("a.rs", "/// How.\nfn f() {}")];
        let holds = |list: &str, expect: &[&str]| {
            let list = Allowed::parse(list).unwrap();
            check(|tree| docs_begin_plainly(tree, &list), &files, expect);
        };
        holds("[doc_openings]\n\"a.rs\" = 1", &[]);
        holds("[doc_openings]\n\"a.rs\" = 2", &["lower the entry"]);
        holds("", &["1 findings, 0 are allowed", "a.rs:1:"]);
    }
}
