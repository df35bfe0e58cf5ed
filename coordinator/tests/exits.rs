//! Exit codes of a node that cannot start: 2 if a restart would fail in the same way, and 1 if the
//! service manager may start it again.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_coordinator::store::DataDir;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

/// Runs a node of the cluster `main` in a directory. It must not start.
fn serve(data: &Path, flags: &[&str]) -> Output {
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
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("aliquot: ") && last.contains(part),
        "{said}"
    );
    assert_eq!(output.status.code(), Some(code), "{said}");
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

/// A collector of logs reads the last line like all others.
#[test]
fn the_last_line_of_a_log_in_json_is_json() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let output = serve(&data, &["--listen", &taken, "--log-format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(last["level"], "ERROR", "{said}");
    let message = last["fields"]["message"].as_str().unwrap();
    assert!(message.contains(&taken), "{said}");
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
    let unreadable = "4  only `aliquot serve`: this version cannot read an entry or a snapshot";
    assert!(help.contains(unreadable), "{help}");
}
