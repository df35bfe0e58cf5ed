//! Every scenario of the library is compiled in, explains itself, and passes.

use aliquot_sim::judge::Verdict;
use aliquot_sim::library;
use aliquot_sim::runner;
use aliquot_sim::scenario::{Scenario, Tier, What};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Scenarios that take long. The CI step that runs many seeds covers them.
const LONG: &[&str] = &[
    "doorman-5",
    "doorman-6",
    "doorman-7",
    "drl-490",
    "drl-dynamic",
    "escrow/n5",
    "escrow/n512",
    "escrow/n64",
    "ten-thousand-keys",
];

fn scenario(name: &str) -> Scenario {
    let text = library::text(name).expect("it is in the library");
    Scenario::parse(name, text, None).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}

/// Collects the names of all files below a folder.
fn files(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        let name = path
            .file_stem()
            .expect("it has a name")
            .to_string_lossy()
            .into_owned();
        match path.is_dir() {
            true => files(&path, &format!("{prefix}{name}/"), found),
            false => drop(found.insert(format!("{prefix}{name}"))),
        }
    }
}

#[test]
fn every_file_is_in_the_library_and_says_what_it_teaches() {
    let mut found = BTreeSet::new();
    files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"),
        "",
        &mut found,
    );
    let named: BTreeSet<String> = library::names().map(str::to_owned).collect();
    assert_eq!(found, named);
    for name in library::names() {
        let scenario = scenario(name);
        assert!(
            scenario.text.starts_with("# "),
            "{name} does not say what it teaches"
        );
        assert!(scenario.run.says.is_some(), "{name} has no title");
        assert!(
            !scenario.asserts.is_empty() || name.ends_with("swarm") || name.starts_with("swarm"),
            "{name} asserts nothing"
        );
    }
    let clocks = library::names().filter(|name| name.starts_with("clock-"));
    assert!(clocks.count() >= 8);
    assert!(
        library::names()
            .filter(|name| name.starts_with("gossip-table/"))
            .count()
            >= 18
    );
}

/// Returns true for scenarios of the network tier. Their seeds need processes of their own, see
/// `tests/network.rs`.
fn is_real(name: &str) -> bool {
    scenario(name).run.tier == Tier::Network
}

/// Runs a scenario of the library. Returns what does not hold, if anything.
fn trouble(name: &str) -> Option<String> {
    let mut scenario = scenario(name);
    // Hitting a mark may need more seeds than there is time for here.
    scenario
        .asserts
        .retain(|assert| !matches!(assert.what, What::Sometimes(_)));
    let seeds = match name {
        "swarm-rules" => 0..12,
        _ if name.starts_with("swarm") => 0..4,
        _ => 0..1,
    };
    let summary = runner::run(&scenario, seeds, 1, &|_| {});
    let seeds = summary.seeds.iter();
    let printed: Vec<String> = seeds
        .flat_map(|seed| seed.failures.iter().chain(&seed.doubts).cloned())
        .collect();
    (summary.verdict() != Verdict::Pass).then(|| format!("{name}: {}", printed.join("; ")))
}

#[test]
fn every_scenario_passes() {
    let names: Vec<&str> = library::names()
        .filter(|name| !LONG.contains(name) && !is_real(name))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failed = Vec::new();
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            failed.extend(trouble(name));
        }
        failed
    };
    let failed = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut failed = work();
        failed.extend(other.join().expect("no scenario panics"));
        failed
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
