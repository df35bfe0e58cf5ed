//! The files in `deploy/` work as they are.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

#[path = "deploy/files.rs"]
mod files;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// Maximum time for any condition, on a machine however busy.
const DEADLINE: Duration = Duration::from_secs(60);

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the certificates that the README creates, as file name and subject names.
fn certified() -> Vec<(String, Vec<String>)> {
    let readme = read("deploy/README.md");
    let lines = readme.lines().filter_map(|line| {
        let (file, names) = line.strip_prefix("certify ")?.split_once(' ')?;
        let names = names.trim_matches('"').split(',').map(|name| {
            let (_, name) = name.split_once(':').unwrap();
            name.to_owned()
        });
        Some((file.to_owned(), names.collect()))
    });
    lines.collect()
}

/// Calls `again` until it succeeds.
async fn until<T>(what: &str, mut again: impl AsyncFnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    let trying = async {
        loop {
            match again().await {
                Ok(found) => return found,
                Err(why) => last = why,
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    match tokio::time::timeout(DEADLINE, trying).await {
        Ok(found) => found,
        Err(_) => panic!("{what}: not within {DEADLINE:?}: {last}"),
    }
}

/// A copy of `deploy/` with certificates, as the README creates them.
struct Deployed {
    dir: tempfile::TempDir,
    /// Two tests cannot use the same addresses at once. The test that holds this port may use them.
    _turn: TcpListener,
}

impl Deployed {
    async fn new() -> Self {
        let turn = until("the addresses 127.0.10.x", async || {
            TcpListener::bind("127.0.10.254:7001").map_err(|error| {
                format!(
                    "{error}: this test needs the loopback addresses 127.0.10.1 to .3 and .254 \
                     (Linux has them; elsewhere add them to the loopback interface)"
                )
            })
        })
        .await;
        for node in 1..=3 {
            for port in [7001, 7101, 7201] {
                let address = format!("127.0.10.{node}:{port}");
                if let Err(error) = TcpListener::bind(&address) {
                    panic!("{address}: {error}: does a cluster of deploy/ run on this machine?");
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(root().join("deploy")).unwrap() {
            let file = file.unwrap();
            if file.file_type().unwrap().is_dir() {
                continue;
            }
            std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
        }
        let deployed = Self { dir, _turn: turn };
        deployed.certify();
        deployed
    }

    fn certify(&self) {
        let tls = self.dir.path().join("tls");
        std::fs::create_dir(&tls).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(tls.join("ca.pem"), ca.pem()).unwrap();
        for (file, names) in certified() {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(names).unwrap();
            let cert = params.signed_by(&key, &ca).unwrap();
            std::fs::write(tls.join(format!("{file}.pem")), cert.pem()).unwrap();
            std::fs::write(tls.join(format!("{file}.key")), key.serialize_pem()).unwrap();
        }
    }

    /// Returns the program, without environment variables of `aliquot`.
    fn aliquot(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aliquot"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
            command.env_remove(name);
        }
        command.current_dir(self.dir.path()).kill_on_drop(true);
        command
    }

    fn serve(&self, node: u32) -> Child {
        let log = std::fs::File::create(self.log(node)).unwrap();
        let mut command = self.aliquot();
        command.args(["serve", "--config", &format!("node-{node}.toml")]);
        command.stdin(Stdio::null()).stderr(log).spawn().unwrap()
    }

    fn log(&self, node: u32) -> PathBuf {
        self.dir.path().join(format!("node-{node}.log"))
    }

    /// Queries a node with a certificate. Returns the answer or the error.
    async fn ask(&self, who: &str, node: u32, arguments: &[&str]) -> Result<Value, String> {
        let mut command = self.aliquot();
        command.args(arguments).args(["--json", "--endpoint"]);
        command.arg(format!("127.0.10.{node}:7001"));
        command.args(["--tls-ca", "tls/ca.pem"]);
        command.args(["--tls-cert", &format!("tls/{who}.pem")]);
        command.args(["--tls-key", &format!("tls/{who}.key")]);
        let output = command.output().await.unwrap();
        match output.status.code() {
            Some(0) => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            _ => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Waits until each node knows a leader and three voters.
    async fn formed(&self) {
        for node in 1..=3 {
            until("a leader and three voters", async || {
                let cluster = self.ask("admin", node, &["cluster", "status"]).await;
                let cluster = cluster.map_err(|why| format!("{why}\n{}", self.logs()))?;
                let voters = cluster["nodes"].as_array().unwrap().iter();
                let voters =
                    voters.filter(|node| node["role"] == "voter" || node["role"] == "leader");
                match cluster["leader"].is_string() && voters.count() == 3 {
                    true => Ok(()),
                    false => Err(format!("{cluster:#}\n{}", self.logs())),
                }
            })
            .await;
        }
    }

    fn logs(&self) -> String {
        let logs = (1..=3).map(|node| std::fs::read_to_string(self.log(node)).unwrap_or_default());
        logs.collect::<Vec<_>>().join("\n")
    }
}

/// Returns the response to a plain HTTP GET, head and body.
async fn get(address: &str, path: &str) -> Result<String, String> {
    let stream = tokio::net::TcpStream::connect(address).await;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    exchange(stream, &request).await
}

/// Sends a request, and returns all that is answered until the connection ends.
async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: io::Result<S>,
    request: &str,
) -> Result<String, String> {
    let text = |error: io::Error| error.to_string();
    let mut stream = stream.map_err(text)?;
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(text)?;
    Ok(answer)
}

/// Asks an agent for a token, at the socket that its unit names.
async fn asks_an_agent(deployed: &Deployed) {
    let runtime = deployed.dir.path().join("run");
    std::fs::create_dir_all(runtime.join("aliquot")).unwrap();
    let credentials = deployed.dir.path().join("tls");
    let mut agent = deployed.aliquot();
    agent.arg("agent").stdin(Stdio::null());
    agent.envs(files::agent_variables(&runtime, &credentials));
    let mut agent = agent.spawn().unwrap();
    let body = r#"{"key": "tenant/42/reads"}"#;
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let socket = runtime.join("aliquot/http.sock");
    until("the agent's answer", async || {
        let answer = exchange(UnixStream::connect(&socket).await, &request).await?;
        let allowed = answer.starts_with("HTTP/1.1 200 ") && answer.contains("\"allowed\":true");
        allowed.then_some(()).ok_or(answer)
    })
    .await;
    terminate(&agent);
    let ended = tokio::time::timeout(DEADLINE, agent.wait()).await.unwrap();
    assert_eq!(ended.unwrap().code(), Some(0));
}

/// Sends SIGTERM.
fn terminate(child: &Child) {
    let pid = i32::try_from(child.id().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

#[tokio::test]
async fn three_nodes_run_from_exactly_these_files_and_end_when_told() {
    let deployed = Deployed::new().await;
    let mut nodes = [1, 2, 3].map(|node| deployed.serve(node));
    deployed.formed().await;

    until("the first budgets", async || {
        let apply = ["budget", "apply", "budgets.yaml"];
        deployed.ask("admin", 1, &apply).await
    })
    .await;
    for node in 1..=3 {
        let rules = deployed.ask("admin", node, &["budget", "list"]).await;
        let rules = rules.unwrap().to_string();
        for key in ["tenant/*/reads", "mail/send", "reports/render"] {
            assert!(rules.contains(key), "node {node} lacks {key}: {rules}");
        }
    }

    for refused in [
        &["budget", "apply", "budgets.yaml"][..],
        &["cluster", "status"],
    ] {
        let why = deployed.ask("client", 2, refused).await.unwrap_err();
        assert!(why.contains("permission denied"), "{why}");
    }
    // As the probe in compose.yaml does.
    let probed = deployed.ask("node-3", 3, &["cluster", "status"]).await;
    probed.unwrap();

    let prometheus: Value = serde_saphyr::from_str(&read("deploy/prometheus.yml")).unwrap();
    let targets = &prometheus["scrape_configs"][0]["static_configs"][0]["targets"];
    assert_eq!(targets.as_array().unwrap().len(), 3);
    for target in targets.as_array().unwrap() {
        let target = target.as_str().unwrap();
        until("a node that is ready", async || {
            let metrics = get(target, "/metrics").await?;
            let ready = metrics.contains("aliquot_ready 1");
            ready.then_some(()).ok_or(metrics)
        })
        .await;
    }

    asks_an_agent(&deployed).await;

    for (node, child) in (1..).zip(&mut nodes) {
        terminate(child);
        let ended = tokio::time::timeout(DEADLINE, child.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("node {node} goes on:\n{}", deployed.logs()));
        let log = std::fs::read_to_string(deployed.log(node)).unwrap();
        assert_eq!(ended.unwrap().code(), Some(0), "node {node}:\n{log}");
    }
}
