//! The faces of this tree beside other servers of rate limits.
//!
//! Each server runs alone on the first processor and is asked from the second. Since one processor may not be able
//! to ask as fast as another answers, the table has requests per second of the *server's processor time*, too.

use crate::asking::{LoadAnswers, Way, ask};
use crate::measure::median;
use crate::redis::SCRIPT;
use crate::servers::{Aliquot, Server, free_port, processor_time};
use aliquot_client::Clock;
use aliquot_client::clock::HostClock;
use prost::Message;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connections that ask at once.
const CONNECTIONS: u64 = 16;

/// Rounds in which all servers of a protocol take turns.
const ROUNDS: usize = 3;

/// A server that is asked in one way.
struct Contender {
    name: &'static str,
    way: Way,
    pid: u32,
    /// Requests in flight on each connection.
    in_flight: u64,
}

impl Contender {
    const fn new(name: &'static str, pid: u32, way: Way, in_flight: u64) -> Self {
        Self {
            name,
            way,
            pid,
            in_flight,
        }
    }
}

/// Figures of a contender in one round.
struct Round {
    per_second: f64,
    per_processor_second: f64,
    p50: f64,
    p99: f64,
}

/// Prints a table for each protocol.
pub fn table(seconds: u64) -> Result<(), String> {
    pin_to(1)?;
    let aliquot = program("ALIQUOT", "aliquot");
    let throttlecrab = program("THROTTLECRAB", "throttlecrab-server");
    let dir = std::env::temp_dir().join(format!("aliquot-faces-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
    let measured = measured(&aliquot, &throttlecrab, &dir, Duration::from_secs(seconds));
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

/// Servers that run while a table is measured.
struct Servers {
    ours: Aliquot,
    peer: Option<Throttlecrab>,
    redis: Option<Redis>,
    empty: Empty,
}

fn measured(
    aliquot: &Path,
    throttlecrab: &Path,
    dir: &Path,
    during: Duration,
) -> Result<(), String> {
    let skipped = |name: &'static str| move |error: &String| println!("{name}: SKIPPED, {error}");
    let servers = Servers {
        ours: Aliquot::start(aliquot, dir)?,
        peer: Throttlecrab::start(throttlecrab)
            .inspect_err(skipped("throttlecrab-server"))
            .ok(),
        redis: Redis::start().inspect_err(skipped("Redis")).ok(),
        empty: Empty::start()?,
    };
    for in_flight in [1, 16] {
        let title = format!("RESP, {in_flight} in flight");
        print(&title, &servers.of_resp(in_flight), during)?;
    }
    print("HTTP, 1 in flight", &servers.of_http(), during)?;
    for in_flight in [1, 16] {
        let title = format!("gRPC, {in_flight} in flight");
        print(&title, &servers.of_grpc(in_flight), during)?;
    }
    Ok(())
}

impl Servers {
    fn of_resp(&self, in_flight: u64) -> Vec<Contender> {
        let contender = |name, pid, way| Contender::new(name, pid, way, in_flight);
        let mut contenders = Vec::new();
        if let Some(peer) = &self.peer {
            let ask = |key| command(&["THROTTLE", &bench(key), "1000000", "1000000", "1"]);
            let way = Way::Resp(peer.redis, ask, 6);
            contenders.push(contender("throttlecrab-server", peer.server.pid(), way));
        }
        let ask = |key| command(&["CL.THROTTLE", &bench(key), "999999", "1000000", "1"]);
        let way = Way::Resp(self.ours.redis, ask, 6);
        contenders.push(contender("aliquot", self.ours.node.pid(), way));
        if let Some(redis) = &self.redis {
            let way = Way::Resp(redis.port, redis_request, 1);
            contenders.push(contender("Redis, GCRA script", redis.server.pid(), way));
        }
        contenders
    }

    fn of_http(&self) -> Vec<Contender> {
        let contender = |name, pid, way| Contender::new(name, pid, way, 1);
        let mut contenders = Vec::new();
        if let Some(peer) = &self.peer {
            let body = |key| {
                let limit = "\"max_burst\":1000000,\"count_per_period\":1000000,\"period\":1";
                format!("{{\"key\":\"bench/{key}\",{limit}}}")
            };
            let way = Way::Http(peer.http, "/throttle", body);
            contenders.push(contender("throttlecrab-server", peer.server.pid(), way));
        }
        let body = |key| format!("{{\"key\":\"bench/{key}\"}}");
        let way = Way::Http(self.ours.http, "/v1/check", body);
        contenders.push(contender("aliquot", self.ours.node.pid(), way));
        let way = Way::HttpUnix(self.ours.agent_socket.clone(), "/v1/check", body);
        contenders.push(contender(
            "aliquot agent, Unix socket",
            self.ours.agent.pid(),
            way,
        ));
        let way = Way::Http(self.empty.port, "/v1/check", body);
        contenders.push(contender(
            "an empty hyper service",
            self.empty.server.pid(),
            way,
        ));
        contenders
    }

    fn of_grpc(&self, in_flight: u64) -> Vec<Contender> {
        let contender = |name, pid, way| Contender::new(name, pid, way, in_flight);
        let mut contenders = Vec::new();
        if let Some(peer) = &self.peer {
            let message = |key| Throttle::of(key).encode_to_vec();
            let way = Way::Grpc(peer.grpc, "/throttlecrab.RateLimiter/Throttle", message);
            contenders.push(contender("throttlecrab-server", peer.server.pid(), way));
        }
        let message = |key| Check::of(key).encode_to_vec();
        let way = Way::Grpc(self.ours.grpc, "/aliquot.v1.Limits/Check", message);
        contenders.push(contender("aliquot", self.ours.node.pid(), way));
        let message = |key| RateLimit::of(key).encode_to_vec();
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let way = Way::Grpc(self.ours.rls_port, path, message);
        contenders.push(contender("aliquot rls", self.ours.rls.pid(), way));
        contenders
    }
}

/// Measures contenders by turns, and prints the medians. Ratios are to the first.
fn print(title: &str, contenders: &[Contender], during: Duration) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut rounds: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    for number in 0..=ROUNDS {
        for (contender, rounds) in contenders.iter().zip(&mut rounds) {
            let (began, before) = (HostClock.now(), processor_time(contender.pid));
            let answers = ask(&contender.way, CONNECTIONS, contender.in_flight, during);
            let answers = runtime.block_on(answers);
            let answers = answers.map_err(|error| format!("{}: {error}", contender.name))?;
            let busy = processor_time(contender.pid).saturating_sub(before);
            // The first round creates the keys.
            if number > 0 {
                rounds.push(Round::of(
                    answers,
                    Duration::from_nanos(HostClock.now().since(began).nanos()),
                    busy,
                ));
            }
        }
    }
    println!("\n{title}, {CONNECTIONS} connections, medians of {ROUNDS} rounds of {during:?}\n");
    println!(
        "| server | requests/s | ratio | per second of its processor | ratio | p50, us | p99, us |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let of =
        |rounds: &[Round], figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
    let first = |figure| of(&rounds[0], figure);
    for (contender, rounds) in contenders.iter().zip(&rounds) {
        let (rate, busy) = (
            of(rounds, |of| of.per_second),
            of(rounds, |of| of.per_processor_second),
        );
        println!(
            "| {} | {rate:.0} | {:.2} | {busy:.0} | {:.2} | {} | {} |",
            contender.name,
            rate / first(|of| of.per_second),
            busy / first(|of| of.per_processor_second),
            micros(of(rounds, |of| of.p50)),
            micros(of(rounds, |of| of.p99)),
        );
    }
    Ok(())
}

/// Writes a time; requests that are sent together have none of their own.
fn micros(micros: f64) -> String {
    match micros.is_nan() {
        true => "-".to_owned(),
        false => format!("{micros:.0}"),
    }
}

impl Round {
    fn of(mut answers: LoadAnswers, took: Duration, busy: Duration) -> Self {
        answers.micros.sort_unstable();
        let at = |part: f64| {
            let index = (answers.micros.len() as f64 * part) as usize;
            answers
                .micros
                .get(index)
                .map_or(f64::NAN, |micros| f64::from(*micros))
        };
        Self {
            per_second: answers.count as f64 / took.as_secs_f64(),
            per_processor_second: answers.count as f64 / busy.as_secs_f64().max(0.01),
            p50: at(0.5),
            p99: at(0.99),
        }
    }
}

/// Returns the program that a variable names, or the one on the PATH.
fn program(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| name.into(), PathBuf::from)
}

/// Ties this thread, and those that it starts, to a processor.
fn pin_to(processor: usize) -> Result<(), String> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    let tied = rustix::thread::sched_setaffinity(None, &set);
    tied.map_err(|error| format!("processor {processor}: {error}; two are needed"))
}

struct Throttlecrab {
    server: Server,
    http: u16,
    grpc: u16,
    redis: u16,
}

impl Throttlecrab {
    fn start(program: &Path) -> Result<Self, String> {
        let mut ports = [0; 3];
        for port in &mut ports {
            *port = free_port().map_err(|error| error.to_string())?;
        }
        let [http, grpc, redis] = ports;
        let mut args = Vec::new();
        for (name, port) in [("http", http), ("grpc", grpc), ("redis", redis)] {
            args.push(format!("--{name}"));
            args.extend([format!("--{name}-host"), "127.0.0.1".to_owned()]);
            args.extend([format!("--{name}-port"), port.to_string()]);
        }
        args.extend(["--log-level", "error", "--store", "adaptive"].map(str::to_owned));
        Ok(Self {
            server: Server::start(program, &args, &[], redis)?,
            http,
            grpc,
            redis,
        })
    }
}

struct Redis {
    server: Server,
    port: u16,
}

impl Redis {
    fn start() -> Result<Self, String> {
        let port = free_port().map_err(|error| error.to_string())?;
        let args = [
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        let args = args.map(str::to_owned);
        let server = Server::start(Path::new("redis-server"), &args, &[], port)?;
        Ok(Self { server, port })
    }
}

/// A server that decides nothing: see [`crate::empty`].
struct Empty {
    server: Server,
    port: u16,
}

impl Empty {
    fn start() -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let (port, program) = (
            free_port().map_err(failed)?,
            std::env::current_exe().map_err(failed)?,
        );
        let args = ["serve-empty".to_owned(), port.to_string()];
        let server = Server::start(&program, &args, &[], port)?;
        Ok(Self { server, port })
    }
}

/// Returns a request that runs the script. `EVAL` finds the compiled script by its text.
fn redis_request(key: u64) -> String {
    command(&["EVAL", SCRIPT, "1", &bench(key), "1", "1000000"])
}

fn bench(key: u64) -> String {
    format!("bench/{key}")
}

/// Returns a command of Redis.
fn command(words: &[&str]) -> String {
    let parts = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), parts.collect::<String>())
}

#[derive(Clone, PartialEq, prost::Message)]
struct Check {
    #[prost(string, tag = "1")]
    key: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Throttle {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    max_burst: i32,
    #[prost(int32, tag = "3")]
    count_per_period: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

impl Check {
    fn of(key: u64) -> Self {
        Self {
            key: format!("bench/{key}"),
        }
    }
}

impl Throttle {
    fn of(key: u64) -> Self {
        Self {
            key: format!("bench/{key}"),
            max_burst: 1_000_000,
            count_per_period: 1_000_000,
            period: 1,
            quantity: 1,
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct RateLimit {
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

impl RateLimit {
    fn of(key: u64) -> Self {
        let entry = Entry {
            key: "key".to_owned(),
            value: key.to_string(),
        };
        let descriptor = Descriptor {
            entries: vec![entry],
        };
        Self {
            domain: "bench".to_owned(),
            descriptors: vec![descriptor],
        }
    }
}
