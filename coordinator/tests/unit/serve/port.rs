//! Idle connections, under a clock that advances while nothing else happens.

use super::*;
use crate::api::connections::PortLimits;
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::PrivateKeyDer;
use tokio::time::Instant;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

/// A port that answers every request of HTTP.
struct TestPort {
    address: SocketAddr,
    connections: Connections,
    _stop: watch::Sender<bool>,
}

impl TestPort {
    fn new() -> Self {
        Self::with(None)
    }

    fn with(tls: Option<TlsAcceptor>) -> Self {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = PortLimits {
            most: 8,
            per_address: 8,
        };
        let connections = Connections::new(Port::Clients, limits);
        let service = tower::service_fn(|_| async { Ok(Response::new("ok".to_owned())) });
        let (stop, stopping) = watch::channel(false);
        let protocol = Protocol::Http { tls };
        tokio::spawn(serve(
            listener,
            connections.clone(),
            protocol,
            service,
            stopping,
        ));
        Self {
            address,
            connections,
            _stop: stop,
        }
    }

    /// Connects and sends these bytes.
    async fn connect(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    }
}

/// Returns an acceptor with a certificate of its own.
fn acceptor() -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap().der().clone();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert], key);
    Arc::new(config.unwrap()).into()
}

/// Reads until the port closes the connection. Returns what it sent.
async fn read_to_end(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset ends the connection, too.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_whole_request_ends_after_ten_seconds() {
    // Nothing, half a request, and half the preface of HTTP/2.
    for begin in [
        &b""[..],
        b"GET / HTTP/1.1\r\nHost: a\r\n",
        b"PRI * HTTP/2.0\r\n",
    ] {
        ends_in_time(&TestPort::new(), begin).await;
    }
}

/// Handshakes count, too.
#[tokio::test(start_paused = true)]
async fn a_connection_without_a_whole_handshake_ends_after_ten_seconds() {
    // Nothing, the first byte, and the beginning of a record of 512 bytes with a `ClientHello`.
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    for begin in [&b""[..], &hello[..1], hello] {
        ends_in_time(&TestPort::with(Some(acceptor())), begin).await;
    }
}

/// Asserts that a connection which sends no more than this is ended for that, without an answer.
async fn ends_in_time(bed: &TestPort, begin: &[u8]) {
    let begun = Instant::now();
    let stream = bed.connect(begin).await;
    let begin = begin.escape_ascii();
    let answer = tokio::time::timeout(Duration::from_secs(3_600), read_to_end(stream)).await;
    assert_eq!(answer.as_deref(), Ok(""), "{begin}");
    let took = begun.elapsed();
    let second = Duration::from_secs(1);
    assert!(
        took >= FIRST_REQUEST && took < FIRST_REQUEST + second,
        "{begin}: {took:?}"
    );
    assert_eq!(bed.connections.refused(Cause::NoRequest), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_when_it_was_idle_and_not_before() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let bed = TestPort::new();
    let mut stream = bed.connect(REQUEST).await;
    // A request within each interval keeps it open.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_secs(140)).await;
        stream.write_all(REQUEST).await.unwrap();
    }
    let last = Instant::now();
    let answers = read_to_end(stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 5, "{answers}");
    let idle = last.elapsed().as_secs();
    assert!((150..=300).contains(&idle), "closed after {idle} s");
    // That is no fault of the caller.
    assert_eq!(bed.connections.refused(Cause::NoRequest), 0);
}
