//! `aliquot check` against a running cluster.

use super::cluster::{Cluster, KEY, wait_for};
use std::process::Stdio;

struct ProgramOutput {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program with these arguments, and without environment variables of `aliquot`.
async fn run(arguments: &[&str]) -> ProgramOutput {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_aliquot"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
        command.env_remove(name);
    }
    let command = command.args(arguments).stdin(Stdio::null());
    let output = command.output().await.unwrap();
    ProgramOutput {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn says(said: &ProgramOutput, code: i32, out: &str, err: &str) {
    let all = format!("{}\n{}\n{}", said.code, said.out, said.err);
    assert_eq!(said.code, code, "{all}");
    assert!(said.out.contains(out) && said.err.contains(err), "{all}");
}

#[tokio::test]
async fn a_check_takes_what_a_service_would_and_says_so_by_its_exit_code() {
    let cluster = Cluster::of(|draft| draft.quota = Some("5 per day".into())).await;
    let endpoints = cluster.nodes.endpoints();
    let check = async |arguments: &[&str]| {
        let all = [&["check", "--endpoint", &endpoints], arguments].concat();
        run(&all).await
    };
    says(&check(&[KEY]).await, 0, "small: admitted, 1", "");
    // The tokens that the first check left are on their way to the home node for a moment. A check
    // meanwhile is told to come back later.
    let json = wait_for("the other four", async || {
        let more = check(&[KEY, "-n", "4", "--json"]).await;
        let json: serde_json::Value = serde_json::from_str(&more.out).unwrap();
        if more.code == 1 {
            assert!(json["retry_after_s"].as_f64() < Some(60.0), "{json}");
            return None;
        }
        assert_eq!(more.code, 0, "{json}");
        Some(json)
    })
    .await;
    assert_eq!(json["admitted"], true, "{json}");
    let spent = check(&[KEY, "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(&spent.out).unwrap();
    assert_eq!(
        (spent.code, &json["admitted"]),
        (1, &false.into()),
        "{json}"
    );
    assert_eq!(json["reason"], "quota");
    assert!(json["retry_after_s"].is_number(), "{json}");
    let text = check(&[KEY]).await;
    says(&text, 1, "small: refused, quota", "");
    says(&text, 1, "try again in", "");
    says(&check(&["not/known"]).await, 1, "refused, no_budget", "");
}

#[tokio::test]
async fn a_check_without_a_node_or_with_a_wrong_key_takes_nothing() {
    let alone = run(&["check", KEY, "--endpoint", "127.0.0.1:1"]).await;
    says(&alone, 3, "", "no session within 2s");
    says(&run(&["check", "a//b"]).await, 2, "", "a key must");
    says(&run(&["check", KEY, "-n", "0"]).await, 2, "", "at least 1");
    says(&run(&["check", "--help"]).await, 0, "Exit codes:", "");
}
