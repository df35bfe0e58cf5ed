//! The program itself: what it prints, to whom, and how it exits.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

#[path = "support/fake.rs"]
mod fake;
#[path = "support/server.rs"]
mod server;

use aliquot_coordinator::face::auth::Auth;
use fake::Fake;
use std::io::Write;
use std::net::SocketAddr;
use std::process::Stdio;

struct Said {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program with these arguments and this standard input, and no variables of ours.
async fn run(arguments: &[&str], input: &str) -> Said {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_aliquot"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
        command.env_remove(name);
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input.as_bytes()).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    let output = command
        .args(arguments)
        .stdin(Stdio::from(file))
        .output()
        .await
        .unwrap();
    Said {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn check(said: &Said, code: i32, out: &[&str], err: &[&str]) {
    assert_eq!(said.code, code, "{}\n{}", said.out, said.err);
    for text in out {
        assert!(said.out.contains(text), "{}\nlacks {text}", said.out);
    }
    for text in err {
        assert!(said.err.contains(text), "{}\nlacks {text}", said.err);
    }
}

struct Node {
    address: SocketAddr,
    fake: Fake,
}

impl Node {
    async fn new() -> Self {
        let fake = Fake::new();
        let address = server::serve(&fake, Auth::default(), None).await;
        Self { address, fake }
    }

    async fn run(&self, arguments: &[&str], input: &str) -> Said {
        let address = self.address.to_string();
        let mut all = arguments.to_vec();
        all.extend(["--endpoint", &address]);
        run(&all, input).await
    }

    async fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let said = self.run(&[arguments, &["--json"]].concat(), "").await;
        assert_eq!(said.code, 0, "{}", said.err);
        serde_json::from_str(&said.out).unwrap()
    }
}

const BUDGETS: &str = "\
budgets:
  - key: checkout/charge
    rate: 1000/s
    burst: 200
  - key: tenant/*/reads
    quota: 50000 per day
  - {key: jobs, concurrency: 20}
";

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
            "[default: 3s]",
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
    check(&run(&["top", "-n", "0"], "").await, 2, &[], &["1..=1024"]);
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
async fn the_configuration_is_printed_with_its_origins_and_mistakes_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    std::fs::write(
        &path,
        "listen = \"127.0.0.1:9001\"\n[cluster]\nid = \"shop\"\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let print = ["serve", "--config", path, "--lease", "4s", "--print-config"];
    let text = run(&print, "").await;
    check(
        &text,
        0,
        &["lease = \"4s\"", "# --lease", "node.toml:3", "# default"],
        &[],
    );
    let json = run(&[&print[..], &["--json"]].concat(), "").await;
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["lease"]["value"], "4s");
    assert_eq!(json["lease"]["origin"], "--lease");
    std::fs::write(path, "leese = \"3s\"\nlisten = \"here\"\n").unwrap();
    let wrong = run(&["serve", "--config", path], "").await;
    check(
        &wrong,
        2,
        &[],
        &[
            "2 settings are wrong",
            "node.toml:1) is no setting; did you mean \"lease\"?",
            "listen = \"here\"",
        ],
    );
    let gone = run(&["serve", "--config", "/nowhere/node.toml"], "").await;
    check(&gone, 2, &[], &["/nowhere/node.toml cannot be read"]);
}

#[tokio::test]
async fn budgets_are_applied_shown_and_withdrawn() {
    let node = Node::new().await;
    let none = node.run(&["budget", "list"], "").await;
    check(&none, 0, &["There are no budgets"], &[]);
    let dry = node
        .run(&["budget", "apply", "-", "--dry-run"], BUDGETS)
        .await;
    check(
        &dry,
        0,
        &["+ checkout/charge", "3 would change, 0 unchanged."],
        &[],
    );
    let done = node.run(&["budget", "apply", "-"], BUDGETS).await;
    check(&done, 0, &["rate: 1000/s", "3 changed, 0 unchanged."], &[]);
    let again = node.run(&["budget", "apply", "-"], BUDGETS).await;
    check(&again, 0, &["0 changed, 3 unchanged."], &[]);
    let more = BUDGETS.replace("1000/s", "1500/s");
    let diff = node.run(&["budget", "diff", "-"], &more).await;
    check(
        &diff,
        0,
        &["~ checkout/charge\n    rate: 1000/s → 1500/s\n1 would change, 2 unchanged."],
        &[],
    );
    let list = node.run(&["budget", "list"], "").await;
    check(
        &list,
        0,
        &[
            "KEY ",
            "rate 1000/s, burst 200",
            "quota 50000 per day",
            "20 in flight",
        ],
        &[],
    );
    let get = node.run(&["budget", "get", "tenant/*/reads"], "").await;
    check(&get, 0, &["quota: 50000 per day", "budgets by it: 0"], &[]);
    let usage = node.run(&["budget", "usage", "checkout/charge"], "").await;
    check(&usage, 0, &["held:   1000/s, burst 200"], &[]);
    let usage = node.json(&["budget", "usage", "tenant/7/reads"]).await;
    assert_eq!(usage["rule"], "tenant/*/reads");
    assert_eq!(usage["in_use"], false);
    let holders = node.json(&["budget", "holders", "checkout/charge"]).await;
    assert_eq!(holders["holders"][0]["held"]["rate_per_s"], 1000);
    let gone = node.run(&["budget", "delete", "jobs"], "").await;
    check(&gone, 0, &["jobs withdrawn; budgets by it: 1."], &[]);
    let gone = node.run(&["budget", "delete", "jobs"], "").await;
    check(&gone, 1, &[], &["there is no budget for jobs"]);
    let none = node.run(&["budget", "usage", "zebra"], "").await;
    check(&none, 1, &[], &["no budget matches the key zebra"]);
}

#[tokio::test]
async fn a_budget_file_that_is_wrong_changes_nothing_and_is_explained() {
    let node = Node::new().await;
    let before = node.fake.entries();
    let field = node
        .run(&["budget", "apply", "-"], "key: a\nrat: 3/s\n")
        .await;
    check(
        &field,
        2,
        &[],
        &["standard input, budget 1 (a): there is no field `rat`; did you mean `rate`?"],
    );
    let value = "key: a\nrate: 3 parsecs\n---\nkey: b\nrate: 1/s\nburst: -1\n";
    let value = node.run(&["budget", "apply", "-"], value).await;
    check(
        &value,
        1,
        &[],
        &[
            "refused; nothing was changed:",
            "standard input, budget \"a\": rate = \"3 parsecs\": must be",
            "standard input, budget \"b\": burst = \"-1\": must be",
        ],
    );
    let yaml = node.run(&["budget", "apply", "-"], "key: [").await;
    check(&yaml, 2, &[], &["standard input is not YAML"]);
    let empty = node.run(&["budget", "apply", "-"], "").await;
    check(&empty, 2, &[], &["standard input holds no budget"]);
    let dir = tempfile::tempdir().unwrap();
    let toml = dir.path().join("budgets.toml");
    std::fs::write(&toml, "[[budgets]]\nkey = \"a\"\nrate = \"3/s\"\n").unwrap();
    assert_eq!(node.fake.entries(), before);
    let toml = node
        .run(&["budget", "apply", toml.to_str().unwrap()], "")
        .await;
    check(&toml, 0, &["1 changed"], &[]);
}

#[tokio::test]
async fn the_cluster_is_shown_and_changed() {
    let node = Node::new().await;
    let status = node.run(&["cluster", "status"], "").await;
    check(
        &status,
        0,
        &[
            "cluster test, as node 1 knows it",
            "leader:  node 1",
            "lease:   3s",
        ],
        &[],
    );
    let members = node.run(&["cluster", "members"], "").await;
    check(
        &members,
        0,
        &["MATCHED", "node-2:7101", "learner", "itself"],
        &[],
    );
    let json = node.json(&["cluster", "members"]).await;
    assert_eq!(json[1]["role"], "learner");
    let add = node.run(&["cluster", "add", "node-4:7101"], "").await;
    check(&add, 0, &["node-4:7101 has joined"], &[]);
    let again = node.run(&["cluster", "remove", "7"], "").await;
    check(&again, 0, &["Node 7 has left. It was so already"], &[]);
    assert_eq!(node.fake.changes().len(), 2);
    let refused = node.run(&["cluster", "promote", "9"], "").await;
    check(
        &refused,
        1,
        &[],
        &["node 9 is no member; nothing was changed"],
    );
    let wrong = node.run(&["cluster", "add", "node-4"], "").await;
    check(&wrong, 2, &[], &["HOST:PORT"]);
}

#[tokio::test]
async fn the_busiest_keys_are_shown_once_where_nobody_watches() {
    let node = Node::new().await;
    node.run(&["budget", "apply", "-"], BUDGETS).await;
    let top = node.run(&["top"], "").await;
    check(&top, 0, &["KEY ", "ADMITTED", "950.5", "2 of 2 keys"], &[]);
    let json = node.json(&["top", "-n", "1"]).await;
    assert_eq!(json["total"], 2);
    assert_eq!(json["keys"].as_array().unwrap().len(), 1);
    assert_eq!(json["keys"][0]["denied_per_s"], 12);
}

#[tokio::test]
async fn every_endpoint_is_tried_and_an_unreachable_cluster_has_its_own_exit_code() {
    let node = Node::new().await;
    // A port that is bound and not listened on refuses.
    let nobody = tokio::net::TcpSocket::new_v4().unwrap();
    nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = nobody.local_addr().unwrap().to_string();
    let found = node
        .run(&["cluster", "status", "--endpoint", &nobody], "")
        .await;
    check(&found, 0, &["node 1"], &[]);
    let lost = run(&["cluster", "status", "--endpoint", &nobody], "").await;
    check(&lost, 3, &[], &["no node answered", &nobody]);
    let json = run(&["--json", "cluster", "status", "--endpoint", &nobody], "").await;
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .contains("no node answered")
    );
    node.fake.lose_leader();
    let led = node.run(&["budget", "list"], "").await;
    check(
        &led,
        3,
        &[],
        &["no leader can be reached (tried nodes 2 and 3)"],
    );
    let key = run(&["cluster", "status", "--tls-cert", "x.pem"], "").await;
    check(&key, 2, &[], &["--tls-cert and --tls-key belong together"]);
}
