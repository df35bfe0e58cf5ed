//! The HTTP face of a node and its description, by schemathesis: it reads the description, makes requests that are
//! permitted and others that are not, and compares statuses, types, headers and bodies with what is described.
//!
//! It is installed from its Python package beside the build. Where it cannot be had, the test says so and passes.

use crate::support::{python_package, setup, together};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{SOON, get, until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

const VERSION: &str = "4.32.5";

/// Keys of at most three segments: without rules, a request's key is the key of a budget. The description permits
/// others, since it does not know the rules of a node.
const KEYS: &str = "^[!-)+-.0-~]+(/[!-)+-.0-~]+){0,2}$";

/// Budgets for all of these keys: a node without one answers 500 if it is asked for a refusal's own status.
const BUDGETS: &str = r#"
- { key: "*", rate: 1000/s, burst: 200 }
- { key: "*/*", rate: 1000/s, burst: 200 }
- { key: "*/*/*", rate: 1000/s, burst: 200 }
"#;

/// A new key may wait for a node longer than the request allows: that is 503 by `?status=429`. A cost that can never be
/// served is 422 by `?never=422`, however valid the request is.
const CONFIG: &str = r#"
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]

[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", "503"]
"#;

/// Maximum time of the run, which takes some six seconds.
const RUN_WITHIN: Duration = Duration::from_secs(120);

/// Restricts all keys of a description to `KEYS`. Returns the number of schemas.
fn restrict_keys(description: &mut Value) -> usize {
    match description {
        Value::Object(fields) => {
            let below: usize = fields.values_mut().map(restrict_keys).sum();
            let is_key = fields.get("maxLength") == Some(&Value::from(256));
            if is_key {
                fields.insert("pattern".into(), KEYS.into());
            }
            below + usize::from(is_key)
        }
        Value::Array(list) => list.iter_mut().map(restrict_keys).sum(),
        _ => 0,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_http_face_does_what_its_description_says() {
    // Its own script names the interpreter by the path of this build, which may have been moved since.
    let python = |venv: &Path| {
        let installed = venv.join("bin/st").is_file();
        installed.then(|| venv.join("bin/python"))
    };
    let Some(python) = python_package("schemathesis", VERSION, python) else {
        return;
    };
    let _machine = together().await;
    let port = ReservedPort::reserve().unwrap();
    let address = port.address().to_string();
    let flag = format!("--faces-http-listen={address}");
    let fleet = setup().nodes(1).flag(flag).start().await;
    fleet.apply(BUDGETS).await;
    let described = until("the face describes itself", SOON, async || {
        let (status, text) = get(&address, "/v1/openapi.json").await?;
        (status == 200).then_some(text)
    })
    .await;
    let mut description: Value = serde_json::from_str(&described).unwrap();
    let paths = description["paths"].as_object().unwrap().len();
    assert_eq!(restrict_keys(&mut description), 1);
    let file = |name: &str| fleet.dir().join(name);
    std::fs::write(file("openapi.json"), description.to_string()).unwrap();
    std::fs::write(file("schemathesis.toml"), CONFIG).unwrap();
    let mut command = Command::new(python);
    command
        .current_dir(fleet.dir())
        .kill_on_drop(true)
        .args(["-m", "schemathesis.cli"])
        .args(["--config-file", "schemathesis.toml", "--no-color", "run"])
        .args(["openapi.json", "--url", &format!("http://{address}")])
        .args(["--checks", "all", "--max-examples", "30", "--seed", "1"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .args(["--continue-on-failure"]);
    let output = timeout(RUN_WITHIN, command.output())
        .await
        .unwrap()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}");
    assert!(output.status.success(), "{}", output.status);
    assert!(printed.contains(&format!("Tested: {paths}")));
}
