//! The help texts of the program.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

#[path = "support/program.rs"]
mod program;

use program::{check, run};
use std::collections::{BTreeMap, BTreeSet};

#[tokio::test]
async fn help_shows_commands_examples_and_exit_codes() {
    let help = run(&["--help"], "").await;
    check(
        &help,
        0,
        &[
            "serve",
            "budget",
            "cluster",
            "top",
            "Exit codes:",
            "Examples:",
        ],
        &[],
    );
    let serve = run(&["serve", "--help"], "").await;
    check(
        &serve,
        0,
        &[
            "--cluster-id <NAME>",
            "ALIQUOT_LEASE",
            "Default: 3s,",
            "--print-config",
        ],
        &[],
    );
    for command in [
        &["budget", "--help"][..],
        &["cluster", "--help"],
        &["top", "--help"],
    ] {
        let help = run(command, "").await;
        check(
            &help,
            0,
            &["Examples:", "--endpoint", "ALIQUOT_TOKEN_FILE"],
            &[],
        );
    }
    check(&run(&[], "").await, 2, &[], &["Usage: aliquot"]);
    check(&run(&["bugdet"], "").await, 2, &[], &["budget"]);
    check(
        &run(&["serve", "--leese", "3s"], "").await,
        2,
        &[],
        &["--lease"],
    );
    check(
        &run(&["top", "-n", "0"], "").await,
        2,
        &[],
        &["from 1 to 1024"],
    );
    check(
        &run(&["budget", "usage", "a//b"], "").await,
        2,
        &[],
        &["a key must"],
    );
    check(
        &run(&["completions", "bash"], "").await,
        0,
        &["_aliquot()"],
        &[],
    );
}

#[tokio::test]
async fn every_command_shows_an_example_and_how_it_exits() {
    let budget = "apply diff get list delete usage holders".split(' ');
    let cluster = "status members clients add promote remove replace transfer-leader".split(' ');
    let budget = budget.map(|word| ["budget", word]);
    let cluster = cluster.map(|word| ["cluster", word]);
    for [group, word] in budget.chain(cluster) {
        let help = run(&[group, word, "--help"], "").await;
        let example = format!("aliquot {group} {word}");
        check(
            &help,
            0,
            &["Examples:", &example, "Exit codes: 0 done"],
            &[],
        );
    }
    for word in ["demo", "check", "agent", "explain-key"] {
        let help = run(&[word, "--help"], "").await;
        check(&help, 0, &["Examples:", "Exit codes:"], &[]);
    }
}

#[tokio::test]
async fn every_field_of_a_budget_is_explained_in_help_and_in_the_guide() {
    let known = serde_json::to_value(aliquot_core::budget::BudgetDraft::default()).unwrap();
    let known: BTreeSet<&str> = known
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let output = run(&["budget", "explain-format", "--json"], "").await;
    let output: Vec<BTreeMap<String, Option<String>>> = serde_json::from_str(&output.out).unwrap();
    let named: BTreeSet<&str> = output
        .iter()
        .filter_map(|it| it["field"].as_deref())
        .collect();
    assert_eq!(named, known);
    let guide = include_str!("../../docs/guide/budgets.md");
    for field in &output {
        let cell = |name: &str| field[name].as_deref().unwrap_or("–");
        let [name, written, default] = ["field", "written_as", "default"].map(cell);
        let row = format!("| `{name}` | {written} | {default} | {} |", cell("meaning"));
        assert!(guide.contains(&row), "docs/guide/budgets.md lacks\n{row}");
    }
    let text = run(&["budget", "explain-format"], "").await;
    check(&text, 0, &["forget_after\n", "default: 10m"], &[]);
    let help = run(&["budget", "--help"], "").await;
    check(&help, 0, &["budget explain-format"], &[]);
}
