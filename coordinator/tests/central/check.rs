//! `aliquot check` against a running cluster.

use super::cluster::{Cluster, KEY, wait_for};
use aliquot_client::Client;
use aliquot_core::budget::BudgetDraft;
use std::process::Stdio;
use std::time::Duration;

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
fn says(message: &ProgramOutput, code: i32, out: &str, err: &str) {
    let all = format!("{}\n{}\n{}", message.code, message.out, message.err);
    assert_eq!(message.code, code, "{all}");
    assert!(
        message.out.contains(out) && message.err.contains(err),
        "{all}"
    );
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
    says(&run(&["check", KEY, "-n", "0"]).await, 2, "", "from 1 to");
    says(&run(&["check", "--help"]).await, 0, "Exit codes:", "");
}

/// A budget that time does not fill again during a test.
fn five_tokens(draft: &mut BudgetDraft) {
    draft.rate = Some("1 per 10d".into());
    draft.burst = Some(5_u64.into());
}

/// The node that decides is as slow as on a machine that is busy with something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_waits_for_a_node_that_decides_late() {
    let cluster = Cluster::of(five_tokens).await;
    let place = wait_for("a node with all of it", async || cluster.look().await).await;
    let signal = |signal: &str| {
        let id = cluster.supervisor.id(&place.home.name).unwrap().to_string();
        let sent = std::process::Command::new("kill")
            .args([signal, &id])
            .status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let endpoint = place.other.listen.to_string();
    let checked = tokio::spawn(async move { run(&["check", KEY, "--endpoint", &endpoint]).await });
    // Longer than a session and then a service's decision are waited for, and shorter than a lease.
    tokio::time::sleep(Duration::from_millis(2_800)).await;
    signal("-CONT");
    says(&checked.await.unwrap(), 0, "small: admitted, 1", "");
}

/// The client that took one of the five holds the others, and does not use them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_waits_for_tokens_that_an_idle_client_holds() {
    let cluster = Cluster::of(five_tokens).await;
    let [first, second, _] = cluster.nodes.list() else {
        panic!("three nodes");
    };
    let client = Client::builder().addresses([first.listen.to_string()]);
    let client = client.configured_addresses_only().connect().unwrap();
    let idle = client.limiter(KEY).unwrap();
    wait_for("a token", async || idle.check(1).await.ok()).await;
    wait_for("the idle client holds the rest", async || {
        (idle.peek().burst == 5).then_some(())
    })
    .await;
    let endpoint = second.listen.to_string();
    let rest = run(&["check", KEY, "-n", "4", "--endpoint", &endpoint]).await;
    says(&rest, 0, "small: admitted, 4", "");
}
