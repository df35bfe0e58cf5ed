//! Availability is a verdict: a fleet that strands what its limits make does not pass, on purpose or by a bug.

use aliquot_core::planted::{self, Bug};
use aliquot_sim::judge::{SeedResult, Verdict, judge};
use aliquot_sim::library;
use aliquot_sim::scenario::Scenario;

fn parsed(text: &str) -> Scenario {
    Scenario::parse("mine", text, None).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Judges the first seed of a scenario.
fn first(text: &str) -> SeedResult {
    judge(&parsed(text), 0, false)
}

#[track_caller]
fn fails(result: &SeedResult, by: &str) {
    let is_noted = result.failures.iter().any(|failure| failure.contains(by));
    assert!(result.verdict == Verdict::Fail && is_noted, "{result:?}");
}

#[test]
fn a_bug_that_strands_capacity_fails_without_an_assertion() {
    let text = library::text("small-burst").expect("it is in the library");
    let mut scenario = parsed(text);
    scenario.asserts.clear();
    let run = || judge(&scenario, 0, false);
    assert_eq!(run().verdict, Verdict::Pass);
    fails(
        &planted::with(Some(Bug::SmallBudgetDealt), run),
        "work-conservation",
    );
}

const BUSY: &str = r#"
[run]
duration = "60s"
[[budget]]
key = "reads"
rate = "100/s"
burst = 20
"#;

/// Two of three nodes are down from a time on.
fn without_quorum(at: &str, clients: &str) -> String {
    format!(
        r#"{BUSY}
        [[clients]]
        count = 4
        rate = "50/s"
        {clients}
        [[fault]]
        kind = "crash"
        at = "{at}"
        for = "90s"
        target = ["n1", "n2"]
        "#
    )
}

#[test]
fn a_fleet_that_admits_a_fifth_of_what_is_wanted_does_not_pass() {
    fails(&first(&without_quorum("6s", "")), "in the whole run");
    // Callers that wait want as much as those that are refused, although they ask only once.
    fails(
        &first(&without_quorum("6s", "loop = \"closed\"")),
        "in the whole run",
    );
}

#[test]
fn a_fleet_that_admits_nothing_fails_whatever_it_expects() {
    let none = without_quorum("0s", "").replace(
        "[run]",
        "[run]\nheal = \"0s\"\navailability = \"0%\"\navailability_through_faults = \"0%\"",
    );
    fails(&first(&none), "0 were used");
}

/// Of 25 tokens, chance decides how many exactly are used, but not that none is.
#[test]
fn a_fleet_that_admits_nothing_of_a_low_rate_fails() {
    let low = without_quorum("0s", "")
        .replace("rate = \"100/s\"\nburst = 20", "rate = \"1/s\"\nburst = 1")
        .replace("rate = \"50/s\"", "rate = \"1/s\"")
        .replace("[run]", "[run]\nheal = \"0s\"");
    fails(&first(&low), "0 were used");
}

#[test]
fn a_scenario_states_the_part_that_it_expects() {
    let outage = without_quorum("6s", "");
    let stated = outage.replace("[run]", "[run]\navailability_through_faults = \"10%\"");
    let result = first(&stated);
    assert_eq!(result.verdict, Verdict::Pass, "{result:?}");
    let part = result.figures["availability_through_faults"];
    assert!((0.1..0.25).contains(&part), "{part}");
    assert!(
        result.figures["availability"] > 0.9,
        "once healed: {result:?}"
    );
}

#[test]
fn quotas_count_whole_periods_and_permits_the_time_that_they_are_held() {
    let result = first(
        r#"
        [run]
        duration = "45s"
        [[budget]]
        key = "calls"
        quota = "100 per 10s"
        [[budget]]
        key = "jobs"
        concurrency = 10
        max_hold = "60s"
        [[clients]]
        count = 3
        key = "calls"
        rate = "10/s"
        [[clients]]
        count = 4
        key = "jobs"
        rate = "10/s"
        hold = "1s"
        "#,
    );
    assert_eq!(result.verdict, Verdict::Pass, "{result:?}");
    let of = |key: &str| {
        let found = result.keys.iter().find(|of| of.key == key);
        found.and_then(|of| of.used).expect("a figure")
    };
    let (calls, jobs) = (of("calls"), of("jobs"));
    assert!((0.9..=1.0).contains(&calls), "{calls}");
    assert!((0.8..=1.0).contains(&jobs), "{jobs}");
    // The seed's own figure is that of the worst key.
    assert_eq!(result.figures["utilisation"], calls.min(jobs));
}

/// Load moves from clients of one node to those of another, and the rounds that follow it are made durable `by` later.
fn moved_load(by: &str) -> SeedResult {
    first(&format!(
        r#"{BUSY}
        [[clients]]
        home = "n1"
        count = 2
        rate = "200/s"
        stop = "10s"
        [[clients]]
        home = "n2"
        count = 2
        rate = "200/s"
        start = "10s"
        [[fault]]
        kind = "slow_disk"
        at = "5s"
        for = "20s"
        target = "nodes"
        by = "{by}"
        [[assert]]
        metric = "utilisation"
        from = "12s"
        to = "15s"
        at_least = 0.9
        "#
    ))
}

#[test]
fn a_slow_disk_delays_what_the_log_must_make_durable() {
    let quick = moved_load("1ms");
    assert!(quick.verdict == Verdict::Pass, "{quick:?}");
    fails(&moved_load("8s"), "utilisation");
}
