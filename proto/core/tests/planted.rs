//! The test of the tests: every planted bug is caught, by the world or by a law that names it, and most bugs
//! show nothing without faults.
//!
//! `planted_bugs_are_caught` prints the table: bug, caught by, first seed, and "silent" if the world shows
//! nothing without faults.

#[path = "world/kernel.rs"]
mod kernel;

use aliquot_core::planted::{self, Bug};
use aliquot_core::share::Kind;
use kernel::{Plan, World};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bugs that show in the world, each within `SEEDS` seeds.
const IN_THE_WORLD: &[Bug] = &[
    Bug::GrantStartsFull,
    Bug::LeaseFromReceipt,
    Bug::NoDriftMargin,
    Bug::NoPatience,
    Bug::IncarnationReused,
    Bug::ApplyTwice,
    Bug::RaiseArrivesFull,
    Bug::WithdrawLeavesFull,
    Bug::ShortGrantWins,
    Bug::CloseFreesAll,
    Bug::PairNotFenced,
    Bug::PatienceLags,
    Bug::RebornOnNewBooks,
    Bug::LingeringFloorsReturned,
    Bug::ClientOutlivesNode,
    Bug::ReclaimCarriesTokens,
    Bug::LeaseUnchecked,
    Bug::FloorUnclipped,
    Bug::DeadEscrowFree,
    Bug::LoweringForgets,
    Bug::ReturnCrossesStamps,
    Bug::LingeringPermitsReturned,
    Bug::SmallBudgetDealt,
];

/// Bugs of budgets that are too small to divide.
const OF_THE_SMALL: &[Bug] = &[Bug::SmallBudgetDealt];

/// Returns the kind of budget that shows a bug soonest.
fn kind_of(bug: Bug) -> Kind {
    match bug {
        Bug::DeadEscrowFree | Bug::LoweringForgets | Bug::ReturnCrossesStamps => Kind::Quota,
        Bug::LingeringPermitsReturned => Kind::Concurrency,
        _ => Kind::Rate,
    }
}

fn plan(bug: Bug, seed: u64, calm: bool) -> Plan {
    match kind_of(bug) {
        _ if OF_THE_SMALL.contains(&bug) => Plan {
            calm,
            ..Plan::small(seed)
        },
        Kind::Rate => Plan::draw(seed, calm),
        kind => Plan {
            calm,
            ..Plan::counted(seed, kind)
        },
    }
}

/// Number of seeds that are tried.
const SEEDS: u64 = 150;

/// Number of calm seeds that must show nothing for a bug to count as silent.
const CALM_SEEDS: u64 = 3;

/// Returns the first seed of a world in which the bug shows, and the check that found it.
fn shows(bug: Bug, seeds: u64, calm: bool) -> Option<(u64, String)> {
    planted::with(Some(bug), || {
        (0..seeds).find_map(|seed| {
            let plan = plan(bug, seed, calm);
            let world = || World::new(plan).run();
            let by = match std::panic::catch_unwind(world) {
                Ok(seen) => match seen.breach {
                    Some(breach) => Some(breach.by.into()),
                    // Without a bug every seed heals by more.
                    None => (seen.healed < Plan::LEAST_HEALED - 0.09)
                        .then(|| "work conservation".into()),
                },
                Err(_) => Some("an assertion of the core".into()),
            };
            by.map(|by| (seed, by))
        })
    })
}

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

/// One line of the table.
struct Row {
    bug: Bug,
    caught: Option<(String, Option<u64>)>,
    silent: Option<bool>,
}

fn row(bug: Bug, sources: &[(String, String)]) -> Row {
    if IN_THE_WORLD.contains(&bug) {
        let found = shows(bug, SEEDS, false);
        return Row {
            bug,
            silent: found
                .as_ref()
                .map(|_| shows(bug, CALM_SEEDS, true).is_none()),
            caught: found.map(|(seed, by)| (in_world(bug, &by), Some(seed))),
        };
    }
    Row {
        bug,
        silent: None,
        caught: law(bug, sources)
            .or_else(|| scenario(bug, sources))
            .or_else(|| simulated(bug))
            .map(|by| (by, None)),
    }
}

fn in_world(bug: Bug, by: &str) -> String {
    match kind_of(bug) {
        _ if OF_THE_SMALL.contains(&bug) => format!("world of small budgets: {by}"),
        Kind::Rate => format!("world: {by}"),
        Kind::Quota => format!("world of quotas: {by}"),
        Kind::Concurrency => format!("world of permits: {by}"),
    }
}

fn table(bugs: &[Bug]) -> Vec<Row> {
    let (next, rows, sources) = (AtomicUsize::new(0), Mutex::new(Vec::new()), sources());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = row(bug, &sources);
                    rows.lock().expect("no row panics").push(row);
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no row panics");
    rows.sort_by_key(|row| row.bug);
    rows
}

#[test]
fn planted_bugs_are_caught() {
    let rows = table(Bug::ALL);
    let mut missed = Vec::new();
    for row in &rows {
        let (by, seed) = match &row.caught {
            Some((by, seed)) => (
                by.as_str(),
                seed.map_or("-".into(), |seed| seed.to_string()),
            ),
            None => ("nothing", "-".into()),
        };
        let silent = row
            .silent
            .map_or("-", |silent| if silent { "silent" } else { "shows" });
        let name = format!("{:?}", row.bug);
        println!(
            "{name:<24} {seed:>4}  {silent:<7} {by:<50} {}",
            row.bug.story().trim()
        );
        if row.caught.is_none() {
            missed.push(name);
        }
    }
    let caught = rows.len() - missed.len();
    let in_world: Vec<bool> = rows.iter().filter_map(|row| row.silent).collect();
    let silent = in_world.iter().filter(|&&silent| silent).count();
    println!(
        "{} bugs, {caught} caught, {} by the world; {silent} of those silent without faults",
        rows.len(),
        in_world.len()
    );
    assert!(missed.is_empty(), "nothing catches {}", missed.join(", "));
    assert!(caught >= 25, "only {caught} bugs are caught");
    assert!(
        silent * 2 >= in_world.len(),
        "only {silent} of {} are silent without faults",
        in_world.len()
    );
}
