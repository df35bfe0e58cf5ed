//! Services that embed no client: the faces of nodes, and an agent, while leaders are killed.

use crate::support::{alone, millis, setup, together};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{Fleet, SOON, figure, now, until};
use aliquot_wire::pb;
use aliquot_wire::pb::limits_client::LimitsClient;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::Channel;
use tonic::{Code, Request};

const SHARED: &str = "
- { key: shared, rate: 1000/s, burst: 200 }
- { key: cold/*, rate: 10/s, burst: 10 }
- { key: jobs, concurrency: 2, max_hold: 1m }
- { key: minute, rate: 100/min, burst: 20 }
- { key: day, quota: 1000 per day }
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

/// A face of a node.
#[derive(Clone, Debug)]
pub(crate) enum FaceAddress {
    Http(PathBuf),
    Grpc(String),
    Redis(String),
}

/// A connection to a face.
enum FaceConnection {
    Http(Caller),
    Grpc(LimitsClient<Channel>),
    Redis(BufReader<TcpStream>),
}

impl FaceAddress {
    const KINDS: [&str; 3] = ["HTTP", "gRPC", "Redis"];

    const fn kind(&self) -> usize {
        match self {
            Self::Http(_) => 0,
            Self::Grpc(_) => 1,
            Self::Redis(_) => 2,
        }
    }

    pub(crate) fn flag(&self) -> String {
        match self {
            Self::Http(path) => format!("--faces-http-listen=unix:{}", path.display()),
            Self::Grpc(address) => format!("--faces-grpc-listen={address}"),
            Self::Redis(address) => format!("--faces-redis-listen={address}"),
        }
    }

    async fn open(&self) -> Option<FaceConnection> {
        Some(match self {
            Self::Http(path) => FaceConnection::Http(Caller::connect(path).await.ok()?),
            Self::Grpc(address) => {
                let client = LimitsClient::connect(format!("http://{address}")).await;
                FaceConnection::Grpc(client.ok()?)
            }
            Self::Redis(address) => {
                let stream = TcpStream::connect(address).await.ok()?;
                FaceConnection::Redis(BufReader::new(stream))
            }
        })
    }
}

impl FaceConnection {
    /// Asks for one token of the key `shared`. Returns nothing if the connection failed.
    async fn admits(&mut self) -> Option<bool> {
        match self {
            Self::Http(caller) => {
                let body = json!({ "key": "shared" });
                let (_, response) = caller.post("/v1/check", "", &body).await.ok()?;
                Some(response["allowed"] == json!(true))
            }
            Self::Grpc(client) => {
                let check = pb::CheckRequest {
                    key: "shared".to_owned(),
                    ..pb::CheckRequest::default()
                };
                Some(client.check(check).await.ok()?.into_inner().allowed)
            }
            Self::Redis(stream) => {
                // A refused counter has a value that no counter reaches.
                const REFUSED: u64 = (1 << 53) - 1;
                stream.get_mut().write_all(b"INCR shared\r\n").await.ok()?;
                let mut line = String::new();
                (stream.read_line(&mut line).await.ok()? > 0).then_some(())?;
                let count = line
                    .strip_prefix(':')
                    .map(|count| count.trim().parse::<u64>());
                Some(matches!(count, Some(Ok(count)) if count < REFUSED))
            }
        }
    }
}

/// Asks the HTTP face at a path, and returns status and body.
pub(crate) async fn ask(path: &Path, to: &str, body: &Value) -> Option<(u16, Value)> {
    let mut caller = Caller::connect(path).await.ok()?;
    caller.post(to, "", body).await.ok()
}

/// Starts three nodes with faces, and returns the doors of each.
async fn with_doors(doors: Vec<Vec<FaceAddress>>) -> Fleet {
    let mut fleet = setup().plan().await;
    for (index, doors) in doors.iter().enumerate() {
        for door in doors {
            fleet.node_mut(index).flag(door.flag());
        }
        fleet.start(index);
    }
    fleet.serves().await;
    fleet.apply(SHARED).await;
    fleet
}

/// Starts three nodes, each with an HTTP face.
async fn faced() -> (Fleet, Vec<PathBuf>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = |index| dir.path().join(format!("http-{index}.sock"));
    let paths: Vec<PathBuf> = (0..3).map(path).collect();
    let doors = paths
        .iter()
        .map(|path| vec![FaceAddress::Http(path.clone())]);
    let fleet = with_doors(doors.collect()).await;
    (fleet, paths, dir)
}

/// Callers that ask as fast as they are answered.
struct Callers {
    stop: Arc<AtomicBool>,
    /// By kind of the face.
    admitted: Arc<[AtomicU64; 3]>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Callers {
    fn begin(doors: Vec<FaceAddress>) -> Self {
        let (stop, admitted) = (
            Arc::<AtomicBool>::default(),
            Arc::<[AtomicU64; 3]>::default(),
        );
        let tasks = doors.into_iter().map(|door| {
            let (stop, admitted) = (stop.clone(), admitted.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // The node may be down.
                    let Some(mut line) = door.open().await else {
                        tokio::time::sleep(millis(20)).await;
                        continue;
                    };
                    while let Some(admits) = line.admits().await {
                        admitted[door.kind()].fetch_add(admits.into(), Ordering::Relaxed);
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

    fn admitted(&self) -> [u64; 3] {
        std::array::from_fn(|kind| self.admitted[kind].load(Ordering::Relaxed))
    }

    /// Waits until each kind of face has admitted that many more requests.
    async fn admit(&self, what: &str, more: u64) {
        let before = self.admitted();
        for (kind, name) in FaceAddress::KINDS.into_iter().enumerate() {
            until(&format!("{name}: {what}"), SOON, async || {
                (self.admitted()[kind] >= before[kind] + more).then_some(())
            })
            .await;
        }
    }

    async fn end(self) -> [u64; 3] {
        self.stop.store(true, Ordering::Relaxed);
        let admitted = Arc::clone(&self.admitted);
        for task in self.tasks {
            task.await.unwrap();
        }
        std::array::from_fn(|kind| admitted[kind].load(Ordering::Relaxed))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faces_keep_to_the_limit_while_a_leader_is_killed() {
    let _machine = alone().await;
    let dir = tempfile::tempdir().unwrap();
    let ports = [(); 6].map(|()| ReservedPort::reserve().unwrap());
    let doors = (0..3).map(|index| {
        let address = |port: usize| ports[port].address().to_string();
        vec![
            FaceAddress::Http(dir.path().join(format!("http-{index}.sock"))),
            FaceAddress::Grpc(address(2 * index)),
            FaceAddress::Redis(address(2 * index + 1)),
        ]
    });
    let doors: Vec<Vec<FaceAddress>> = doors.collect();
    let mut fleet = with_doors(doors.clone()).await;
    let begun = now();
    let callers = Callers::begin(doors.concat());
    callers.admit("the faces admit", 300).await;
    let leader = fleet.leader().await;
    fleet.kill(leader);
    fleet.leader().await;
    callers.admit("the other faces admit", 500).await;
    fleet.start(leader);
    fleet.serves().await;
    callers.admit("all faces admit", 500).await;
    let admitted = callers.end().await;
    let nanos = now().since(begun).nanos();
    let most = 200 + nanos / 1_000_000 * 1_002 / 1_000 + 1;
    println!("{admitted:?} admitted of at most {most}");
    assert!(
        admitted.iter().sum::<u64>() <= most,
        "{admitted:?} > {most}"
    );
}

/// A key that was used at one node or agent is free for another one, which has nothing of it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_request_of_a_key_is_admitted_wherever_it_was_used_before() {
    let _machine = alone().await;
    let (fleet, paths, _sockets) = faced().await;
    let ask_for = async |path: &Path, key: &str| {
        let body = json!({ "key": key, "within_ms": 5_000 });
        let (_, response) = ask(path, "/v1/check", &body).await?;
        Some(response)
    };
    let allowed = |response: Option<Value>| {
        response.is_some_and(|response| response["allowed"] == json!(true))
    };
    // The sessions of the faces are open.
    for (index, path) in paths.iter().enumerate() {
        until("a face admits", SOON, async || {
            allowed(ask_for(path, &format!("cold/own-{index}")).await).then_some(())
        })
        .await;
    }
    for round in 0..12 {
        let key = format!("cold/{round}");
        let (first, second) = (&paths[round % 3], &paths[(round + 1) % 3]);
        let response = ask_for(first, &key).await;
        assert!(allowed(response.clone()), "{round}, first: {response:?}");
        let response = ask_for(second, &key).await;
        assert!(
            allowed(response.clone()),
            "{round}, at another node: {response:?}"
        );
        if round % 4 == 0 {
            let socket = fleet.dir().join(format!("agent-{round}.sock"));
            let _agent = Agent::start(&fleet, &socket, &[]);
            let response = until("the agent answers", SOON, async || {
                ask_for(&socket, &key).await
            })
            .await;
            assert!(
                allowed(Some(response.clone())),
                "{round}, at an agent: {response:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_use_of_a_key_is_answered_and_permits_are_shared() {
    let _machine = together().await;
    let (fleet, paths, _sockets) = faced().await;
    until("a cold key is decided", SOON, async || {
        let body = json!({ "key": "cold/1", "within_ms": 2_000 });
        let (status, response) = ask(&paths[0], "/v1/check", &body).await?;
        assert_eq!(status, 200);
        (response["allowed"] == json!(true)).then_some(())
    })
    .await;
    let (_, response) = ask(&paths[1], "/v1/check", &json!({ "key": "none" }))
        .await
        .unwrap();
    assert_eq!(response["outcome"], json!("no_budget"));
    let figure = async |node: usize, name: &str| fleet.nodes()[node].figure(name).await;
    let no_budget = "aliquot_face_decisions_total{face=\"http\",outcome=\"no_budget\"}";
    assert_eq!(figure(1, no_budget).await, Some(1.0));
    let mut ids = Vec::new();
    until("two permits are taken", SOON, async || {
        let body = json!({ "key": "jobs", "within_ms": 2_000 });
        let (_, response) = ask(&paths[0], "/v1/reserve", &body).await?;
        ids.extend(response["id"].as_str().map(str::to_owned));
        (ids.len() == 2).then_some(())
    })
    .await;
    assert_eq!(figure(0, "aliquot_reservations").await, Some(2.0));
    let body = json!({ "key": "jobs", "within_ms": 500 });
    let (status, response) = ask(&paths[1], "/v1/reserve?status=429", &body)
        .await
        .unwrap();
    assert!(status != 200 && response["id"].is_null(), "{response}");
    let (status, _) = ask(&paths[0], "/v1/release", &json!({ "id": ids[0] }))
        .await
        .unwrap();
    assert_eq!(status, 200);
    assert_eq!(figure(0, "aliquot_reservations").await, Some(1.0));
    until("the permit is free for another node", SOON, async || {
        let (_, response) = ask(&paths[1], "/v1/reserve", &body).await?;
        response["id"].as_str().map(drop)
    })
    .await;
}

/// From the log to the leader, to a node, to its client: the words of the author arrive at each face.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_and_agents_tell_limits_as_they_were_written() {
    let _machine = together().await;
    let (fleet, mut paths, _sockets) = faced().await;
    let socket = fleet.dir().join("agent.sock");
    let _agent = Agent::start(&fleet, &socket, &[]);
    paths.push(socket);
    for path in &paths {
        for (key, limit, window) in [("minute", 100, 60), ("day", 1_000, 86_400)] {
            let response = until("a face admits", SOON, async || {
                let body = json!({ "key": key, "within_ms": 2_000 });
                let (_, response) = ask(path, "/v1/check", &body).await?;
                (response["allowed"] == json!(true)).then_some(response)
            })
            .await;
            assert_eq!(response["limit"], json!(limit), "{response}");
            assert_eq!(response["window_s"], json!(window), "{response}");
        }
    }
}

async fn admitted(path: &Path, token: &str, body: &Value) -> Option<()> {
    let mut caller = Caller::connect(path).await.ok()?;
    let (status, response) = caller.post("/v1/check", token, body).await.ok()?;
    (status == 200 && response["allowed"] == json!(true)).then_some(())
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

/// Asks each face of an agent with a token that is confined to the key `shared`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_asks_for_the_keys_under_its_prefixes_and_no_others() {
    let _machine = together().await;
    let fleet = setup().start().await;
    fleet.apply(SHARED).await;
    let (socket, tokens) = (fleet.dir().join("agent.sock"), fleet.dir().join("tokens"));
    let token = "0123456789abcdef0123456789abcdef";
    std::fs::write(&tokens, format!("client {token} shared other\n")).unwrap();
    let [grpc, redis] = [(); 2].map(|()| ReservedPort::reserve().unwrap());
    let [grpc, redis] = [&grpc, &redis].map(|port| port.address().to_string());
    let tokens = tokens.display().to_string();
    let more = [
        "--tokens",
        &tokens,
        "--faces-grpc-listen",
        &grpc,
        "--faces-redis-listen",
        &redis,
    ];
    let _agent = Agent::start(&fleet, &socket, &more);
    let authorized = format!("authorization: Bearer {token}\r\n");
    until("the agent admits", SOON, async || {
        let body = json!({ "key": "shared", "within_ms": 1_000 });
        admitted(&socket, &authorized, &body).await
    })
    .await;
    let mut caller = Caller::connect(&socket).await.unwrap();
    let body = json!({ "key": "cold/1" });
    let (status, response) = caller.post("/v1/check", &authorized, &body).await.unwrap();
    assert_eq!(
        (status, &response["field"]),
        (403, &json!("key")),
        "{response}"
    );

    let mut client = LimitsClient::connect(format!("http://{grpc}"))
        .await
        .unwrap();
    let check = |key: &str| {
        let mut request = Request::new(pb::CheckRequest {
            key: key.to_owned(),
            ..pb::CheckRequest::default()
        });
        let token = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        request
    };
    assert!(client.check(check("shared")).await.is_ok());
    let denied = client.check(check("cold/1")).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied, "{denied}");

    let mut stream = TcpStream::connect(&redis).await.unwrap();
    let commands = format!("AUTH {token}\nINCR shared\nINCR cold/1\nQUIT\n");
    stream.write_all(commands.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let lines: Vec<&str> = response.lines().collect();
    assert!(lines[0] == "+OK" && lines[1].starts_with(':'), "{response}");
    assert!(
        lines[2].starts_with("-NOPERM this caller may not use the key \"cold/1\""),
        "{response}"
    );
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

/// Callers that make up keys fill the memory of a face for keys, three quarters of which may be used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_of_a_face_are_shown_up_to_their_maximum() {
    const MOST: f64 = 48.0;
    let _machine = together().await;
    let mut fleet = setup().nodes(1).flag("--session-keys=64").plan().await;
    let socket = fleet.dir().join("http.sock");
    fleet
        .node_mut(0)
        .flag(FaceAddress::Http(socket.clone()).flag());
    fleet.start(0);
    fleet.serves().await;
    fleet.apply(SHARED).await;
    let held = async || fleet.nodes()[0].figure("aliquot_face_keys").await.unwrap();
    assert_eq!(held().await, 0.0);
    let mut caller = Caller::connect(&socket).await.unwrap();
    let mut most: f64 = 0.0;
    for number in 0..500 {
        let body = json!({ "key": format!("cold/{number}") });
        // A key that is asked for again is kept for longer.
        for _ in 0..1 + u8::from(number % 3 == 0) {
            caller.post("/v1/check", "", &body).await.unwrap();
        }
        most = most.max(held().await);
    }
    assert!(most > 0.6 * MOST && most <= MOST, "{most} of {MOST}");
}

/// Without nodes, an agent says so, and so do its faces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_nodes_are_all_killed_shows_it() {
    let _machine = together().await;
    let mut fleet = setup().start().await;
    fleet.apply(SHARED).await;
    let socket = fleet.dir().join("agent.sock");
    let port = ReservedPort::reserve().unwrap();
    let metrics = port.address().to_string();
    let _agent = Agent::start(&fleet, &socket, &["--metrics-listen", &metrics]);
    let shown = async |name: &str, value: f64| {
        until(&format!("{name} is {value}"), SOON, async || {
            (figure(&metrics, name).await? == value).then_some(())
        })
        .await;
    };
    let body = json!({ "key": "shared", "within_ms": 1_000 });
    until("the agent admits", SOON, async || {
        admitted(&socket, "", &body).await
    })
    .await;
    shown("aliquot_agent_ready", 1.0).await;
    let unavailable = "aliquot_face_decisions_total{face=\"http\",outcome=\"unavailable\"}";
    let before = figure(&metrics, unavailable).await.unwrap();
    (0..3).for_each(|node| fleet.kill(node));
    shown("aliquot_agent_ready", 0.0).await;
    let (_, said) = ask(&socket, "/v1/check", &body).await.unwrap();
    assert_eq!(said["outcome"], json!("unavailable"), "{said}");
    shown(unavailable, before + 1.0).await;
}
