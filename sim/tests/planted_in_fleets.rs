//! Tests of the tests: bugs that a reviewer could miss must be caught.
//!
//! Each bug must fail one of the first seeds of a scenario, and the same seed must pass without the bug. The
//! table shows which invariant or figure caught each bug, by which seed, and how few faults remain after
//! shrinking.

#[path = "planted/rows.rs"]
mod rows;

use aliquot_core::planted::{self, Bug};
use aliquot_sim::judge::judge;
use aliquot_sim::library;
use aliquot_sim::scenario::{Scenario, Tier};
use aliquot_sim::shrink::shrink;
use rows::Row;
use std::collections::BTreeSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Prints a line on standard output.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = writeln!(std::io::stdout().lock(), $($text)*);
    }};
}

const FAMILIES: &[(&str, &[Row])] = &[
    ("lease", rows::LEASE),
    ("bucket", rows::BUCKET),
    ("allocation", rows::ALLOCATION),
    ("replication", rows::REPLICATION),
    ("gossip", rows::GOSSIP),
    ("session", rows::SESSION),
];

/// Maximum number of seeds to try on a tier.
const fn seeds(tier: Tier) -> u64 {
    match tier {
        Tier::Kernel => 100,
        Tier::Network => 10,
    }
}

const fn word(tier: Tier) -> &'static str {
    match tier {
        Tier::Kernel => "kernel",
        Tier::Network => "network",
    }
}

fn scenario(name: &str) -> Scenario {
    let text = library::text(name).unwrap_or_else(|| panic!("{name} is in the library"));
    Scenario::parse(name, text, None).expect("it is well")
}

/// The seed that caught a bug.
struct Caught {
    seed: u64,
    by: String,
    /// Number of faults as drawn, and after shrinking.
    faults: Option<(usize, usize)>,
}

/// Returns the first thing that does not hold for a seed while a bug is planted and that names `by`, if anything.
fn trouble(scenario: &Scenario, bug: Option<Bug>, by: &str, seed: u64) -> Option<String> {
    let run = || planted::with(bug, || judge(scenario, seed, false));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(found) => found
            .failures
            .into_iter()
            .find(|failure| failure.contains(by)),
        Err(_) => Some("an assertion of the core".into()),
    }
}

/// Returns true if `.ci/run` runs this seed anyway and fails if anything is wrong. It covers the first seed
/// of each network scenario and many seeds of the swarm.
fn run_elsewhere(scenario: &Scenario, seed: u64) -> bool {
    let seeds = scenario.swarm.as_ref().map_or(1, |_| 128);
    scenario.run.tier == Tier::Network && seed < seeds
}

fn caught(bug: Bug, scenario: &Scenario, by: &str, shrinks: bool) -> Option<Caught> {
    let mut seeds = 0..seeds(scenario.run.tier);
    let found = seeds.find_map(|seed| {
        if scenario.run.tier == Tier::Network {
            say!("{TRIES}{seed}");
        }
        Some((seed, trouble(scenario, Some(bug), by, seed)?))
    });
    let (seed, by) = found?;
    let clean = match run_elsewhere(scenario, seed) {
        true => None,
        false => trouble(scenario, None, "", seed),
    };
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

/// Environment variable and output prefixes by which the table talks to the process of a row.
const ROW: &str = "ALIQUOT_ROW";
const TRIES: &str = "trying seed ";
const FOUND: &str = "found by seed ";

/// Catches a bug in a process of its own, so that the process runs one seed of the network tier at a time.
fn caught_apart(bug: Bug, name: &str) -> Option<Caught> {
    let program = std::env::current_exe().expect("a test has a program");
    let mut command = Command::new(program);
    command.args([
        "--ignored",
        "--exact",
        "--nocapture",
        "one_row_of_the_network",
    ]);
    let output = command.env(ROW, format!("{bug:?}={name}")).output();
    let output = output.expect("the program runs again");
    let message = String::from_utf8_lossy(&output.stdout);
    let found = message.lines().find_map(|line| line.strip_prefix(FOUND));
    let last = message
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix(TRIES));
    let (seed, by) = match (found, last) {
        (Some(found), _) => found.split_once(": ")?,
        // After a failed assertion in the log's library, the process ends without reporting anything more.
        (None, Some(seed)) if !output.status.success() => (seed, "the process died of it"),
        (None, _) => return None,
    };
    Some(Caught {
        seed: seed.parse().ok()?,
        by: by.to_owned(),
        faults: None,
    })
}

#[test]
#[ignore = "the table starts it"]
fn one_row_of_the_network() {
    for (bug, scenario) in asked(ROW) {
        match caught(bug, &scenario, "", false) {
            Some(Caught { seed, by, .. }) => say!("\n{FOUND}{seed}: {by}"),
            None => say!("\nnothing found"),
        }
    }
}

/// A row of the table with its family and its result.
type Done = (&'static str, Row, Option<Caught>);

/// Runs all rows of a tier on two threads, and returns their results.
fn table(tier: Tier, shrinks: bool) -> Vec<Done> {
    let rows = FAMILIES
        .iter()
        .flat_map(|(family, rows)| rows.iter().map(move |row| (*family, *row)));
    let rows: Vec<(&str, Row)> = rows
        .filter(|(_, (_, name, _))| scenario(name).run.tier == tier)
        .collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(family, (bug, name, by))) = rows.get(index) else {
                return;
            };
            let found = match tier {
                Tier::Kernel => {
                    let scenario = scenario(name);
                    // Faults of a scenario file are there on purpose.
                    let shrinks = shrinks && scenario.swarm.is_some();
                    caught(bug, &scenario, by, shrinks)
                }
                Tier::Network => caught_apart(bug, name),
            };
            let mut done = done.lock().expect("no row panics");
            done.push((index, (family, (bug, name, by), found)));
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(work)));
    });
    let mut done = done.into_inner().expect("no row panics");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, row)| row).collect()
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or(0)
}

/// Prints a tier's table, and checks that all bugs were caught and that shrinking works.
fn check(tier: Tier, shrinks: bool) {
    let table = table(tier, shrinks);
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
    let (mut missed, mut left, mut needed) = (Vec::new(), Vec::new(), Vec::new());
    for (family, (bug, name, _), found) in &table {
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
            word(tier),
            seed + 1
        );
    }
    let (caught, median_needed) = (needed.len(), median(needed));
    say!(
        "{caught} bugs caught by the {} tier, by {median_needed} seeds in the median",
        word(tier)
    );
    assert!(
        missed.is_empty(),
        "not caught within {} seeds:\n{}",
        seeds(tier),
        missed.join("\n")
    );
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
fn planted_bugs_are_caught_and_shrunk() {
    check(Tier::Kernel, true);
}

#[test]
#[ignore = "runs networks: minutes"]
fn planted_bugs_of_the_real_code_are_caught() {
    check(Tier::Network, false);
}

#[test]
fn there_are_bugs_of_every_family() {
    let all: Vec<Bug> = FAMILIES
        .iter()
        .flat_map(|(_, rows)| rows.iter().map(|(bug, ..)| *bug))
        .collect();
    let different: BTreeSet<Bug> = all.iter().copied().collect();
    assert_eq!(
        all.len(),
        different.len(),
        "a bug stands twice in the table"
    );
    assert!(all.len() >= 40, "there are only {}", all.len());
    for (family, rows) in FAMILIES {
        assert!(!rows.is_empty(), "there are none of {family}");
    }
}

/// Parses the pairs `BUG=SCENARIO,…` of an environment variable.
fn asked(variable: &str) -> Vec<(Bug, Scenario)> {
    let asked = std::env::var(variable).unwrap_or_default();
    let asked = asked
        .split_whitespace()
        .filter_map(|one| one.split_once('='));
    let asked = asked.flat_map(|(name, scenarios)| {
        let bug = Bug::ALL.iter().find(|bug| format!("{bug:?}") == name);
        let bug = *bug.unwrap_or_else(|| panic!("{name} is no bug"));
        scenarios.split(',').map(move |name| (bug, scenario(name)))
    });
    asked.collect()
}

/// Finds out which scenarios catch which bugs, from `BUG=SCENARIO,…` in `ALIQUOT_TRY`. Helps to add rows.
#[test]
#[ignore = "a tool for adding rows"]
fn what_shows_a_bug() {
    let tries = asked("ALIQUOT_TRY");
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((bug, scenario)) = tries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut seeds = 0..scenario.swarm.as_ref().map_or(3, |_| 60);
            let found =
                seeds.find_map(|seed| Some((seed, trouble(scenario, Some(*bug), "", seed)?)));
            let found = found.map_or("nothing".into(), |(seed, by)| {
                format!("seed {seed}: {by:.90}")
            });
            say!("{bug:?} in {}: {found}", scenario.name);
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
}
