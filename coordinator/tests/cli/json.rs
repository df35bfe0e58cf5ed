//! Compares the output of `--json` with `docs/cli-json.md`.

use super::program::{ProgramOutput, run};
use super::{BUDGETS, Node};
use aliquot_client::Client;
use aliquot_coordinator::config::{Config, Sources};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_coordinator::serve::{self, Runtimes};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::runtime::Handle;

/// Paths with their types, by command.
type Documented = BTreeMap<String, BTreeMap<String, String>>;

/// Reads the tables of the document.
fn documented() -> Documented {
    let mut all = Documented::new();
    let mut command = String::new();
    for line in include_str!("../../../docs/cli-json.md").lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            command = heading.replace('`', "").replace("aliquot ", "");
            all.insert(command.clone(), BTreeMap::new());
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", paths, kind, _, ""] = cells[..] else {
            continue;
        };
        let Some(fields) = all.get_mut(&command).filter(|_| paths.starts_with('`')) else {
            continue;
        };
        let path = paths.strip_suffix(" and so on").unwrap_or(paths);
        for path in path
            .split(", ")
            .map(|path| path.trim_matches('`').to_owned())
        {
            fields.insert(path, kind.to_owned());
        }
    }
    // A path "and so on" has the fields of another command.
    let others = all.clone();
    for fields in all.values_mut() {
        let of_other: Vec<(String, String)> = fields
            .iter()
            .filter_map(|(path, kind)| {
                Some((
                    path.clone(),
                    kind.strip_prefix("as `aliquot ")?.replace('`', ""),
                ))
            })
            .collect();
        for (path, other) in of_other {
            fields.remove(&path);
            let (prefix, _) = path.rsplit_once('.').unwrap();
            for (path, kind) in &others[&other] {
                let path = path.trim_start_matches(".[]");
                fields.insert(format!("{prefix}{path}"), kind.clone());
            }
        }
    }
    all
}

/// Compares what a command prints with its table. Marks the paths that it has.
fn compare(
    fields: &BTreeMap<String, String>,
    path: &str,
    value: &Value,
    seen: &mut BTreeSet<String>,
) {
    let kind = fields.get(path).map(String::as_str);
    if let Some(kind) = kind {
        seen.insert(path.to_owned());
        let (kind, or_null) = match kind.strip_suffix(" or null") {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let fits = match (kind, value) {
            (_, Value::Null) => or_null,
            ("text", Value::String(_))
            | ("bool", Value::Bool(_))
            | ("number", Value::Number(_)) => true,
            ("number", Value::String(text)) => text.parse::<f64>().is_ok(),
            ("budget", Value::Object(budget)) => budget.contains_key("key"),
            ("map", Value::Object(map)) => map.values().all(Value::is_string),
            ("object", Value::Object(_)) => true,
            _ => false,
        };
        assert!(fits, "{path} is {kind:?}, but {value} was printed");
        if kind != "object" || value.is_null() {
            return;
        }
    }
    match value {
        Value::Object(inner) => {
            for (name, value) in inner {
                compare(fields, &format!("{path}.{name}"), value, seen);
            }
        }
        Value::Array(list) => {
            let path = if path.is_empty() {
                ".[]".to_owned()
            } else {
                format!("{path}[]")
            };
            for value in list {
                compare(fields, &path, value, seen);
            }
        }
        _ => panic!("{path} is not documented, but {value} was printed"),
    }
}

/// Compares all that a command prints with its table, and the other way round.
#[track_caller]
fn check(documented: &mut Documented, command: &str, printed: &[Value]) {
    let fields = documented.remove(command);
    let fields = fields.unwrap_or_else(|| panic!("{command} is not documented"));
    let mut seen = BTreeSet::new();
    for value in printed {
        compare(&fields, "", value, &mut seen);
    }
    let unseen: Vec<&String> = fields.keys().filter(|path| !seen.contains(*path)).collect();
    assert!(unseen.is_empty(), "{command} does not print {unseen:?}");
}

impl Node {
    async fn prints(&self, commands: &[&[&str]], input: &str) -> Vec<Value> {
        let mut printed = Vec::new();
        for &command in commands {
            let output = self.run(&[command, &["--json"][..]].concat(), input).await;
            printed.push(
                serde_json::from_str(&output.out)
                    .unwrap_or_else(|_| panic!("{command:?}: {}", output.err)),
            );
        }
        printed
    }
}

#[tokio::test]
async fn what_commands_print_is_what_the_document_says() {
    let mut documented = documented();
    let all = &mut documented;
    let node = Node::new().await;
    let diff: &[&str] = &["budget", "diff", "-"];
    let apply: &[&str] = &["budget", "apply", "-"];
    let mut changes = node.prints(&[diff, apply], BUDGETS).await;
    let large = "[{key: large, quota: 72057594037926912 per day}, {key: jobs, concurrency: 9007199254741248}]";
    changes.extend(node.prints(&[diff, apply], large).await);
    check(all, "budget apply, budget diff", &changes);
    let applied = changes[3]["changes"].as_array().unwrap();
    assert!(
        applied
            .iter()
            .any(|change| change["before"]["concurrency"] == 20)
    );
    let get = node.prints(&[&["budget", "get", "jobs"]], "").await;
    // Programs keep no number of more than 53 bits.
    assert_eq!(get[0]["budget"]["concurrency"], "9007199254741248");
    check(all, "budget get", &get);
    check(
        all,
        "budget list",
        &node.prints(&[&["budget", "list"]], "").await,
    );
    let usage: &[&[&str]] = &[
        &["budget", "usage", "checkout/charge"],
        &["budget", "usage", "large"],
        &["budget", "usage", "jobs"],
    ];
    let usage = node.prints(usage, "").await;
    assert_eq!(usage[1]["limit"]["quota"], "72057594037926912 per day");
    check(all, "budget usage", &usage);
    check(all, "budget explain-format", &[explained().await]);
    let changes: &[&[&str]] = &[
        &["cluster", "add", "node-4:7101"],
        &["cluster", "promote", "node-2:7101"],
    ];
    let command = "cluster add, promote, remove, replace, transfer-leader";
    check(all, command, &node.prints(changes, "").await);
    let key: &[&[&str]] = &[
        &["explain-key", "http", "checkout/charge"],
        &[
            "explain-key",
            "http",
            "health",
            "--faces-rules",
            "http:health -> jobs",
        ],
    ];
    check(all, "explain-key", &node.prints(key, "").await);
    check(all, "top", &node.prints(&[&["top"]], "").await);
    for command in ["status", "members"] {
        let printed = node.prints(&[&["cluster", command]], "").await;
        check(all, &format!("cluster {command}"), &printed);
    }
    let deleted = node.prints(&[&["budget", "delete", "jobs"]], "").await;
    check(all, "budget delete", &deleted);
    check(all, "import envoy", &[imported().await]);
    let config = run(&["serve", "--print-config", "--json"], "").await;
    let config: BTreeMap<String, Value> = serde_json::from_str(&config.out).unwrap();
    for (setting, shown) in config {
        let fields: Vec<&String> = shown.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["origin", "value"], "{setting}");
    }
    documented.remove("serve --print-config");
    // The other test has those that need a real node.
    let rest: Vec<&String> = documented.keys().collect();
    assert_eq!(rest, ["budget holders", "check", "cluster clients"]);
}

async fn explained() -> Value {
    let output = run(&["budget", "explain-format", "--json"], "").await;
    serde_json::from_str(&output.out).unwrap()
}

async fn imported() -> Value {
    let dir = tempfile::tempdir().unwrap();
    let rules = "domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: minute, requests_per_unit: 9 } }]\n";
    std::fs::write(dir.path().join("shop.yaml"), rules).unwrap();
    let output = run(
        &["import", "envoy", dir.path().to_str().unwrap(), "--json"],
        "",
    )
    .await;
    serde_json::from_str(&output.out).unwrap()
}

/// A real node in this process, with a budget of each kind.
struct RealNode {
    address: String,
    _dir: tempfile::TempDir,
    _ports: [ReservedPort; 2],
}

impl RealNode {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = [(); 2].map(|()| ReservedPort::reserve().unwrap());
        let mut sources = Sources::default();
        let text = format!(
            "listen = \"{}\"\npeer_listen = \"{}\"\nmetrics_listen = \"off\"\ndata_dir = {:?}\n",
            ports[0].address(),
            ports[1].address(),
            dir.path().join("data"),
        );
        sources.file("node.toml", text);
        let config = Config::load(&sources).unwrap().config;
        let budgets = [
            serde_json::json!({ "key": "a", "quota": "5 per year" }),
            serde_json::json!({ "key": "rate", "rate": "1000/s", "floor": { "rate": "1/s", "burst": 1 } }),
            serde_json::json!({ "key": "quota", "quota": "50000 per day" }),
            serde_json::json!({ "key": "permits", "concurrency": 20 }),
        ];
        let budgets = budgets.map(|budget| {
            let draft = aliquot_budgets::draft_of("a test", budget).unwrap();
            draft.validate().unwrap()
        });
        let budgets = budgets.to_vec();
        tokio::spawn(async move {
            let runtimes = Runtimes {
                peers: Handle::current(),
                actor: Handle::current(),
            };
            let ended = serve::run(config, budgets, &runtimes, std::future::pending()).await;
            panic!("the node has ended: {ended:?}");
        });
        let node = Self {
            address: ports[0].address().to_string(),
            _dir: dir,
            _ports: ports,
        };
        node.until(&["budget", "usage", "a"], |_| true).await;
        node
    }

    async fn run(&self, command: &[&str]) -> ProgramOutput {
        let end = ["--timeout", "10s", "--endpoint", &self.address];
        run(&[command, &end].concat(), "").await
    }

    /// Repeats a command until it succeeds and prints what is expected.
    async fn until(&self, command: &[&str], is_there: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            loop {
                let output = self.run(&[command, &["--json"]].concat()).await;
                if let (0, Ok(value)) = (output.code, serde_json::from_str(&output.out))
                    && is_there(&value)
                {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        found.unwrap_or_else(|_| panic!("{command:?} prints something else"))
    }
}

/// A fake node has no decisions, no sessions, and no parts that they hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commands_print_of_decisions_and_sessions_is_what_the_document_says() {
    let mut documented = documented();
    let all = &mut documented;
    let node = RealNode::start().await;
    // A node that has just begun may not have the whole quota yet.
    let all_of_it = node.until(&["check", "a", "-n", "5"], |_| true).await;
    let mut printed = vec![all_of_it];
    let never = "the cost is 6, and the burst 5); waiting does not help";
    for (tokens, text) in [("1", "a: refused, quota"), ("6", never)] {
        let command = ["check", "a", "-n", tokens];
        let json = node.run(&[&command[..], &["--json"]].concat()).await;
        assert_eq!(json.code, 1, "{}{}", json.out, json.err);
        printed.push(serde_json::from_str::<Value>(&json.out).unwrap());
        let output = node.run(&command).await;
        assert!(output.out.contains(text), "{}{}", output.out, output.err);
    }
    assert_eq!(printed[0]["admitted"], true);
    // A silent endpoint costs a second, and the next one decides.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let both = ["check", "a", "--endpoint", &silent];
    let refused = node.run(&both).await;
    assert_eq!(refused.code, 1, "{}{}", refused.out, refused.err);
    assert_eq!(printed[1]["excess"], Value::Null);
    let excess = serde_json::json!({ "cost": 6, "burst": 5 });
    assert_eq!(printed[2]["excess"], excess);
    check(all, "check", &printed);
    let client = Client::builder().addresses([node.address.clone()]);
    let client = client.label("service", "checkout").connect().unwrap();
    let limiters = ["rate", "quota", "permits"].map(|key| client.limiter(key).unwrap());
    let permit = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            if let Ok(permit) = limiters[2].permit().await {
                return permit;
            }
        }
    });
    let permit = permit.await.expect("a permit");
    let mut holders = Vec::new();
    for (key, limiter) in ["rate", "quota", "permits"].iter().zip(&limiters) {
        let command = ["budget", "holders", *key, "--clients"];
        let is_held = |value: &Value| value["clients"][0].is_object();
        // A client without demand gives back what it holds.
        let holds = async {
            loop {
                let _ = limiter.check(1).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            found = node.until(&command, is_held) => holders.push(found),
            () = holds => {}
        }
    }
    check(all, "budget holders", &holders);
    let sessions = |value: &Value| value.as_array().is_some_and(|all| !all.is_empty());
    let clients = node.until(&["cluster", "clients"], sessions).await;
    check(all, "cluster clients", &[clients]);
    drop((permit, limiters));
    client.close().await;
}
