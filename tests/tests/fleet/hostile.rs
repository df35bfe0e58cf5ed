//! Ports that get invalid bytes, too many bytes, or none at all.

use crate::support::{millis, only_at, setup, together};
use aliquot_client::Client;
use aliquot_tests::fleet::{Fleet, SOON, now, until};
use aliquot_wire::pb;
use aliquot_wire::pb::client_message::Kind;
use aliquot_wire::pb::session_client::SessionClient;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::{Code, Status};

/// Asserts that the node runs, is ready, and serves.
async fn still_serves(fleet: &Fleet) {
    let node = &fleet.nodes()[0];
    until("the node is ready", SOON, async || {
        node.is_ready().await.then_some(())
    })
    .await;
    let status = fleet.cli(&["cluster", "status"]).await;
    assert_eq!(status.code, 0, "{status:?}");
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter("shared").unwrap();
    until("a client is served", SOON, async || {
        limiter.acquire(1).await.ok()
    })
    .await;
    client.close().await;
    assert!(!node.log().contains("panicked"), "{}", node.log());
}

async fn one_node() -> Fleet {
    let fleet = setup().nodes(1).start().await;
    fleet
        .apply("{ key: shared, rate: 1000/s, burst: 200 }")
        .await;
    fleet
}

/// Returns bytes without a pattern, the same each time.
fn noise(count: usize) -> Vec<u8> {
    let next = |state: &u64| {
        Some(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        )
    };
    let states = std::iter::successors(Some(42), next);
    states
        .map(|state: u64| (state >> 56) as u8)
        .take(count)
        .collect()
}

fn nonsense() -> Vec<Vec<u8>> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let after_preface = |rest: &[u8]| [PREFACE, rest].concat();
    vec![
        Vec::new(),
        b"\0".to_vec(),
        noise(100_000),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        [b"GET /".as_slice(), &[b'a'; 200_000]].concat(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        PREFACE[..10].to_vec(),
        after_preface(&noise(50_000)),
        // A frame header that announces 16 MiB; then settings of an odd length.
        after_preface(b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"),
        after_preface(b"\x00\x00\x05\x04\x00\x00\x00\x00\x00abcde"),
        // Headers on stream 0, and a window that overflows.
        after_preface(b"\x00\x00\x01\x01\x05\x00\x00\x00\x00\x82"),
        after_preface(b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\xff\xff\xff\xff"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_on_every_port_does_no_harm() {
    let _machine = together().await;
    let fleet = one_node().await;
    let node = &fleet.nodes()[0];
    for address in [&node.listen, &node.peer_listen, &node.metrics_listen] {
        for bytes in nonsense() {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // If the node hangs up early, it has recognised the bytes as invalid.
            let _ = stream.write_all(&bytes).await;
            let mut received = [0; 256];
            let _ = tokio::time::timeout(millis(50), stream.read(&mut received)).await;
        }
    }
    still_serves(&fleet).await;
}

/// Returns the status with which a stream of these messages ends.
async fn send_all(fleet: &Fleet, messages: Vec<Kind>) -> Status {
    let address = format!("http://{}", fleet.nodes()[0].listen);
    let mut client = SessionClient::connect(address).await.unwrap();
    client = client.max_encoding_message_size(usize::MAX);
    let messages = messages
        .into_iter()
        .map(|kind| pb::ClientMessage { kind: Some(kind) });
    let stream = tokio_stream::StreamExt::chain(
        tokio_stream::iter(messages.collect::<Vec<_>>()),
        // The stream stays open: it is the node that ends it.
        tokio_stream::pending(),
    );
    let ended = async {
        let mut answers = match client.open(stream).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return status,
        };
        loop {
            match answers.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Status::ok("the stream ended without a status"),
                Err(status) => return status,
            }
        }
    };
    let ended = tokio::time::timeout(SOON, ended).await;
    ended.expect("the node ends the stream")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_and_oversized_messages_end_their_stream_with_the_reason() {
    let _machine = together().await;
    let fleet = one_node().await;
    let open = || Kind::Open(pb::SessionOpen::default());
    let report = |bytes: Vec<u8>| Kind::Report(bytes.into());
    let key = |text: &str| text.to_owned();
    let many = (0..100_000).map(|number| key(&format!("k/{number}")));
    let cases = [
        ("a report before the open", vec![report(Vec::new())]),
        ("two opens", vec![open(), open()]),
        ("an empty report", vec![open(), report(Vec::new())]),
        ("noise for a report", vec![open(), report(noise(10_000))]),
        (
            "a report of 64 MiB",
            vec![open(), report(vec![0; 64 << 20])],
        ),
        (
            "a key that is none",
            vec![
                open(),
                Kind::Intern(pb::InternKeys {
                    keys: vec![key("")],
                }),
            ],
        ),
        (
            "100,000 keys",
            vec![
                open(),
                Kind::Intern(pb::InternKeys {
                    keys: many.collect(),
                }),
            ],
        ),
        (
            "an empty question",
            vec![open(), Kind::Ask(pb::Ask::default())],
        ),
        (
            "an empty release",
            vec![open(), Kind::Release(pb::PermitRelease::default())],
        ),
    ];
    for (what, messages) in cases {
        let status = send_all(&fleet, messages).await;
        println!("{what}: {:?}: {}", status.code(), status.message());
        let refused = [
            Code::InvalidArgument,
            Code::FailedPrecondition,
            Code::OutOfRange,
            Code::ResourceExhausted,
        ];
        assert!(refused.contains(&status.code()), "{what}: {status}");
        assert!(!status.message().is_empty(), "{what}");
    }
    still_serves(&fleet).await;
}

/// Raises the limit of open files as far as the system allows, and returns it.
fn raise_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    limit.maximum.unwrap_or(u64::MAX)
}

async fn bears(connections: usize) {
    assert!(
        raise_files() > connections as u64 + 1_000,
        "raise `ulimit -Hn`"
    );
    let fleet = one_node().await;
    let node = &fleet.nodes()[0];
    let mut idle = Vec::new();
    for index in 0..connections {
        let address = [&node.listen, &node.peer_listen, &node.metrics_listen][index % 3];
        idle.push(TcpStream::connect(address).await.unwrap());
    }
    still_serves(&fleet).await;
    drop(idle);
    still_serves(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_connections_do_no_harm() {
    let _machine = together().await;
    bears(1_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a limit of 11,000 open files; a tenth of it runs always"]
async fn ten_thousand_idle_connections_do_no_harm() {
    let _machine = crate::support::alone().await;
    let files = raise_files();
    if files <= 11_000 {
        crate::support::skipped(&format!(
            "10,000 connections need 11,000 open files, and `ulimit -Hn` is {files}"
        ));
        return;
    }
    bears(10_000).await;
}

/// Returns the maximum of a port's connections, as a node says it that may open too few descriptors for those it wants.
fn said_most(log: &str, port: &str) -> usize {
    const SAID: &str = "the limit on open file descriptors is too low";
    let line = log.lines().find(|line| line.contains(SAID)).unwrap();
    let (_, rest) = line.split_once(&format!("{port}=")).unwrap();
    let digits = rest.split(|char: char| !char.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap()
}

/// Silent connections on every port, more than the node has file descriptors, keep neither a session nor an
/// operator out. They are counted, and logged once a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_keep_no_session_and_no_operator_out() {
    /// Connections beyond the maximum of each port.
    const BEYOND: usize = 100;
    let _machine = together().await;
    assert!(raise_files() > 2_000, "raise `ulimit -Hn`");
    let mut fleet = setup().nodes(1).plan().await;
    let limited = "ulimit -n 640; exec \"$0\" \"$@\"";
    fleet.node_mut(0).under(&["sh", "-c", limited]);
    fleet.start(0);
    fleet.serves().await;
    fleet
        .apply("{ key: shared, rate: 1000/s, burst: 200 }")
        .await;
    let client = Client::connect(fleet.addresses()).unwrap();
    let limiter = client.limiter("shared").unwrap();
    until("a client is served", SOON, async || {
        limiter.acquire(1).await.ok()
    })
    .await;
    let session = client.status().session;
    let node = &fleet.nodes()[0];
    // The figure is up to a second old, and each look has a connection of its own.
    until("descriptors are counted", SOON, async || {
        let files = node.figure("aliquot_file_descriptors").await?;
        let open = node.open_files()? as f64;
        ((files - open).abs() <= 2.0).then_some(())
    })
    .await;
    let mut silent = Vec::new();
    for (port, address) in [
        ("clients", &node.listen),
        ("peers", &node.peer_listen),
        ("metrics", &node.metrics_listen),
    ] {
        let most = said_most(&node.log(), port);
        for _ in 0..most + BEYOND {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let (open, displaced) = (
            format!("aliquot_connections{{port=\"{port}\"}}"),
            format!("aliquot_connections_refused_total{{port=\"{port}\",cause=\"displaced\"}}"),
        );
        // One is displaced only while the port is full. After ten seconds all are closed for their silence, so on a slow
        // machine the port may be emptier again before its figures are read.
        until(&format!("{port} was full"), SOON, async || {
            let open = node.figure(&open).await?;
            assert!(open <= most as f64, "{port}: {open} of {most}");
            (node.figure(&displaced).await? >= BEYOND as f64).then_some(())
        })
        .await;
    }
    let files = node.figure("aliquot_file_descriptors").await.unwrap();
    let allowed = node.figure("aliquot_file_descriptors_allowed").await;
    assert_eq!(allowed, Some(640.0));
    assert!(files < 640.0, "{files} of 640");
    still_serves(&fleet).await;
    let status = client.status();
    assert!(limiter.acquire(1).await.is_ok() && !status.lease.is_zero());
    assert_eq!(status.session, session, "the session goes on");
    let log = node.log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines("closed to make room"), 3, "one for each port: {log}");
    assert_eq!(lines("cannot be accepted"), 0, "{log}");
    client.close().await;
}

/// Sessions take the last descriptor, and more callers come. They stay in the queue of the port, where a node that tries
/// to accept them at once again would use a whole processor and fill its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_free_descriptors_stays_calm() {
    const LEFT: usize = 6;
    const WATCHED: Duration = Duration::from_secs(3);
    let _machine = together().await;
    let fleet = one_node().await;
    let node = &fleet.nodes()[0];
    let first = only_at(&node.client);
    let limiter = first.limiter("shared").unwrap();
    until("a client is served", SOON, async || {
        limiter.acquire(1).await.ok()
    })
    .await;
    let session = first.status().session;
    let begun = now();
    fleet.allow_files(0, node.open_files().unwrap() + LEFT);
    let mut others = Vec::new();
    for _ in 0..3 * LEFT {
        let other = only_at(&node.client);
        let _ = other.limiter("shared").unwrap().try_acquire(1);
        others.push(other);
    }
    const SAID: &str = "connections cannot be accepted";
    let lines = || node.log().lines().filter(|it| it.contains(SAID)).count();
    until("a connection cannot be accepted", SOON, async || {
        (lines() > 0).then_some(())
    })
    .await;
    tokio::time::sleep(WATCHED).await;
    assert_eq!(lines(), 1, "one a minute: {}", node.log());
    assert!(limiter.acquire(1).await.is_ok());
    assert_eq!(first.status().session, session, "the session goes on");
    // With descriptors again, those that wait are accepted.
    fleet.allow_files(0, 1_000);
    // Each failed accept counts, and a tenth of a second passes after it.
    const FAILED: &str =
        "aliquot_connections_refused_total{port=\"clients\",cause=\"not_accepted\"}";
    let failed = until("failures are counted", SOON, async || {
        node.figure(FAILED).await
    })
    .await;
    let pauses = Duration::from_nanos(now().since(begun).nanos()).as_millis() / 100;
    println!("{failed} failed accepts in {pauses} tenths of a second");
    assert!(
        failed >= 1.0 && failed <= 1.0 + pauses as f64,
        "{failed} in {pauses}"
    );
    for other in &others {
        let limiter = other.limiter("shared").unwrap();
        until("a client that waited is served", SOON, async || {
            limiter.acquire(1).await.ok()
        })
        .await;
    }
}
