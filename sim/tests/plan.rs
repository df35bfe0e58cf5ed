//! `aliquot-sim plan`: limits from a log, confirmed by a simulated fleet.

use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};

fn plan(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aliquot-sim"))
        .arg("plan")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program runs")
}

fn output_text(output: &Output) -> String {
    let output_text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(output_text).expect("it speaks UTF-8")
}

/// Ten requests a second for half a minute, and 30 more at 15 s; of another key, one in a second.
fn log() -> String {
    let mut lines = String::from("time,key\n");
    for tenth in 0..300 {
        let _ = writeln!(lines, "{}.{},search", tenth / 10, tenth % 10);
    }
    for _ in 0..30 {
        lines.push_str("15,search\n");
    }
    for second in 0..30 {
        let _ = writeln!(lines, "{second}.5,login");
    }
    lines
}

fn key<'a>(planned: &'a Value, name: &str) -> &'a Value {
    let keys = planned["keys"].as_array().expect("keys");
    let found = keys.iter().find(|key| key["key"] == name);
    found.expect("the key is there")
}

#[test]
fn limits_fit_the_log_and_the_fleet_confirms_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("calls.csv"), log()).expect("it can be written");
    // In one seed of nine the crash of the leader costs a request that no burst could have saved.
    let arguments = ["calls.csv", "--json", "--clients", "2", "--seed", "1"];
    let output = plan(folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let planned: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let search = key(&planned, "search");
    // 330 tokens in 29.9 s are 11.04/s, so the grid begins at 12/s. By then nothing is saved above the burst: 31 at
    // once, and the 0.2 tokens per step that the rate leaves are made again later.
    assert_eq!(search["front"][0]["rate"], "12/s");
    assert_eq!(search["one_bucket"]["rate"], "12/s");
    assert_eq!(search["one_bucket"]["burst"], 31);
    assert_eq!(search["refused_by_one_bucket"], 0);
    for key in planned["keys"].as_array().expect("keys") {
        let fleet = &key["fleet"];
        assert_eq!(fleet["holds"], true, "{key}");
        assert_eq!(fleet["requests"], key["requests"], "{key}");
    }
    let written = folder.join("budgets.yaml").to_string_lossy().into_owned();
    let budgets = aliquot_budgets::read(&[written]).expect("it is a budget file");
    let keys: Vec<&str> = budgets.iter().map(|found| &*found.draft.key).collect();
    assert_eq!(keys, ["search", "login"], "the busiest first");
    for found in budgets {
        found.draft.validate().expect("a valid budget");
    }
    let html = std::fs::read_to_string(folder.join("plan.html")).expect("it was written");
    assert_eq!(html.matches("<svg class=\"plot\"").count(), 4);
    assert!(!html.contains("http"), "it needs nothing from elsewhere");
}

#[test]
fn a_part_may_be_refused_for_a_smaller_burst() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("calls.csv"), log()).expect("it can be written");
    let burst = |refuse: &str, more: &[&str]| {
        let mut arguments = vec![
            "calls.csv",
            "--json",
            "--refuse",
            refuse,
            "--force",
            "--fleet",
            "0",
        ];
        arguments.extend(more);
        let output = plan(folder, &arguments);
        let planned: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let search = key(&planned, "search");
        assert_eq!(search["fleet"], Value::Null);
        search["burst"].as_u64().expect("a number")
    };
    let table = plan(
        folder,
        &["calls.csv", "--force", "--fleet", "0", "--refuse", "5%"],
    );
    let table = output_text(&table);
    for words in ["search", "login", "330"] {
        assert!(table.contains(words), "{words}: {table}");
    }
    assert_eq!(burst("0%", &[]), 31);
    // 5 % of 330 requests are 16.
    assert_eq!(burst("5%", &[]), 15);
    // A bucket that must fill within a second needs a higher rate.
    assert!(burst("0%", &["--refill", "1s"]) <= 31);
}

#[test]
fn logs_of_other_formats_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let line = |second: u32, path: &str| {
        format!(
            "10.0.0.1 - - [01/Jan/2024:00:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 1 \"-\" \"-\"\n"
        )
    };
    let access: String = (0..20).map(|second| line(second, "/a?x=1")).collect();
    std::fs::write(folder.join("access.log"), access).expect("it can be written");
    let json: String = (0..20)
        .map(|second| format!("{{\"ts\": {second}, \"tenant\": \"t 1\"}}\n"))
        .collect();
    std::fs::write(folder.join("calls.jsonl"), json).expect("it can be written");
    for (arguments, key) in [
        (["access.log", "--key", "path"], "a"),
        (["access.log", "--key", "host"], "10.0.0.1"),
        (["access.log", "--key", "user"], "-"),
        (["calls.jsonl", "--key", "tenant"], "t%201"),
    ] {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--fleet", "0", "--force"]);
        let output = plan(folder, &arguments);
        assert!(output.status.success(), "{}", output_text(&output));
        let budgets = std::fs::read_to_string(folder.join("budgets.yaml")).expect("written");
        assert!(budgets.contains(&format!("key: \"{key}\"")), "{budgets}");
    }
}

#[test]
fn what_is_wrong_is_told_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("bad.csv"), "1,a\nlater,a\n2,a\n").expect("it can be written");
    let check = |arguments: &[&str], expect: &str| {
        let output = plan(folder, arguments);
        let output_text = output_text(&output);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: {output_text}"
        );
        assert!(output_text.contains(expect), "{arguments:?}: {output_text}");
    };
    check(
        &["bad.csv"],
        "bad.csv: line 2: time = \"later\": must be seconds",
    );
    check(&["bad.csv"], "--skip-bad-lines");
    check(
        &["bad.csv", "--refuse", "200%"],
        "must be a part below 100%",
    );
    check(&["there.is.none"], "cannot be read");
    check(
        &["bad.csv", "--skip-bad-lines", "--prefix", "a b/"],
        "cannot be the key of a budget",
    );
    assert!(!folder.join("budgets.yaml").exists());
    let skips = ["bad.csv", "--skip-bad-lines", "--fleet", "0"];
    let output = plan(folder, &skips);
    assert!(
        output_text(&output).contains("1 lines were left out"),
        "{}",
        output_text(&output)
    );
    check(&skips, "budgets.yaml already exists; --force replaces it");
}

/// The death of the leader costs a request that no burst could have saved.
#[test]
fn a_limit_that_is_not_enough_is_left_out_of_the_budgets() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("calls.csv"), log()).expect("it can be written");
    let seed = |seed: u32| {
        let seed = seed.to_string();
        let arguments = [
            "calls.csv",
            "--json",
            "--clients",
            "2",
            "--force",
            "--seed",
            &seed,
        ];
        plan(folder, &arguments)
    };
    let output = (0..9)
        .map(seed)
        .find(|output| output.status.code() == Some(1));
    let output = output.expect("in one seed of nine a request is lost that no burst saves");
    let planned: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let keys = planned["keys"].as_array().expect("keys");
    let left_out: Vec<&str> = keys
        .iter()
        .filter(|key| key["written"] == false)
        .filter_map(|key| key["key"].as_str())
        .collect();
    assert!(!left_out.is_empty(), "{planned}");
    let written = folder.join("budgets.yaml").to_string_lossy().into_owned();
    let text = std::fs::read_to_string(&written).expect("it was written");
    let budgets = aliquot_budgets::read(&[written]).expect("it is a budget file");
    for key in keys {
        let name = key["key"].as_str().expect("a text");
        let in_file = budgets.iter().any(|found| found.draft.key == name);
        assert_eq!(in_file, !left_out.contains(&name), "{text}");
        assert_eq!(key["written"], key["fleet"]["holds"], "{key}");
    }
    for name in left_out {
        assert!(
            text.contains(&format!("# Left out: \"{name}\": with rate")),
            "{text}"
        );
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("left out of budgets.yaml"), "{errors}");
}
