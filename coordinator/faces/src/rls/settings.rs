//! Settings, under the names of environment variables that envoyproxy/ratelimit reads.

use super::rules::{Counting, Reading, SameDomain};
use crate::decider::Options;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Names of the headers that describe its limit to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Header of the limit.
    pub limit: String,
    /// Header of what is left.
    pub remaining: String,
    /// Header of the seconds until more is left.
    pub reset: String,
}

/// Settings of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Set if refusals are only counted.
    pub shadow: bool,
    /// Set if every rule is a quota rule.
    pub quota: bool,
    /// Set if responses carry metadata.
    pub dynamic_metadata: bool,
    /// Headers of responses, if they carry any.
    pub headers: Option<Headers>,
    /// Set if the service is healthy only with rules.
    pub healthy_with_rules: bool,
    /// Maximum time for an answer, if the caller names none. Envoy waits 20 ms by default.
    pub within: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            shadow: false,
            quota: false,
            dynamic_metadata: false,
            headers: None,
            healthy_with_rules: false,
            within: Duration::from_millis(250),
        }
    }
}

/// All settings of a server that replaces envoyproxy/ratelimit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compat {
    /// Settings of the service.
    pub service: Settings,
    /// Options of reading rules.
    pub reading: Reading,
    /// Origin of the rules.
    pub source: Source,
    /// Set if the server begins also without rules.
    pub start_without_rules: bool,
    /// Address of the service.
    pub grpc: String,
    /// Address of `/healthcheck` and `/json`.
    pub http: String,
    /// Address of `/rlconfig` and `/stats`.
    pub debug: String,
    /// Address of Prometheus's metrics.
    pub prometheus: String,
    /// Path of Prometheus's metrics.
    pub prometheus_path: String,
    /// TLS of the service.
    pub tls: Option<Tls>,
    /// Maximum number of keys that are kept in memory.
    pub keys: usize,
    /// Variables that are set and have no effect here.
    pub ignored: Vec<String>,
}

/// Origin of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Files.
    Files {
        /// Their directory.
        directory: PathBuf,
        /// Set if files whose names begin with a dot are no rules.
        ignore_dot_files: bool,
    },
    /// A management server.
    Xds(Box<ManagementServer>),
}

/// A server that sends rules over xDS, such as Envoy Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementServer {
    /// Address, as `host:port`.
    pub address: String,
    /// TLS; without it nothing is encrypted.
    pub tls: Option<ManagementTls>,
    /// Name by which the server chooses what to send.
    pub node: String,
    /// Other texts by which it may choose.
    pub metadata: Vec<(String, String)>,
    /// Headers of the stream.
    pub headers: HeaderMap,
    /// Maximum size of a response, in bytes.
    pub message_max: usize,
}

/// TLS towards a management server. The files are read again for each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagementTls {
    /// Authority of the server's certificate.
    pub ca: PathBuf,
    /// Own certificate chain and key, if the server asks for them.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Name in the server's certificate; by default the host of its address.
    pub name: Option<String>,
}

/// Files of the service's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Authority of callers' certificates; without it callers need none.
    pub ca: Option<PathBuf>,
}

/// Variables of the reference server's storage, statistics and tracing.
const IGNORED: &[&str] = &[
    "REDIS_",
    "MEMCACHE_",
    "BACKEND_TYPE",
    "CACHE_KEY_PREFIX",
    "LOCAL_CACHE_SIZE_IN_BYTES",
    "EXPIRATION_JITTER_MAX_SECONDS",
    "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
    "NEAR_LIMIT_RATIO",
    "USE_STATSD",
    "USE_DOG_STATSD",
    "STATSD_",
    "STATS_FLUSH_INTERVAL",
    "EXTRA_TAGS",
    "PROMETHEUS_MAPPER_YAML",
    "TRACING_",
    "GRPC_MAX_CONNECTION_AGE",
    "RUNTIME_WATCH_ROOT",
    "USE_PROMETHEUS",
    "OTEL_EXPORTER_",
    // Envoy Gateway sets it, and the reference server does not read it.
    "GRPC_SERVER_TLS_CA_CERT",
    "XDS_CLIENT_BACKOFF_",
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
];

/// Default of the maximum size of a response, in bytes. A rule takes about a hundred.
const MESSAGE_MAX: usize = 64 << 20;

/// Variables that ask for what this server does not do.
const REFUSED: &[(&str, &str)] = &[
    ("GRPC_UDS", "set GRPC_HOST and GRPC_PORT"),
    (
        "GRPC_CLIENT_TLS_SAN",
        "only the certificate's signature by GRPC_CLIENT_TLS_CACERT is checked",
    ),
];

impl Compat {
    /// Reads the settings from environment variables.
    ///
    /// # Errors
    ///
    /// Every variable with a value that it cannot have.
    pub fn read(variables: &[(String, String)]) -> Result<Self, Vec<String>> {
        let mut reader = Reader {
            variables,
            problems: Vec::new(),
        };
        let compat = reader.compat();
        match reader.problems.is_empty() {
            true => Ok(compat),
            false => Err(reader.problems),
        }
    }
}

struct Reader<'a> {
    variables: &'a [(String, String)],
    problems: Vec<String>,
}

impl Reader<'_> {
    fn compat(&mut self) -> Compat {
        for (name, instead) in REFUSED {
            if let Some(value) = self.get(name) {
                let problem = format!("{name} = {value:?}: is not supported: {instead}");
                self.problems.push(problem);
            }
        }
        let same_domain = match self.flag("MERGE_DOMAIN_CONFIG") {
            true => SameDomain::Merged,
            false => SameDomain::Refused,
        };
        let counting = match self.flag("ALIQUOT_RLS_CALENDAR") {
            true => Counting::Calendar,
            false => Counting::Rate,
        };
        let keys = self.count("ALIQUOT_RLS_KEYS", 64..=16_384);
        Compat {
            service: self.service(),
            reading: Reading {
                same_domain,
                counting,
                max_keys: self.count("ALIQUOT_RLS_MAX_KEYS", 1..=10_000_000),
            },
            keys: keys.map_or(Options::default().keys, |keys| {
                usize::try_from(keys).unwrap_or(usize::MAX)
            }),
            source: self.source(),
            start_without_rules: self.flag("FORCE_START_WITHOUT_INITIAL_CONFIG"),
            grpc: self.address("GRPC_HOST", "GRPC_PORT", "8081"),
            http: self.address("HOST", "PORT", "8080"),
            debug: self.address("DEBUG_HOST", "DEBUG_PORT", "6070"),
            prometheus: self.prometheus(),
            prometheus_path: self.text("PROMETHEUS_PATH", "/metrics"),
            tls: self.tls(),
            ignored: self.ignored(),
        }
    }

    fn source(&mut self) -> Source {
        match self.text("CONFIG_TYPE", "FILE").as_str() {
            "GRPC_XDS_SOTW" => Source::Xds(Box::new(self.management_server())),
            kind => {
                if kind != "FILE" {
                    let kind = kind.to_owned();
                    self.wrong("CONFIG_TYPE", &kind, "FILE or GRPC_XDS_SOTW");
                }
                let mut directory =
                    PathBuf::from(self.text("RUNTIME_ROOT", "/srv/runtime_data/current"));
                directory.push(self.text("RUNTIME_SUBDIRECTORY", ""));
                directory.push(self.text("RUNTIME_APPDIRECTORY", "config"));
                Source::Files {
                    directory,
                    ignore_dot_files: self.flag("RUNTIME_IGNOREDOTFILES"),
                }
            }
        }
    }

    fn management_server(&mut self) -> ManagementServer {
        let name = "CONFIG_GRPC_XDS_SERVER_URL";
        let url = self.text(name, "localhost:18000");
        // The scheme by which gRPC's libraries name their resolver.
        let address = url.strip_prefix("dns:///").unwrap_or(&url).to_owned();
        let port = address.rsplit_once(':').map(|(_, port)| port.parse());
        let legal = format!("http://{address}").parse::<http::Uri>();
        let legal = legal.is_ok_and(|uri| {
            uri.authority()
                .is_some_and(|it| *it == *address && !it.host().is_empty())
        });
        if !legal || !matches!(port, Some(Ok(1u16..))) {
            self.wrong(name, &url, "HOST:PORT");
        }
        ManagementServer {
            address,
            tls: self.management_tls(),
            node: self.text("CONFIG_GRPC_XDS_NODE_ID", "default"),
            metadata: self.pairs("CONFIG_GRPC_XDS_NODE_METADATA", '='),
            headers: self.headers("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"),
            message_max: self.message_max("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"),
        }
    }

    fn management_tls(&mut self) -> Option<ManagementTls> {
        if !self.flag("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
            return None;
        }
        let (cert, key) = (
            "CONFIG_GRPC_XDS_CLIENT_TLS_CERT",
            "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
        );
        let identity = match (self.get(cert), self.get(key)) {
            (Some(cert), Some(key)) => Some((cert.into(), key.into())),
            (None, None) => None,
            (Some(_), None) => {
                self.wrong(key, "", "a file, because the certificate is set");
                None
            }
            (None, Some(_)) => {
                self.wrong(cert, "", "a file, because the key is set");
                None
            }
        };
        let name = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT";
        let ca = self.text(name, "");
        if ca.is_empty() {
            self.wrong(name, "", "a file: the system's authorities are not used");
        }
        let server = self.get("CONFIG_GRPC_XDS_SERVER_TLS_SAN");
        Some(ManagementTls {
            ca: ca.into(),
            identity,
            name: server.map(str::to_owned),
        })
    }

    /// Reads a list such as `a=1,b=2`.
    fn pairs(&mut self, name: &str, sign: char) -> Vec<(String, String)> {
        let list = self.text(name, "");
        let items = list.split(',').filter(|item| !item.is_empty());
        let pair = |item: &str| {
            let (key, value) = item.split_once(sign)?;
            Some((key.trim().to_owned(), value.trim().to_owned()))
        };
        let pairs: Option<Vec<_>> = items.map(pair).collect();
        pairs.unwrap_or_else(|| {
            self.wrong(name, &list, &format!("a list such as a{sign}1,b{sign}2"));
            Vec::new()
        })
    }

    fn headers(&mut self, name: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (header, value) in self.pairs(name, ':') {
            match (header.parse::<HeaderName>(), value.parse::<HeaderValue>()) {
                (Ok(header), Ok(mut value)) => {
                    // It may be a password, which no log shows.
                    value.set_sensitive(true);
                    headers.append(header, value);
                }
                _ => self.wrong(name, &header, "names and values of headers"),
            }
        }
        headers
    }

    fn message_max(&mut self, name: &str) -> usize {
        match self.text(name, "0").parse() {
            Ok(0) => MESSAGE_MAX,
            Ok(bytes) => bytes,
            Err(_) => {
                let value = self.text(name, "0");
                self.wrong(name, &value, "a number of bytes; 0 for 64 MiB");
                MESSAGE_MAX
            }
        }
    }

    fn service(&mut self) -> Settings {
        let headers = self
            .flag("LIMIT_RESPONSE_HEADERS_ENABLED")
            .then(|| Headers {
                limit: self.text("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
                remaining: self.text("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
                reset: self.text("LIMIT_RESET_HEADER", "RateLimit-Reset"),
            });
        Settings {
            shadow: self.flag("SHADOW_MODE"),
            quota: self.flag("QUOTA_MODE"),
            dynamic_metadata: self.flag("RESPONSE_DYNAMIC_METADATA"),
            headers,
            healthy_with_rules: self.flag("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"),
            ..Settings::default()
        }
    }

    fn prometheus(&mut self) -> String {
        let address = self.text("PROMETHEUS_ADDR", "0.0.0.0:19001");
        match address.strip_prefix(':') {
            Some(port) => format!("0.0.0.0:{port}"),
            None => address,
        }
    }

    fn tls(&mut self) -> Option<Tls> {
        if !self.flag("GRPC_SERVER_USE_TLS") {
            return None;
        }
        let ca = self.get("GRPC_CLIENT_TLS_CACERT").map(PathBuf::from);
        Some(Tls {
            cert: self.text("GRPC_SERVER_TLS_CERT", "/certs/tls.crt").into(),
            key: self.text("GRPC_SERVER_TLS_KEY", "/certs/tls.key").into(),
            ca,
        })
    }

    fn ignored(&self) -> Vec<String> {
        let known = |name: &String| IGNORED.iter().any(|known| name.starts_with(known));
        let names = self.variables.iter().map(|(name, _)| name.clone());
        names.filter(known).collect()
    }

    fn address(&mut self, host: &str, port: &str, default: &str) -> String {
        let host = self.text(host, "0.0.0.0");
        let number = self.text(port, default);
        if number.parse::<u16>().is_err() {
            self.wrong(port, &number, "a port from 0 to 65535");
        }
        match host.contains(':') {
            true => format!("[{host}]:{number}"),
            false => format!("{host}:{number}"),
        }
    }

    fn count(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let text = self.get(name)?.to_owned();
        let number = text.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let allowed = format!("a number from {} to {}", range.start(), range.end());
            self.wrong(name, &text, &allowed);
        }
        number
    }

    fn flag(&mut self, name: &str) -> bool {
        match self.text(name, "false").as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            value => {
                let value = value.to_owned();
                self.wrong(name, &value, "true or false");
                false
            }
        }
    }

    fn text(&self, name: &str, default: &str) -> String {
        self.get(name).unwrap_or(default).to_owned()
    }

    fn get(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        let found = variables.find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    fn wrong(&mut self, name: &str, value: &str, allowed: &str) {
        self.problems
            .push(format!("{name} = {value:?}: must be {allowed}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Compat, Vec<String>> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables: Vec<_> = variables.iter().map(pair).collect();
        Compat::read(&variables)
    }

    #[test]
    fn without_variables_ports_and_paths_are_those_of_the_reference_server() {
        let it = read(&[]).unwrap();
        assert_eq!(
            (it.grpc.as_str(), it.http.as_str()),
            ("0.0.0.0:8081", "0.0.0.0:8080")
        );
        assert_eq!(
            (it.debug.as_str(), it.prometheus.as_str()),
            ("0.0.0.0:6070", "0.0.0.0:19001")
        );
        let directory = "/srv/runtime_data/current/config".into();
        let files = Source::Files {
            directory,
            ignore_dot_files: false,
        };
        assert_eq!(it.source, files);
        assert_eq!(it.service, Settings::default());
        assert!(it.tls.is_none() && it.ignored.is_empty() && !it.start_without_rules);
    }

    #[test]
    fn variables_are_read_and_those_of_the_storage_are_ignored() {
        let it = read(&[
            ("RUNTIME_ROOT", "/data"),
            ("RUNTIME_SUBDIRECTORY", "ratelimit"),
            ("RUNTIME_IGNOREDOTFILES", "true"),
            ("GRPC_HOST", "::1"),
            ("GRPC_PORT", "9001"),
            ("PROMETHEUS_ADDR", ":9102"),
            ("SHADOW_MODE", "true"),
            ("LIMIT_RESPONSE_HEADERS_ENABLED", "1"),
            ("LIMIT_RESET_HEADER", "x-reset"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("ALIQUOT_RLS_KEYS", "4096"),
            ("ALIQUOT_RLS_MAX_KEYS", "2000"),
            ("REDIS_URL", "redis:6379"),
            ("USE_STATSD", "false"),
            ("HOME", "x"),
        ])
        .unwrap();
        let directory = "/data/ratelimit/config".into();
        let files = Source::Files {
            directory,
            ignore_dot_files: true,
        };
        assert_eq!(it.source, files);
        assert_eq!(
            (it.grpc.as_str(), it.prometheus.as_str()),
            ("[::1]:9001", "0.0.0.0:9102")
        );
        assert_eq!((it.keys, it.reading.max_keys), (4_096, Some(2_000)));
        assert!(it.service.shadow);
        assert_eq!(it.service.headers.unwrap().reset, "x-reset");
        assert_eq!(it.tls.unwrap().cert, PathBuf::from("/certs/tls.crt"));
        assert_eq!(it.ignored, ["REDIS_URL", "USE_STATSD"]);
    }

    #[test]
    fn every_wrong_value_is_told() {
        let problems = read(&[
            ("ALIQUOT_RLS_KEYS", "63"),
            ("GRPC_UDS", "/run/x"),
            ("CONFIG_TYPE", "GRPC_XDS_DELTA"),
            ("SHADOW_MODE", "maybe"),
            ("PORT", "http"),
        ]);
        let expect = [
            r#"ALIQUOT_RLS_KEYS = "63": must be a number from 64 to 16384"#,
            r#"CONFIG_TYPE = "GRPC_XDS_DELTA": must be FILE or GRPC_XDS_SOTW"#,
            r#"GRPC_UDS = "/run/x": is not supported: set GRPC_HOST and GRPC_PORT"#,
            r#"PORT = "http": must be a port from 0 to 65535"#,
            r#"SHADOW_MODE = "maybe": must be true or false"#,
        ];
        let mut problems = problems.unwrap_err();
        problems.sort();
        assert_eq!(problems, expect);
    }

    fn management_server(variables: &[(&str, &str)]) -> Result<ManagementServer, Vec<String>> {
        let variables = [&[("CONFIG_TYPE", "GRPC_XDS_SOTW")], variables].concat();
        match read(&variables)?.source {
            Source::Xds(server) => Ok(*server),
            source @ Source::Files { .. } => panic!("{source:?}"),
        }
    }

    /// Every name that its deployment of the rate limit service has in 2026, those of options included.
    #[test]
    fn all_variables_that_envoy_gateway_sets_are_accepted() {
        let it = read(&[
            ("RUNTIME_ROOT", "/data"),
            ("RUNTIME_SUBDIRECTORY", "ratelimit"),
            ("RUNTIME_IGNOREDOTFILES", "true"),
            ("RUNTIME_WATCH_ROOT", "false"),
            ("LOG_LEVEL", "info"),
            ("USE_STATSD", "false"),
            ("STATSD_PORT", "9125"),
            ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
            ("CONFIG_GRPC_XDS_SERVER_URL", "envoy-gateway:18001"),
            ("CONFIG_GRPC_XDS_NODE_ID", "envoy-ratelimit"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
            ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
            ("GRPC_SERVER_TLS_CA_CERT", "/certs/ca.crt"),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "/certs/tls.key"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/certs/ca.crt"),
            ("FORCE_START_WITHOUT_INITIAL_CONFIG", "true"),
            ("REDIS_SOCKET_TYPE", "tcp"),
            ("REDIS_URL", "redis:6379"),
            ("REDIS_TLS", "true"),
            ("REDIS_TLS_CLIENT_CERT", "/redis-certs/tls.crt"),
            ("REDIS_TLS_CLIENT_KEY", "/redis-certs/tls.key"),
            ("USE_PROMETHEUS", "true"),
            ("PROMETHEUS_ADDR", ":19001"),
            ("PROMETHEUS_MAPPER_YAML", "/etc/statsd-exporter/conf.yaml"),
            ("TRACING_ENABLED", "true"),
            ("TRACING_SERVICE_NAME", "envoy-ratelimit"),
            ("TRACING_SERVICE_NAMESPACE", "envoy-gateway-system"),
            ("TRACING_SERVICE_INSTANCE_ID", "envoy-ratelimit-0"),
            ("TRACING_SAMPLING_RATE", "0.1"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:4317"),
        ])
        .unwrap();
        assert!(it.start_without_rules);
        // A caller of the service needs no certificate, as with the reference server.
        assert_eq!(it.tls.unwrap().ca, None);
        let expect = ManagementServer {
            address: "envoy-gateway:18001".into(),
            tls: Some(ManagementTls {
                ca: "/certs/ca.crt".into(),
                identity: Some(("/certs/tls.crt".into(), "/certs/tls.key".into())),
                name: None,
            }),
            node: "envoy-ratelimit".into(),
            metadata: Vec::new(),
            headers: HeaderMap::new(),
            message_max: MESSAGE_MAX,
        };
        assert_eq!(it.source, Source::Xds(Box::new(expect)));
        let ignored = "RUNTIME_WATCH_ROOT USE_STATSD STATSD_PORT GRPC_SERVER_TLS_CA_CERT REDIS_SOCKET_TYPE REDIS_URL \
             REDIS_TLS REDIS_TLS_CLIENT_CERT REDIS_TLS_CLIENT_KEY USE_PROMETHEUS PROMETHEUS_MAPPER_YAML \
             TRACING_ENABLED TRACING_SERVICE_NAME TRACING_SERVICE_NAMESPACE TRACING_SERVICE_INSTANCE_ID \
             TRACING_SAMPLING_RATE OTEL_EXPORTER_OTLP_ENDPOINT";
        assert_eq!(it.ignored.join(" "), ignored);
    }

    #[test]
    fn a_management_server_has_the_defaults_of_the_reference_server() {
        let it = management_server(&[]).unwrap();
        assert_eq!(
            (it.address.as_str(), it.node.as_str()),
            ("localhost:18000", "default")
        );
        assert!(it.tls.is_none() && it.metadata.is_empty() && it.headers.is_empty());
        let it = management_server(&[
            ("CONFIG_GRPC_XDS_SERVER_URL", "dns:///[::1]:1"),
            ("CONFIG_GRPC_XDS_NODE_METADATA", "zone=a,shard=2"),
            (
                "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
                "authorization:Bearer x,x-b:c",
            ),
            ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "1000"),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "/ca"),
            ("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "gateway"),
        ])
        .unwrap();
        assert_eq!((it.address.as_str(), it.message_max), ("[::1]:1", 1000));
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(it.metadata, [pair("zone", "a"), pair("shard", "2")]);
        assert_eq!(it.headers["authorization"], "Bearer x");
        assert!(!format!("{:?}", it.headers).contains("Bearer"));
        let tls = it.tls.unwrap();
        assert_eq!((tls.identity, tls.name), (None, Some("gateway".into())));
    }

    #[test]
    fn every_wrong_value_of_a_management_server_is_told() {
        let problems = management_server(&[
            ("CONFIG_GRPC_XDS_SERVER_URL", "http://gateway:1"),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "/certs/tls.crt"),
            ("CONFIG_GRPC_XDS_NODE_METADATA", "zone"),
            ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a b:c"),
            ("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "many"),
        ]);
        let expect = [
            r#"CONFIG_GRPC_XDS_SERVER_URL = "http://gateway:1": must be HOST:PORT"#,
            r#"CONFIG_GRPC_XDS_CLIENT_TLS_KEY = "": must be a file, because the certificate is set"#,
            r#"CONFIG_GRPC_XDS_SERVER_TLS_CACERT = "": must be a file: the system's authorities are not used"#,
            r#"CONFIG_GRPC_XDS_NODE_METADATA = "zone": must be a list such as a=1,b=2"#,
            r#"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS = "a b": must be names and values of headers"#,
            r#"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES = "many": must be a number of bytes; 0 for 64 MiB"#,
        ];
        assert_eq!(problems.unwrap_err(), expect);
        for url in [
            "gateway",
            "gateway:0",
            ":18000",
            "gateway:18000/path",
            "gate way:1",
        ] {
            let problems = management_server(&[("CONFIG_GRPC_XDS_SERVER_URL", url)]);
            let expect = format!("CONFIG_GRPC_XDS_SERVER_URL = {url:?}: must be HOST:PORT");
            assert_eq!(problems.unwrap_err(), [expect]);
        }
    }
}
