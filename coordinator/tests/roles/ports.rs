//! Every call of every service, on each gRPC port of a real node, by every kind of caller.

#[path = "tls.rs"]
mod tls;

use super::{Auth, Authority, early, expired, for_servers};
use aliquot_client::Clock;
use aliquot_client::clock::HostClock;
use aliquot_coordinator::api::auth::Role;
use aliquot_coordinator::api::tls::TlsFiles;
use aliquot_coordinator::config::{Config, Sources};
use aliquot_coordinator::demo::supervisor::ReservedPort;
use aliquot_coordinator::serve::{self, Runtimes};
use aliquot_core::unit::Tick;
use aliquot_wire::pb;
use aliquot_wire::pb::limits_client::LimitsClient;
use http::uri::PathAndQuery;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

const ADMIN_TOKEN: &str = "abcdef0123456789abcdef0123456789ab";
const CLIENT_TOKEN: &str = "c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0";
const JOBS_TOKEN: &str = "d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0";

/// The services of the protocol, and all of their calls.
fn calls() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/wire/proto/aliquot/v1");
    let mut calls = Vec::new();
    for file in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let mut service = "";
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("service ") {
                service = rest.trim_end_matches('{').trim();
            } else if let Some(rest) = line.strip_prefix("rpc ") {
                let method = rest.split('(').next().unwrap();
                calls.push((format!("aliquot.v1.{service}"), method.to_owned()));
            }
        }
    }
    assert!(calls.len() > 20, "{calls:?}");
    calls
}

/// The outcome of a call for its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// The caller must show another identity.
    Denied,
    /// The port does not have the service.
    Missing,
    /// The service answered, whatever it said to an empty request.
    Served,
    /// There is no connection.
    Cut,
}

/// A caller: its certificate, its token, and its roles.
struct Caller {
    name: &'static str,
    certificate: Option<(PathBuf, PathBuf)>,
    token: Option<String>,
    roles: &'static [&'static str],
}

/// Counts of refusals by port and cause.
type Refusals = BTreeMap<(String, String), u64>;

/// A real node in this process, with TLS and tokens.
struct Node {
    authority: Authority,
    clients: ReservedPort,
    peers: ReservedPort,
    face: ReservedPort,
    http: ReservedPort,
    redis: ReservedPort,
    metrics: ReservedPort,
}

impl Node {
    async fn start() -> Self {
        Self::start_with("tls.require_client_cert = false\n").await
    }

    /// Starts a node with TLS, tokens and additional settings.
    async fn start_with(more: &str) -> Self {
        let authority = Authority::new();
        let tokens = authority.path("tokens");
        let text =
            format!("admin {ADMIN_TOKEN}\nclient {CLIENT_TOKEN}\nclient {JOBS_TOKEN} jobs\n");
        std::fs::write(&tokens, text).unwrap();
        let settings = format!(
            "tls.clients = [\"checkout.example\", \"billing.example tenant/42\", \"mail.example mail\"]\ntls.peers = [\"127.0.0.1\"]\n{more}\
             tokens = {tokens:?}\n"
        );
        let config = |authority: &Authority, ports: &str| authority.config(&(settings + ports));
        let node = Self::run(authority, config);
        let operator = node.authority.sign(&["ops.example"]);
        let ready = async {
            while node.connect(&node.clients, Some(&operator)).await.is_none() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ready = tokio::time::timeout(Duration::from_secs(60), ready).await;
        ready.expect("a node that listens");
        node
    }

    /// Starts a node without TLS.
    async fn start_plain() -> Self {
        let node = Self::run(Authority::new(), |_, ports| plain_config(ports));
        let ready = async {
            for port in [
                &node.clients,
                &node.peers,
                &node.face,
                &node.http,
                &node.redis,
                &node.metrics,
            ] {
                while TcpStream::connect(port.address()).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        let ready = tokio::time::timeout(Duration::from_secs(60), ready).await;
        ready.expect("a node that listens");
        node
    }

    /// Runs a node that asks another one to form a cluster with it, by a certificate if it speaks TLS, which accepts this
    /// authority. What it logs about that is all that it is for.
    fn run_beside(other: &Self, tls: Option<(&Authority, (PathBuf, PathBuf))>) -> Self {
        let other = other.peers.address();
        Self::run(Authority::new(), |_, ports| {
            let own = ports.split("peer_listen = ").nth(1).unwrap();
            let own = own.lines().next().unwrap();
            let settings = format!("{ports}cluster.peers = [{own}, \"{other}\"]\n");
            match tls {
                Some((authority, certificate)) => authority.config_with(certificate, &settings),
                None => plain_config(&settings),
            }
        })
    }

    /// Runs a node in this process. `config` adds what it needs to the settings of the ports.
    fn run(authority: Authority, config: impl FnOnce(&Authority, &str) -> Config) -> Self {
        let [clients, peers, face, http, redis, metrics] =
            [(); 6].map(|()| ReservedPort::reserve().unwrap());
        let settings = format!(
            "listen = \"{}\"\npeer_listen = \"{}\"\nmetrics_listen = \"{}\"\n\
             faces.grpc_listen = \"{}\"\nfaces.http_listen = \"{}\"\nfaces.redis_listen = \"{}\"\ndata_dir = {:?}\n",
            clients.address(),
            peers.address(),
            metrics.address(),
            face.address(),
            http.address(),
            redis.address(),
            authority.path("data"),
        );
        let config = config(&authority, &settings);
        tokio::spawn(async move {
            let runtimes = Runtimes {
                peers: Handle::current(),
                actor: Handle::current(),
            };
            let ended = serve::run(config, Vec::new(), &runtimes, std::future::pending()).await;
            panic!("the node has ended: {ended:?}");
        });
        Self {
            authority,
            clients,
            peers,
            face,
            http,
            redis,
            metrics,
        }
    }

    /// Connects to a port. Returns nothing if there is no connection.
    async fn connect(
        &self,
        port: &ReservedPort,
        certificate: Option<&(PathBuf, PathBuf)>,
    ) -> Option<Channel> {
        let identity = certificate.map(|(cert, key)| (cert.as_path(), key.as_path()));
        let files = TlsFiles::of_client(&self.authority.path("ca.pem"), identity).unwrap();
        let url = format!("https://localhost:{}", port.address().port());
        let endpoint = Endpoint::from_shared(url).unwrap();
        let endpoint = endpoint.tls_config(files.client()).unwrap();
        endpoint.connect().await.ok()
    }

    /// Sends bytes to a port, and returns all that comes back until the node closes the connection.
    async fn exchange(&self, port: &ReservedPort, caller: &Caller, bytes: &str) -> String {
        let ca = self.authority.path("ca.pem");
        let answer = tls_exchange(port, &ca, caller.certificate.as_ref(), bytes).await;
        String::from_utf8(answer.unwrap()).unwrap()
    }

    /// Returns the counts of a metric by port and cause, without zeros.
    async fn refusals(&self, metric: &str) -> Refusals {
        let mut stream = TcpStream::connect(self.metrics.address()).await.unwrap();
        let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let counts = text.lines().filter_map(|line| {
            let line = line.strip_prefix(metric)?.strip_prefix("{port=\"")?;
            let (port, line) = line.split_once("\",cause=\"")?;
            let (cause, count) = line.split_once("\"} ")?;
            Some(((port.to_owned(), cause.to_owned()), count.parse().unwrap()))
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Asks for the keys of confined callers over HTTP.
    async fn by_http(&self, caller: &Caller) -> Access {
        let token = caller.token.as_deref();
        let token = token.map_or_else(String::new, |token| {
            format!("Authorization: Bearer {token}\r\n")
        });
        let mut access = Access::Denied;
        for key in ["jobs", "tenant%2F42"] {
            let request = format!(
                "GET /v1/budgets/{key} HTTP/1.1\r\nHost: localhost\r\n{token}Connection: close\r\n\r\n"
            );
            let answer = self.exchange(&self.http, caller, &request).await;
            let status = answer.split(' ').nth(1).unwrap_or_default();
            if !matches!(status, "401" | "403") {
                assert_eq!(status.len(), 3, "{}: {answer:?}", caller.name);
                access = Access::Served;
            }
        }
        access
    }

    /// Asks for the keys of confined callers as a client of Redis.
    async fn by_redis(&self, caller: &Caller) -> Access {
        let auth = caller.token.as_deref();
        let auth = auth.map_or_else(String::new, |token| format!("AUTH {token}\r\n"));
        let commands = format!("{auth}TTL jobs\r\nTTL tenant/42\r\nQUIT\r\n");
        let answer = self.exchange(&self.redis, caller, &commands).await;
        let replies: Vec<&str> = answer.lines().collect();
        let skipped = usize::from(caller.token.is_some());
        assert_eq!(replies.len(), skipped + 3, "{}: {answer}", caller.name);
        let is_denied = |reply: &&str| reply.starts_with("-NOAUTH") || reply.starts_with("-NOPERM");
        match replies[skipped..skipped + 2].iter().all(is_denied) {
            true => Access::Denied,
            false => Access::Served,
        }
    }

    fn callers(&self) -> Vec<Caller> {
        let caller = |name, certificate: Option<&[&str]>, token: Option<&str>, roles| Caller {
            name,
            certificate: certificate.map(|names| self.authority.sign(names)),
            token: token.map(str::to_owned),
            roles,
        };
        let (prefix, longer) = (&ADMIN_TOKEN[..33], format!("{ADMIN_TOKEN}="));
        let unknown = "f".repeat(34);
        let billing = Some(&["billing.example"][..]);
        let (service, ops) = (Some(&["checkout.example"][..]), Some(&["ops.example"][..]));
        vec![
            caller("no one", None, None, &[]),
            caller("an unknown token", None, Some(&unknown), &[]),
            caller("a prefix of a token", None, Some(prefix), &[]),
            caller("a token with padding", None, Some(&longer), &[]),
            caller("no token", None, Some(""), &[]),
            caller("a client by token", None, Some(CLIENT_TOKEN), &["client"]),
            caller("an admin by token", None, Some(ADMIN_TOKEN), &["admin"]),
            caller("a client by name", service, None, &["client"]),
            caller("an admin by name", ops, None, &["admin"]),
            caller("both", service, Some(ADMIN_TOKEN), &["client", "admin"]),
            caller("a token for some keys", None, Some(JOBS_TOKEN), &["face"]),
            caller("a name for some keys", billing, None, &["face"]),
            caller(
                "a name for some keys, and a token for all",
                billing,
                Some(CLIENT_TOKEN),
                &["client"],
            ),
            caller("a name without a role", Some(&["other.example"]), None, &[]),
            // Signed last: the files of the node itself have this name.
            caller("a node", Some(&["127.0.0.1"]), None, &["peer"]),
            caller(
                "a node's token",
                Some(&["127.0.0.1"]),
                Some(ADMIN_TOKEN),
                &["peer", "admin"],
            ),
        ]
    }
}

/// Returns a configuration without TLS.
fn plain_config(settings: &str) -> Config {
    let mut sources = Sources::default();
    sources.file("node.toml", settings.to_owned());
    Config::load(&sources).unwrap().config
}

/// Sends bytes to a port over TLS, and returns all that comes back until the node closes the connection. Fails if the
/// client ends the handshake.
async fn tls_exchange(
    port: &ReservedPort,
    ca: &Path,
    identity: Option<&(PathBuf, PathBuf)>,
    bytes: &str,
) -> std::io::Result<Vec<u8>> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(ca).unwrap())
        .unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let chain = CertificateDer::pem_file_iter(cert).unwrap();
            let chain = chain.map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_file(key).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let socket = TcpStream::connect(port.address()).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, socket).await?;
    // The node may have closed the connection already.
    let _ = stream.write_all(bytes.as_bytes()).await;
    let mut answer = Vec::new();
    // A close without the end of TLS is an error after all bytes.
    let _ = stream.read_to_end(&mut answer).await;
    Ok(answer)
}

/// Makes a call with an empty message.
async fn call(channel: &Channel, service: &str, method: &str, token: Option<&str>) -> Access {
    let mut request = Request::new(tokio_stream::once(()));
    if let Some(token) = token {
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    let path = PathAndQuery::try_from(format!("/{service}/{method}")).unwrap();
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    if grpc.ready().await.is_err() {
        return Access::Cut;
    }
    let codec = ProstCodec::<(), ()>::default();
    match grpc.streaming(request, path, codec).await {
        Ok(_) => Access::Served,
        // A status with a source was not sent by the node.
        Err(status) if std::error::Error::source(&status).is_some() => Access::Cut,
        Err(status) => match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => Access::Denied,
            Code::Unimplemented => Access::Missing,
            _ => Access::Served,
        },
    }
}

fn expected_of_clients(service: &str, roles: &[&str]) -> Access {
    let needed: &[&str] = match service {
        "aliquot.v1.Session" => &["client", "admin"],
        "aliquot.v1.Admin" => &["admin"],
        _ => return Access::Missing,
    };
    match roles.iter().any(|role| needed.contains(role)) {
        true => Access::Served,
        false => Access::Denied,
    }
}

/// Decisions of a face need what a session needs, or leave to ask for some keys. Other callers are not told which calls
/// there are.
fn expected_of_face(service: &str, roles: &[&str]) -> Access {
    match service {
        "aliquot.v1.Limits" if roles.contains(&"face") => Access::Served,
        _ if roles.contains(&"face") => Access::Missing,
        _ => match expected_of_clients("aliquot.v1.Session", roles) {
            Access::Served if service != "aliquot.v1.Limits" => Access::Missing,
            access => access,
        },
    }
}

fn expected_of_peers(caller: &Caller, service: &str) -> Access {
    match (&caller.certificate, service) {
        (None, _) => Access::Cut,
        _ if !caller.roles.contains(&"peer") => Access::Denied,
        (_, "aliquot.v1.Session" | "aliquot.v1.Limits") => Access::Missing,
        _ => Access::Served,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_is_open_to_its_roles_and_to_no_other() {
    let node = Node::start().await;
    let calls = calls();
    for caller in node.callers() {
        let (certificate, token) = (caller.certificate.as_ref(), caller.token.as_deref());
        let clients = node.connect(&node.clients, certificate).await.unwrap();
        let peers = node.connect(&node.peers, certificate).await;
        let face = node.connect(&node.face, certificate).await.unwrap();
        for (service, method) in &calls {
            let what = format!("{}: {service}/{method}", caller.name);
            let access = call(&clients, service, method, token).await;
            let expect = expected_of_clients(service, caller.roles);
            assert_eq!(access, expect, "{what} on the clients' port");
            let access = match &peers {
                Some(peers) => call(peers, service, method, token).await,
                None => Access::Cut,
            };
            let expect = expected_of_peers(&caller, service);
            assert_eq!(access, expect, "{what} on the peers' port");
            let access = call(&face, service, method, token).await;
            let expect = expected_of_face(service, caller.roles);
            assert_eq!(access, expect, "{what} on the port of a face");
        }
        let expect = expected_of_face("aliquot.v1.Limits", caller.roles);
        assert_eq!(node.by_http(&caller).await, expect, "{}: HTTP", caller.name);
        assert_eq!(
            node.by_redis(&caller).await,
            expect,
            "{}: Redis",
            caller.name
        );
        // A probe needs no identity. A stream, which holds a connection, needs one.
        let probe = call(&clients, "grpc.health.v1.Health", "Check", token).await;
        assert_eq!(probe, Access::Served, "{}: a probe", caller.name);
        let expect = expected_of_clients("aliquot.v1.Session", caller.roles);
        let watch = call(&clients, "grpc.health.v1.Health", "Watch", token).await;
        assert_eq!(watch, expect, "{}: a watch", caller.name);
        for version in ["v1", "v1alpha"] {
            let service = format!("grpc.reflection.{version}.ServerReflection");
            let reflection = call(&clients, &service, "ServerReflectionInfo", token).await;
            assert_eq!(reflection, expect, "{}: {service}", caller.name);
        }
    }
}

/// A caller may ask for the keys of all its names and of its token, and for no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_or_a_token_asks_for_the_keys_behind_it() {
    let node = Node::start().await;
    let keys = [
        "tenant/42",
        "tenant/42/reads",
        "mail",
        "jobs/1",
        "tenant/420",
        "other",
    ];
    let callers: [(&[&str], Option<&str>, &[&str]); 5] = [
        (&["billing.example"], None, &keys[..2]),
        (&["billing.example", "mail.example"], None, &keys[..3]),
        (
            &["billing.example", "mail.example"],
            Some(JOBS_TOKEN),
            &keys[..4],
        ),
        (&["billing.example", "checkout.example"], None, &keys),
        (&["billing.example", "ops.example"], None, &keys),
    ];
    for (names, token, expect) in callers {
        let certificate = node.authority.sign(names);
        let face = node.connect(&node.face, Some(&certificate)).await.unwrap();
        let mut limits = LimitsClient::new(face);
        let mut open = Vec::new();
        for key in keys {
            let mut request = Request::new(pb::CheckRequest {
                key: key.to_owned(),
                ..pb::CheckRequest::default()
            });
            if let Some(token) = token {
                let header = format!("Bearer {token}").parse().unwrap();
                request.metadata_mut().insert("authorization", header);
            }
            match limits.check(request).await {
                Err(status) if status.code() == Code::PermissionDenied => {}
                // There is no such budget, or no quorum yet.
                _ => open.push(key),
            }
        }
        assert_eq!(open, expect, "{names:?} {token:?}");
    }
}

/// Without TLS, a certificate proves nothing, and every caller of the peers' port is a node.
#[test]
fn without_tls_a_token_is_needed_for_the_clients_port_alone() {
    let mut sources = Sources::default();
    sources.file("node.toml", "tokens = \"/dev/null\"\n");
    let config = Config::load(&sources).unwrap().config;
    let (auth, _) = Auth::load(&config).unwrap();
    let auth = Arc::new(auth);
    let passes = |role| {
        let request = Request::new(());
        tonic::service::Interceptor::call(&mut auth.guard(role), request).is_ok()
    };
    let passed = [Role::Client, Role::Admin, Role::Peer].map(passes);
    assert_eq!(passed, [false, false, true]);
}

/// Behaviour of a caller that a port refuses.
enum Shown {
    /// These bytes, which are no handshake.
    Bytes(&'static str),
    /// This certificate, if any. The second is the authority that it accepts of the node.
    Certificate(Option<(PathBuf, PathBuf)>, PathBuf),
}
