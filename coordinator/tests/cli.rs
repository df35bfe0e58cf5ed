//! The program itself: its output and its exit codes.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

#[path = "support/fake.rs"]
mod fake;
#[path = "cli/json.rs"]
mod json;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use aliquot_client::Clock;
use aliquot_client::clock::HostClock;
use aliquot_coordinator::api::auth::Auth;
use fake::Fake;
use program::{ProgramOutput, check, run};
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

struct Node {
    address: SocketAddr,
    fake: Fake,
}

impl Node {
    async fn new() -> Self {
        let fake = Fake::new();
        let (address, _) = server::serve(&fake, Auth::default(), None).await;
        Self { address, fake }
    }

    async fn run(&self, arguments: &[&str], input: &str) -> ProgramOutput {
        let address = self.address.to_string();
        let mut all = arguments.to_vec();
        all.extend(["--endpoint", &address]);
        run(&all, input).await
    }

    async fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let message = self.run(&[arguments, &["--json"]].concat(), "").await;
        assert_eq!(message.code, 0, "{}", message.err);
        serde_json::from_str(&message.out).unwrap()
    }
}

const BUDGETS: &str = "\
budgets:
  - key: checkout/charge
    rate: 1000/s
    burst: 200
  - key: tenant/*/reads
    quota: 50000 per day
    zone: Europe/Berlin
  - {key: jobs, concurrency: 20}
";

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
            "node.toml:1) is not a setting; did you mean \"lease\"?",
            "listen = \"here\"",
        ],
    );
    let gone = run(&["serve", "--config", "/nowhere/node.toml"], "").await;
    check(&gone, 2, &[], &["/nowhere/node.toml cannot be read"]);
}

#[tokio::test]
async fn budgets_are_applied_shown_and_deleted() {
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
            "quota 50000 per day in Europe/Berlin",
            "20 in flight",
        ],
        &[],
    );
    let get = node.run(&["budget", "get", "tenant/*/reads"], "").await;
    let fields = ["quota: 50000 per day", "zone: Europe/Berlin", "keys: 0"];
    check(&get, 0, &fields, &[]);
    let usage = node.run(&["budget", "usage", "checkout/charge"], "").await;
    check(&usage, 0, &["held:   1000/s, burst 200"], &[]);
    let usage = node.json(&["budget", "usage", "tenant/7/reads"]).await;
    assert_eq!(usage["rule"], "tenant/*/reads");
    assert_eq!(usage["in_use"], false);
    let holders = node.json(&["budget", "holders", "checkout/charge"]).await;
    assert_eq!(holders["holders"][0]["held"]["rate_per_s"], 1000);
    let with_clients = ["budget", "holders", "checkout/charge", "--clients"];
    let text = node.run(&with_clients, "").await;
    check(
        &text,
        0,
        &["FLOOR", "No client holds a part of it."],
        &["node 1 is not included"],
    );
    assert_eq!(
        node.json(&with_clients).await["clients"],
        serde_json::json!([])
    );
    let gone = node.run(&["budget", "delete", "jobs"], "").await;
    check(&gone, 0, &["jobs deleted; keys: 1."], &[]);
    let gone = node.run(&["budget", "delete", "jobs"], "").await;
    let no_such = "there is no budget for jobs, exactly as written";
    check(&gone, 1, &[], &[no_such]);
    let none = node.run(&["budget", "usage", "zebra"], "").await;
    check(&none, 1, &[], &["no budget matches the key zebra"]);
}

#[tokio::test]
async fn a_budget_file_that_is_wrong_changes_nothing_and_is_explained() {
    let node = Node::new().await;
    let before = node.fake.entries();
    let zone = "key: a\nquota: 5 per day\nzone: Berlin\n";
    let zone = node.run(&["budget", "apply", "-"], zone).await;
    let meant = "standard input:3, budget \"a\": zone = \"Berlin\": must be a name of the IANA time zone \
                 database, such as \"Europe/Berlin\"; did you mean \"Europe/Berlin\"?";
    check(&zone, 2, &[], &[meant]);
    let field = node
        .run(&["budget", "apply", "-"], "key: a\nrat: 3/s\n")
        .await;
    check(
        &field,
        2,
        &[],
        &["standard input:2, budget \"a\": there is no field `rat`; did you mean `rate`?"],
    );
    let value = "key: a\nrate: 3 parsecs\n---\nkey: b\nrate: 1/s\nburst: -1\n";
    let value = node.run(&["budget", "apply", "-"], value).await;
    check(
        &value,
        2,
        &[],
        &[
            "2 errors; nothing was sent:\n",
            "standard input:2, budget \"a\": rate = \"3 parsecs\": must be",
            "standard input:6, budget \"b\": burst = \"-1\": must be",
        ],
    );
    assert_eq!(node.fake.entries(), before);
    // A budget that is valid by itself may conflict with existing ones.
    node.run(&["budget", "apply", "-"], "key: calls\nrate: 1/s\n")
        .await;
    let before = node.fake.entries();
    let kind = "key: b\nrate: 1/s\n---\nkey: calls\nconcurrency: 3\n";
    let kind = node.run(&["budget", "apply", "-"], kind).await;
    let expected = "refused; nothing was changed:\n  standard input:4, budget \"calls\": kind = ";
    check(&kind, 1, &[], &[expected]);
    let yaml = node.run(&["budget", "apply", "-"], "key: [").await;
    check(&yaml, 2, &[], &["standard input is not YAML"]);
    let empty = node.run(&["budget", "apply", "-"], "").await;
    check(&empty, 2, &[], &["standard input holds no budget"]);
    for (input, message) in [
        (
            "key: a\nrate: 1/s\nfloor: 3\n",
            "standard input:3, budget \"a\": floor = \"3\": must be `{ rate, burst }` with `rate`, `{ permits }` with `concurrency`",
        ),
        (
            "key: a\nweights: [3]\n",
            "standard input:2, budget \"a\": weights = \"[3]\": must be a list of `{ match: { label: glob }, weight",
        ),
        ("key: a\nkey: b\n", "duplicate mapping key: key\n"),
    ] {
        let refused = node.run(&["budget", "apply", "-"], input).await;
        check(&refused, 2, &[], &[message]);
    }
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
async fn a_number_that_is_not_whole_is_told_as_it_is_written() {
    for (input, message) in [
        (
            "key: a\nrate: .inf\n",
            "standard input:2, budget \"a\": rate = \".inf\": must be a rate of 0/s, or from 1 per 10 days",
        ),
        (
            "key: a\nrate: 1/s\nburst: 1e3\n",
            "standard input:3, budget \"a\": burst = \"1e3\": must be a whole number from 0 to 72057594037927936",
        ),
        (
            "key: a\nrate: 1/s\nburst: true\n",
            "standard input:3, budget \"a\": burst = \"true\": must be a whole number",
        ),
    ] {
        let refused = run(&["budget", "apply", "-"], input).await;
        check(&refused, 2, &[], &[message]);
    }
}

fn many(budgets: std::ops::Range<usize>, rate: &str) -> String {
    let lines = budgets.map(|n| format!("- {{ key: many/{n}, rate: {rate} }}\n"));
    lines.collect()
}

#[tokio::test]
async fn any_number_of_budgets_is_applied_in_sets_and_listed_in_pages() {
    let node = Node::new().await;
    let before = node.fake.entries();
    let first = node
        .run(&["budget", "apply", "-"], &many(0..1_500, "5/s"))
        .await;
    check(
        &first,
        0,
        &["… and 1480 more\n1500 changed, 0 unchanged."],
        &[],
    );
    assert_eq!(node.fake.entries() - before, 2);
    let all = many(0..5_000, "5/s");
    let dry = node.run(&["budget", "diff", "-"], &all).await;
    check(
        &dry,
        0,
        &[
            "+ many/1500\n",
            "+ many/4999\n",
            "3500 would change, 1500 unchanged.",
        ],
        &[],
    );
    // Unchanged budgets are not sent again, so an interrupted apply continues where it stopped.
    let before = node.fake.entries();
    let done = node.run(&["budget", "apply", "-"], &all).await;
    check(&done, 0, &["3500 changed, 1500 unchanged."], &[]);
    assert_eq!(node.fake.entries() - before, 4);
    let list = node.json(&["budget", "list"]).await;
    assert_eq!(list.as_array().unwrap().len(), 5_000);
    assert_eq!(list[4_999]["budget"]["key"], "many/4999");
    // An invalid budget in the last set prevents all sets.
    let before = node.fake.entries();
    let wrong = format!(
        "{}- {{ key: many/0, concurrency: 3 }}\n",
        many(1..5_000, "6/s")
    );
    let wrong = node.run(&["budget", "apply", "-"], &wrong).await;
    let expected =
        "refused; nothing was changed:\n  standard input:5000, budget \"many/0\": kind = ";
    check(&wrong, 1, &[], &[expected]);
    assert_eq!(node.fake.entries(), before);
}

#[tokio::test]
async fn an_apply_that_is_interrupted_says_how_much_is_made_and_goes_on_when_it_is_called_again() {
    let node = Node::new().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.yaml");
    std::fs::write(&file, many(0..5_000, "5/s")).unwrap();
    let file = file.to_str().unwrap();
    node.fake.lose_leader_after(2);
    let before = node.fake.entries();
    let address = node.address.to_string();
    let child = tokio::process::Command::new(env!("CARGO_BIN_EXE_aliquot"))
        .args(["budget", "apply", file, "--endpoint", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    // It is waiting for a leader now, or will be at once.
    let two_sets = async {
        while node.fake.entries() < before + 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), two_sets)
        .await
        .expect("two sets are written");
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    kill_process(id.and_then(Pid::from_raw).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().await.unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    // The second answer may not have arrived.
    let expected = |made: u32| format!("interrupted\n{made} of 5000 changes were made;");
    assert!(
        [1_024, 2_048]
            .iter()
            .any(|made| message.contains(&expected(*made))),
        "{message}"
    );
    node.fake.lose_leader_after(u64::MAX);
    let rest = node.run(&["budget", "apply", file], "").await;
    check(&rest, 0, &["2952 changed, 2048 unchanged."], &[]);
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
    // Ids have more bits than programs such as `jq` keep of a number.
    assert_eq!(json[1]["node"], "2");
    assert_eq!(node.json(&["cluster", "status"]).await["leader"], "1");
    let add = node.run(&["cluster", "add", "node-4:7101"], "").await;
    check(&add, 0, &["node-4:7101 has joined"], &[]);
    node.fake.remove(7);
    let again = node.run(&["cluster", "remove", "7"], "").await;
    check(
        &again,
        0,
        &["Node 7 has left. Nothing was changed: this was already the case"],
        &[],
    );
    assert_eq!(node.fake.changes().len(), 2);
    for order in ["promote", "remove"] {
        let refused = node.run(&["cluster", order, "9"], "").await;
        let expected = "node 9 is no member; nothing was changed";
        check(&refused, 1, &[], &[expected]);
    }
    let unknown = node.run(&["cluster", "remove", "node-9:7101"], "").await;
    let expected = "no member has the address node-9:7101; nothing was changed";
    check(&unknown, 1, &[], &[expected]);
    let promoted = node.run(&["cluster", "promote", "node-2:7101"], "").await;
    check(&promoted, 0, &["Node 2 has a vote."], &[]);
    let named = node.run(&["cluster", "promote", "node-2"], "").await;
    check(&named, 2, &[], &["its peer or client address"]);
    let wrong = node.run(&["cluster", "add", "node-4"], "").await;
    check(&wrong, 2, &[], &["HOST:PORT"]);
}

#[tokio::test]
async fn the_busiest_keys_are_shown_once_without_a_terminal() {
    let node = Node::new().await;
    node.run(&["budget", "apply", "-"], BUDGETS).await;
    let top = node.run(&["top"], "").await;
    check(&top, 0, &["KEY ", "ADMITTED", "950.5", "2 of 2 keys"], &[]);
    let json = node.json(&["top", "-n", "1"]).await;
    assert_eq!(json["total"], 2);
    assert_eq!(json["keys"].as_array().unwrap().len(), 1);
    assert_eq!(json["keys"][0]["denied_per_s"], 12);
    // More is asked for than there is.
    let few = "- { key: few, rate: 1/s }";
    node.run(&["budget", "apply", "-"], few).await;
    let json = node.json(&["top"]).await;
    let few = json["keys"].as_array().unwrap().iter();
    let few = few.clone().find(|key| key["key"] == "few").unwrap();
    assert!(few["demand"].as_f64().unwrap() > 1.0, "{few}");
    assert_eq!(few["use"], 1);
}

#[tokio::test]
async fn every_endpoint_is_tried_and_an_unreachable_cluster_has_its_own_exit_code() {
    let node = Node::new().await;
    // A port that is bound but not listened on refuses connections.
    let unused = tokio::net::TcpSocket::new_v4().unwrap();
    unused.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let unused = unused.local_addr().unwrap().to_string();
    let found = node
        .run(&["cluster", "status", "--endpoint", &unused], "")
        .await;
    check(&found, 0, &["node 1"], &[]);
    let lost = run(&["cluster", "status", "--endpoint", &unused], "").await;
    check(&lost, 3, &[], &["no node answered", &unused]);
    let json = run(&["--json", "cluster", "status", "--endpoint", &unused], "").await;
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert!(
        error["error"]
            .as_str()
            .unwrap()
            .contains("no node answered")
    );
    node.fake.lose_leader_after(0);
    let status = node.run(&["cluster", "status"], "").await;
    check(&status, 1, &["leader:  unknown"], &["no leader is known"]);
    let led = node.run(&["budget", "list"], "").await;
    check(
        &led,
        3,
        &[],
        &["no leader can be reached (tried nodes 2 and 3)"],
    );
    for tokens in ["0", "1e3", "12345678901234567890123"] {
        let none = run(&["check", "a", "-n", tokens], "").await;
        let expected = format!(
            "invalid value '{tokens}' for '--tokens <N>': must be a whole number from 1 to 18446744073709551615"
        );
        check(&none, 2, &[], &[&expected]);
    }
    let few = run(&["top", "-n", "1e3"], "").await;
    let expected = "invalid value '1e3' for '--keys <KEYS>': must be a whole number from 1 to 1024";
    check(&few, 2, &[], &[expected]);
    let empty = run(&["top", "--endpoint", "a:1,,b:1"], "").await;
    let expected = "invalid value 'a:1,,b:1' for '--endpoint <HOST:PORT>': \"\" must be HOST:PORT";
    check(&empty, 2, &[], &[expected]);
    let ca = run(&["cluster", "status", "--tls-ca", "/nowhere/ca.pem"], "").await;
    check(&ca, 2, &[], &["--tls-ca = /nowhere/ca.pem cannot be read"]);
    let key = run(&["cluster", "status", "--tls-cert", "x.pem"], "").await;
    check(&key, 2, &[], &["--tls-cert and --tls-key belong together"]);
}

/// An endpoint that is no node's port for clients answers, and knows no command.
#[tokio::test]
async fn an_endpoint_that_is_no_node_is_passed_over() {
    let node = Node::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = listener.local_addr().unwrap().to_string();
    let served = tonic::transport::Server::builder()
        .add_routes(tonic::service::Routes::default())
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener));
    tokio::spawn(served);
    let with_other = ["cluster", "status", "--endpoint", &other];
    check(&node.run(&with_other, "").await, 0, &["node 1"], &[]);
    let alone = run(&with_other, "").await;
    let why = format!("{other}: this is not a node's port for clients");
    check(&alone, 3, &[], &["no node answered", &why]);
}

/// Maximum time that a silent endpoint costs a command: a second, and the start of the program.
const SILENT_MAX: Duration = Duration::from_millis(1_500);

/// A silent node accepts connections and answers nothing, as a removed node or a stopped process does.
#[tokio::test]
async fn a_silent_endpoint_is_passed_over_and_a_lost_question_is_told_as_one() {
    let node = Node::new().await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    // The best of some runs, since the machine may be busy with something else.
    let mut least = Duration::MAX;
    for _ in 0..3 {
        let begun = HostClock.now();
        let found = node
            .run(&["cluster", "status", "--endpoint", &silent], "")
            .await;
        check(&found, 0, &["node 1"], &[]);
        let took = HostClock.now().since(begun);
        least = least.min(Duration::from_nanos(took.nanos()));
        if least < SILENT_MAX {
            break;
        }
    }
    assert!(least < SILENT_MAX, "a silent endpoint costs {least:?}");
    let alone = |command: &'static [&'static str]| {
        let end = ["--timeout", "50ms", "--endpoint", &silent];
        let arguments: Vec<String> = command.iter().chain(&end).map(|&it| it.into()).collect();
        async move {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            run(&arguments, "- { key: a, rate: 1/s }").await
        }
    };
    let read = alone(&["budget", "list"]).await;
    check(&read, 3, &[], &["no node answered; nothing was changed"]);
    let write = alone(&["budget", "delete", "a"]).await;
    check(&write, 1, &[], &["may have been carried out or not"]);
    let checked = alone(&["check", "a"]).await;
    check(
        &checked,
        3,
        &[],
        &[
            "no node opened a session; nothing was charged",
            "no session within 50ms",
        ],
    );
    let wrong = node.run(&["top", "--timeout", "soon"], "").await;
    check(&wrong, 2, &[], &["must be a span from 10ms to 1h"]);
}
