//! Decisions of faces: they need no log and no socket of their node, are in time, and give permits that end.

use crate::envoy::{Caller as HttpCaller, Process, service};
use crate::faces::{FaceAddress, ask};
use crate::support::{alone, setup, together};
use aliquot_client::clock::Span;
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{Fleet, SOON, Who, now, until};
use aliquot_wire::pb;
use aliquot_wire::pb::limits_client::LimitsClient;
use rustix::process::Signal;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

/// A request to Envoy's rate limit service.
#[derive(Clone, PartialEq, prost::Message)]
struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RateLimitResponse {
    /// 1 for an admitted request, 2 for one over the limit.
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

/// Decision of any face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    Allowed,
    Refused,
    /// The documented answer of a face that has no decision.
    Unavailable,
}

/// A connection to a face that decides requests one by one.
enum Line {
    Http(PathBuf),
    Grpc(LimitsClient<Channel>),
    Redis(BufReader<TcpStream>),
    Envoy(Channel),
}

/// Time that a decision gets where the request names one, in milliseconds. The Redis face has 500, and Envoy's 250.
const WITHIN_MS: u32 = 100;

impl Line {
    const fn name(&self) -> &'static str {
        match self {
            Self::Http(_) => "HTTP",
            Self::Grpc(_) => "gRPC",
            Self::Redis(_) => "Redis",
            Self::Envoy(_) => "Envoy",
        }
    }

    /// Asks for a token of a key. A face that answers in any other than the documented ways fails the test.
    async fn decide(&mut self, key: &str) -> Decided {
        match self {
            Self::Http(path) => by_http(path, key).await,
            Self::Grpc(client) => by_grpc(client, key).await,
            Self::Redis(stream) => by_redis(stream, key).await,
            Self::Envoy(channel) => by_envoy(channel, key).await,
        }
    }
}

async fn by_http(path: &Path, key: &str) -> Decided {
    let body = json!({ "key": key, "within_ms": WITHIN_MS });
    let (status, response) = ask(path, "/v1/check?status=429", &body).await.unwrap();
    match (status, response["outcome"].as_str()) {
        (200, Some("allowed")) => Decided::Allowed,
        (429, Some("over_limit")) => Decided::Refused,
        (503, Some("unavailable")) => Decided::Unavailable,
        _ => panic!("{key}: {status} {response}"),
    }
}

async fn by_grpc(client: &mut LimitsClient<Channel>, key: &str) -> Decided {
    let check = pb::CheckRequest {
        key: key.to_owned(),
        within_ms: Some(WITHIN_MS),
        ..pb::CheckRequest::default()
    };
    let reply = client.check(check).await.unwrap().into_inner();
    match (reply.allowed, reply.outcome()) {
        (true, pb::LimitOutcome::Allowed) => Decided::Allowed,
        (false, pb::LimitOutcome::OverLimit) => Decided::Refused,
        (false, pb::LimitOutcome::Unavailable) => Decided::Unavailable,
        _ => panic!("{key}: {reply:?}"),
    }
}

async fn by_redis(stream: &mut BufReader<TcpStream>, key: &str) -> Decided {
    // A refused counter has a value that no counter reaches.
    const REFUSED: u64 = (1 << 53) - 1;
    let request = format!("INCR {key}\r\n");
    let written = stream.get_mut().write_all(request.as_bytes()).await;
    written.unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    match line.strip_prefix(':').map(|count| count.trim().parse()) {
        Some(Ok(REFUSED)) => Decided::Refused,
        Some(Ok(_)) => Decided::Allowed,
        _ if line.starts_with("-ERR no decision: ") => Decided::Unavailable,
        _ => panic!("{key}: {line}"),
    }
}

/// Asks as Envoy does: the part of the key before the slash is that of an entry, and the rest its value.
async fn by_envoy(channel: &Channel, key: &str) -> Decided {
    const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let (key, value) = key.split_once('/').unwrap_or((key, "1"));
    let entry = Entry {
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let request = Request::new(RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![Descriptor {
            entries: vec![entry],
        }],
    });
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let response = grpc.unary(request, PATH.parse().unwrap(), codec).await;
    match response.map(|response| response.into_inner().overall_code) {
        Ok(1) => Decided::Allowed,
        Ok(2) => Decided::Refused,
        Err(status) if status.code() == Code::Unavailable => Decided::Unavailable,
        other => panic!("{key}: {other:?}"),
    }
}

/// Rules of Envoy's service, whose budgets are under `rls/shop`.
const RULES: &str = "\
domain: shop
descriptors:
  - key: much
    rate_limit: { unit: second, requests_per_unit: 100000 }
  - key: few
    rate_limit: { unit: minute, requests_per_unit: 2 }
";

/// The same limits for the other faces.
const BUDGETS: &str = "
- { key: much, rate: 100000/s, burst: 100000, on_lease_expiry: keep }
- { key: few/*, rate: 2/min, burst: 2 }
- { key: tight, rate: 50/s, burst: 5 }
";

/// Three nodes, the first of which has all faces, and Envoy's rate limit service as a client of that node.
struct Faced {
    fleet: Fleet,
    lines: [Line; 4],
    /// HTTP faces of the other nodes.
    others: [PathBuf; 2],
    _service: Process,
    _ports: Vec<ReservedPort>,
}

impl Faced {
    async fn start() -> Self {
        let mut fleet = setup().plan().await;
        let ports: Vec<ReservedPort> = (0..6).map(|_| ReservedPort::reserve().unwrap()).collect();
        let address = |port: usize| ports[port].address().to_string();
        let http = fleet.dir().join("http.sock");
        for face in [
            FaceAddress::Http(http.clone()),
            FaceAddress::Grpc(address(0)),
            FaceAddress::Redis(address(1)),
        ] {
            fleet.node_mut(0).flag(face.flag());
        }
        let others = [1, 2].map(|node| {
            let path = fleet.dir().join(format!("http-{node}.sock"));
            let face = FaceAddress::Http(path.clone());
            fleet.node_mut(node).flag(face.flag());
            path
        });
        (0..3).for_each(|index| fleet.start(index));
        fleet.serves().await;
        fleet.apply(BUDGETS).await;
        let directory = fleet.dir().join("rules").join("config");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("shop.yaml"), RULES).unwrap();
        let nodes = [fleet.nodes()[0].client.clone()];
        let process = service(&fleet, &nodes, &ports[2..]);
        until("the rate limit service is ready", SOON, async || {
            let mut caller = HttpCaller::connect(ports[3].address()).await?;
            let (status, _) = caller.get("/healthcheck", b"").await?;
            (status == 200).then_some(())
        })
        .await;
        let connect = async |port: usize| {
            let endpoint = Endpoint::from_shared(format!("http://{}", address(port))).unwrap();
            endpoint.connect().await.unwrap()
        };
        let redis = TcpStream::connect(address(1)).await.unwrap();
        let lines = [
            Line::Http(http),
            Line::Grpc(LimitsClient::new(connect(0).await)),
            Line::Redis(BufReader::new(redis)),
            Line::Envoy(connect(2).await),
        ];
        Self {
            fleet,
            lines,
            others,
            _service: process,
            _ports: ports,
        }
    }

    /// Waits until each face has decided a request of each key.
    async fn decides(&mut self, keys: &[String]) {
        for line in &mut self.lines {
            for key in keys {
                until(
                    &format!("{} decides {key}", line.name()),
                    SOON,
                    async || {
                        let decided = line.decide(key).await;
                        (decided != Decided::Unavailable).then_some(())
                    },
                )
                .await;
            }
        }
    }

    /// Lets callers of all nodes want more of a key than its limit for two seconds, so that it is in central mode. It
    /// has its first use at another node than that of the faces, so that this is not its home.
    async fn make_scarce(&self, key: &str) {
        until("another node admits", SOON, async || {
            (by_http(&self.others[0], key).await == Decided::Allowed).then_some(())
        })
        .await;
        let Line::Http(first) = &self.lines[0] else {
            unreachable!("the first face is that of HTTP");
        };
        let end = now().after(Span::from_secs(2));
        let ask_on = async |path: &Path| {
            while now() < end {
                by_http(path, key).await;
            }
        };
        let [second, third] = &self.others;
        tokio::join!(ask_on(first), ask_on(second), ask_on(third));
    }

    /// Returns the entries that a node applied, and the rounds that it proposed as the leader. Its figures are a
    /// second old at most, so it waits until they are made anew twice.
    async fn entries_and_rounds(&self, node: usize) -> [u64; 2] {
        let figures = async || {
            let metrics = self.fleet.nodes()[node].metrics().await.unwrap();
            let figure = |name: &str| {
                let mut lines = metrics.lines();
                let figure = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
                figure.unwrap()
            };
            let records: u64 = figure("aliquot_gossip_records_total ");
            let entries = figure("aliquot_applied_entries_total ");
            (records, [entries, figure("aliquot_rounds_total ")])
        };
        for _ in 0..2 {
            let (before, _) = figures().await;
            until("the figures are made anew", SOON, async || {
                (figures().await.0 > before).then_some(())
            })
            .await;
        }
        figures().await.1
    }
}

/// Rounds alone are in the log, and they follow the demand, whatever the number of requests. Without a log, what was
/// given is decided on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decisions_write_nothing_to_the_log_and_need_none() {
    const OF_EACH: u64 = 1_000;
    let _machine = alone().await;
    let mut faced = Faced::start().await;
    let few = "few/1".to_owned();
    faced.decides(&["much".to_owned(), few.clone()]).await;
    let leader = faced.fleet.leader().await;
    let before = faced.entries_and_rounds(leader).await;
    let mut admitted = 0;
    for _ in 0..OF_EACH {
        for line in &mut faced.lines {
            admitted += u64::from(line.decide("much").await == Decided::Allowed);
            // Of this key hardly any request is admitted.
            line.decide(&few).await;
        }
    }
    let after = faced.entries_and_rounds(leader).await;
    let [entries, rounds] = [0, 1].map(|figure| after[figure] - before[figure]);
    println!("{admitted} admitted, {entries} entries, {rounds} rounds");
    assert!(admitted >= OF_EACH * 4 * 9 / 10, "{admitted}");
    // One round may be proposed and not yet applied, at both times.
    assert!(
        entries.abs_diff(rounds) <= 1,
        "{entries} entries, {rounds} rounds"
    );
    assert!(rounds * 10 < OF_EACH, "{rounds} rounds");

    for node in [1, 2] {
        faced.fleet.signal(node, Signal::STOP);
    }
    until("the node's lease is over", SOON, async || {
        (!faced.fleet.nodes()[0].is_ready().await).then_some(())
    })
    .await;
    // The rules of Envoy's service do not say that what was given is kept.
    for line in &mut faced.lines[..3] {
        for number in 0..100 {
            let decided = line.decide("much").await;
            assert_eq!(decided, Decided::Allowed, "{}, {number}", line.name());
        }
    }
    for node in [1, 2] {
        faced.fleet.signal(node, Signal::CONT);
    }
}

/// The first use of a key needs the log and a home, and each use of a scarce one its home. Where these are silent, each
/// face answers within its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_face_answers_in_time_while_homes_are_silent() {
    const IN_TIME: Duration = Duration::from_secs(2);
    let _machine = alone().await;
    let mut faced = Faced::start().await;
    faced.decides(&["few/1".to_owned()]).await;
    faced.make_scarce("tight").await;
    for node in [1, 2] {
        faced.fleet.signal(node, Signal::STOP);
    }
    let all_in_time = async |line: &mut Line| {
        let mut all = Vec::new();
        for key in ["few/first", "few/second", "tight", "tight"] {
            if matches!((&line, key), (Line::Envoy(_), "tight")) {
                continue;
            }
            let decided = timeout(IN_TIME, line.decide(key)).await;
            all.push(decided.unwrap_or_else(|_| panic!("{} hangs", line.name())));
        }
        all
    };
    let [http, grpc, redis, envoy] = &mut faced.lines;
    let (http, grpc, redis, envoy) = tokio::join!(
        all_in_time(http),
        all_in_time(grpc),
        all_in_time(redis),
        all_in_time(envoy)
    );
    println!("HTTP {http:?}, gRPC {grpc:?}, Redis {redis:?}, Envoy {envoy:?}");
    for decided in [http, grpc, redis, envoy] {
        assert_eq!(decided[..2], [Decided::Unavailable; 2]);
    }
    for node in [1, 2] {
        faced.fleet.signal(node, Signal::CONT);
    }
    faced.decides(&["few/first".to_owned()]).await;
}

/// Returns the connections of a process whose both ends are its own, as in the table of the kernel.
fn connections_to_itself(pid: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = files
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok());
    let own: BTreeSet<String> = links.map(|link| link.display().to_string()).collect();
    let mut ends = BTreeMap::new();
    for table in ["tcp", "tcp6"] {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}"));
        for line in table.unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if own.contains(&format!("socket:[{}]", fields[9])) {
                ends.insert(fields[1].to_owned(), fields[2].to_owned());
            }
        }
    }
    assert!(!ends.is_empty(), "it listens at least");
    let both = ends
        .iter()
        .filter(|(local, remote)| ends.get(*remote) == Some(*local));
    both.map(|(local, remote)| format!("{local} to {remote}"))
        .collect()
}

/// The port for clients is reached by everybody but the node itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_decider_of_a_node_needs_no_socket_of_the_node() {
    let _machine = together().await;
    let mut fleet = setup().nodes(1).proxied().plan().await;
    fleet.net().cut(Who::Node(0), Who::Node(0));
    let socket = fleet.dir().join("http.sock");
    let face = FaceAddress::Http(socket.clone());
    fleet.node_mut(0).flag(face.flag());
    fleet.start(0);
    fleet.serves().await;
    fleet.apply(BUDGETS).await;
    for key in ["much", "few/1"] {
        until(&format!("{key} is admitted"), SOON, async || {
            (by_http(&socket, key).await == Decided::Allowed).then_some(())
        })
        .await;
    }
    let pid = fleet.nodes()[0].pid().unwrap();
    assert_eq!(connections_to_itself(pid), [""; 0]);
}

/// Time to live of reservations: it outlasts the hold of their permits by far.
const TTL_S: u32 = 3_600;

/// Reserves a permit of the key `jobs`. Returns the reservation and the outcome.
async fn reserve_by_http(path: &Path) -> (Option<String>, String) {
    let body = json!({ "key": "jobs", "ttl_s": TTL_S, "within_ms": 1_000 });
    let (_, response) = ask(path, "/v1/reserve", &body).await.unwrap();
    let outcome = response["answers"][0]["outcome"]
        .as_str()
        .map(str::to_owned);
    (response["id"].as_str().map(str::to_owned), outcome.unwrap())
}

/// Reserves a permit of the key `jobs`. Returns true if it was given, and the outcome.
async fn reserve_by_grpc(mut client: LimitsClient<Channel>) -> (bool, pb::LimitOutcome) {
    let part = pb::ReservePart {
        key: "jobs".to_owned(),
        cost: Some(1),
    };
    let reserve = pb::ReserveRequest {
        parts: vec![part],
        ttl_s: Some(TTL_S),
        within_ms: Some(1_000),
        ..pb::ReserveRequest::default()
    };
    let reply = client.reserve(reserve).await.unwrap().into_inner();
    (reply.allowed, reply.answers[0].outcome())
}

/// The permit of a caller that forgot it is free for the callers of each face after its hold, and not before. What the
/// forgetful caller does then takes it from no other caller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permit_that_is_never_released_ends_by_its_hold() {
    /// A client's clock may be ahead of its node's.
    const EARLIEST: Span = Span::from_millis(3_500);
    /// Earlier than the lease of a client that does not return a permit would end.
    const LATEST: Duration = Duration::from_secs(10);
    let _machine = alone().await;
    let mut fleet = setup().plan().await;
    let port = ReservedPort::reserve().unwrap();
    let (http, grpc) = (fleet.dir().join("http.sock"), port.address().to_string());
    let face = FaceAddress::Http(http.clone());
    fleet.node_mut(0).flag(face.flag());
    fleet
        .node_mut(1)
        .flag(FaceAddress::Grpc(grpc.clone()).flag());
    (0..3).for_each(|index| fleet.start(index));
    fleet.serves().await;
    fleet
        .apply("{ key: jobs, concurrency: 1, max_hold: 4s }")
        .await;
    let client = LimitsClient::connect(format!("http://{grpc}"))
        .await
        .unwrap();
    let by_http = async || reserve_by_http(&http).await;
    let by_grpc = async || reserve_by_grpc(client.clone()).await;
    let ask_from = std::cell::Cell::new(now());
    let first = until("HTTP gives a permit", SOON, async || {
        ask_from.set(now());
        by_http().await.0
    })
    .await;
    let held = || now().since(ask_from.get());
    let (allowed, outcome) = by_grpc().await;
    assert_eq!((allowed, outcome), (false, pb::LimitOutcome::OverLimit));
    until("gRPC gives it after the hold", LATEST, async || {
        let asked = now();
        by_grpc().await.0.then(|| {
            assert!(held() >= EARLIEST, "{:?}", held());
            ask_from.set(asked);
        })
    })
    .await;
    let (status, response) = ask(&http, "/v1/release", &json!({ "id": first }))
        .await
        .unwrap();
    assert_eq!(status, 200, "{response}");
    let (id, outcome) = by_http().await;
    assert_eq!(
        (id, outcome.as_str()),
        (None, "over_limit"),
        "the late release freed it"
    );
    until("HTTP gives it after the hold", LATEST, async || {
        by_http().await.0
    })
    .await;
    assert!(held() >= EARLIEST, "{:?}", held());
}
