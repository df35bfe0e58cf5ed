//! Rules that the tree does not keep yet: their findings are counted per file in
//! `tests/tidy.toml`, and a count can only fall.

use super::{Allowed, Finding, Tree, openings, retired};
use std::collections::BTreeMap;

/// A rule whose findings are counted, with its section of the list.
struct Counted {
    section: &'static str,
    rule: fn(&Tree) -> Vec<Finding>,
    listed: fn(&Allowed) -> &BTreeMap<String, usize>,
}

const COUNTED: [Counted; 2] = [
    Counted {
        section: "retired_words",
        rule: retired::retired_words,
        listed: |allowed| &allowed.retired_words,
    },
    Counted {
        section: "doc_openings",
        rule: openings::doc_openings,
        listed: |allowed| &allowed.doc_openings,
    },
];

/// Returns the text of the list with the present counts.
///
/// # Errors
///
/// If the sum of a section's counts would rise and `may_rise` is not set: a file
/// may be renamed or divided, but nothing may be added.
pub fn rewritten(tree: &Tree, may_rise: bool) -> Result<String, String> {
    let mut text = tree.text(Allowed::PATH).unwrap_or_default().to_owned();
    let allowed = Allowed::parse(&text)?;
    for counted in COUNTED {
        let section = counted.section;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for finding in (counted.rule)(tree) {
            *counts.entry(finding.path).or_default() += 1;
        }
        let before: usize = (counted.listed)(&allowed).values().sum();
        let now: usize = counts.values().sum();
        if now > before && !may_rise {
            let listed = (counted.listed)(&allowed);
            let risen = counts.iter().filter_map(|(path, count)| {
                let before = listed.get(path).copied().unwrap_or(0);
                (*count > before).then(|| format!("\n  {path}: {count}, {before} are listed"))
            });
            let risen: String = risen.collect();
            return Err(format!(
                "{section}: {now} findings, {before} are listed{risen}"
            ));
        }
        text = with_section(&text, section, &counts);
    }
    Ok(text)
}

/// Replaces the entries of one section. Comments before the section and all other
/// lines stay.
fn with_section(text: &str, section: &str, counts: &BTreeMap<String, usize>) -> String {
    let header = format!("[{section}]");
    let entries: String = counts
        .iter()
        .map(|(path, count)| format!("{path:?} = {count}\n"))
        .collect();
    let mut out = String::new();
    let mut inside = false;
    for line in text.lines() {
        inside &= line.starts_with('"');
        if !inside {
            out.push_str(line);
            out.push('\n');
        }
        if line.trim() == header {
            inside = true;
            out.push_str(&entries);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::allowed::beyond;
    use super::super::check;
    use super::*;

    #[test]
    fn a_count_is_exact() {
        let found = |n: usize| vec![Finding::at("a.rs", 7, "old"); n];
        let listed = BTreeMap::from([("a.rs".to_owned(), 2)]);
        let says = |n: usize, expect: &[&str]| {
            check(|_| beyond(found(n), &listed), &[], expect);
        };
        says(2, &[]);
        says(1, &["lower the entry"]);
        says(0, &["drop the entry"]);
        says(3, &["a.rs:1: 3 findings, 2", "a.rs:7", "a.rs:7", "a.rs:7"]);
        let none = BTreeMap::new();
        check(
            |_| beyond(found(1), &none),
            &[],
            &["1 findings, 0", "a.rs:7"],
        );
    }

    #[test]
    fn counts_are_rewritten_and_do_not_rise() {
        let list = "unwritten = []\n\n# Old words.\n[retired_words]\n\"b.rs\" = 1\n\n\
                    # Openings.\n[doc_openings]\n";
        let tree = |text: &str| {
            Tree::of(&[
                ("a.rs", text),
                (retired::GLOSSARY, retired::EXAMPLE),
                (Allowed::PATH, list),
            ])
        };
        let one = rewritten(&tree("struct Oldish;"), false).unwrap();
        assert_eq!(one, list.replace("b.rs", "a.rs"));
        assert_eq!(
            rewritten(&tree(""), false).unwrap(),
            list.replace("\"b.rs\" = 1\n", "")
        );
        let two = tree("struct Oldish;\n// oldish");
        let error = rewritten(&two, false).unwrap_err();
        assert!(error.ends_with("a.rs: 2, 0 are listed"), "{error}");
        let risen = list.replace("\"b.rs\" = 1", "\"a.rs\" = 2");
        assert_eq!(rewritten(&two, true).unwrap(), risen);
        let opening = tree("/// How.\nstruct A;");
        assert!(rewritten(&opening, false).is_err());
    }
}
