use super::*;

#[test]
fn the_first_troubles_are_shown_and_the_others_counted() {
    let text = "[run]\nduration = \"1s\"\n[[budget]]\nkey = \"a\"\nrate = \"1/s\"\n[[clients]]\nrate = \"1/s\"\n";
    let scenario = crate::scenario::Scenario::parse("calm", text, None).expect("it is well");
    let mut summary = crate::runner::run(&scenario, 7..8, 1, &|_| {});
    assert_eq!(troubles(&summary), "");
    let seed = &mut summary.seeds[0];
    seed.failures = (1..=6).map(|number| format!("failure {number}")).collect();
    seed.doubts = (1..=4).map(|number| format!("doubt {number}")).collect();
    summary.missed = vec!["no leader crashed".to_owned()];
    let problem = troubles(&summary);
    let lines: Vec<&str> = problem.lines().collect();
    assert_eq!(lines.len(), 10, "{problem}");
    assert_eq!(lines[0], "calm seed 7: failure 1");
    assert_eq!(lines[7], "calm seed 7: doubt 2");
    assert_eq!(lines[8..], ["calm: and 2 more", "calm: no leader crashed"]);
}
