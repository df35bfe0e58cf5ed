//! Budgets in the documents are valid.

use std::fs;
use std::path::Path;

/// The blocks of a document in one language, each with the line that it begins at.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<(usize, String)> {
    let fence = format!("```{language}");
    let mut lines = text.lines().enumerate();
    let mut blocks = Vec::new();
    while let Some((at, line)) = lines.next() {
        if line == fence {
            let inside = lines.by_ref().map(|(_, line)| line);
            let block: Vec<&'a str> = inside.take_while(|line| *line != "```").collect();
            blocks.push((at + 1, block.join("\n")));
        }
    }
    blocks
}

/// Every budget that a document shows is valid; answers how many there are.
fn check(document: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(document);
    let text = fs::read_to_string(path).expect("the document");
    let dir = tempfile::tempdir().expect("a directory");
    let mut budgets = 0;
    for (at, block) in blocks(&text, "yaml") {
        let name = format!("{}-{at}.yaml", document.replace('/', "-"));
        let file = dir.path().join(name);
        fs::write(&file, block).expect("a file to read");
        let found = aliquot_budgets::read(&[file.display().to_string()]);
        let found = found.unwrap_or_else(|error| panic!("{document}, line {at}: {error}"));
        budgets += found.len();
        for budget in found {
            let valid = budget.draft.validate();
            assert!(valid.is_ok(), "{document}, line {at}: {valid:?}");
        }
    }
    budgets
}

#[test]
fn the_guide_s_budgets_are_valid() {
    assert_eq!(check("docs/guide/budgets.md"), 4);
}
