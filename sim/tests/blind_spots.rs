//! Tests of the simulator itself: a breach at any time of a run is noticed, and a replay is of the seed that it
//! names.

use aliquot_core::planted::{self, Bug};
use aliquot_sim::judge::judge;
use aliquot_sim::mark::Mark;
use aliquot_sim::oracle::Breach;
use aliquot_sim::plan::Plan;
use aliquot_sim::scenario::Scenario;
use aliquot_sim::world::World;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const SEC: u64 = 1_000_000_000;

/// Four clients that ask for twice the limit, so that every token is used. The burst gives each a part large enough
/// to decide by itself, by its own clock.
const BUSY: &str = r#"
[topology]
nodes = 3
[[budget]]
key = "reads"
rate = "1000/s"
burst = 100
[[clients]]
count = 4
rate = "500/s"
"#;

/// Returns the breaches of the first seed of a scenario.
fn breaches(lines: &str) -> Vec<Breach> {
    let scenario = Scenario::parse("mine", &format!("{lines}{BUSY}"), None);
    let plan = Plan::draw(&scenario.expect("it is well"), 0);
    World::new(plan).live().breaches
}

/// Checks that an invariant is broken, and that its breach ends within these true times.
#[track_caller]
fn is_broken(breaches: &[Breach], invariant: &str, within: (u64, u64)) {
    let breach = breaches.iter().find(|breach| breach.invariant == invariant);
    let breach = breach.unwrap_or_else(|| panic!("{invariant} held: {breaches:?}"));
    let end = breach.within.1;
    assert!(within.0 <= end && end <= within.1, "{breach}");
}

#[test]
fn a_breach_in_the_last_second_of_a_run_is_noticed() {
    // The clocks of all clients run at twice their speed, so that they admit twice the limit.
    let broken = breaches(
        r#"
        [run]
        duration = "10s"
        heal = "0s"
        [[fault]]
        kind = "clock_rate"
        at = "9200ms"
        for = "5s"
        target = "clients"
        ppm = 1000000
        "#,
    );
    for invariant in ["envelope", "conservation"] {
        is_broken(&broken, invariant, (9 * SEC, 10 * SEC));
    }
}

#[test]
fn a_breach_while_healing_is_noticed() {
    // A client starts in the healing phase, and its clock runs at twice its speed.
    let broken = breaches(
        r#"
        [run]
        duration = "10s"
        [[fault]]
        kind = "reset"
        at = "9s"
        [clock.late]
        ppm = 1000000
        [[clients]]
        name = "late"
        start = "12s"
        rate = "2000/s"
        "#,
    );
    for invariant in ["envelope", "conservation"] {
        is_broken(&broken, invariant, (12 * SEC, 13 * SEC));
    }
}

#[test]
fn leases_and_edges_are_watched_though_another_invariant_is_broken_as_well() {
    for (bug, name, seed, invariant) in [
        (Bug::NoPatience, "leader-crash", 0, "patience"),
        (Bug::IncarnationReused, "swarm", 1, "monotone-edges"),
    ] {
        let text = aliquot_sim::library::text(name).expect("it is in the library");
        let scenario = Scenario::parse(name, text, None).expect("it is well");
        let found = planted::with(Some(bug), || judge(&scenario, seed, false));
        let told = found.failures.iter().any(|what| what.contains(invariant));
        assert!(told, "{bug:?}: {:?}", found.failures);
    }
}

#[test]
fn a_replay_has_the_faults_of_its_seed() {
    let text = aliquot_sim::library::text("swarm").expect("it is in the library");
    let scenario = Scenario::parse("swarm", text, None).expect("it is well");
    let mut all = BTreeSet::new();
    for seed in 3..6 {
        let output = Command::new(env!("CARGO_BIN_EXE_aliquot-sim"))
            .args(["replay", "swarm", "--seed", &seed.to_string()])
            .output()
            .expect("the program runs");
        let printed = String::from_utf8(output.stdout).expect("it speaks UTF-8");
        let lines: Vec<serde_json::Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"))
            .collect();
        let faults = lines.iter().filter(|line| line["kind"] == "fault");
        let replayed: Vec<(u64, String)> = faults
            .map(|line| {
                let kind = line["text"]
                    .as_str()
                    .and_then(|text| text.split(' ').next());
                let at = line["at"].as_f64().expect("it has a time");
                ((at * 1e9).round() as u64, kind.unwrap_or_default().into())
            })
            .collect();
        let plan = Plan::draw(&scenario, seed);
        let end = plan.scenario.run.duration;
        let drawn = plan.faults.iter().filter(|fault| fault.at <= end);
        // True time advances in quanta.
        let drawn: Vec<(u64, String)> = drawn
            .map(|fault| (fault.at.next_multiple_of(10_000), fault.kind.to_owned()))
            .collect();
        assert!(!drawn.is_empty());
        assert_eq!(replayed, drawn, "seed {seed}");
        assert_eq!(lines.last().expect("it ends")["seed"], seed);
        all.insert(replayed);
    }
    assert_eq!(all.len(), 3, "seeds differ in their faults");
}

/// Collects the marks that a folder's sources name.
fn named(path: &Path, found: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("the folder is there") {
            named(&entry.expect("it can be read").path(), found);
        }
        return;
    }
    let text = std::fs::read_to_string(path).expect("it can be read");
    let marks = text.split("Mark::").skip(1);
    found.extend(marks.map(|rest| {
        let end = rest.find(|char: char| !char.is_alphanumeric());
        rest[..end.unwrap_or(rest.len())].to_owned()
    }));
}

#[test]
fn marks_of_both_tiers_are_counted_in_code_that_both_run() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for path in ["observer.rs", "faults.rs", "network.rs", "network"] {
        named(&src.join(path), &mut found);
    }
    for mark in Mark::ALL {
        let counted = found.contains(&format!("{mark:?}"));
        let of_kernel = mark.is_of_kernel();
        assert_eq!(counted, !of_kernel, "{mark:?}, {}", mark.name());
    }
}
