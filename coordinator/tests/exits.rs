//! Exit codes of a node that cannot start: 2 if a restart would fail in the same way, and 1 if the
//! service manager may start it again.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_coordinator::store::DataDir;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// Returns the command that runs a node of the cluster `main` in a directory.
fn node(data: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aliquot"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
        command.env_remove(name);
    }
    let mut args = vec!["serve", "--cluster-id", "main", "--metrics-listen", "off"];
    for flag in ["--listen", "--peer-listen"] {
        if !flags.contains(&flag) {
            args.extend([flag, "127.0.0.1:0"]);
        }
    }
    let data = data.to_str().unwrap();
    args.extend(["--data-dir", data]);
    args.extend([
        "--advertise",
        "127.0.0.1:1",
        "--peer-advertise",
        "127.0.0.1:2",
    ]);
    args.extend(["--cluster-peers", "127.0.0.1:2"]);
    command.args(args).args(flags);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a node in a directory. It must not start.
fn serve(data: &Path, flags: &[&str]) -> Output {
    let mut command = node(data, flags);
    let child = apart(|| command.spawn());
    child.unwrap().wait_with_output().unwrap()
}

/// A child holds the locks of its parent until it executes another program. No test here may lock a
/// directory while another one forks.
fn apart<T>(does: impl FnOnce() -> T) -> T {
    static APART: Mutex<()> = Mutex::new(());
    let _apart = APART.lock().unwrap_or_else(PoisonError::into_inner);
    does()
}

#[track_caller]
fn check(data: &Path, flags: &[&str], code: i32, part: &str) {
    let output = serve(data, flags);
    let printed = String::from_utf8_lossy(&output.stderr);
    let last = printed.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("aliquot: ") && last.contains(part),
        "{printed}"
    );
    assert_eq!(output.status.code(), Some(code), "{printed}");
}

/// Creates a stamped directory of the cluster, as a node leaves it. Returns its path and the contents
/// of the stamp.
fn stamped(parent: &Path, name: &str, cluster: &str) -> (std::path::PathBuf, String) {
    let path = parent.join(name);
    apart(|| drop(DataDir::open(&path, cluster, || 42).unwrap()));
    let text = fs::read_to_string(path.join("identity.toml")).unwrap();
    (path, text)
}

#[test]
fn a_file_that_is_wrong_ends_a_node_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let (data, missing) = (dir.path().join("data"), dir.path().join("missing"));
    let missing = missing.to_str().unwrap();
    let bad = dir.path().join("bad.yaml");
    fs::write(&bad, "- { key: x, rate: never }").unwrap();
    let bad = bad.to_str().unwrap();
    check(&data, &["--budgets", missing], 2, "missing");
    check(&data, &["--budgets", bad], 2, "bad.yaml");
    check(&data, &["--tokens", missing], 2, "missing");
    let tls = [
        "--tls-cert",
        missing,
        "--tls-key",
        missing,
        "--tls-ca",
        missing,
    ];
    check(&data, &tls, 2, "missing");
    check(&data, &["--lease", "never"], 2, "lease");
    check(&data, &["--log-filter", "a=b=c"], 2, "log.filter");
    assert!(!data.exists(), "nothing was begun");
}

#[test]
fn a_data_directory_that_is_wrong_ends_a_node_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let (foreign, _) = stamped(dir.path(), "foreign", "other");
    check(&foreign, &[], 2, "cluster.id");
    let (newer, text) = stamped(dir.path(), "newer", "main");
    let text = text.replace("format = 2", "format = 3");
    fs::write(newer.join("identity.toml"), text).unwrap();
    check(&newer, &[], 2, "newer version");
    let (damaged, text) = stamped(dir.path(), "damaged", "main");
    fs::write(damaged.join("identity.toml"), text.replace("42", "43")).unwrap();
    check(&damaged, &[], 2, "is damaged");
    let (copied, text) = stamped(dir.path(), "copied", "main");
    fs::remove_file(copied.join("identity.toml")).unwrap();
    fs::write(dir.path().join("between"), "takes the inode").unwrap();
    fs::write(copied.join("identity.toml"), text).unwrap();
    check(&copied, &[], 2, "was copied");
    let ours = dir.path().join("ours");
    fs::create_dir(&ours).unwrap();
    fs::write(ours.join("letter.txt"), "dear all").unwrap();
    check(&ours, &[], 2, "letter.txt");
}

#[test]
fn what_may_pass_ends_a_node_with_1() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    check(&data, &["--listen", &taken], 1, &taken);
    let _held = DataDir::open(&data, "main", || 1).unwrap();
    check(&data, &[], 1, "in use by another process");
}

/// Sends a signal when the node has written a line with `part`.
fn signal_after(
    child: &Child,
    lines: &mut impl Iterator<Item = String>,
    part: &str,
    signal: Signal,
) {
    let line = lines.find(|line| line.contains(part));
    assert!(line.is_some(), "the log ends without {part:?}");
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill_process(id.unwrap(), signal).unwrap();
}

#[test]
fn a_hangup_ends_a_node_in_a_terminal_with_129_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let open = || rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    for (data, stdin, stopped_by) in [
        ("in-terminal", Stdio::from(open().unwrap()), Signal::HUP),
        ("elsewhere", Stdio::null(), Signal::TERM),
    ] {
        let mut command = node(&dir.path().join(data), &[]);
        command.stdin(stdin).stdout(Stdio::null());
        let mut child = apart(|| command.spawn()).unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut lines = log.lines().map_while(Result::ok);
        signal_after(&child, &mut lines, "starting", Signal::HUP);
        let code = match stopped_by {
            Signal::HUP => 129,
            other => {
                signal_after(&child, &mut lines, "SIGHUP has no effect", other);
                0
            }
        };
        let rest: Vec<String> = lines.collect();
        let ended = child.wait().unwrap();
        assert_eq!(ended.code(), Some(code), "{data}: {rest:#?}");
    }
}

/// A collector of logs reads the last line like all others.
#[test]
fn the_last_line_of_a_log_in_json_is_json() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let output = serve(&data, &["--listen", &taken, "--log-format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stderr);
    let last: serde_json::Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(last["level"], "ERROR", "{printed}");
    let message = last["fields"]["message"].as_str().unwrap();
    assert!(message.contains(&taken), "{printed}");
}

/// Runs a command that ends with an error of its configuration. Returns its exit code, and level and message of each
/// line of its log, all of which must be JSON.
#[track_caller]
fn lines_in_json(args: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aliquot"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
        command.env_remove(name);
    }
    command.args(args).envs(variables.iter().copied());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = apart(|| command.spawn()).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    let mut lines = Vec::new();
    for line in printed.lines() {
        let line: serde_json::Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{args:?}: {line:?} is not JSON: {error}"));
        let message = line["fields"]["message"].as_str().unwrap();
        lines.push(format!("{} {message}", line["level"].as_str().unwrap()));
    }
    (output.status.code(), lines)
}

/// Asserts the exit code of a command, and a part of the error that its log ends with.
#[track_caller]
fn check_last(args: &str, variables: &[(&str, &str)], code: i32, part: &str) {
    let words: Vec<&str> = args.split(' ').collect();
    let (exit, lines) = lines_in_json(&words, variables);
    let last = lines.last().map_or("", String::as_str);
    assert_eq!(exit, Some(code), "{args}: {last}");
    assert!(
        last.starts_with("ERROR ") && last.contains(part),
        "{args}: {last}"
    );
}

#[test]
fn an_error_of_the_configuration_has_the_format_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.toml");
    fs::write(&file, "lease = \"never\"\n[log]\nformat = \"json\"\n").unwrap();
    let file = format!("serve --config {}", file.display());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let (lease, taken_face) = (
        "lease = \"never\"",
        format!("agent --faces-http-listen {taken}"),
    );
    check_last(&file, &[], 2, lease);
    let json = [("ALIQUOT_LOG_FORMAT", "json")];
    check_last("serve --lease never", &json, 2, lease);
    // A filter that lets nothing pass is no reason to end without a word.
    check_last("serve --lease never --log-filter off", &json, 2, lease);
    let gone = "serve --log-format json --config /nowhere/node.toml";
    check_last(gone, &[], 2, "/nowhere/node.toml");
    check_last("serve --log-format json --lease never", &[], 2, lease);
    check_last("agent --log-format json", &[], 2, "no face is on");
    let wrong = "agent --faces-http-listen here";
    check_last(wrong, &json, 2, "faces.http_listen");
    check_last(&taken_face, &json, 1, &taken);
    let half = "agent --faces-http-listen 127.0.0.1:0 --tls-cert x.pem";
    check_last(half, &json, 2, "--tls-cert and --tls-key");
    let rls = [("LOG_FORMAT", "JSON"), ("GRPC_PORT", "many")];
    check_last("rls --compat", &rls, 2, "GRPC_PORT");
}

/// A warning before the log is set up is a line of it, too.
#[test]
fn a_warning_about_a_variable_has_the_format_of_the_log() {
    let variables = [("ALIQUOT_LEESE", "3s"), ("ALIQUOT_LOG_FORMAT", "json")];
    let (exit, lines) = lines_in_json(&["agent"], &variables);
    assert_eq!((exit, lines.len()), (Some(2), 2), "{lines:?}");
    let warning = "WARN the variable ALIQUOT_LEESE is not a setting; did you mean ALIQUOT_LEASE?";
    assert_eq!(lines[0], warning);
    assert!(lines[1].starts_with("ERROR no face is on"), "{lines:?}");
}

#[test]
fn the_unit_and_the_help_say_the_same() {
    let unit = include_str!("../../deploy/aliquot.service");
    for line in ["Restart=on-failure", "RestartPreventExitStatus=2 4"] {
        assert!(unit.lines().any(|has| has == line), "{line}");
    }
    let mut help = Command::new(env!("CARGO_BIN_EXE_aliquot"));
    let help = apart(|| help.arg("--help").output());
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    assert!(
        help.contains("2  the command line, a file or a data directory is wrong"),
        "{help}"
    );
    let unreadable = "4  `aliquot serve`: this version cannot read an entry or a snapshot";
    assert!(help.contains(unreadable), "{help}");
}
