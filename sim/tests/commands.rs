//! The program as a user runs it: its exit codes, its output, and the result of shrinking a failing seed.

use std::path::Path;
use std::process::{Command, Output};

fn program(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_aliquot-sim"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the program runs")
}

#[track_caller]
fn check(folder: &Path, arguments: &[&str], code: i32, says: &str) {
    let output = program(folder, arguments);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(
        said.contains(says),
        "{arguments:?} did not say {says:?} but {said}"
    );
}

/// A scenario that fails: a virtual machine is paused by its host, which Aliquot's guarantees do not cover.
const BROKEN: &str = r#"
[run]
duration = "40s"

[[budget]]
key = "reads"
rate = "500/s"
burst = 100

[[clients]]
count = 6
rate = "150/s"

[[fault]]
kind = "crash"
at = "8s"
every = "7s"
target = "one-of:nodes"

[[fault]]
kind = "vm_pause"
at = "15s"
for = "5s"
target = "c-2"

[[fault]]
kind = "loss"
at = "10s"
for = "20s"
"#;

#[test]
fn exit_codes_say_what_the_help_says() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).expect("it can be written")
    };
    file("broken.toml", BROKEN);
    file("wrong.toml", &BROKEN.replace("count", "cuont"));
    let late = "[[assert]]\nafter_heal = \"utilisation\"\nat_least = 0.5\n[run]\nheal = \"0s\"";
    file(
        "unknown.toml",
        &BROKEN.replace("vm_pause", "pause").replace("[run]", late),
    );
    check(folder, &["run", "calm", "--seeds", "0..2"], 0, "pass");
    check(
        folder,
        &["run", "broken.toml", "--seeds", "0"],
        1,
        "invariant",
    );
    // An assertion that fails is told by each command that runs a seed.
    let most = "[[assert]]\nmetric = \"admitted\"\nat_most = 1\n[run]";
    file(
        "asserted.toml",
        &BROKEN.replace("vm_pause", "pause").replace("[run]", most),
    );
    for command in ["explain", "report"] {
        let arguments = [command, "asserted.toml", "--seed", "0"];
        check(folder, &arguments, 1, "admitted at most 1");
    }
    check(folder, &["run", "wrong.toml"], 2, "did you mean `count`?");
    check(folder, &["run", "clam"], 2, "did you mean \"calm\"?");
    check(folder, &["run", "calm", "--seeds", "5..5"], 2, "0..64");
    check(
        folder,
        &["run", "unknown.toml", "--seeds", "0"],
        3,
        "unknown",
    );
    check(folder, &["explain-format"], 0, "[[fault]]");
    check(folder, &["marks"], 0, "lease-began");
    check(folder, &["list", "calm"], 0, "Nothing goes wrong");
}

#[test]
fn what_shrink_leaves_fails_by_itself() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path();
    std::fs::write(folder.join("broken.toml"), BROKEN).expect("it can be written");
    check(
        folder,
        &["shrink", "broken.toml", "--seed", "0"],
        0,
        "1 faults of",
    );
    check(folder, &["run", "minimal.toml"], 1, "invariant");
    check(
        folder,
        &["shrink", "calm", "--seed", "0"],
        2,
        "does not fail",
    );
}

#[test]
fn a_hunt_is_for_the_figure_that_is_named() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path();
    let lawful = BROKEN.replace("vm_pause", "pause").replace("40s", "20s");
    std::fs::write(folder.join("lawful.toml"), lawful).expect("it can be written");
    for (objective, says) in [
        ("lost", "most lost without faults"),
        ("recovery", "longest recovery"),
        ("slack", "least slack"),
    ] {
        let hunt = ["hunt", "lawful.toml", "--runs", "3", "--for", objective];
        check(folder, &hunt, 0, says);
        check(folder, &["run", "hunted.toml"], 0, "pass");
    }
    check(folder, &["hunt", "calm", "--for", "gold"], 2, "recovery");
}

#[test]
fn a_report_is_one_file_with_something_drawn_in_every_plot() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path();
    check(
        folder,
        &["report", "leader-crash", "--seed", "0"],
        0,
        "report.html",
    );
    let html = std::fs::read_to_string(folder.join("report.html")).expect("it was written");
    assert!(html.contains("prefers-color-scheme: dark"));
    assert!(!html.contains("http"), "it needs nothing from elsewhere");
    for drawn in html.split("<svg class=\"plot\"").skip(1) {
        let drawn = drawn.split("</svg>").next().unwrap_or_default();
        let marks = drawn.matches("class=\"mark").count() + drawn.matches("class=\"lane").count();
        assert!(marks > 0, "nothing is drawn in {:.120}", drawn);
    }
}

#[test]
fn a_table_is_for_people_and_json_for_programs() {
    let output = program(
        Path::new("."),
        &["run", "calm", "--seeds", "0..2", "--json"],
    );
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(said[0]["verdict"], "pass");
    assert_eq!(said[0]["seeds"].as_array().map(Vec::len), Some(2));
    assert_eq!(said[0]["seeds"][0]["keys"][0]["key"], "reads");
}

#[test]
fn a_replay_prints_what_is_asked_for_and_always_the_same_hash() {
    let folder = Path::new(".");
    let lines = |more: &[&str]| {
        let output = program(folder, &[&["replay", "calm", "--seed", "0"], more].concat());
        let text = String::from_utf8(output.stdout).expect("it speaks UTF-8");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("it is JSON"));
        let mut lines: Vec<serde_json::Value> = lines.collect();
        let end = lines.pop().expect("there is an end");
        (lines, end["trace"].clone())
    };
    let (all, hash) = lines(&[]);
    let states = all
        .iter()
        .filter(|line| line["kind"] == "state" && line["host"] == "n1");
    // A minute, and not each of a hundred messages a second.
    assert!((20..=31).contains(&states.count()));
    let (some, same) = lines(&["--only", "admitted,c-1", "--from", "10s", "--to", "11s"]);
    assert!(!some.is_empty());
    for line in &some {
        let at = line["at"].as_f64().expect("a number");
        assert!(
            line["kind"] == "admitted" && line["host"] == "c-1",
            "{line}"
        );
        assert!((10.0..11.0).contains(&at), "{line}");
    }
    assert_eq!(hash, same);
    let wrong = ["replay", "calm", "--seed", "0", "--only", "n9"];
    check(folder, &wrong, 2, "hosts, such as n1 or c-");
}
