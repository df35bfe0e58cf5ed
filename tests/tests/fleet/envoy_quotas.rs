//! Four real Envoys that share a limit through the rate limit quota service of three nodes.

use crate::envoy::{Caller, Process, envoy, upstream};
use crate::support::{alone, millis, setup, together};
use aliquot_client::clock::Span;
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_tests::fleet::{Fleet, SOON, now, until};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Requests per second that all Envoys together may let pass, and at once.
const RATE: u64 = 400;
const BURST: u64 = 100;

const BUDGETS: &str = "
- { key: shop/name/api, rate: 400/s, burst: 100 }
- { key: shop/name/user/user/*, rate: 5/s, burst: 5 }
";

/// Returns the configuration of a cluster of Envoy.
fn cluster(name: &str, addresses: &[SocketAddr]) -> String {
    let endpoint = |address: &SocketAddr| {
        let port = address.port();
        format!(
            "{{ endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }} }} }}"
        )
    };
    let endpoints: Vec<String> = addresses.iter().map(endpoint).collect();
    format!(
        "  - name: {name}\n    connect_timeout: 1s\n    type: STATIC\n    load_assignment:\n      \
             cluster_name: {name}\n      endpoints: [{{ lb_endpoints: [{}] }}]\n",
        endpoints.join(", ")
    )
}

/// Returns the configuration of the bucket of a path.
fn matcher(path: &str, entries: &str) -> String {
    format!(
        r#"
                    - predicate:
                        single_predicate:
                          input:
                            name: path
                            typed_config: {{ "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: ":path" }}
                          value_match: {{ prefix: {path} }}
                      on_match:
                        action:
                          name: quota
                          typed_config:
                            "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings
                            bucket_id_builder: {{ bucket_id_builder: {{ {entries} }} }}
                            reporting_interval: 5s
                            no_assignment_behavior: {{ fallback_rate_limit: {{ blanket_rule: ALLOW_ALL }} }}
                            expired_assignment_behavior:
                              expired_assignment_behavior_timeout: 300s
                              fallback_rate_limit: {{ blanket_rule: DENY_ALL }}
"#
    )
}

/// Returns the configuration of an Envoy that asks some quota services. What has no assignment is allowed, and what had
/// one is denied.
fn configuration(listen: SocketAddr, upstream: SocketAddr, services: &[SocketAddr]) -> String {
    let user = r#"name: { string_value: user }, user: { custom_value: { name: user, typed_config: { "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: x-user } } }"#;
    let matchers = matcher("/user", user) + &matcher("/", "name: { string_value: api }");
    let (upstream, services) = (cluster("upstream", &[upstream]), cluster("rlqs", services));
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
                route: {{ cluster: upstream }}
          http_filters:
          - name: envoy.filters.http.rate_limit_quota
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig
              domain: shop
              rlqs_server: {{ envoy_grpc: {{ cluster_name: rlqs }} }}
              bucket_matchers:
                matcher_list:
                  matchers:{matchers}
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
{upstream}{services}    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{ http2_protocol_options: {{ connection_keepalive: {{ interval: 1s, timeout: 1s }} }} }}
"#
    )
}

/// Three nodes with the face, and Envoys in front of a service.
struct Edge {
    fleet: Fleet,
    listen: Vec<SocketAddr>,
    services: Vec<SocketAddr>,
    _envoys: Vec<Process>,
    _ports: Vec<ReservedPort>,
}

impl Edge {
    /// Starts so many Envoys. `nodes` returns the nodes that one of them asks, the first one first.
    async fn start(envoy: &Path, envoys: usize, nodes: impl Fn(usize) -> Vec<usize>) -> Self {
        let ports: Vec<ReservedPort> = (0..3 + envoys)
            .map(|_| ReservedPort::reserve().unwrap())
            .collect();
        let addresses: Vec<SocketAddr> = ports.iter().map(ReservedPort::address).collect();
        let (services, listen) = addresses.split_at(3);
        let mut fleet = setup().plan().await;
        for (index, service) in services.iter().enumerate() {
            let flag = format!("--faces-rlqs-listen={service}");
            fleet.node_mut(index).flag(flag);
            fleet.start(index);
        }
        fleet.serves().await;
        fleet.apply(BUDGETS).await;
        let upstream = upstream().await;
        let mut processes = Vec::new();
        for (index, listen) in listen.iter().enumerate() {
            let config = fleet.dir().join(format!("envoy-{index}.yaml"));
            let asked = nodes(index).into_iter().map(|node| services[node]);
            let asked: Vec<SocketAddr> = asked.collect();
            std::fs::write(&config, configuration(*listen, upstream, &asked)).unwrap();
            let mut command = Command::new(envoy);
            command
                .args(["--config-path", &config.display().to_string()])
                .args(["--concurrency", "1", "--disable-hot-restart"])
                .args(["--log-level", "error", "--base-id", &index.to_string()])
                .stdin(Stdio::null());
            processes.push(Process(command.spawn().unwrap()));
        }
        for listen in listen {
            until("an Envoy listens", SOON, async || {
                Caller::connect(*listen).await.map(drop)
            })
            .await;
        }
        Self {
            fleet,
            listen: listen.to_vec(),
            services: services.to_vec(),
            _envoys: processes,
            _ports: ports,
        }
    }
}

/// Returns all nodes, for each Envoy beginning with another one.
fn all_nodes(envoy: usize) -> Vec<usize> {
    (0..3).map(|node| (envoy + node) % 3).collect()
}

/// Callers of one Envoy at a steady rate.
struct Load {
    stop: Arc<AtomicBool>,
    /// Admitted, denied, failed.
    counts: Vec<Arc<[AtomicU64; 3]>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// Begins to ask each Envoy at its rate, in requests per second.
    fn begin(listen: &[SocketAddr], rates: &[u64]) -> Self {
        const CALLERS: u64 = 4;
        let stop = Arc::<AtomicBool>::default();
        let (mut counts, mut tasks) = (Vec::new(), Vec::new());
        for (listen, rate) in listen.iter().zip(rates) {
            let count: Arc<[AtomicU64; 3]> = Arc::default();
            for _ in 0..CALLERS {
                let (stop, count, listen) = (stop.clone(), count.clone(), *listen);
                let every = Duration::from_micros(1_000_000 * CALLERS / rate);
                tasks.push(tokio::spawn(async move {
                    let mut caller = Caller::connect(listen).await.unwrap();
                    let mut pace = tokio::time::interval(every);
                    while !stop.load(Ordering::Relaxed) {
                        pace.tick().await;
                        let place = match caller.get("/", b"").await {
                            Some((200, _)) => 0,
                            Some((429, _)) => 1,
                            _ => 2,
                        };
                        count[place].fetch_add(1, Ordering::Relaxed);
                    }
                }));
            }
            counts.push(count);
        }
        Self {
            stop,
            counts,
            tasks,
        }
    }

    fn of(&self, place: usize) -> Vec<u64> {
        let counts = self.counts.iter();
        counts.map(|it| it[place].load(Ordering::Relaxed)).collect()
    }

    async fn end(self) -> [Vec<u64>; 3] {
        self.stop.store(true, Ordering::Relaxed);
        let counts = [0, 1, 2].map(|place| self.of(place));
        for task in self.tasks {
            task.await.unwrap();
        }
        counts
    }
}

/// Returns what came since.
fn since(now: &[u64], before: &[u64]) -> Vec<u64> {
    now.iter()
        .zip(before)
        .map(|(now, before)| now - before)
        .collect()
}

/// Lets a load run for `count` seconds, and returns the admissions of each Envoy in each second.
async fn seconds(load: &Load, count: usize) -> Vec<Vec<u64>> {
    let mut ticks = tokio::time::interval(millis(1_000));
    ticks.tick().await;
    let (mut before, mut all) = (load.of(0), Vec::new());
    for _ in 0..count {
        ticks.tick().await;
        let admitted = load.of(0);
        all.push(since(&admitted, &before));
        before = admitted;
    }
    all
}

/// Returns the most that was admitted in any window of whole seconds, above what the rate makes in it.
fn above(seconds: &[u64]) -> i64 {
    let excess = seconds
        .iter()
        .map(|admitted| *admitted as i64 - RATE as i64);
    let (mut run, mut most) = (0, 0);
    for excess in excess {
        run = (run + excess).max(0);
        most = most.max(run);
    }
    most
}

fn total(seconds: &[Vec<u64>]) -> u64 {
    seconds.iter().flatten().sum()
}

/// Returns the number of connections that a port of this host has accepted.
fn connections(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!("0100007F:{port:04X}");
    let is_open = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next() == Some(&local) && fields.nth(1) == Some("01")
    };
    table.lines().filter(is_open).count()
}

/// Returns what an Envoy admitted per second.
fn mean(seconds: &[Vec<u64>], envoy: usize) -> u64 {
    let sum: u64 = seconds.iter().map(|second| second[envoy]).sum();
    sum / seconds.len() as u64
}

/// Shows the figures of the guide's table.
fn show(first: &[Vec<u64>], calm: &[Vec<u64>], killed: &[Vec<u64>]) {
    for (envoy, at_first) in first[0].iter().enumerate() {
        println!(
            "Envoy {envoy}: {at_first} in the first second, {}/s in calm, {}/s from 20 s after the kill",
            mean(calm, envoy),
            mean(&killed[20..], envoy)
        );
    }
    let sums = |seconds: &[Vec<u64>]| -> Vec<u64> {
        seconds.iter().map(|second| second.iter().sum()).collect()
    };
    println!(
        "{:.1} % of the limit in calm",
        total(calm) as f64 * 100.0 / (RATE * 30) as f64
    );
    println!(
        "worst seconds: first {:?}, calm {:?}, killed {:?}",
        sums(first).iter().max(),
        sums(calm).iter().max(),
        sums(killed).iter().max()
    );
    let seconds = [sums(first), sums(calm), sums(killed)];
    println!(
        "most above the rate in any window: {:?} until and {:?} after the kill",
        above(&seconds[..2].concat()),
        above(&seconds[2])
    );
}

/// Four Envoys want three times the limit, one of them little; then a node is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_envoys_share_a_limit_by_demand_and_a_node_is_killed() {
    let Some(envoy) = envoy() else { return };
    let _machine = alone().await;
    let mut edge = Edge::start(&envoy, 4, all_nodes).await;
    let begun = now();
    let load = Load::begin(&edge.listen, &[390, 390, 390, 30]);
    let first = seconds(&load, 15).await;
    let calm = seconds(&load, 30).await;
    let before = load.of(0);
    println!("first seconds: {:?}", &first[..6]);
    // The node with the most streams, whether it leads or not.
    let streams = edge.services.iter().map(|it| connections(it.port()));
    let streams: Vec<usize> = streams.collect();
    let busiest = (0..3).max_by_key(|index| streams[*index]).unwrap();
    println!("streams of the nodes: {streams:?}");
    assert!(streams[busiest] > 0);
    edge.fleet.kill(busiest);
    let killed = seconds(&load, 35).await;
    println!("seconds after the kill: {killed:?}");
    let nanos = now().since(begun).nanos();
    let [admitted, denied, failed] = load.end().await;
    show(&first, &calm, &killed);
    println!("{admitted:?} admitted, {denied:?} denied, {failed:?} failed");
    // What Envoys add: requests before the first assignment; the buckets and the second ahead; and of the node that was
    // killed, what it had assigned, for as long as that lasts.
    let unassigned = first[0].iter().sum::<u64>();
    let added = unassigned + RATE * 24 / 10 + RATE * 15;
    let most = BURST + RATE * nanos / 1_000_000_000 * 1_002 / 1_000 + added;
    let sum: u64 = admitted.iter().sum();
    println!(
        "{sum} admitted of at most {most}, {added} of them added; {} before the kill",
        before.iter().sum::<u64>()
    );
    assert!(sum <= most, "{sum} > {most}");
    let calm_most = RATE * 30 * 1_002 / 1_000 + BURST + RATE * 24 / 10;
    assert!(total(&calm) <= calm_most, "{} > {calm_most}", total(&calm));
    assert!(
        total(&calm) >= RATE * 30 * 8 / 10,
        "{} of {}",
        total(&calm),
        RATE * 30
    );
    assert!(mean(&calm, 3) >= 27, "{calm:?}");
    let after = total(&killed[20..]);
    assert!(after >= RATE * 15 * 8 / 10, "{after} of {}", RATE * 15);
    for envoy in 0..3 {
        assert!(mean(&killed[20..], envoy) >= 60, "{killed:?}");
    }
    assert_eq!(failed, [0, 0, 0, 0]);
}

/// Each Envoy gets what is fair among all of them, however many its node serves: two of a node no less than one that has
/// a node for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_share_by_their_own_demands_across_nodes() {
    let Some(envoy) = envoy() else { return };
    let _machine = alone().await;
    let edge = Edge::start(&envoy, 4, |envoy| vec![[0, 0, 1, 2][envoy]]).await;
    let load = Load::begin(&edge.listen, &[600, 400, 150, 50]);
    // Each reports its demand every five seconds, and a first bucket is full.
    let first = seconds(&load, 20).await;
    let calm = seconds(&load, 30).await;
    let [_, _, failed] = load.end().await;
    let means = [0, 1, 2, 3].map(|envoy| mean(&calm, envoy));
    println!("{means:?}/s in calm, {} of {}", total(&calm), RATE * 30);
    println!("{calm:?}");
    for (mean, fair) in means.into_iter().zip([117, 117, 117, 50]) {
        assert!(mean.abs_diff(fair) <= 18, "{means:?}, after {first:?}");
    }
    let most = RATE * 30 * 1_002 / 1_000 + BURST + RATE * 24 / 10;
    assert!(total(&calm) <= most, "{} > {most}", total(&calm));
    assert_eq!(failed, [0, 0, 0, 0]);
}

/// A header that is not UTF-8 spoils no stream: the other users are limited, also once Envoy would have opened it again.
/// Envoy itself can take no assignment for that user.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_that_is_not_utf8_spoils_no_stream() {
    let Some(envoy) = envoy() else { return };
    let _machine = together().await;
    let edge = Edge::start(&envoy, 1, all_nodes).await;
    let begun = now();
    let ask = async |user: &[u8]| {
        let mut caller = Caller::connect(edge.listen[0]).await.unwrap();
        let (status, _) = caller.get("/user", user).await.unwrap();
        assert!([200, 429].contains(&status), "{status}");
        status
    };
    // Two reports of all buckets later, a stream that had ended would have been opened again twice.
    while now().since(begun) < Span::from_secs(12) {
        assert_eq!(ask(b"\xff\xfe").await, 200);
        for user in [b"alice".as_slice(), b"\xc3\xa9"] {
            until("a user is limited", SOON, async || {
                (ask(user).await == 429).then_some(())
            })
            .await;
        }
        tokio::time::sleep(millis(250)).await;
    }
    for user in [b"bob".as_slice(), b"carol"] {
        until("a new user is limited", SOON, async || {
            (ask(user).await == 429).then_some(())
        })
        .await;
    }
}
