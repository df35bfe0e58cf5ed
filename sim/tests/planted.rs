//! The test of the test: bugs that a reviewer could pass are caught by the
//! oracle, each within a few seeds of one scenario. The table says which
//! invariant told of it, and by which seed.

use aliquot_core::planted::{self, Bug};
use aliquot_sim::judge::{Verdict, judge};
use aliquot_sim::library;
use aliquot_sim::scenario::Scenario;

/// A bug, and the scenario that shows it.
const BUGS: &[(Bug, &str)] = &[
    (Bug::GrantStartsFull, "swarm"),
    (Bug::LeaseFromReceipt, "late-and-twice"),
    (Bug::NoPatience, "leader-crash"),
    (Bug::IncarnationReused, "swarm"),
    (Bug::ApplyTwice, "rolling-nodes"),
    (Bug::RaiseArrivesFull, "limit-dance"),
    (Bug::WithdrawLeavesFull, "swarm"),
    (Bug::PairNotFenced, "swarm"),
    (Bug::ClientOutlivesNode, "partition-leader"),
    (Bug::ReclaimCarriesTokens, "swarm"),
    (Bug::DeadEscrowFree, "quota-churn"),
    (Bug::ShortGrantWins, "late-and-twice"),
    (Bug::CloseFreesAll, "floors"),
    (Bug::PatienceLags, "swarm"),
    (Bug::FloorUnclipped, "floors"),
    (Bug::GhostFloorsReturned, "swarm"),
    (Bug::JumpEndsSessions, "clock-strobe"),
];

/// So many seeds are tried.
const SEEDS: u64 = 12;

fn scenario(name: &str) -> Scenario {
    let text = library::text(name).expect("it is in the library");
    Scenario::parse(name, text, None).expect("it is well")
}

/// The first seed in which the bug shows, and what told of it.
fn shows(bug: Bug, name: &str) -> Option<(u64, String)> {
    let mut scenario = scenario(name);
    // What catches a bug is an invariant, not a figure that is off.
    scenario.asserts.clear();
    (0..SEEDS).find_map(|seed| {
        let found = planted::with(Some(bug), || judge(&scenario, seed, false));
        let said = found.failures.into_iter().next()?;
        (found.verdict == Verdict::Fail).then_some((seed, said))
    })
}

#[test]
fn planted_bugs_are_caught() {
    let mut missed = Vec::new();
    println!("{:<22} {:<18} {:>4}  told by", "bug", "scenario", "seed");
    for (bug, name) in BUGS {
        match shows(*bug, name) {
            Some((seed, said)) => println!(
                "{:<22} {name:<18} {seed:>4}  {said:.90}",
                format!("{bug:?}")
            ),
            None => missed.push(format!("{bug:?} ({}) in {name}", bug.story())),
        }
    }
    assert!(
        missed.is_empty(),
        "not caught within {SEEDS} seeds:\n{}",
        missed.join("\n")
    );
}
