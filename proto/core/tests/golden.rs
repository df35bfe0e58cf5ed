//! Golden scenarios: interleavings of the core as readable scripts with numbers.
//!
//! Each file of `golden/scenarios` is a script with its output. A line that starts in the first column is a
//! command or a comment. An indented line is output of the command. `UPDATE_EXPECT=1 cargo test --test
//! golden` rewrites the output. A file names the planted bugs that re-open its scenario. With each of them,
//! some line must have BROKEN that has no BROKEN without it.

#[path = "golden/deeds.rs"]
mod deeds;
#[path = "golden/drive.rs"]
mod drive;
#[path = "golden/entries.rs"]
mod entries;
#[path = "golden/expect.rs"]
mod expect;
#[path = "golden/judge.rs"]
mod judge;
#[path = "golden/lease.rs"]
mod lease;
#[path = "golden/say.rs"]
mod say;
#[path = "golden/script.rs"]
mod script;
#[path = "golden/stage.rs"]
mod stage;
#[path = "golden/wire.rs"]
mod wire;

use aliquot_core::planted::{self, Bug};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Number of interleavings in the design, the golden tests' own list.
const INTERLEAVINGS: usize = 28;

/// Held while the files are read or rewritten: one test at a time.
static FILES: Mutex<()> = Mutex::new(());

fn scenarios() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/scenarios");
    let mut found: Vec<(String, PathBuf)> = fs::read_dir(folder)
        .expect("the scenarios are beside this test")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .map(|path| {
            let name = path.file_stem().unwrap_or_default();
            (name.to_string_lossy().into(), path)
        })
        .collect();
    found.sort();
    if let Ok(only) = std::env::var("SCENARIO") {
        found.retain(|(name, _)| name.contains(&only));
    }
    found
}

/// Returns the scenario with the present output of its commands.
fn play(text: &str) -> String {
    let mut stage = stage::Stage::default();
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.starts_with("  ")) {
        out.push_str(line);
        out.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            for line_out in stage.command(line) {
                out.push_str(&format!("  {line_out}\n"));
            }
        }
    }
    out
}

/// Returns the bugs named in a scenario's `# re-opened by:` lines.
fn bugs(text: &str) -> Vec<Bug> {
    let named = text
        .lines()
        .filter_map(|line| line.strip_prefix("# re-opened by: "));
    named
        .flat_map(|names| names.split(", "))
        .map(|name| {
            let found = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
            *found.unwrap_or_else(|| panic!("no such bug: {name}"))
        })
        .collect()
}

#[test]
fn every_scenario_reads_as_it_is_written() {
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, path) in scenarios() {
        let text = fs::read_to_string(&path).expect("a scenario is text");
        let played = play(&text);
        assert!(
            !played.contains("cannot:") || std::env::var("UPDATE_EXPECT").is_ok(),
            "{name} says what cannot be done"
        );
        expect_test::expect_file![path].assert_eq(&played);
        assert!(!played.contains("BROKEN"), "{name} is broken:\n{played}");
        assert!(played.contains("\ncheck\n"), "{name} checks nothing");
    }
}

#[test]
fn every_interleaving_has_a_bug_that_it_catches() {
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut caught = 0;
    let mut missed = Vec::new();
    let mut table = String::new();
    for (name, path) in scenarios() {
        let text = fs::read_to_string(&path).expect("a scenario is text");
        let bugs = bugs(&text);
        for &bug in &bugs {
            let played = planted::with(Some(bug), || play(&text));
            let broken = played.lines().find(|line| line.contains("BROKEN"));
            if std::env::var("SHOW").is_ok() {
                eprintln!("{name} under {bug:?}:\n{played}");
            }
            if broken.is_none() {
                missed.push(format!("{name} | {bug:?}"));
            }
            let what = broken.map_or("nothing", str::trim_start);
            table.push_str(&format!("{name} | {bug:?} | {what}\n"));
        }
        caught += usize::from(!bugs.is_empty() && name < format!("{}", INTERLEAVINGS + 1));
    }
    eprintln!("scenario | bug | what broke\n{table}");
    assert!(missed.is_empty(), "not caught: {missed:#?}");
    if std::env::var("SCENARIO").is_err() {
        // Since a quota is dealt in slices, the bug of the 21st shows in fleets alone: see `ReturnCrossesStamps`.
        assert_eq!(caught, INTERLEAVINGS - 1);
    }
}
