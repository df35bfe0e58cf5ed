//! Groups of clients that use many keys of a template.

use aliquot_sim::judge::Verdict;
use aliquot_sim::runner;
use aliquot_sim::scenario::Scenario;
use std::process::Command;

const TENANTS: &str = r#"
[run]
duration = "20s"

[topology]
nodes = 3
link_delay = "1ms"

[[budget]]
key = "tenant/*"
rate = "20/s"
burst = 20

[[clients]]
count = 4
rate = "100/s"
key = "tenant/*"
keys = 600
skew = "zipf(1.2)"

[[clients]]
name = "one"
rate = "5/s"
key = "tenant/1"
"#;

#[test]
fn the_keys_of_a_group_are_one_row() {
    let scenario = Scenario::parse("tenants", TENANTS, None).expect("it is well");
    let summary = runner::run(&scenario, 0..1, 1, &|_| {});
    let seed = &summary.seeds[0];
    assert_eq!(seed.verdict, Verdict::Pass, "{:?}", seed.failures);
    // The key of the second group is one of the first group's.
    assert_eq!(seed.keys.len(), 1);
    let row = &seed.keys[0];
    assert_eq!(row.key, "tenant/*");
    // Most of the keys are asked for less than they may have.
    let used = row.used.expect("something was used");
    assert!((0.005..0.04).contains(&used), "{used}");
    let lost = row.lost.expect("something was wanted");
    assert!((-0.01..0.2).contains(&lost), "{lost}");
    let (key, most) = row.worst.as_ref().expect("a key was wanted often");
    assert!(key.starts_with("tenant/"), "{key}");
    assert_eq!(seed.figures.get("loss_of_worst_key"), Some(most));
}

#[test]
fn a_seed_with_many_keys_is_the_same_in_every_process() {
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("tenants.toml");
    std::fs::write(&file, TENANTS.replace("20s", "5s")).expect("it is written");
    let trace = |seed: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_aliquot-sim"))
            .arg("replay")
            .arg(&file)
            .args(["--hash", "--seed", seed])
            .output()
            .expect("the program runs");
        let said = String::from_utf8(output.stdout).expect("it speaks UTF-8");
        assert!(said.contains("\"trace\""), "{said}");
        said
    };
    assert_eq!(trace("1"), trace("1"));
    assert_ne!(trace("1"), trace("2"));
}
