use super::*;

#[test]
fn every_look_is_of_a_column_and_within_its_scenario() {
    for (table, row) in all_rows() {
        let known = |heading: &str| table.columns.iter().any(|of| of.heading == heading);
        assert!(row.but.iter().all(|(of, _)| known(of)), "{}", row.scenario);
        let end = scenario(row.scenario).run.duration as f64 / 1e9;
        let inside = |look: &Look| look.from < look.to.unwrap_or(end) && look.to <= Some(end);
        assert!(
            table.windows(row).all(|look| inside(&look)),
            "{}",
            row.scenario
        );
        assert!(table.seeds > 0, "{}", table.heading);
    }
}

#[test]
fn no_scenario_stands_in_two_rows() {
    let names: std::collections::BTreeSet<_> = all_rows().map(|(_, row)| row.scenario).collect();
    assert_eq!(names.len(), all_rows().count());
}

#[test]
fn the_worst_of_the_seeds_is_told_and_judged_as_it_is_written() {
    let goal = Goal::AtLeast(1.0);
    let worst = worse(goal, Some(0.996), Some(1.2));
    let judge = |value| goal.judge(Unit::OfLimit, value);
    assert_eq!(judge(worst), ("1.00 R".into(), true));
    assert_eq!(judge(Some(0.994)), ("0.99 R".into(), false));
    assert_eq!(judge(worse(goal, worst, None)), ("-".into(), false));
    assert_eq!(worse(Goal::AtMost(1.0), Some(2.0), Some(3.0)), Some(3.0));
    let loss = Goal::AtMost(0.01).judge(Unit::PerCent, Some(-0.000_1));
    assert_eq!(loss, ("0.0 %".into(), true));
}
