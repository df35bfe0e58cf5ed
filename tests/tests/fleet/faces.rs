//! Services that embed no client: the faces of nodes, and an agent, while leaders are killed.

use crate::support::{alone, millis, setup, together};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{Fleet, SOON, now, until};
use aliquot_wire::pb;
use aliquot_wire::pb::limits_client::LimitsClient;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tonic::{Code, Request};

const SHARED: &str = "
- { key: shared, rate: 1000/s, burst: 200 }
- { key: cold/*, rate: 10/s, burst: 10 }
- { key: jobs, concurrency: 2, max_hold: 1m }
";

/// A connection to an HTTP face.
struct Caller(BufReader<UnixStream>);

impl Caller {
    async fn connect(path: &Path) -> std::io::Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(path).await?)))
    }

    /// Sends a request, and returns status and body.
    async fn post(
        &mut self,
        path: &str,
        token: &str,
        body: &Value,
    ) -> std::io::Result<(u16, Value)> {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{token}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.get_mut().write_all(head.as_bytes()).await?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(text) = line.strip_prefix("http/1.1 ") {
                status = text[..3].parse().unwrap();
            }
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

async fn ask(path: &Path, to: &str, body: &Value) -> Option<(u16, Value)> {
    let mut caller = Caller::connect(path).await.ok()?;
    caller.post(to, "", body).await.ok()
}

/// Starts three nodes, each with an HTTP face.
async fn faced() -> (Fleet, Vec<PathBuf>) {
    let mut fleet = setup().plan().await;
    let path = |index| fleet.dir().join(format!("http-{index}.sock"));
    let paths: Vec<PathBuf> = (0..3).map(path).collect();
    for (index, path) in paths.iter().enumerate() {
        let flag = format!("--faces-http-listen=unix:{}", path.display());
        fleet.node_mut(index).flag(flag);
        fleet.start(index);
    }
    fleet.serves().await;
    fleet.apply(SHARED).await;
    (fleet, paths)
}

/// Callers that ask as fast as they are answered.
struct Callers {
    stop: Arc<AtomicBool>,
    admitted: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Callers {
    fn begin(paths: &[PathBuf]) -> Self {
        let (stop, admitted) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let tasks = paths.iter().flat_map(|path| [path.clone(), path.clone()]);
        let tasks = tasks.map(|path| {
            let (stop, admitted) = (stop.clone(), admitted.clone());
            tokio::spawn(async move {
                let body = json!({ "key": "shared" });
                while !stop.load(Ordering::Relaxed) {
                    // The node may be down.
                    let Ok(mut caller) = Caller::connect(&path).await else {
                        tokio::time::sleep(millis(20)).await;
                        continue;
                    };
                    while let Ok((_, said)) = caller.post("/v1/check", "", &body).await {
                        if said["allowed"] == json!(true) {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                }
            })
        });
        let tasks = tasks.collect();
        Self {
            stop,
            admitted,
            tasks,
        }
    }

    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.admitted.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faces_keep_to_the_limit_while_a_leader_is_killed() {
    let _machine = alone().await;
    let (mut fleet, paths) = faced().await;
    let begun = now();
    let callers = Callers::begin(&paths);
    until("the faces admit", SOON, async || {
        (callers.admitted() > 1_000).then_some(())
    })
    .await;
    let leader = fleet.leader().await;
    fleet.kill(leader);
    fleet.leader().await;
    let settled = callers.admitted() + 2_000;
    until("the other faces admit", SOON, async || {
        (callers.admitted() > settled).then_some(())
    })
    .await;
    fleet.start(leader);
    fleet.serves().await;
    let settled = callers.admitted() + 2_000;
    until("all faces admit", SOON, async || {
        (callers.admitted() > settled).then_some(())
    })
    .await;
    let admitted = callers.end().await;
    let nanos = now().since(begun).nanos();
    let most = 200 + nanos / 1_000_000 * 1_002 / 1_000 + 1;
    println!("{admitted} admitted of at most {most}");
    assert!(admitted <= most, "{admitted} > {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_use_of_a_key_is_answered_and_permits_are_shared() {
    let _machine = together().await;
    let (_fleet, paths) = faced().await;
    until("a cold key is decided", SOON, async || {
        let body = json!({ "key": "cold/1", "within_ms": 2_000 });
        let (status, said) = ask(&paths[0], "/v1/check", &body).await?;
        assert_eq!(status, 200);
        (said["allowed"] == json!(true)).then_some(())
    })
    .await;
    let (_, said) = ask(&paths[1], "/v1/check", &json!({ "key": "none" }))
        .await
        .unwrap();
    assert_eq!(said["outcome"], json!("no_budget"));
    let mut ids = Vec::new();
    until("two permits are taken", SOON, async || {
        let body = json!({ "key": "jobs", "within_ms": 2_000 });
        let (_, said) = ask(&paths[0], "/v1/reserve", &body).await?;
        ids.extend(said["id"].as_str().map(str::to_owned));
        (ids.len() == 2).then_some(())
    })
    .await;
    let body = json!({ "key": "jobs", "within_ms": 500 });
    let (status, said) = ask(&paths[1], "/v1/reserve?status=429", &body)
        .await
        .unwrap();
    assert!(status != 200 && said["id"].is_null(), "{said}");
    let (status, _) = ask(&paths[0], "/v1/release", &json!({ "id": ids[0] }))
        .await
        .unwrap();
    assert_eq!(status, 200);
    until("the permit is free for another node", SOON, async || {
        let (_, said) = ask(&paths[1], "/v1/reserve", &body).await?;
        said["id"].as_str().map(drop)
    })
    .await;
}

async fn admitted(path: &Path, token: &str, body: &Value) -> Option<()> {
    let mut caller = Caller::connect(path).await.ok()?;
    let (status, said) = caller.post("/v1/check", token, body).await.ok()?;
    (status == 200 && said["allowed"] == json!(true)).then_some(())
}

/// An agent, killed when it is dropped.
struct Agent(Child);

impl Agent {
    fn start(fleet: &Fleet, socket: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(fleet.program());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
            command.env_remove(name);
        }
        command
            .arg("agent")
            .arg(format!("--faces-http-listen=unix:{}", socket.display()));
        for address in fleet.addresses() {
            command.args(["--endpoint", &address]);
        }
        command.args(more).stdin(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks the gRPC face of an agent: with a token, and without.
async fn asked_by_grpc(address: &str, token: &str) {
    let mut client = until("the gRPC face answers", SOON, async || {
        LimitsClient::connect(format!("http://{address}"))
            .await
            .ok()
    })
    .await;
    let check = pb::CheckRequest {
        key: "shared".to_owned(),
        cost: Some(1),
        within_ms: Some(1_000),
    };
    let refused = client.check(check.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    let mut request = Request::new(tokio_stream::iter([check.clone(), check]));
    let token = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    let mut answers = client.check_stream(request).await.unwrap().into_inner();
    for _ in 0..2 {
        let answer = answers.message().await.unwrap().unwrap();
        assert!(answer.allowed, "{answer:?}");
    }
    assert_eq!(answers.message().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_survives_a_leader_and_hands_back_when_it_stops() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet.apply(SHARED).await;
    let (socket, tokens) = (fleet.dir().join("agent.sock"), fleet.dir().join("tokens"));
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(&tokens, format!("client {token}\n")).unwrap();
    let port = ReservedPort::reserve().unwrap();
    let address = port.address().to_string();
    let tokens = tokens.display().to_string();
    let more = ["--tokens", &tokens, "--faces-grpc-listen", &address];
    let mut agent = Agent::start(&fleet, &socket, &more);
    let authorized = format!("authorization: Bearer {token}\r\n");
    let body = json!({ "key": "shared", "within_ms": 1_000 });
    until("the agent admits", SOON, async || {
        admitted(&socket, &authorized, &body).await
    })
    .await;
    let (status, _) = ask(&socket, "/v1/check", &body).await.unwrap();
    assert_eq!(status, 401, "a caller without a token");
    asked_by_grpc(&address, token).await;
    let leader = fleet.leader().await;
    fleet.kill(leader);
    fleet.leader().await;
    until("the agent admits under another leader", SOON, async || {
        admitted(&socket, &authorized, &body).await
    })
    .await;
    let pid = Pid::from_child(&agent.0);
    kill_process(pid, Signal::TERM).unwrap();
    let status = until("the agent ends", SOON, async || agent.0.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(0));
}
