//! Connections whose TLS fails, on every port.

use super::*;

/// Every certificate that a node must refuse, on every port with TLS of a node as it runs. Each failure is counted, and
/// those of a minute make one line of the log for each port and cause.
#[test]
fn a_certificate_that_cannot_be_used_is_refused_on_every_port() {
    with_log(|log| async move {
        let begun = HostClock.now();
        let node = Node::start_with("").await;
        let other = Authority::new();
        let ports = [
            ("clients", &node.clients),
            ("peers", &node.peers),
            ("faces", &node.face),
            ("faces", &node.http),
            ("faces", &node.redis),
        ];
        let trouble = unusable(&node.authority, &other);
        let mut expect = cut_all(&ports, &trouble).await;
        // Metrics are served without TLS.
        expect.extend(cut_all(&[("metrics", &node.metrics)], &[hello()]).await);
        are_counted_and_logged(&node, expect, begun, &log).await;
    });
}

/// The same for callers that speak TLS to a node without.
#[test]
fn a_caller_that_speaks_tls_is_refused_on_every_port_without() {
    with_log(|log| async move {
        let begun = HostClock.now();
        let node = Node::start_plain().await;
        let ports = [
            ("clients", &node.clients),
            ("peers", &node.peers),
            ("metrics", &node.metrics),
            ("faces", &node.face),
            ("faces", &node.http),
            ("faces", &node.redis),
        ];
        let expect = cut_all(&ports, &[hello()]).await;
        are_counted_and_logged(&node, expect, begun, &log).await;
    });
}

/// A node is a caller as well: its log says what is wrong with TLS between it and a peer, whose metrics do so too.
#[test]
fn a_node_that_cannot_talk_to_its_peer_says_what_is_wrong_with_tls() {
    with_log(|log| async move {
        let (node, plain) = (Node::start_with("").await, Node::start_plain().await);
        let (ours, other) = (&node.authority, Authority::new());
        let names = crate::NODE_NAMES;
        let certificate = || ours.sign_as(&["peer.example"], |_| {});
        let cases = [
            (&node, None, "plaintext", "the server speaks TLS only"),
            (
                &node,
                Some((ours, other.sign(&names))),
                "unknown_authority",
                "the client's certificate is not signed by the server's CA",
            ),
            (
                &node,
                Some((ours, ours.sign_as(&["old.example"], expired))),
                "expired",
                "the client's certificate has expired",
            ),
            (
                &node,
                Some((&other, certificate())),
                "node_refused",
                "the server's certificate is not signed by the given CA",
            ),
            (
                &plain,
                Some((ours, certificate())),
                "tls_to_plaintext",
                "the server does not speak TLS",
            ),
        ];
        let mut callers = Vec::new();
        for (peer, tls, cause, expect) in cases {
            callers.push(Node::run_beside(peer, tls));
            let waits = format!("{}, which does not answer: {expect}", peer.peers.address());
            let cause = ("peers".to_owned(), cause.to_owned());
            let told = async {
                let logged = || std::fs::read_to_string(&log).unwrap().contains(&waits);
                let counts = async || peer.refusals("aliquot_tls_failures_total").await;
                while !logged() || !counts().await.contains_key(&cause) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let told = tokio::time::timeout(Duration::from_secs(60), told).await;
            let logged = std::fs::read_to_string(&log).unwrap();
            assert!(told.is_ok(), "{cause:?}: {waits:?} is not in {logged}");
        }
    });
}

/// Runs a test with a log of its own.
fn with_log<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(PathBuf) -> F) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let lines = tracing_subscriber::fmt().with_ansi(false);
    let lines = lines.with_writer(Arc::new(std::fs::File::create(&log).unwrap()));
    let lines = tracing::Dispatch::new(lines.finish());
    // If there is only one, the thread that reaches a place first decides for all whether its lines are wanted, and
    // that may be another test's.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Other tests of this program have no part in the log.
    runtime
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || {
            std::mem::forget(tracing::dispatcher::set_default(&lines));
        });
    let runtime = runtime.build().unwrap();
    let test = test(log);
    runtime
        .block_on(async { tokio::spawn(test).await })
        .unwrap();
}

/// Has each port refuse each of these callers twice. Returns the counts to expect.
async fn cut_all(ports: &[(&str, &ReservedPort)], trouble: &[(&str, Shown)]) -> Refusals {
    let mut expect = Refusals::new();
    for (cause, shown) in trouble {
        for (port, listen) in ports {
            let what = format!("{cause} on {port}, {}", listen.address());
            for _ in 0..2 {
                is_cut(listen, shown, &what).await;
                let key = ((*port).to_owned(), (*cause).to_owned());
                *expect.entry(key).or_default() += 1;
            }
        }
    }
    expect
}

/// Asserts that a node has counted these refusals and no others, and that each cause has its line in the log.
async fn are_counted_and_logged(node: &Node, expect: Refusals, begun: Tick, log: &Path) {
    let counted = async {
        while node.refusals("aliquot_tls_failures_total").await != expect {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let counted = tokio::time::timeout(Duration::from_secs(60), counted).await;
    if counted.is_err() {
        assert_eq!(node.refusals("aliquot_tls_failures_total").await, expect);
    }
    // A minute that ends meanwhile adds a line.
    let minutes = HostClock.now().since(begun).nanos() / 60_000_000_000;
    are_logged(expect.keys(), 1 + minutes as usize, log);
}

/// A caller that begins a TLS handshake, for a port without TLS.
fn hello() -> (&'static str, Shown) {
    ("tls_to_plaintext", Shown::Bytes("\x16\x03\x01\x02\x00\x01"))
}

/// Returns what a node refuses, with the cause.
fn unusable(ours: &Authority, other: &Authority) -> Vec<(&'static str, Shown)> {
    let names = &["checkout.example"];
    let (ca, other_ca) = (ours.path("ca.pem"), other.path("ca.pem"));
    let signed = |certificate| Shown::Certificate(Some(certificate), ca.clone());
    vec![
        ("no_certificate", Shown::Certificate(None, ca.clone())),
        ("unknown_authority", signed(other.sign(names))),
        ("expired", signed(ours.sign_as(&["old.example"], expired))),
        ("expired", signed(ours.sign_as(&["early.example"], early))),
        (
            "bad_certificate",
            signed(ours.sign_as(&["server.example"], for_servers)),
        ),
        (
            "node_refused",
            Shown::Certificate(Some(ours.sign(names)), other_ca),
        ),
        (
            "plaintext",
            Shown::Bytes("GET /v1/budgets HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ),
        (
            "other",
            Shown::Bytes("\x16\x03\x01\x00\x05garbage that is no greeting"),
        ),
    ]
}

/// Asserts that the log has a warning for each port and cause, and no more than `most`.
fn are_logged<'a>(causes: impl Iterator<Item = &'a (String, String)>, most: usize, log: &Path) {
    let log = std::fs::read_to_string(log).unwrap();
    for (port, cause) in causes {
        let setting = match port.as_str() {
            "clients" => "listen",
            "peers" => "peer_listen",
            "metrics" => "metrics_listen",
            faces => faces,
        };
        let port = format!("port=\"{setting}\"");
        let words = [" WARN ", &port, &format!("cause=\"{cause}\"")];
        let lines = log.lines();
        let lines = lines.filter(|line| words.iter().all(|word| line.contains(word)));
        let count = lines.count();
        assert!(
            (1..=most).contains(&count),
            "{count} lines of {words:?} in {log}"
        );
    }
}

/// Asserts that a port ends a connection without an answer to its request.
async fn is_cut(port: &ReservedPort, shown: &Shown, what: &str) {
    let ended = async {
        match shown {
            Shown::Certificate(identity, ca) => {
                let request = "GET /v1/budgets HTTP/1.1\r\nHost: localhost\r\n\r\n";
                let answer = tls_exchange(port, ca, identity.as_ref(), request).await;
                answer.unwrap_or_default()
            }
            Shown::Bytes(bytes) => {
                let mut stream = TcpStream::connect(port.address()).await.unwrap();
                stream.write_all(bytes.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
                // The node answers plaintext with the reason of the refusal alone, which is no answer to a request.
                Vec::new()
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what}: the connection is left open"));
    assert!(
        answer.is_empty(),
        "{what}: {}",
        String::from_utf8_lossy(&answer)
    );
}
