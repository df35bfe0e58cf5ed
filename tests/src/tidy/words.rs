//! Words that must not occur in the tree.

use super::{Finding, Tree};

/// Notes to oneself: do the thing, or list it under "Not yet".
const NOTES: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Paths of a machine, and documents that are not part of the tree.
const ELSEWHERE: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/t", "mp/"),
    concat!("C:", "\\"),
    concat!("DESIGN", ".md"),
    concat!("DESIGN", " §"),
    concat!("STACK", ".md"),
    concat!("STYLE", ".md"),
    concat!("work", "tree"),
    concat!("crates", ".io"),
];

/// No notes are left in the tree.
#[must_use]
pub fn no_notes_are_left(tree: &Tree) -> Vec<Finding> {
    find(tree, NOTES, "write it, or list it under \"Not yet\"")
}

/// The tree refers only to itself: to no machine's paths and no other documents.
#[must_use]
pub fn the_tree_speaks_of_itself(tree: &Tree) -> Vec<Finding> {
    find(tree, ELSEWHERE, "is not part of this tree")
}

fn find(tree: &Tree, words: &[&str], why: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| !path.ends_with(".lock")) {
        for (index, line) in text.lines().enumerate() {
            for word in words.iter().filter(|word| contains(line, word)) {
                findings.push(Finding::at(path, index + 1, format!("`{word}`: {why}")));
            }
        }
    }
    findings
}

/// Returns true if `line` has `word`, and not as a part of a longer one.
fn contains(line: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let ends = word.chars().next_back();
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let longer = joins(before) || (joins(ends) && joins(after));
        // A path begins at the root: one after a dot is relative.
        let relative = word.starts_with('/') && before == Some('.');
        !longer && !relative
    })
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn each_word_is_found_in_any_file() {
        for word in NOTES {
            let text = format!("a\n// {word}: b\n{word}S are fine");
            check(no_notes_are_left, &[("a.sh", &text)], &["a.sh:2:"]);
        }
        for word in ELSEWHERE {
            let text = format!("see {word}");
            check(the_tree_speaks_of_itself, &[("a.md", &text)], &["a.md:1:"]);
        }
    }

    #[test]
    fn a_part_of_a_word_or_of_a_relative_path_is_not_the_word() {
        let text = format!("docs{0}x ..{0}x", concat!("/wo", "rk/"));
        check(the_tree_speaks_of_itself, &[("a.md", &text)], &[]);
    }
}
