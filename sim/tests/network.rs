//! The network tier: it rejects unsupported scenarios by name, the same oracle judges it, and a seed gives
//! the same result in every process.

use aliquot_sim::scenario::Scenario;
use std::path::Path;
use std::process::{Command, Output};

const HEAD: &str = r#"
[run]
tier = "network"
duration = "8s"
heal = "20s"
[[budget]]
key = "reads"
rate = "200/s"
burst = 50
[[clients]]
count = 3
rate = "60/s"
"#;

fn simulator(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aliquot-sim"));
    command.args(arguments).output().expect("the program runs")
}

/// Runs a file of the common head and these lines. Returns whether it succeeded, and its output.
fn run(folder: &Path, name: &str, lines: &str, command: &[&str]) -> (bool, String) {
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, format!("{HEAD}{lines}")).expect("it can be written");
    let file = file.to_string_lossy();
    let mut arguments = vec![command[0], &*file];
    arguments.extend(&command[1..]);
    let output = simulator(&arguments);
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).expect("it speaks UTF-8");
    (output.status.success(), printed)
}

#[test]
fn what_this_tier_cannot_do_is_refused_by_name() {
    for (lines, expect) in [
        (
            "[[fault]]\nkind = \"reorder\"\nat = \"1s\"\ntarget = \"all\"\n",
            "must not be reorder in the network tier",
        ),
        (
            "[swarm]\nkinds = [\"clone_client\"]\n",
            "must not be clone_client in the network tier",
        ),
        (
            "[topology]\nnodes = 7\n",
            "is up to 7: the network tier takes at most 6",
        ),
        ("[lease]\ncounted_on = \"monotonic\"\n", "lease.counted_on"),
        (
            "[[budget]]\nkey = \"tenant/*\"\nrate = \"1/s\"\n[[clients]]\nname = \"t\"\nkey = \"tenant/*\"\nkeys = 513\nrate = \"9/s\"\n",
            "clients[2].keys = 513: must be at most 512 in the network tier",
        ),
        (
            "[[assert]]\nsometimes = \"session-resumed\"\n",
            "must not be session-resumed in the network tier",
        ),
    ] {
        let text = format!("{HEAD}{lines}");
        let problems = Scenario::parse("mine", &text, None).expect_err(lines);
        assert!(problems.to_string().contains(expect), "{problems}");
    }
}

/// Callers of many keys, of which some are asked for more than their limit, and of permits by key.
const MANY_KEYS: &str = r#"
[[budget]]
key = "tenant/*"
rate = "10/s"
burst = 10
[[budget]]
key = "slots/*"
concurrency = 4
max_hold = "5s"
[[clients]]
name = "tenants"
count = 3
rate = "60/s"
key = "tenant/*"
keys = 20
skew = "zipf(1.1)"
[[clients]]
name = "slots"
count = 2
rate = "10/s"
key = "slots/*"
keys = 3
hold = "500ms"
"#;

#[test]
fn a_client_asks_under_each_key_of_its_group() {
    let folder = tempfile::tempdir().expect("there is room");
    let (passed, printed) = run(
        folder.path(),
        "keys",
        MANY_KEYS,
        &["run", "--json", "--seeds", "0"],
    );
    assert!(passed, "{printed}");
    // Progress follows on standard error.
    let json = printed.lines().next().expect("a line");
    let printed: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
    let rows = printed.pointer("/0/seeds/0/keys");
    let rows = rows.and_then(|rows| rows.as_array()).expect("rows");
    let used = |key: &str| {
        let row = rows.iter().find(|row| row["key"] == key);
        row.and_then(|row| row["used"].as_f64())
            .expect("it was used")
    };
    // One key has a twentieth of what all of them make.
    assert!((0.2..1.0).contains(&used("tenant/*")), "{rows:?}");
    assert!((0.3..1.0).contains(&used("slots/*")), "{rows:?}");
}

/// A part of the disk of n2 is damaged, and n2 is started again. Enough is written for a snapshot.
const DAMAGED: &str = r#"
[[fault]]
kind = "budget_change"
at = "0s"
every = "20ms"
times = 130
set = { rate = "200/s" }
[[fault]]
kind = "disk_damage"
part = "PART"
at = "3s"
target = "n2"
[[fault]]
kind = "restart"
at = "4s"
target = "n2"
"#;

#[test]
fn a_node_with_a_damaged_disk_says_so_and_stays_down() {
    let folder = tempfile::tempdir().expect("there is room");
    for (part, told) in [
        ("entry", "of the log is damaged: its checksum differs"),
        ("snapshot", "the snapshot is damaged: its checksum differs"),
    ] {
        let lines = DAMAGED.replace("PART", part);
        let replay = ["replay", "--seed", "0", "--only", "failed,fault"];
        let (_, printed) = run(folder.path(), part, &lines, &replay);
        let failed: Vec<&str> = printed
            .lines()
            .filter(|line| line.contains("\"failed\""))
            .collect();
        assert_eq!(failed.len(), 1, "{printed}");
        assert!(failed[0].contains(told), "{printed}");
        let (passed, printed) = run(folder.path(), part, &lines, &["run", "--seeds", "0"]);
        assert!(passed, "{printed}");
    }
}

/// A fourth node joins three others, of which one is removed and another one dies. From then on a quorum needs the
/// new node.
const JOINS: &str = r#"
[run]
tier = "network"
duration = "20s"
[topology]
nodes = 4
[[budget]]
key = "reads"
rate = "200/s"
burst = 50
[[clients]]
count = 3
rate = "90/s"
[[clients]]
name = "late"
home = "n4"
start = "7s"
rate = "90/s"
[[fault]]
kind = "membership"
at = "3s"
target = "n4"
change = "join"
[[fault]]
kind = "membership"
at = "8s"
target = "n1"
change = "CHANGE"
[[fault]]
kind = "crash"
at = "11s"
for = "9s"
target = "n2"
[[assert]]
metric = "utilisation"
from = "16s"
to = "20s"
at_least = "90%"
[[assert]]
metric = "excess"
at_most = 0
"#;

#[test]
fn a_node_that_joins_applies_entries_votes_and_holds_a_share() {
    let left = "[[assert]]\nsometimes = \"node-left\"\n";
    for (change, more) in [("remove", ""), ("leave", left)] {
        let text = JOINS.replace("CHANGE", change) + more;
        let (passed, printed) = run_whole("joins", &text, &["run", "--seeds", "0"]);
        assert!(passed, "{change}: {printed}");
    }
    let text = JOINS.replace("CHANGE", "remove");
    let replay = ["replay", "--seed", "0", "--only", "n4,state"];
    let (_, printed) = run_whole("joins", &text, &replay);
    let states: Vec<&str> = printed
        .lines()
        .filter(|line| line.contains("applied: "))
        .collect();
    let applied = |line: &str| {
        let (_, rest) = line.split_once("applied: ").expect("a state");
        let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
        number.parse::<u64>().expect("a number")
    };
    let last = states.last().expect("n4 ran");
    assert!(applied(states[0]) == 0 && applied(last) > 20, "{printed}");
    for expect in ["leased: true", "votes: true"] {
        assert!(last.contains(expect), "{last}");
    }
    let replay = ["replay", "--seed", "0", "--only", "late-1,state"];
    let (_, printed) = run_whole("joins", &text, &replay);
    let leased = printed
        .lines()
        .any(|line| line.contains("n4:7001") && line.contains("state: Leased"));
    assert!(leased, "{printed}");
}

/// Faults within one short seed: the leader's machine dies, links lose and double messages, a client pauses,
/// and leadership is transferred.
const FAULTS: &str = r#"
[[fault]]
kind = "crash"
at = "3s"
for = "1s"
target = "@leader"
[[fault]]
kind = "loss"
at = "4s"
for = "1s"
amount = 0.2
[[fault]]
kind = "duplicate"
at = "5s"
for = "1s"
amount = 0.3
[[fault]]
kind = "pause"
at = "4s"
for = "2s"
target = "c-1"
[[fault]]
kind = "slow_disk"
at = "6s"
for = "2s"
by = "50ms"
target = "nodes"
[[fault]]
kind = "leader_transfer"
at = "7s"
[[assert]]
metric = "faults"
at_least = 6
[[assert]]
metric = "excess"
at_most = 0
[[assert]]
sometimes = "recovered"
"#;

#[test]
fn the_real_code_passes_under_faults_and_the_same_way_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let (passed, printed) = run(folder.path(), "faults", FAULTS, &["run", "--seeds", "0"]);
    assert!(passed, "{printed}");
    let hash = ["replay", "--hash", "--seed", "1"];
    let (passed, first) = run(folder.path(), "faults", FAULTS, &hash);
    assert!(passed && first.contains("\"trace\""), "{first}");
    assert_eq!(first, run(folder.path(), "faults", FAULTS, &hash).1);
}

/// One client wants five requests in each step of the simulation.
const FAST: &str = r#"
[run]
tier = "network"
duration = "8s"
[[budget]]
key = "reads"
rate = "10000/s"
burst = 10000
[[clients]]
rate = "5000/s"
arrivals = "constant"
verb = "try_acquire"
[[assert]]
metric = "admitted"
from = "4s"
at_least = 4950
"#;

#[test]
fn every_request_is_made_however_many_fall_into_a_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fast.toml");
    std::fs::write(&file, FAST).expect("it can be written");
    let output = simulator(&["run", &file.to_string_lossy(), "--seeds", "0"]);
    let printed =
        String::from_utf8([output.stdout, output.stderr].concat()).expect("it speaks UTF-8");
    assert!(output.status.success(), "{printed}");
}

/// A budget is deleted and written again, then a client does not run for longer than a lease.
const MARKED: &str = r#"
[[fault]]
kind = "budget_delete"
at = "3s"
for = "1500ms"
[[fault]]
kind = "pause"
at = "4500ms"
for = "4s"
target = "c-1"
[[assert]]
sometimes = "budget-deleted"
[[assert]]
sometimes = "instance-ended"
[[assert]]
sometimes = "lease-began"
[[assert]]
sometimes = "lapsed-in-pause"
[[assert]]
metric = "excess"
at_most = 0
"#;

#[test]
fn marks_are_counted_as_in_the_kernel_tier() {
    let folder = tempfile::tempdir().expect("a folder");
    let (passed, printed) = run(folder.path(), "marked", MARKED, &["run", "--seeds", "0"]);
    assert!(passed, "{printed}");
}

#[test]
fn commands_run_the_tier_of_a_file_in_the_current_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = HEAD.replace("8s", "2s").replace("20s", "0s");
    std::fs::write(folder.path().join("mine.toml"), text).expect("it can be written");
    let printed = |command: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_aliquot-sim"))
            .args(command)
            .current_dir(folder.path())
            .output()
            .expect("the program runs");
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8(printed).expect("it speaks UTF-8");
        assert!(output.status.success(), "{command:?}: {printed}");
        printed
    };
    // The seed is judged in a process of its own, which is told the folder.
    assert!(printed(&["run", "mine.toml", "--seeds", "0"]).contains("pass"));
    assert!(printed(&["explain", "mine.toml", "--seed", "0"]).contains("no invariant was broken"));
    let replayed = printed(&["replay", "mine.toml", "--hash", "--seed", "0"]);
    let replayed: serde_json::Value = serde_json::from_str(&replayed).expect("it is JSON");
    let events = replayed["events"].as_u64().expect("a number");
    printed(&["report", "mine.toml", "--seed", "0"]);
    let report = std::fs::read_to_string(folder.path().join("report.html")).expect("written");
    assert!(
        report.contains(&format!("<li>{events} events")),
        "{report:.900}"
    );
}

/// Leadership is transferred while a third of all messages is lost.
///
/// A leader that transfers its leadership refuses every barrier at once. It once asked for the next one
/// without a pause and used a whole core.
const HANDED_OVER: &str = r#"
[topology]
nodes = 5
[[fault]]
kind = "leader_transfer"
at = "3500ms"
every = "700ms"
times = 5
target = "n2"
[[fault]]
kind = "message_loss"
at = "3s"
for = "4s"
amount = 0.3
[[assert]]
metric = "excess"
at_most = 0
"#;

#[test]
fn a_leader_whose_barriers_fail_at_once_does_not_spin() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = ["run", "--seeds", "1"];
    let (passed, printed) = run(folder.path(), "handed", HANDED_OVER, &command);
    assert!(passed, "{printed}");
}

#[test]
fn what_does_not_hold_is_told_through_the_seeds_own_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = "[[assert]]\nmetric = \"admitted\"\nat_least = 10000\n";
    let (passed, printed) = run(folder.path(), "never", lines, &["run", "--seeds", "0"]);
    assert!(!passed && printed.contains("FAIL"), "{printed}");
    assert!(
        printed.contains("admitted") && printed.contains("it is "),
        "{printed}"
    );
}

/// Six clients share two tokens of burst, so a node decides.
const CENTRAL: &str = r#"
[run]
tier = "network"
duration = "10s"
[[budget]]
key = "few"
rate = "10/s"
burst = 3
[[clients]]
count = 6
rate = "5/s"
VERB
[[assert]]
sometimes = "admitted-centrally"
# The admissions of nodes are judged: without them the whole burst would seem to be left.
[[assert]]
metric = "slack"
at_most = 2
[[assert]]
metric = "utilisation"
from = "5s"
at_least = "90%"
"#;

fn run_whole(name: &str, text: &str, command: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join(format!("{name}.toml"));
    std::fs::write(&file, text).expect("it can be written");
    let file = file.to_string_lossy();
    let mut arguments = vec![command[0], &*file];
    arguments.extend(&command[1..]);
    let output = simulator(&arguments);
    let printed =
        String::from_utf8([output.stdout, output.stderr].concat()).expect("it speaks UTF-8");
    (output.status.success(), printed)
}

#[test]
fn admissions_of_nodes_are_judged() {
    for verb in ["verb = \"check\"", "verb = \"acquire\"\nwaiting = 5"] {
        let text = CENTRAL.replace("VERB", verb);
        let (passed, printed) = run_whole("central", &text, &["run", "--seeds", "0"]);
        assert!(passed, "{verb}: {printed}");
    }
}

#[test]
fn a_client_that_only_tries_never_asks_a_node() {
    let text = CENTRAL.replace("VERB", "verb = \"try_acquire\"");
    let (passed, printed) = run_whole("central", &text, &["run", "--seeds", "0"]);
    assert!(!passed && printed.contains("no seed hit it"), "{printed}");
}

#[test]
fn lost_data_is_late_and_a_lost_message_is_gone() {
    let marks = |kind: &str| {
        let lines =
            format!("[[fault]]\nkind = \"{kind}\"\nat = \"2s\"\nfor = \"4s\"\namount = 0.3\n");
        let text = format!("{HEAD}{lines}");
        let (_, printed) = run_whole("lossy", &text, &["run", "--seeds", "0", "--json"]);
        let line = printed
            .lines()
            .find(|line| line.starts_with('['))
            .expect("JSON");
        let printed: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
        let mark = |name: &str| printed[0]["marks"][name].as_u64().expect("a number");
        (mark("message-lost"), mark("message-delayed"))
    };
    let (lost, late) = marks("loss");
    assert!(lost == 0 && late > 0, "{lost} lost, {late} late");
    let (lost, late) = marks("message_loss");
    assert!(lost > 0 && late == 0, "{lost} lost, {late} late");
}

/// A request each ten seconds, and from the third second on ten a second.
const SUDDEN: &str = r#"
[run]
tier = "network"
duration = "8s"
[[budget]]
key = "reads"
rate = "100/s"
burst = 100
[[clients]]
shape = "step"
rate = "6/min"
to = "10/s"
at = "3s"
arrivals = "constant"
[[assert]]
metric = "admitted"
from = "4s"
at_least = 9.5
"#;

#[test]
fn a_gap_at_a_low_rate_does_not_outlast_it() {
    for tier in ["network", "kernel"] {
        let text = SUDDEN.replace("network", tier);
        let (passed, printed) = run_whole("sudden", &text, &["run", "--seeds", "0"]);
        assert!(passed, "{tier}: {printed}");
    }
}

#[test]
fn nodes_measure_the_round_trips_to_their_peers() {
    let folder = tempfile::tempdir().expect("a folder");
    let far = "[topology]\nnodes = 3\nlink_delay = \"20ms\"\n";
    let (_, printed) = run(
        folder.path(),
        "far",
        far,
        &["replay", "--seed", "0", "--only", "state,n1"],
    );
    let last = printed
        .lines()
        .rfind(|line| line.contains("round_trips: [("));
    let last = last.unwrap_or_else(|| panic!("no node measured anything: {printed}"));
    for peer in ["n2, 4", "n3, 4"] {
        assert!(last.contains(&format!("({peer}")), "{last}");
    }
}

#[test]
fn the_tiers_agree_or_a_file_says_why_not() {
    let calm = HEAD.replace("tier = \"network\"\n", "") + "arrivals = \"constant\"\n";
    let (agree, printed) = run_whole("calm", &calm, &["tiers"]);
    assert!(agree && printed.contains("pass"), "{printed}");
    let stated = calm.replace("[run]", "[run]\ntiers_differ = \"they do not\"");
    let (agree, printed) = run_whole("calm", &stated, &["tiers"]);
    assert!(
        !agree && printed.contains("remove run.tiers_differ"),
        "{printed}"
    );
    // The reason excuses what fails in the other tier alone.
    let wrong = format!("{stated}[[assert]]\nmetric = \"admitted\"\nat_least = \"2 R\"\n");
    let (agree, printed) = run_whole("calm", &wrong, &["tiers"]);
    assert!(
        !agree && printed.contains("kernel tier, seed 0"),
        "{printed}"
    );
    assert!(!printed.contains("network tier, seed 0"), "{printed}");
    let clone =
        format!("{calm}[[fault]]\nkind = \"clone_client\"\nat = \"2s\"\ntarget = \"c-1\"\n");
    let (agree, printed) = run_whole("clone", &clone, &["tiers"]);
    assert!(agree && printed.contains("kernel only"), "{printed}");
}
