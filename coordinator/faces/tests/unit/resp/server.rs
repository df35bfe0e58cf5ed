//! Connections over a pipe, with limits of this process behind the decider.

use super::*;
use crate::decider::{Limiters, Options as Deciding};
use crate::rules::KeyRules;
use aliquot_client::{KeyRefused, Limit, Limiter, ManualClock};
use aliquot_core::budget::NamedLimit;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::io::{DuplexStream, duplex};

/// Limits of this process: a key that ends in a limit has that, and any other has ten per second.
struct Local {
    clock: Arc<ManualClock>,
    known: Mutex<BTreeMap<String, Limiter>>,
}

impl Limiters for Arc<Local> {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        let mut known = self.known.lock().expect("not poisoned");
        if let Some(limiter) = known.get(key) {
            return Ok(limiter.clone());
        }
        let named = key.rsplit('/').next().map(NamedLimit::try_from);
        let (limit, burst) = match named {
            Some(Ok(named)) => {
                let per = Duration::from_nanos(named.rate().per().nanos());
                (Limit::per(named.rate().tokens(), per), named.burst())
            }
            _ => (Limit::per_sec(10), 10),
        };
        let limiter = Limiter::local_with(limit, burst, self.clock.clone()).expect("a limit");
        known.insert(key.to_owned(), limiter.clone());
        Ok(limiter)
    }
}

/// A client that needs no password.
struct Anyone;

impl Caller for Anyone {
    type Open = ();

    fn begin(&self) {}

    fn without_password(&self) -> Option<Scope> {
        Some(Scope::ALL)
    }

    fn scope(&self, password: &[u8]) -> Option<Scope> {
        (password == b"confined").then(|| Scope::under(["login/a".to_owned()]))
    }
}

struct TestServer {
    server: Arc<Server>,
    local: Arc<Local>,
}

impl TestServer {
    fn new(options: Options) -> Self {
        let clock = Arc::new(ManualClock::new());
        let known = Mutex::default();
        let local = Arc::new(Local { clock, known });
        let rules = ["redis:* -> redis/*/{limit}", "redis:login:* -> login/*"];
        let deciding = Deciding {
            rules: KeyRules::parse(rules).expect("valid rules"),
            ..Deciding::default()
        };
        let decider = Decider::of(local.clone(), deciding);
        let server = Arc::new(Server::new(decider, options));
        Self { server, local }
    }

    /// Opens a connection whose buffers hold `size` bytes.
    fn connect(&self, size: usize) -> (DuplexStream, tokio::task::JoinHandle<io::Result<()>>) {
        let (near, far) = duplex(size);
        let server = Arc::clone(&self.server);
        let never = std::future::pending();
        let task = tokio::spawn(async move { server.serve(far, &Anyone, never).await });
        (near, task)
    }

    fn keys(&self) -> Vec<String> {
        self.local
            .known
            .lock()
            .expect("not poisoned")
            .keys()
            .cloned()
            .collect()
    }
}

/// Sends requests as inline commands and checks all replies.
async fn check(bed: &TestServer, requests: &str, expect: &str) {
    let (mut stream, task) = bed.connect(1 << 20);
    let requests = format!("{requests}\nQUIT\n");
    stream.write_all(requests.as_bytes()).await.expect("sent");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.expect("replies");
    assert_eq!(replies, format!("{expect}+OK\r\n"), "{requests}");
    task.await.expect("no panic").expect("served");
}

#[tokio::test]
async fn cl_throttle_answers_as_redis_cell() {
    let bed = TestServer::new(Options::default());
    check(
        &bed,
        "CL.THROTTLE user:1 2 30 60\nCL.THROTTLE user:1 2 30 60 2\nCL.THROTTLE user:1 2 30 60\nCL.THROTTLE user:1 2 30 60 4",
        "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:2\r\n\
         *5\r\n:0\r\n:3\r\n:0\r\n:-1\r\n:6\r\n\
         *5\r\n:1\r\n:3\r\n:0\r\n:2\r\n:6\r\n\
         *5\r\n:1\r\n:3\r\n:0\r\n:-1\r\n:6\r\n",
    )
    .await;
    assert_eq!(bed.keys(), ["redis/user:1/30-per-1m-burst-3"]);
    bed.local.clock.advance(Duration::from_millis(2_500));
    check(
        &bed,
        "CL.THROTTLE user:1 2 30 60 0\nTHROTTLE user:1 3 30 60\nTHROTTLE user:1 3 30 60\nCL.THROTTLE user:1 2 30 60 -1",
        "*5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n\
         *5\r\n:1\r\n:3\r\n:0\r\n:6\r\n:0\r\n\
         *5\r\n:0\r\n:3\r\n:0\r\n:6\r\n:2\r\n\
         *5\r\n:0\r\n:3\r\n:1\r\n:-1\r\n:4\r\n",
    )
    .await;
}

/// Another limit under the same key is another bucket.
#[tokio::test]
async fn a_limit_that_a_command_names_is_part_of_the_key() {
    let bed = TestServer::new(Options::default());
    check(
        &bed,
        "CL.THROTTLE user:1 0 1 60\nCL.THROTTLE user:1 0 1 60\nCL.THROTTLE user:1 0 2 60",
        "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n\
         *5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n\
         *5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:30\r\n",
    )
    .await;
}

#[tokio::test]
async fn a_rule_without_a_limit_uses_that_of_the_budget() {
    let bed = TestServer::new(Options::default());
    check(
        &bed,
        "CL.THROTTLE login:a 99 1 60 4\nINCR login:a\nGET login:a\nPTTL login:a\nINCRBY login:a 9\nDECR login:a",
        "*5\r\n:0\r\n:10\r\n:6\r\n:-1\r\n:1\r\n\
         :5\r\n$1\r\n5\r\n:500\r\n:9007199254740991\r\n:4\r\n",
    )
    .await;
    assert_eq!(bed.keys(), ["login/a"]);
}

#[tokio::test]
async fn reading_commands_mean_the_limit_that_was_named_before() {
    let bed = TestServer::new(Options::default());
    check(
        &bed,
        "GET user:1\nTTL user:1\nDEL user:1\nCL.THROTTLE user:1 2 30 60\nGET user:1\nDEL user:1\nGET user:1",
        "$-1\r\n:-2\r\n:0\r\n*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:2\r\n$1\r\n1\r\n:1\r\n$-1\r\n",
    )
    .await;
}

#[tokio::test]
async fn a_counter_without_a_limit_is_refused_under_a_template_of_limits() {
    let bed = TestServer::new(Options::default());
    let expect = "-ERR this command names no limit, but its key is mapped to a template with named_limits: map the key \
                  to a budget without {limit}\r\n";
    check(&bed, "INCR user:1", expect).await;
    check(&bed, "INCR x/{limit}", expect).await;
    assert!(bed.keys().is_empty());
}

#[tokio::test]
async fn exists_counts_the_keys_of_which_tokens_are_used() {
    let bed = TestServer::new(Options::default());
    check(
        &bed,
        "EXISTS user:1\nCL.THROTTLE user:1 2 30 60\nEXISTS user:1 user:2 user:1\nMULTI\nEXISTS user:1\nEXEC",
        ":0\r\n*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:2\r\n:2\r\n+OK\r\n+QUEUED\r\n*1\r\n:1\r\n",
    )
    .await;
}

/// Sends bytes as they are, each after the reply to those before, and checks the bytes of each reply.
async fn check_bytes(bed: &TestServer, exchanges: &[(String, &str)]) {
    let (mut stream, _task) = bed.connect(1 << 16);
    for (request, expect) in exchanges {
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut reply = vec![0; expect.len()];
        // A reply that is shorter ends with that of the request after it.
        stream.write_all(b"PING\n").await.expect("sent");
        stream.read_exact(&mut reply).await.expect("a reply");
        assert_eq!(String::from_utf8_lossy(&reply), *expect, "{request}");
        let mut end = [0; 7];
        stream.read_exact(&mut end).await.expect("a reply");
        assert_eq!(end.escape_ascii().to_string(), "+PONG\\r\\n", "{request}");
    }
}

/// Returns a call of a script as redis_rate sends it: its hash, one key, and burst, rate, period in seconds and number.
fn evalsha(script: &str, key: &str, args: [&str; 4]) -> String {
    let mut bytes = format!("*8\r\n$7\r\nevalsha\r\n$40\r\n{script}\r\n$1\r\n1\r\n");
    for part in [key].iter().chain(&args) {
        bytes += &format!("${}\r\n{part}\r\n", part.len());
    }
    bytes
}

const ALLOW_N: &str = "f52a5b566060d79fd321d695df55bc918339c4aa";
const AT_MOST: &str = "054143318f521948424aa25df61d7f7ba835a9d7";

#[test]
fn a_call_has_the_bytes_that_were_recorded() {
    let recorded = "*8\r\n$7\r\nevalsha\r\n$40\r\nf52a5b566060d79fd321d695df55bc918339c4aa\r\n$1\r\n1\r\n\
                    $16\r\nrate:project:123\r\n$2\r\n10\r\n$2\r\n10\r\n$1\r\n1\r\n$1\r\n1\r\n";
    let args = ["10", "10", "1", "1"];
    assert_eq!(evalsha(ALLOW_N, "rate:project:123", args), recorded);
}

/// The requests are as redis_rate 10.0.1 sends them with go-redis 9.10.0, recorded before a Redis 7. The replies have
/// the types that a Redis gives, and no more than the microseconds that it counts.
#[tokio::test]
async fn redis_rate_is_answered_byte_by_byte_in_both_versions() {
    const SETINFO: &str = "*4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$8\r\nLIB-NAME\r\n$19\r\ngo-redis(,go1.19.8)\r\n\
                           *4\r\n$6\r\nclient\r\n$7\r\nsetinfo\r\n$7\r\nLIB-VER\r\n$6\r\n9.10.0\r\n";
    const HELLO_2: &str = "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:2\r\n\
                           $2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n\
                           $7\r\nmodules\r\n*0\r\n";
    let hello_3 = HELLO_2
        .replace("*14\r\n", "%7\r\n")
        .replace("proto\r\n:2", "proto\r\n:3");
    for (version, hello) in [("2", HELLO_2), ("3", &hello_3)] {
        let bed = TestServer::new(Options::default());
        let user = |n| evalsha(ALLOW_N, "rate:user", ["3", "3", "60", n]);
        let most = |script, n| evalsha(script, "rate:most", ["3", "3", "60", n]);
        let project = evalsha(ALLOW_N, "rate:project:123", ["10", "10", "1", "1"]);
        let half = evalsha(ALLOW_N, "rate:half", ["10", "5", "0.5", "1"]);
        let hi = format!("*2\r\n$5\r\nhello\r\n$1\r\n{version}\r\n");
        let reset = "*2\r\n$3\r\ndel\r\n$9\r\nrate:most\r\n".to_owned();
        let exchanges = [
            (hi, hello),
            (SETINFO.to_owned(), "+OK\r\n+OK\r\n"),
            (project, "*4\r\n:1\r\n:9\r\n$2\r\n-1\r\n$3\r\n0.1\r\n"),
            (user("2"), "*4\r\n:2\r\n:1\r\n$2\r\n-1\r\n$2\r\n40\r\n"),
            (user("2"), "*4\r\n:0\r\n:0\r\n$2\r\n20\r\n$2\r\n40\r\n"),
            (
                most(AT_MOST, "10"),
                "*4\r\n:3\r\n:0\r\n$2\r\n-1\r\n$2\r\n60\r\n",
            ),
            (
                most(AT_MOST, "10"),
                "*4\r\n:0\r\n:0\r\n$2\r\n20\r\n$2\r\n60\r\n",
            ),
            (half, "*4\r\n:1\r\n:9\r\n$2\r\n-1\r\n$3\r\n0.1\r\n"),
            // A Redis never refuses nothing.
            (
                most(ALLOW_N, "0"),
                "*4\r\n:0\r\n:0\r\n$2\r\n-1\r\n$2\r\n60\r\n",
            ),
            // After `Reset` the limit is unused.
            (reset, ":1\r\n"),
            (
                most(ALLOW_N, "1"),
                "*4\r\n:1\r\n:2\r\n$2\r\n-1\r\n$2\r\n20\r\n",
            ),
        ];
        check_bytes(&bed, &exchanges).await;
        // Half a millisecond is left.
        bed.local.clock.advance(Duration::from_micros(19_999_500));
        let refused = "*4\r\n:0\r\n:0\r\n$6\r\n0.0005\r\n$7\r\n20.0005\r\n";
        check_bytes(&bed, &[(user("2"), refused)]).await;
    }
}

/// The client sends 10 as fewer; 3 of them are there.
#[tokio::test]
async fn at_most_takes_what_is_there() {
    let bed = TestServer::new(Options::default());
    let at_most = "EVALSHA 054143318f521948424aa25df61d7f7ba835a9d7 1 rate:a 3 1 60 10";
    check(
        &bed,
        &format!("{at_most}\n{at_most}"),
        "*4\r\n:3\r\n:0\r\n$2\r\n-1\r\n$3\r\n180\r\n*4\r\n:0\r\n:0\r\n$2\r\n60\r\n$3\r\n180\r\n",
    )
    .await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let bed = TestServer::new(Options::default());
    let count = 5_000;
    let (mut stream, task) = bed.connect(1 << 20);
    let requests: String = (0..count).map(|n| format!("ECHO {n}\n")).collect();
    stream.write_all(requests.as_bytes()).await.expect("sent");
    stream.shutdown().await.expect("closed");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.expect("replies");
    let expect: String = (0..count)
        .map(|n: u32| format!("${}\r\n{n}\r\n", n.to_string().len()))
        .collect();
    assert_eq!(replies, expect);
    task.await.expect("no panic").expect("the client ended it");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let bed = TestServer::new(Options::default());
    let (mut stream, task) = bed.connect(1_024);
    let line = format!("ECHO {}\n", "a".repeat(500));
    let write = async { while stream.write_all(line.as_bytes()).await.is_ok() {} };
    write.await;
    let error = task.await.expect("no panic").expect_err("it is cut");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_client_that_does_not_speak_the_protocol_is_told_and_disconnected() {
    let bed = TestServer::new(Options::default());
    let (mut stream, task) = bed.connect(1_024);
    stream.write_all(b"PING\n*1\r\n*1\r\n").await.expect("sent");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.expect("replies");
    assert_eq!(
        replies,
        "+PONG\r\n-ERR Protocol error: expected '$', got '*'\r\n"
    );
    let error = task.await.expect("no panic").expect_err("it is cut");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn replies_follow_the_version_of_the_connection() {
    let bed = TestServer::new(Options::default());
    let (mut stream, _task) = bed.connect(1 << 16);
    stream
        .write_all(b"HELLO 3\nGET user:1\nQUIT\n")
        .await
        .expect("sent");
    let mut replies = String::new();
    stream.read_to_string(&mut replies).await.expect("replies");
    assert!(replies.starts_with("%7\r\n$6\r\nserver\r\n"), "{replies}");
    assert!(replies.ends_with("_\r\n+OK\r\n"), "{replies}");
}

#[tokio::test]
async fn a_server_that_stops_answers_what_has_arrived() {
    let bed = TestServer::new(Options::default());
    let (mut near, far) = duplex(1_024);
    near.write_all(b"ECHO a\nECHO b\nECHO").await.expect("sent");
    let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
    let server = Arc::clone(&bed.server);
    let task = tokio::spawn(async move {
        let stopping = async move { drop(stopping.await) };
        server.serve(far, &Anyone, stopping).await
    });
    let mut replies = [0; 14];
    near.read_exact(&mut replies).await.expect("replies");
    assert_eq!(&replies, b"$1\r\na\r\n$1\r\nb\r\n");
    drop(stop);
    let mut rest = Vec::new();
    near.read_to_end(&mut rest).await.expect("it ends");
    assert_eq!(rest, b"");
    task.await.expect("no panic").expect("it stopped");
}

#[tokio::test]
async fn a_key_outside_of_what_a_client_may_ask_for_is_refused() {
    let bed = TestServer::new(Options::default());
    let refused =
        "-NOPERM this caller may not use the key \"login/b\", only keys under login/a\r\n";
    check(
        &bed,
        "AUTH confined\nINCR login:a\nINCR login:b\nGET login:b",
        &format!("+OK\r\n:1\r\n{refused}{refused}"),
    )
    .await;
    check(&bed, "HELLO 2 AUTH x confined\nINCR login:b\nRESET\nINCR login:b", &{
        let hello = "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:2\r\n\
                     $4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";
        format!("{hello}{refused}+RESET\r\n:1\r\n")
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_made_up_keys_replaces_no_key_in_use() {
    let (decider, _) = crate::decider::testing::decider(64);
    let server = Server::new(decider.clone(), Options::default());
    let ask = async |key: String| {
        let (mut near, far) = duplex(1 << 10);
        let request = format!("INCR {key}\nQUIT\n");
        near.write_all(request.as_bytes()).await.expect("sent");
        let served = server.serve(far, &Anyone, std::future::pending()).await;
        served.expect("served");
        let mut reply = String::new();
        near.read_to_string(&mut reply).await.expect("a reply");
        assert!(reply.starts_with(':'), "{key}: {reply}");
    };
    crate::decider::testing::flood(&decider, "real", ask).await;
}
