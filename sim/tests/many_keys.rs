//! Groups of clients that use many keys of a template.

use aliquot_sim::judge::Verdict;
use aliquot_sim::runner;
use aliquot_sim::scenario::Scenario;
use expect_test::{Expect, expect};
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

const MANY: &str = "
[[budget]]
key = \"tenant/*/reads\"
rate = \"100/s\"

[[clients]]
rate = \"50/s\"
key = \"tenant/*/reads\"
keys = 100
skew = \"zipf(1.1)\"
";

#[track_caller]
fn check(text: &str, expect: &Expect) {
    let said = match Scenario::parse("mine", text, None) {
        Ok(_) => "it is well".to_owned(),
        Err(problems) => problems.to_string(),
    };
    expect.assert_eq(&said);
}

/// Checks a scenario whose clients use many keys, with one text replaced.
#[track_caller]
fn of_many(old: &str, new: &str, expect: &Expect) {
    assert!(MANY.contains(old), "{old}");
    check(&MANY.replacen(old, new, 1), expect);
}

#[test]
fn many_keys_are_those_of_a_pattern_that_a_budget_covers() {
    of_many("keys", "keys", &expect!["it is well"]);
    // The first budget's pattern, if the group names none.
    of_many(
        "\"50/s\"\nkey = \"tenant/*/reads\"",
        "\"50/s\"",
        &expect!["it is well"],
    );
    of_many(
        "\"50/s\"\nkey = \"tenant/*/reads\"",
        "\"50/s\"\nkey = \"tenant/*/writes\"",
        &expect![[
            r#"clients[1].key = "tenant/*/writes": must be a pattern whose keys one of the budgets covers"#
        ]],
    );
    of_many(
        "\"50/s\"\nkey = \"tenant/*/reads\"",
        "\"50/s\"\nkey = \"tenant/7/reads\"",
        &expect![[
            r#"clients[1].key = "tenant/7/reads": must have one `*`, which stands for the numbers of the `keys`, such as users/*"#
        ]],
    );
    of_many(
        "keys = 100\nskew = \"zipf(1.1)\"\n",
        "",
        &expect![[
            r#"clients[1].key = "tenant/*/reads": must be a key that one of the budgets names"#
        ]],
    );
    of_many(
        "[[budget]]\nkey = \"tenant/*/reads\"",
        "[[budget]]\nkey = \"reads\"",
        &expect![[
            r#"clients[1].key = "tenant/*/reads": must be a pattern whose keys one of the budgets covers"#
        ]],
    );
}

#[test]
fn the_number_and_the_skew_of_many_keys_have_bounds() {
    of_many(
        "keys = 100",
        "keys = 0",
        &expect![[
            r#"clients[1].keys = 0: must be a whole number from 1 to 100000, without quotes"#
        ]],
    );
    of_many(
        "keys = 100",
        "keys = \"100\"",
        &expect![[
            r#"clients[1].keys = "100": must be a whole number from 1 to 100000, without quotes"#
        ]],
    );
    of_many(
        "zipf(1.1)",
        "zipf(0)",
        &expect![[
            r#"clients[1].skew = "zipf(0)": must be uniform, zipf, or zipf(S) with an exponent S from 0.1 to 5, such as zipf(1.1)"#
        ]],
    );
    of_many(
        "zipf(1.1)",
        "pareto",
        &expect![[
            r#"clients[1].skew = "pareto": must be uniform, zipf, or zipf(S) with an exponent S from 0.1 to 5, such as zipf(1.1)"#
        ]],
    );
    of_many(
        "keys = 100\n",
        "",
        &expect![[r#"
            clients[1].skew = "zipf(1.1)": has no effect here: a group without `keys` takes none of skew
            clients[1].key = "tenant/*/reads": must be a key that one of the budgets names"#]],
    );
}
