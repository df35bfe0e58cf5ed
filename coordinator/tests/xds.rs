//! The rate limit service with rules from a management server, as Envoy Gateway runs it.
//!
//! The server is a real one in this process: it speaks gRPC over sockets, and says what the test tells it to.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]

use aliquot_client::Client;
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_coordinator::serve;
use aliquot_core::budget::BudgetDraft;
use aliquot_faces::rls::load::Budgets;
use aliquot_faces::rls::settings::Compat;
use aliquot_faces::rls::xds::pb::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use aliquot_faces::rls::xds::pb::{
    Any, DiscoveryRequest, DiscoveryResponse, RateLimitConfig, RateLimitDescriptor, RateLimitPolicy,
};
use futures_util::future::LocalBoxFuture;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::future::pending;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const SOON: Duration = Duration::from_secs(20);
const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Waits for what must come.
async fn soon<T>(subject: &str, it: impl Future<Output = T>) -> T {
    let Ok(it) = timeout(SOON, it).await else {
        panic!("{subject} did not come within {SOON:?}");
    };
    it
}

/// The end of a stream that the test holds.
struct Stream {
    headers: MetadataMap,
    requests: Streaming<DiscoveryRequest>,
    responses: mpsc::Sender<Result<DiscoveryResponse, Status>>,
}

impl Stream {
    async fn request(&mut self) -> DiscoveryRequest {
        let request = soon("a request", self.requests.message()).await;
        request.unwrap().unwrap()
    }

    /// Sends all rules in a version, whose nonce is named after it.
    async fn send(&self, version: &str, configs: &[RateLimitConfig]) {
        let resource = |config: &RateLimitConfig| Any {
            type_url: TYPE_URL.into(),
            value: config.encode_to_vec().into(),
        };
        let response = DiscoveryResponse {
            version_info: version.into(),
            resources: configs.iter().map(resource).collect(),
            type_url: TYPE_URL.into(),
            nonce: format!("nonce of {version}"),
        };
        self.responses.send(Ok(response)).await.unwrap();
    }

    /// Waits for the answer to a response: the version that is in force, and the reason of a refusal.
    async fn answer(&mut self, version: &str) -> (String, Option<String>) {
        let request = self.request().await;
        assert_eq!(request.response_nonce, format!("nonce of {version}"));
        assert_eq!(request.type_url, TYPE_URL);
        assert_eq!(request.node.unwrap().id, "envoy-ratelimit");
        let refused = request.error_detail.map(|error| error.message);
        (request.version_info, refused)
    }

    async fn acknowledged(&mut self, version: &str) {
        assert_eq!(self.answer(version).await, (version.to_owned(), None));
    }
}

/// Hands each stream to the test.
struct Streams(mpsc::Sender<Stream>);

#[tonic::async_trait]
impl AggregatedDiscoveryService for Streams {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let (responses, receiver) = mpsc::channel(4);
        let headers = request.metadata().clone();
        let stream = Stream {
            headers,
            requests: request.into_inner(),
            responses,
        };
        let _ = self.0.send(stream).await;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// A management server.
struct Management {
    streams: mpsc::Receiver<Stream>,
    serving: JoinHandle<()>,
}

impl Management {
    async fn start(address: SocketAddr, tls: Option<ServerTlsConfig>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let (sender, streams) = mpsc::channel(4);
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let service = AggregatedDiscoveryServiceServer::new(Streams(sender));
        let serving = server.add_service(service);
        let serving = serving.serve_with_incoming(TcpIncoming::from(listener));
        let serving = tokio::spawn(async move { serving.await.unwrap() });
        Self { streams, serving }
    }

    /// Waits for a subscription.
    async fn stream(&mut self) -> (Stream, DiscoveryRequest) {
        let mut stream = soon("a stream", self.streams.recv()).await.unwrap();
        let first = stream.request().await;
        (stream, first)
    }

    async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

/// A cluster that remembers what was applied, or fails.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<(bool, Vec<String>)>>);

impl Cluster {
    fn set_down(&self, down: bool) {
        self.0.lock().unwrap().0 = down;
    }

    /// Returns the keys of each change, one text for each.
    fn applied(&self) -> Vec<String> {
        self.0.lock().unwrap().1.clone()
    }
}

impl Budgets for Cluster {
    fn apply(&self, drafts: Vec<BudgetDraft>) -> LocalBoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Err("no node".into());
            }
            let keys: Vec<String> = drafts.into_iter().map(|draft| draft.key).collect();
            state.1.push(keys.join(" "));
            Ok(())
        })
    }
}

/// The addresses of a service, and of the management server that it is to find.
struct Ports(Vec<ReservedPort>);

impl Ports {
    fn reserve() -> Self {
        Self((0..6).map(|_| ReservedPort::reserve().unwrap()).collect())
    }

    fn grpc(&self) -> SocketAddr {
        self.0[0].address()
    }

    fn http(&self) -> SocketAddr {
        self.0[1].address()
    }

    fn debug(&self) -> SocketAddr {
        self.0[2].address()
    }

    fn management(&self) -> SocketAddr {
        self.0[4].address()
    }

    /// Returns the address of a node, which runs only if the test starts it.
    fn node(&self) -> SocketAddr {
        self.0[5].address()
    }

    /// Runs a service for as long as the test runs.
    async fn serve(
        &self,
        more: &[(&str, &str)],
        cluster: &Cluster,
        test: impl Future<Output = ()>,
    ) {
        let port = |index: usize| self.0[index].address().port().to_string();
        let mut variables = vec![
            ("CONFIG_TYPE", "GRPC_XDS_SOTW".to_owned()),
            (
                "CONFIG_GRPC_XDS_SERVER_URL",
                format!("localhost:{}", port(4)),
            ),
            ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit".to_owned()),
            ("GRPC_HOST", "127.0.0.1".to_owned()),
            ("GRPC_PORT", port(0)),
            ("HOST", "127.0.0.1".to_owned()),
            ("PORT", port(1)),
            ("DEBUG_HOST", "127.0.0.1".to_owned()),
            ("DEBUG_PORT", port(2)),
            ("PROMETHEUS_ADDR", format!("127.0.0.1:{}", port(3))),
        ];
        variables.extend(
            more.iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        let variables: Vec<(String, String)> = variables
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let compat = Compat::read(&variables).unwrap();
        let client = Client::builder().addresses([self.node().to_string()]);
        tokio::select! {
            ended = serve::rls(compat, client, cluster.clone(), pending()) => panic!("{ended:?}"),
            () = test => {}
        }
    }

    /// Returns the rules in force.
    async fn rules(&self) -> String {
        let (status, body) = ask(self.debug(), "GET", "/rlconfig", "").await;
        assert_eq!(status, 200);
        body
    }
}

/// Connects to a port, which the service may not have bound yet.
async fn connect(address: SocketAddr) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(address).await {
            return stream;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends a request over HTTP, and returns the status and the body.
async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = soon("a connection", connect(address)).await;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    let status = answer[9..12].parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

fn config(domain: &str, key: &str, requests_per_unit: u32) -> RateLimitConfig {
    RateLimitConfig {
        name: domain.into(),
        domain: domain.into(),
        descriptors: vec![RateLimitDescriptor {
            key: key.into(),
            rate_limit: Some(RateLimitPolicy {
                unit: 2,
                requests_per_unit,
                ..RateLimitPolicy::default()
            }),
            ..RateLimitDescriptor::default()
        }],
    }
}

/// Returns a line of the rules in force.
fn line(domain: &str, key: &str, requests_per_unit: u32) -> String {
    format!(
        "{domain}.{key}: unit=MINUTE requests_per_unit={requests_per_unit}, shadow_mode: false, \
         quota_mode: false (resource {domain:?})\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_come_change_go_and_stay_if_the_new_ones_are_wrong() {
    let (ports, cluster) = (Ports::reserve(), Cluster::default());
    let mut server = Management::start(ports.management(), None).await;
    let test = async {
        let (mut stream, _) = server.stream().await;
        // The service is not ready before it has rules. Wrong ones are none.
        let mut health = Box::pin(ask(ports.http(), "GET", "/healthcheck", ""));
        stream.send("0", &[config("shop", "", 5)]).await;
        let problem =
            "resource \"shop\", descriptor \"shop.\": key = \"\": must be a text that is not empty";
        let refused = (String::new(), Some(problem.to_owned()));
        assert_eq!(stream.answer("0").await, refused);
        let early = timeout(Duration::from_millis(50), &mut health).await;
        assert!(early.is_err(), "{early:?}");
        stream
            .send("1", &[config("shop", "user", 5), config("api", "path", 7)])
            .await;
        stream.acknowledged("1").await;
        // The port is open now. It is not healthy, since these nodes give no lease.
        assert_eq!(health.await.0, 503);
        let both = line("api", "path", 7) + &line("shop", "user", 5);
        assert_eq!(ports.rules().await, both);

        // A wrong change changes nothing, and the version in force is told.
        stream
            .send("2", &[config("shop", "user", 6), config("shop", "user", 8)])
            .await;
        let (version, refused) = stream.answer("2").await;
        let refused = refused.unwrap();
        assert_eq!(version, "1");
        assert!(
            refused.contains("domain = \"shop\": must be written once"),
            "{refused}"
        );
        assert_eq!(ports.rules().await, both);

        // What is gone is removed, and what was changed is changed.
        stream.send("3", &[config("shop", "user", 6)]).await;
        stream.acknowledged("3").await;
        assert_eq!(ports.rules().await, line("shop", "user", 6));
        stream.send("4", &[]).await;
        stream.acknowledged("4").await;
        assert_eq!(ports.rules().await, "");
        let keys = ["rls/api/path/* rls/shop/user/*", "rls/shop/user/*", ""];
        assert_eq!(cluster.applied(), keys);
    };
    ports.serve(&[], &cluster, test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_names_its_node_and_has_the_headers() {
    let (ports, cluster) = (Ports::reserve(), Cluster::default());
    let mut server = Management::start(ports.management(), None).await;
    let more = [
        ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "x-tenant:a"),
        ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=b"),
    ];
    let test = async {
        let (stream, first) = server.stream().await;
        assert_eq!(first.type_url, TYPE_URL);
        assert_eq!(
            (first.version_info, first.response_nonce),
            Default::default()
        );
        assert_eq!(stream.headers.get("x-tenant").unwrap(), "a");
        let node = first.node.unwrap();
        assert_eq!(node.id, "envoy-ratelimit");
        // A struct with one field, which is a text.
        assert_eq!(&node.metadata[..], b"\x0a\x0b\x0a\x04zone\x12\x03\x1a\x01b");
    };
    ports.serve(&more, &cluster, test).await;
}

/// A server in Go sends refused rules again as soon as it reads the refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_that_are_refused_again_wait_and_are_not_read_again() {
    let (ports, cluster) = (Ports::reserve(), Cluster::default());
    let mut server = Management::start(ports.management(), None).await;
    let forced = [("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")];
    let wrong = [(); 200].map(|()| config("shop", "", 5));
    let test = async {
        let (mut stream, _) = server.stream().await;
        stream.send("1", &wrong).await;
        let (_, refused) = stream.answer("1").await;
        // The reason is cut to what any server takes.
        assert_eq!(refused.as_ref().map(String::len), Some(4_096));
        stream.send("2", &wrong).await;
        let early = timeout(Duration::from_millis(200), stream.requests.message()).await;
        assert!(early.is_err(), "{early:?}");
        assert_eq!(stream.answer("2").await, (String::new(), refused));
        let (_, stats) = ask(ports.debug(), "GET", "/stats", "").await;
        assert!(stats.contains("config_load_error: 1\n"), "{stats}");
        // Other wrong rules are no reason to hurry.
        stream.send("3", &[config("api", "", 5)]).await;
        let early = timeout(Duration::from_millis(200), stream.requests.message()).await;
        assert!(early.is_err(), "{early:?}");
        assert!(stream.answer("3").await.1.is_some());
    };
    ports.serve(&forced, &cluster, test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_outlive_the_server_and_are_compared_when_it_returns() {
    let (ports, cluster) = (Ports::reserve(), Cluster::default());
    let mut server = Management::start(ports.management(), None).await;
    let test = async {
        let (mut stream, _) = server.stream().await;
        stream.send("1", &[config("shop", "user", 5)]).await;
        stream.acknowledged("1").await;
        drop(stream);
        server.stop().await;
        assert_eq!(ports.rules().await, line("shop", "user", 5));

        // It counts its versions from 1 again. So none is named, and all rules come again.
        let mut server = Management::start(ports.management(), None).await;
        let (mut stream, first) = server.stream().await;
        assert_eq!(
            (first.version_info, first.response_nonce),
            Default::default()
        );
        stream.send("1", &[config("shop", "user", 6)]).await;
        stream.acknowledged("1").await;
        assert_eq!(ports.rules().await, line("shop", "user", 6));
        assert_eq!(cluster.applied().len(), 2);
        // A stream that ends with an error is opened again.
        let refused = Status::resource_exhausted("too many streams");
        stream.responses.send(Err(refused)).await.unwrap();
        let (mut stream, first) = server.stream().await;
        assert_eq!(
            (first.version_info, first.response_nonce),
            Default::default()
        );
        // Rules that are in force already are acknowledged, and not written again.
        stream.send("2", &[config("shop", "user", 6)]).await;
        stream.acknowledged("2").await;
        assert_eq!(cluster.applied().len(), 2);
    };
    ports.serve(&[], &cluster, test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_wait_for_the_cluster_and_newer_ones_go_first() {
    let (ports, cluster) = (Ports::reserve(), Cluster::default());
    let mut server = Management::start(ports.management(), None).await;
    cluster.set_down(true);
    let test = async {
        let (mut stream, _) = server.stream().await;
        stream.send("1", &[config("shop", "user", 5)]).await;
        stream.send("2", &[config("shop", "user", 6)]).await;
        // The second one takes the first one's place, and keeps it when a wrong one comes.
        let wrong = config("shop", "", 6);
        stream.send("3", std::slice::from_ref(&wrong)).await;
        let (version, refused) = stream.answer("3").await;
        assert_eq!(version, "");
        assert!(refused.is_some());
        cluster.set_down(false);
        let applied = async {
            while cluster.applied().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        soon("a change of the cluster", applied).await;
        stream.send("4", &[wrong]).await;
        assert_eq!(stream.answer("4").await, ("2".to_owned(), refused));
        assert_eq!(ports.rules().await, line("shop", "user", 6));
        assert_eq!(cluster.applied(), ["rls/shop/user/*"]);
    };
    ports.serve(&[], &cluster, test).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_start_serves_without_rules_and_decides_nothing() {
    let (ports, cluster) = (Ports::reserve(), Cluster::default());
    let forced = [("FORCE_START_WITHOUT_INITIAL_CONFIG", "true")];
    let question =
        r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "free", "value": "1"}]}]}"#;
    let test = async {
        // These nodes give no lease.
        assert_eq!(ask(ports.http(), "GET", "/healthcheck", "").await.0, 503);
        let undecided = "no rules are loaded yet\n";
        let answer = ask(ports.http(), "POST", "/json", question).await;
        assert_eq!(answer, (503, undecided.to_owned()));

        let mut server = Management::start(ports.management(), None).await;
        let (mut stream, _) = server.stream().await;
        stream.send("1", &[config("shop", "user", 5)]).await;
        stream.acknowledged("1").await;
        assert_eq!(ports.rules().await, line("shop", "user", 5));
        let (status, body) = ask(ports.http(), "POST", "/json", question).await;
        assert_eq!(status, 200, "{body}");
    };
    ports.serve(&forced, &cluster, test).await;
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap()
}

/// Asks a gRPC port for the health of a service.
async fn health(
    address: SocketAddr,
    tls: Option<ClientTlsConfig>,
    service: &str,
) -> Result<ServingStatus, Status> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).unwrap();
    let endpoint = match tls {
        Some(tls) => endpoint.tls_config(tls).unwrap(),
        None => endpoint,
    };
    let service = service.to_owned();
    let mut client = HealthClient::new(endpoint.connect_lazy());
    let answer = client.check(HealthCheckRequest { service }).await?;
    Ok(answer.into_inner().status())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_tells_its_health_to_callers_with_a_certificate() {
    let (ports, cluster, authority) = (Ports::reserve(), Cluster::default(), authority());
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let cert = CertificateParams::new(names).unwrap();
    let cert = cert.signed_by(&key, &authority).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = |file: &str| dir.path().join(file).display().to_string();
    let (ca, crt, secret) = (path("ca.crt"), path("tls.crt"), path("tls.key"));
    for (path, text) in [
        (&ca, authority.pem()),
        (&crt, cert.pem()),
        (&secret, key.serialize_pem()),
    ] {
        std::fs::write(path, text).unwrap();
    }
    let more = [
        ("GRPC_SERVER_USE_TLS", "true"),
        ("GRPC_SERVER_TLS_CERT", &crt),
        ("GRPC_SERVER_TLS_KEY", &secret),
        ("GRPC_CLIENT_TLS_CACERT", &ca),
        ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
    ];
    let anyone = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.pem()))
        .domain_name("localhost");
    let identity = Identity::from_pem(cert.pem(), key.serialize_pem());
    let known = anyone.clone().identity(identity);
    let test = async {
        drop(soon("the port", connect(ports.grpc())).await);
        for (caller, tls) in [("plaintext", None), ("no certificate", Some(anyone))] {
            let refused = soon(caller, health(ports.grpc(), tls, "")).await;
            assert!(refused.is_err(), "{caller}: {refused:?}");
        }
        // No node runs yet.
        for service in ["", "ratelimit"] {
            let health_found =
                soon("health", health(ports.grpc(), Some(known.clone()), service)).await;
            assert_eq!(
                health_found.unwrap(),
                ServingStatus::NotServing,
                "{service:?}"
            );
        }
        let _node = node(ports.node(), dir.path());
        for service in ["", "ratelimit"] {
            let serves = async {
                let ask = || health(ports.grpc(), Some(known.clone()), service);
                while ask().await.unwrap() != ServingStatus::Serving {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            soon("a service that serves", serves).await;
        }
    };
    ports.serve(&more, &cluster, test).await;
}

/// Starts a node, which ends with the test.
fn node(listen: SocketAddr, dir: &Path) -> tokio::process::Child {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_aliquot"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ALIQUOT_")) {
        command.env_remove(name);
    }
    let peer = ReservedPort::reserve().unwrap().address().to_string();
    command
        .args(["serve", "--metrics-listen", "off"])
        .args(["--listen", &listen.to_string(), "--peer-listen", &peer])
        .arg("--data-dir")
        .arg(dir.join("data"))
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command.spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_of_the_stream_show_their_certificates() {
    let (ports, cluster, authority) = (Ports::reserve(), Cluster::default(), authority());
    let key = KeyPair::generate().unwrap();
    let names = vec!["envoy-gateway".to_owned()];
    let cert = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = |file: &str| dir.path().join(file).display().to_string();
    let (ca, crt, secret) = (path("ca.crt"), path("tls.crt"), path("tls.key"));
    std::fs::write(&crt, cert.pem()).unwrap();
    std::fs::write(&secret, key.serialize_pem()).unwrap();
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(cert.pem(), key.serialize_pem()))
        .client_ca_root(Certificate::from_pem(authority.pem()));
    let mut server = Management::start(ports.management(), Some(tls)).await;
    let more = [
        ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
        ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", &ca),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", &crt),
        ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", &secret),
        ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "envoy-gateway"),
    ];
    let test = async {
        // A file that comes late is read then.
        std::fs::write(&ca, authority.pem()).unwrap();
        let (mut stream, _) = server.stream().await;
        stream.send("1", &[config("shop", "user", 5)]).await;
        stream.acknowledged("1").await;
        assert_eq!(ports.rules().await, line("shop", "user", 5));
    };
    ports.serve(&more, &cluster, test).await;
}
