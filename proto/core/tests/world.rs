//! The theorem under faults: three nodes and fifty clients, with every kind of fault, never admit more
//! together than one bucket would (invariants 1, 2, 3, 6, 9, 11 and 14 of `docs/invariants.md`).
//!
//! `ALIQUOT_SEEDS` sets the number of seeds; without `CI` it may be fewer than usual. `ALIQUOT_SEED` selects
//! a seed to print step by step.

#[path = "world/kernel.rs"]
mod kernel;
#[path = "world/report.rs"]
mod report;

use aliquot_core::share::Kind;
use kernel::{Plan, World};
use report::Summary;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the figures say how long they took"
)]
fn summary(seeds: u64) -> Summary {
    let since = std::time::Instant::now();
    let seeds = report::run(0..seeds, |seed| Plan::draw(seed, false));
    let wall = since.elapsed();
    Summary { seeds, wall }
}

/// Returns the number of seeds to run instead of `usual`: fewer only for an interactive run, and never
/// without a message.
#[expect(clippy::print_stdout, reason = "fewer seeds prove less")]
fn wanted(usual: u64) -> u64 {
    let wanted = number("ALIQUOT_SEEDS").unwrap_or(usual).max(1);
    if wanted >= usual || std::env::var_os("CI").is_some() {
        return wanted.max(usual);
    }
    println!("ONLY {wanted} SEEDS instead of {usual}, as ALIQUOT_SEEDS says");
    wanted
}

#[expect(clippy::print_stdout, reason = "the figures are what CI prints")]
fn judge(seeds: u64) {
    let summary = summary(wanted(seeds));
    println!("{summary}");
    let mut breaches: Vec<String> = summary.breaches().collect();
    let slow = summary
        .seeds
        .iter()
        .filter(|(_, seen)| seen.breach.is_none() && seen.healed < Plan::LEAST_HEALED)
        .map(|(seed, seen)| format!("seed {seed} admitted {:.4} of R once healed", seen.healed));
    breaches.extend(slow);
    assert!(breaches.is_empty(), "{}\n{summary}", breaches.join("\n"));
    assert!(summary.faults_least() >= 10.0, "too few faults\n{summary}");
    assert!(
        summary.median(|seen| seen.utilisation) >= 0.70,
        "a world that refuses everything proves nothing\n{summary}"
    );
}

/// Runs worlds of quotas and of permits, half as many each.
#[expect(clippy::print_stdout, reason = "the figures are what CI prints")]
fn judge_counted(seeds: u64) {
    for kind in [Kind::Quota, Kind::Concurrency] {
        let seeds = report::run(0..seeds / 2, |seed| Plan::counted(seed, kind));
        let summary = Summary {
            seeds,
            ..Summary::default()
        };
        let breaches: Vec<String> = summary.breaches().collect();
        let admitted = summary.median(|seen| seen.counted as f64);
        let seeds = summary.seeds.len();
        println!(
            "{kind:?}: {seeds} seeds, {} breaches, {} faults per seed at least, {admitted} admitted in the median",
            breaches.len(),
            summary.faults_least()
        );
        assert!(breaches.is_empty(), "{kind:?}\n{}", breaches.join("\n"));
        assert!(admitted >= 500.0, "a world that refuses everything");
    }
}

/// Runs worlds whose clients request tokens of a budget that is too small to divide.
#[expect(clippy::print_stdout, reason = "the figures are what CI prints")]
fn judge_small(seeds: u64) {
    let seeds = report::run(0..seeds, Plan::small);
    let summary = Summary {
        seeds,
        ..Summary::default()
    };
    let breaches: Vec<String> = summary.breaches().collect();
    println!("{summary}");
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    for (seed, seen) in &summary.seeds {
        let healed = seen.healed;
        assert!(
            healed >= 0.95,
            "seed {seed} admitted {healed} of R once healed"
        );
        assert!(
            seen.counted > 1_000,
            "seed {seed} asked for next to nothing"
        );
    }
}

#[test]
fn the_fleet_admits_no_more_than_one_bucket_would_whatever_happens() {
    judge(40);
}

#[test]
#[ignore = "minutes: CI runs it"]
fn two_thousand_worlds_keep_the_contract() {
    judge(2_000);
    judge_counted(200);
    judge_small(200);
}

#[test]
fn quotas_and_permits_are_never_exceeded_whatever_happens() {
    judge_counted(20);
}

#[test]
fn budgets_too_small_to_divide_are_used_up_and_never_exceeded_whatever_happens() {
    judge_small(20);
}

#[test]
fn a_seed_is_a_world_and_the_same_one_every_time() {
    let trace = |seed| World::new(Plan::draw(seed, false)).run().trace;
    for seed in [1, 2, 3] {
        assert_eq!(trace(seed), trace(seed));
    }
    assert_ne!(trace(1), trace(2));
}

#[test]
#[ignore = "for reading: ALIQUOT_SEED says which"]
fn one_world_told_step_by_step() {
    let mut world = World::new(Plan::draw(number("ALIQUOT_SEED").unwrap_or(0), false));
    world.verbose = true;
    let seen = world.run();
    assert_eq!(seen.breach, None, "{seen:?}");
}

#[test]
#[ignore = "for reading: the figures of ALIQUOT_SEEDS seeds, one by one"]
fn worlds_one_by_one() {
    let draw = |seed| Plan::draw(seed, false);
    for (seed, seen) in report::run(0..number("ALIQUOT_SEEDS").unwrap_or(100), draw) {
        let (healed, utilisation, faults) = (seen.healed, seen.utilisation, seen.faults);
        let plan = Plan::draw(seed, false);
        let slow = if healed < Plan::LEAST_HEALED {
            "SLOW"
        } else {
            "well"
        };
        eprintln!(
            "{slow} healed {healed:.4} utilisation {utilisation:.3} faults {faults} {plan:?}"
        );
    }
}
