//! Access to the service for operators: certificates, tokens, and their files.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may panic as the test may"
)]
#![expect(
    dead_code,
    reason = "the node of the tests has handles for other tests"
)]

#[path = "support/fake.rs"]
mod fake;
#[path = "roles/ports.rs"]
mod ports;
#[path = "support/program.rs"]
mod program;
#[path = "support/server.rs"]
mod server;

use aliquot_client::ConnectionError;
use aliquot_coordinator::api::auth::{Auth, Role, keep_reading};
use aliquot_coordinator::api::connections::{Cause, Connections};
use aliquot_coordinator::api::tls::TlsFiles;
use aliquot_coordinator::config::{Config, Sources};
use aliquot_faces::Scope;
use aliquot_wire::pb;
use aliquot_wire::pb::admin_client::AdminClient;
use fake::Fake;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

/// Names of a node in its certificate.
const NODE_NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// A certificate authority, and the files of the certificates that it signs.
struct Authority {
    dir: tempfile::TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        Self::named("Authority")
    }

    /// Makes an authority. A certificate of another one with the same name has a wrong signature, and one of an authority
    /// with another name an unknown issuer.
    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { dir, issuer }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Signs a certificate for these names. The files are named after the first.
    fn sign(&self, names: &[&str]) -> (PathBuf, PathBuf) {
        self.sign_as(names, |_| {})
    }

    /// Signs a certificate with other contents than usual.
    fn sign_as(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names.clone()).unwrap();
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let files = (
            self.path(&format!("{}.pem", names[0])),
            self.path(&format!("{}.key", names[0])),
        );
        std::fs::write(&files.0, cert.pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }

    /// Returns a node's configuration with TLS and additional settings.
    fn config(&self, more: &str) -> Config {
        self.config_with(self.sign(&NODE_NAMES), more)
    }

    /// Returns a node's configuration with this certificate and additional settings.
    fn config_with(&self, (cert, key): (PathBuf, PathBuf), more: &str) -> Config {
        let text = format!(
            "tls.cert = {cert:?}\ntls.key = {key:?}\ntls.ca = {:?}\ntls.admins = [\"ops.example\"]\n{more}",
            self.path("ca.pem")
        );
        let mut sources = Sources::default();
        sources.file("node.toml", text);
        Config::load(&sources).unwrap().config
    }
}

async fn serve_tls(config: &Config) -> String {
    let files = TlsFiles::of_node(config.tls.as_ref().unwrap()).unwrap();
    let (auth, _) = Auth::load(config).unwrap();
    let (address, _) = server::serve(&Fake::new(), auth, Some(files.server().unwrap())).await;
    format!("https://localhost:{}", address.port())
}

/// Queries the cluster with the identity of these files and a token.
async fn ask(
    url: &str,
    ca: &Path,
    identity: Option<&(PathBuf, PathBuf)>,
    token: Option<&str>,
) -> Result<(), Status> {
    let identity = identity.map(|(cert, key)| (cert.as_path(), key.as_path()));
    let files = TlsFiles::of_client(ca, identity).unwrap();
    let endpoint = Endpoint::from_shared(url.to_owned()).unwrap();
    let endpoint = endpoint.tls_config(files.client()).unwrap();
    let channel = endpoint.connect().await;
    let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(pb::GetClusterRequest::default());
    if let Some(token) = token {
        let header = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    AdminClient::new(channel)
        .get_cluster(request)
        .await
        .map(drop)
}

#[tokio::test]
async fn a_certificate_gives_the_role_of_its_name_and_no_other() {
    let authority = Authority::new();
    let ca = authority.path("ca.pem");
    let url = serve_tls(&authority.config("")).await;
    let ops = authority.sign(&["ops.example"]);
    ask(&url, &ca, Some(&ops), None).await.unwrap();
    let service = authority.sign(&["checkout.example"]);
    let refused = ask(&url, &ca, Some(&service), None).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(
        refused.message().contains("the caller has client"),
        "{refused}"
    );
    assert!(refused.message().contains("tls.admins"), "{refused}");
    // Without a certificate, with one of another authority, or without TLS, no caller gets access.
    let none = ask(&url, &ca, None, None).await.unwrap_err();
    assert_ne!(none.code(), Code::PermissionDenied, "{none}");
    let other = Authority::new();
    let stranger = other.sign(&["ops.example"]);
    ask(&url, &ca, Some(&stranger), None).await.unwrap_err();
    ask(&url, &other.path("ca.pem"), Some(&ops), None)
        .await
        .unwrap_err();
    let plain = url.replace("https", "http");
    if let Ok(mut client) = AdminClient::connect(plain).await {
        client
            .get_cluster(pb::GetClusterRequest::default())
            .await
            .unwrap_err();
    }
}

/// Runs `aliquot cluster status` and `aliquot check` at an address with these TLS flags. Both must say what is
/// wrong, and end with exit code 3.
async fn check_told(address: SocketAddr, flags: &[&Path], expect: &str) {
    let address = address.to_string();
    for command in [["cluster", "status"], ["check", "a"]] {
        let mut words = vec![command[0], command[1], "--endpoint", &address];
        for (flag, file) in ["--tls-ca", "--tls-cert", "--tls-key"].iter().zip(flags) {
            words.extend([*flag, file.to_str().unwrap()]);
        }
        let output = program::run(&words, "").await;
        program::check(&output, 3, &[], &[&address, expect]);
    }
}

/// Serves operators with this certificate, or without TLS.
async fn serve_with(
    authority: &Authority,
    certificate: Option<(PathBuf, PathBuf)>,
) -> (SocketAddr, Connections) {
    let Some(certificate) = certificate else {
        return server::serve(&Fake::new(), Auth::default(), None).await;
    };
    let config = authority.config_with(certificate, "");
    let files = TlsFiles::of_node(config.tls.as_ref().unwrap()).unwrap();
    let (auth, _) = Auth::load(&config).unwrap();
    server::serve(&Fake::new(), auth, Some(files.server().unwrap())).await
}

fn expired(params: &mut CertificateParams) {
    params.not_after = rcgen::date_time_ymd(2_020, 1, 1);
}

fn early(params: &mut CertificateParams) {
    params.not_before = rcgen::date_time_ymd(4_000, 1, 1);
}

fn for_servers(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
}

fn for_clients(params: &mut CertificateParams) {
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
}

/// The message that a caller gets and the cause that the node counts, in the order of the cases of the test below.
const TROUBLE: [(&str, Cause); 14] = [
    ("the server speaks TLS only", Cause::Plaintext),
    ("the server does not speak TLS", Cause::TlsToPlaintext),
    (
        "the server asks for a client certificate",
        Cause::NoCertificate,
    ),
    (
        "the server's certificate is not signed by the given CA",
        Cause::NodeRefused,
    ),
    (
        "the server's certificate is not signed by the given CA",
        Cause::NodeRefused,
    ),
    ("the server's certificate has expired", Cause::NodeRefused),
    (
        "the server's certificate is not valid yet",
        Cause::NodeRefused,
    ),
    (
        "the server's certificate is for another host",
        Cause::NodeRefused,
    ),
    (
        "the server's certificate cannot be used",
        Cause::NodeRefused,
    ),
    (
        "the client's certificate is not signed by the server's CA",
        Cause::UnknownAuthority,
    ),
    (
        "the client's certificate is not signed by the server's CA",
        Cause::UnknownAuthority,
    ),
    ("the client's certificate has expired", Cause::Expired),
    ("has expired, or is not valid yet", Cause::Expired),
    (
        "the server does not accept the client's certificate",
        Cause::BadCertificate,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn trouble_with_tls_is_named_at_both_ends() {
    let (ours, other) = (Authority::new(), Authority::new());
    let unknown = Authority::named("Unknown");
    let plain = serve_with(&ours, None).await;
    let sound = serve_with(&ours, Some(ours.sign(&NODE_NAMES))).await;
    // A node's files are read before the next ones, of the same name, replace them.
    let old = serve_with(&ours, Some(ours.sign_as(&NODE_NAMES, expired))).await;
    let young = serve_with(&ours, Some(ours.sign_as(&NODE_NAMES, early))).await;
    let unfit = serve_with(&ours, Some(ours.sign_as(&NODE_NAMES, for_clients))).await;
    let elsewhere = serve_with(&ours, Some(ours.sign(&["elsewhere.example"]))).await;
    let ca = || vec![ours.path("ca.pem")];
    let by = |ca: &Authority, (cert, key)| vec![ca.path("ca.pem"), cert, key];
    let admin = || ours.sign(&["ops.example"]);
    let with = |name, change: fn(&mut CertificateParams)| by(&ours, ours.sign_as(&[name], change));
    let callers = [
        (&sound, vec![]),
        (&plain, ca()),
        (&sound, ca()),
        (&sound, by(&other, admin())),
        (&sound, by(&unknown, admin())),
        (&old, by(&ours, admin())),
        (&young, by(&ours, admin())),
        (&elsewhere, by(&ours, admin())),
        (&unfit, by(&ours, admin())),
        (&sound, by(&ours, other.sign(&["ops.example"]))),
        (&sound, by(&ours, unknown.sign(&["ops.example"]))),
        (&sound, with("old.example", expired)),
        (&sound, with("early.example", early)),
        (&sound, with("server.example", for_servers)),
    ];
    let cases = callers.iter().zip(&TROUBLE);
    let cases: Vec<_> = cases.collect();
    for (((address, port), files), (expect, cause)) in &cases {
        let before = port.refused(*cause);
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        check_told(*address, &files, expect).await;
        assert!(
            port.refused(*cause) >= before + 2,
            "{cause:?} is counted: {expect}"
        );
    }
    for (address, port) in [&plain, &sound, &old, &young, &unfit, &elsewhere] {
        for cause in Cause::ALL {
            let here = |of: &Cause, at: &SocketAddr| *of == cause && at == address;
            let told = cases.iter().any(|(((at, _), _), (_, of))| here(of, at));
            assert_eq!(port.refused(cause) > 0, told, "{cause:?} at {address}");
        }
    }
}

/// The client library knows alerts by their text alone, so it must know the words of the TLS library. A node sends some of
/// them never, but a proxy before it may.
#[test]
fn every_alert_about_a_certificate_is_explained() {
    use tokio_rustls::rustls::{AlertDescription as Alert, Error};
    let foreign = "the client's certificate is not signed by the server's CA";
    let unusable = "the server does not accept the client's certificate";
    for (alert, expect) in [
        (
            Alert::CertificateRequired,
            "the server asks for a client certificate",
        ),
        (Alert::UnknownCA, foreign),
        (Alert::DecryptError, foreign),
        (
            Alert::CertificateExpired,
            "the client's certificate has expired, or is not valid yet",
        ),
        (Alert::BadCertificate, unusable),
        (Alert::UnsupportedCertificate, unusable),
        (Alert::CertificateUnknown, unusable),
    ] {
        let error = ConnectionError::of(&Error::AlertReceived(alert));
        assert!(
            error.is_tls() && error.to_string().starts_with(expect),
            "{alert:?}: {error}"
        );
    }
    let closed = ConnectionError::of(&Error::AlertReceived(Alert::InternalError));
    assert!(!closed.is_tls(), "{closed}");
}

#[tokio::test]
async fn a_token_gives_the_role_before_it_in_the_file() {
    let authority = Authority::new();
    let ca = authority.path("ca.pem");
    let (admin, client) = ("a".repeat(32), "c".repeat(32));
    let tokens = authority.path("tokens");
    std::fs::write(
        &tokens,
        format!("# ours\nadmin {admin}\n\nclient {client}\n"),
    )
    .unwrap();
    let settings = format!("tls.require_client_cert = false\ntokens = {tokens:?}\n");
    let config = authority.config(&settings);
    let (_, warnings) = Auth::load(&config).unwrap();
    assert!(warnings[0].contains("chmod 600"), "{warnings:?}");
    let url = serve_tls(&config).await;
    ask(&url, &ca, None, Some(&admin)).await.unwrap();
    for (token, code) in [
        (Some(client.as_str()), Code::PermissionDenied),
        (Some("b"), Code::Unauthenticated),
        (None, Code::Unauthenticated),
    ] {
        let refused = ask(&url, &ca, None, token).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
    std::fs::write(&tokens, "admin short\n").unwrap();
    let error = Auth::load(&config).unwrap_err().to_string();
    assert!(
        error.contains("tokens:1 has a token that is not 32"),
        "{error}"
    );
    // Two roles for one token would leave it to the order of the lines which one counts.
    std::fs::write(&tokens, format!("admin {admin}\nclient {admin}\n")).unwrap();
    let error = Auth::load(&config).unwrap_err().to_string();
    let expect = "tokens:2 has the same token as another line";
    assert!(error.contains(expect), "{error}");
    std::fs::write(&tokens, format!("root {admin}\n")).unwrap();
    let error = Auth::load(&config).unwrap_err().to_string();
    assert!(error.contains("must be `admin TOKEN`") && !error.contains(&admin));
}

/// A session may use any key, so a token that is confined to some opens none.
#[test]
fn a_token_with_prefixes_asks_at_faces_alone() {
    use tonic::service::Interceptor;
    let dir = tempfile::tempdir().unwrap();
    let (tokens, token) = (dir.path().join("tokens"), "c".repeat(32));
    let mut sources = Sources::default();
    sources.file("node.toml", format!("tokens = {tokens:?}\n"));
    let config = Config::load(&sources).unwrap().config;
    std::fs::write(&tokens, format!("client {token} tenant/42 jobs\n")).unwrap();
    let auth = Arc::new(Auth::load(&config).unwrap().0);
    let request = || {
        let mut request = Request::new(());
        let token = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", token);
        request
    };
    let refused = auth.guard(Role::Client).call(request()).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    let expect = "may use only keys under jobs, tenant/42";
    assert!(refused.message().contains(expect), "{refused}");
    let admitted = auth.face_guard().call(request()).unwrap();
    let scope = admitted.extensions().get::<Scope>().unwrap();
    assert!(scope.covers("jobs/1") && !scope.covers("tenant/43"));
    for (line, expect) in [
        (format!("admin {token} jobs"), "must be `admin TOKEN`"),
        (
            format!("client {token} tenant/*"),
            "a prefix that is not a key",
        ),
        (
            format!("client {token} tenant/"),
            "a prefix that is not a key",
        ),
    ] {
        std::fs::write(&tokens, line).unwrap();
        let error = Auth::load(&config).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

/// Tokens are changed without a restart. A file that cannot be used changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_file_that_changes_is_read_again() {
    let authority = Authority::new();
    let ca = authority.path("ca.pem");
    let [old, new] = ["a", "b"].map(|token| token.repeat(32));
    let path = authority.path("tokens");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write(&format!("admin {old}\n"));
    let settings = format!("tls.require_client_cert = false\ntokens = {path:?}\n");
    let config = authority.config(&settings);
    let files = TlsFiles::of_node(config.tls.as_ref().unwrap()).unwrap();
    let auth = Arc::new(Auth::load(&config).unwrap().0);
    let (address, _) =
        server::serve(&Fake::new(), auth.clone(), Some(files.server().unwrap())).await;
    let url = format!("https://localhost:{}", address.port());
    let reader = tokio::spawn(keep_reading(auth.clone()));
    let who = async |token: &str| ask(&url, &ca, None, Some(token)).await.is_ok();
    assert!(who(&old).await && !who(&new).await);
    write(&format!("client {new}\nadmin short\n"));
    let error = auth.reload().unwrap_err().to_string();
    assert!(
        error.contains("tokens:2 has a token that is not 32"),
        "{error}"
    );
    assert!(who(&old).await && !who(&new).await);
    write(&format!("admin {new}\n# the old one is gone\n"));
    let changed = async {
        while !who(&new).await {
            tokio::task::yield_now().await;
        }
    };
    let changed = tokio::time::timeout(Duration::from_secs(60), changed).await;
    changed.expect("the file is read again");
    assert!(!who(&old).await);
    reader.abort();
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let authority = Authority::new();
    let config = authority.config("");
    let tls = config.tls.unwrap();
    std::fs::write(&tls.key, "nothing").unwrap();
    let error = TlsFiles::of_node(&tls).unwrap_err().to_string();
    assert!(
        error.starts_with("tls.key = ")
            && error.contains("localhost.key holds no private key in PEM"),
        "{error}"
    );
    std::fs::remove_file(&tls.ca).unwrap();
    let error = TlsFiles::of_client(&tls.ca, None).unwrap_err().to_string();
    assert!(
        error.starts_with("tls.ca = ") && error.contains("ca.pem cannot be read"),
        "{error}"
    );
}
