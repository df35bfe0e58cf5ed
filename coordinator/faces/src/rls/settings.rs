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
#[path = "../../tests/unit/rls/settings.rs"]
mod tests;
