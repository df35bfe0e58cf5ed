//! The test of the tests: every planted bug has a test that catches it.
//!
//! A bug is caught by a law or a corner that plants it, by a golden scenario that names it, or by a row of the
//! simulator's table, `sim/tests/planted/rows.rs`. Each of these tests checks that it catches its bugs.
//! `planted_bugs_are_caught` prints the table: bug, caught by, and description.

use aliquot_core::planted::Bug;

/// Returns the sources of all tests of this crate, including the unit tests, except this file.
fn sources() -> Vec<(String, String)> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("tests")];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)
            .expect("a folder of the crate")
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .display()
                .to_string();
            if let (true, Ok(text)) = (
                !name.ends_with("planted.rs"),
                std::fs::read_to_string(&path),
            ) {
                sources.push((name, text));
            }
        }
    }
    sources.sort();
    sources
}

/// Returns the test that plants the bug itself: its source has `Some(Bug::X)`, as only tests do.
fn law(bug: Bug, sources: &[(String, String)]) -> Option<String> {
    let planted = format!("Bug::{bug:?}");
    sources.iter().find_map(|(name, text)| {
        let tests = match name.starts_with("tests/") {
            true => text.as_str(),
            false => text.split_once("mod tests").map_or("", |(_, tests)| tests),
        };
        let mut rest = tests;
        while let Some((before, after)) = rest.split_once(&planted) {
            if !after.starts_with(|next: char| next.is_ascii_alphanumeric()) {
                let at = &tests[..tests.len() - rest.len() + before.len()];
                let test = at.rsplit("fn ").find_map(|of| of.split_once('('));
                let test = test.map_or("", |(test, _)| test);
                return Some(format!("{name}::{test}"));
            }
            rest = after;
        }
        None
    })
}

/// Returns the golden scenario that names the bug as re-opening it. `golden.rs` tests that it does.
fn scenario(bug: Bug, sources: &[(String, String)]) -> Option<String> {
    let named = format!("{bug:?}");
    sources.iter().find_map(|(name, text)| {
        let mut bugs = text
            .lines()
            .filter_map(|line| line.strip_prefix("# re-opened by: "))
            .flat_map(|bugs| bugs.split(", "));
        bugs.any(|bug| bug == named).then(|| name.clone())
    })
}

/// Looks the bug up in the simulator's table. The simulator's tests check that each of its bugs is caught.
fn simulated(bug: Bug) -> Option<String> {
    const TABLE: &str = include_str!("../../../sim/tests/planted/rows.rs");
    let named = format!("(Bug::{bug:?}, ");
    TABLE.contains(&named).then(|| "the simulator".into())
}

#[test]
fn planted_bugs_are_caught() {
    let sources = sources();
    let mut missed = Vec::new();
    for &bug in Bug::ALL {
        let by = simulated(bug)
            .or_else(|| law(bug, &sources))
            .or_else(|| scenario(bug, &sources));
        let name = format!("{bug:?}");
        let caught = by.as_deref().unwrap_or("nothing");
        println!("{name:<26} {caught:<70} {}", bug.story().trim());
        if by.is_none() {
            missed.push(name);
        }
    }
    assert!(missed.is_empty(), "nothing catches {}", missed.join(", "));
}
