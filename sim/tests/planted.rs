//! The test of the test: bugs that a reviewer could pass are caught by the
//! oracle, each within a few seeds of one scenario, and the same seeds show
//! nothing without them. The table says which invariant or figure told of each,
//! by which seed, and how few faults shrinking leaves.

#[path = "planted/rows.rs"]
mod rows;

use aliquot_core::planted::{self, Bug};
use aliquot_sim::judge::{Verdict, judge};
use aliquot_sim::library;
use aliquot_sim::scenario::Scenario;
use aliquot_sim::shrink::shrink;
use rows::Row;
use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const FAMILIES: &[(&str, &[Row])] = &[
    ("lease", rows::LEASE),
    ("bucket", rows::BUCKET),
    ("allocation", rows::ALLOCATION),
    ("replication", rows::REPLICATION),
    ("session", rows::SESSION),
];

/// So many seeds are tried.
const SEEDS: u64 = 100;

fn scenario(name: &str) -> Scenario {
    let text = library::text(name).unwrap_or_else(|| panic!("{name} is in the library"));
    Scenario::parse(name, text, None).expect("it is well")
}

/// What tells of a bug.
struct Caught {
    seed: u64,
    by: String,
    /// Faults as they were drawn, and what shrinking left of them.
    faults: Option<(usize, usize)>,
}

/// What does not hold of a seed while a bug is planted, if anything.
fn trouble(scenario: &Scenario, bug: Option<Bug>, seed: u64) -> Option<String> {
    let run = || planted::with(bug, || judge(scenario, seed, false));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(found) if found.verdict == Verdict::Fail => found.failures.into_iter().next(),
        Ok(_) => None,
        Err(_) => Some("an assertion of the core".into()),
    }
}

fn caught(bug: Bug, scenario: &Scenario, shrinks: bool) -> Option<Caught> {
    let found = (0..SEEDS).find_map(|seed| Some((seed, trouble(scenario, Some(bug), seed)?)));
    let (seed, by) = found?;
    let clean = trouble(scenario, None, seed);
    assert_eq!(
        clean, None,
        "{} seed {seed} fails without a bug",
        scenario.name
    );
    let shrunk = || planted::with(Some(bug), || shrink(scenario, seed, &mut |_| {}));
    let faults = shrinks.then(|| catch_unwind(AssertUnwindSafe(shrunk)));
    let faults = faults
        .and_then(|shrunk| shrunk.ok()?.ok())
        .map(|shrunk| shrunk.faults);
    Some(Caught { seed, by, faults })
}

/// Every row with what became of it, in the order of the table.
fn table(shrinks: bool) -> Vec<(&'static str, Row, Option<Caught>)> {
    let rows = FAMILIES
        .iter()
        .flat_map(|(family, rows)| rows.iter().map(move |row| (*family, *row)));
    let rows: Vec<_> = rows.collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(family, (bug, name))) = rows.get(index) else {
                return;
            };
            let scenario = scenario(name);
            // Faults that are written down are there on purpose.
            let shrinks = shrinks && scenario.swarm.is_some();
            let found = caught(bug, &scenario, shrinks);
            let mut done = done.lock().expect("no row panics");
            done.push((index, family, (bug, name), found));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let mut done = done.into_inner().expect("no row panics");
    done.sort_by_key(|(index, ..)| *index);
    done.into_iter()
        .map(|(_, family, row, found)| (family, row, found))
        .collect()
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// Says it on standard output, for whoever reads the table.
macro_rules! say {
    ($($text:tt)*) => {
        let _ = writeln!(std::io::stdout().lock(), $($text)*);
    };
}

/// Prints the table and checks what is promised of it.
fn check(shrinks: bool) {
    let table = table(shrinks);
    say!(
        "{:<12} {:<22} {:<7} {:<20} {:>5} {:>6} {:>9}  told by",
        "family",
        "bug",
        "tier",
        "scenario",
        "seed",
        "needed",
        "faults"
    );
    let (mut missed, mut needed, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for (family, (bug, name), found) in &table {
        let Some(Caught { seed, by, faults }) = found else {
            missed.push(format!("{bug:?} ({}) in {name}", bug.story().trim()));
            continue;
        };
        needed.push(seed + 1);
        left.extend(faults.map(|(_, left)| left as u64));
        let faults = faults.map_or("-".into(), |(drawn, left)| format!("{left} of {drawn}"));
        let bug = format!("{bug:?}");
        say!(
            "{family:<12} {bug:<22} {:<7} {name:<20} {seed:>5} {:>6} {faults:>9}  {by:.70}",
            "kernel",
            seed + 1
        );
    }
    let (caught, seeds) = (needed.len(), median(needed));
    say!(
        "{caught} of {} bugs caught, by {seeds} seeds in the median",
        table.len()
    );
    assert!(
        missed.is_empty(),
        "not caught within {SEEDS} seeds:\n{}",
        missed.join("\n")
    );
    assert!(seeds <= 100, "{seeds} seeds are needed in the median");
    if shrinks {
        say!(
            "shrinking {} of them leaves {} faults in the median",
            left.len(),
            median(left.clone())
        );
        assert!(left.len() >= 10, "only {} were shrunk", left.len());
        assert!(median(left) <= 5, "shrinking leaves too much");
    }
}

#[test]
fn planted_bugs_are_caught() {
    check(false);
}

#[test]
#[ignore = "shrinks every bug that a swarm shows: minutes, optimised"]
fn planted_bugs_are_caught_and_shrunk() {
    check(true);
}

#[test]
fn there_are_thirty_bugs_of_five_families() {
    let all: Vec<Bug> = FAMILIES
        .iter()
        .flat_map(|(_, rows)| rows.iter().map(|(bug, _)| *bug))
        .collect();
    let different: BTreeSet<Bug> = all.iter().copied().collect();
    assert_eq!(
        all.len(),
        different.len(),
        "a bug stands twice in the table"
    );
    assert!(all.len() >= 30, "there are only {}", all.len());
    for (family, rows) in FAMILIES {
        assert!(!rows.is_empty(), "there are none of {family}");
    }
}
