use super::*;

/// The clocks of a client in many runs whose drift is bounded by 1,000 parts per million.
fn clocks(lines: &str) -> Vec<Clock> {
    let text = format!(
        "[[budget]]\nkey = \"reads\"\nrate = \"1/s\"\n[[clients]]\nname = \"caller\"\nrate = \"1/s\"\n{lines}"
    );
    let scenario = Scenario::parse("mine", &text, None);
    let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
    let hosts = Hosts::new(&scenario, 0);
    let client = hosts.nodes;
    let seeds = 0..1_000;
    seeds
        .map(|seed| clock_of(&scenario, &hosts, client, seed))
        .collect()
}

/// The nanoseconds by which a clock is ahead of true time after a second, and its first reading.
fn drift_and_offset(clock: &Clock) -> (i64, u64) {
    let first = clock.read(0).nanos();
    let passed = clock.read(SEC).nanos() - first;
    (passed as i64 - SEC as i64, first)
}

#[test]
fn clocks_drift_within_the_bound_and_often_at_it() {
    let all: Vec<(i64, u64)> = clocks("").iter().map(drift_and_offset).collect();
    let bound = 1_000_000;
    let count = |of: &dyn Fn(i64) -> bool| all.iter().filter(|(drift, _)| of(*drift)).count();
    assert_eq!(count(&|drift| drift.abs() > bound), 0);
    for drift in [bound, -bound] {
        assert!(count(&|of| of == drift) > 200, "at {drift}");
    }
    // The others are anywhere between, in steps of 100 parts per million.
    for step in -9..=9 {
        assert!(count(&|of| of == step * 100_000) > 5, "at {step}");
    }
    let offsets = || all.iter().map(|(_, offset)| *offset);
    assert!(offsets().all(|offset| offset < 1_001 * SEC));
    assert!(offsets().filter(|offset| *offset > 500 * SEC).count() > 400);
    assert!(offsets().filter(|offset| *offset < 500 * SEC).count() > 400);
}

#[test]
fn a_rule_sets_the_clocks_of_its_hosts() {
    let rule = "[clock.caller]\nppm = -300\noffset = \"7s\"";
    for clock in clocks(rule) {
        assert_eq!(drift_and_offset(&clock), (-300_000, 7 * SEC));
    }
}
