//! Settings, under the names of environment variables that envoyproxy/ratelimit reads.

use super::rules::{Counting, Reading, SameDomain};
use std::path::PathBuf;
use std::time::Duration;

/// Names of the headers that tell a caller its limit.
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
    /// Directory of the rules' files.
    pub directory: PathBuf,
    /// Set if files whose names begin with a dot are no rules.
    pub ignore_dot_files: bool,
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
    /// Variables that are set and have no effect here.
    pub ignored: Vec<String>,
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
];

/// Variables that ask for what this server does not do.
const REFUSED: &[(&str, &str)] = &[
    ("GRPC_UDS", "set GRPC_HOST and GRPC_PORT"),
    (
        "GRPC_CLIENT_TLS_SAN",
        "a certificate of GRPC_CLIENT_TLS_CACERT is all that is checked",
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
        let kind = self.text("CONFIG_TYPE", "FILE");
        if kind != "FILE" {
            self.wrong("CONFIG_TYPE", &kind, "FILE: rules come from files");
        }
        let mut directory = PathBuf::from(self.text("RUNTIME_ROOT", "/srv/runtime_data/current"));
        directory.push(self.text("RUNTIME_SUBDIRECTORY", ""));
        directory.push(self.text("RUNTIME_APPDIRECTORY", "config"));
        let same_domain = match self.flag("MERGE_DOMAIN_CONFIG") {
            true => SameDomain::Merged,
            false => SameDomain::Refused,
        };
        let counting = match self.flag("ALIQUOT_RLS_CALENDAR") {
            true => Counting::Calendar,
            false => Counting::Rate,
        };
        Compat {
            service: self.service(),
            reading: Reading {
                same_domain,
                counting,
            },
            directory,
            ignore_dot_files: self.flag("RUNTIME_IGNOREDOTFILES"),
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
        assert_eq!(
            it.directory,
            PathBuf::from("/srv/runtime_data/current/config")
        );
        assert_eq!(it.service, Settings::default());
        assert!(it.tls.is_none() && it.ignored.is_empty() && !it.start_without_rules);
    }

    #[test]
    fn variables_are_read_and_those_of_the_storage_are_ignored() {
        let it = read(&[
            ("RUNTIME_ROOT", "/data"),
            ("RUNTIME_SUBDIRECTORY", "ratelimit"),
            ("GRPC_HOST", "::1"),
            ("GRPC_PORT", "9001"),
            ("PROMETHEUS_ADDR", ":9102"),
            ("SHADOW_MODE", "true"),
            ("LIMIT_RESPONSE_HEADERS_ENABLED", "1"),
            ("LIMIT_RESET_HEADER", "x-reset"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("REDIS_URL", "redis:6379"),
            ("USE_STATSD", "false"),
            ("HOME", "x"),
        ])
        .unwrap();
        assert_eq!(it.directory, PathBuf::from("/data/ratelimit/config"));
        assert_eq!(
            (it.grpc.as_str(), it.prometheus.as_str()),
            ("[::1]:9001", "0.0.0.0:9102")
        );
        assert!(it.service.shadow);
        assert_eq!(it.service.headers.unwrap().reset, "x-reset");
        assert_eq!(it.tls.unwrap().cert, PathBuf::from("/certs/tls.crt"));
        assert_eq!(it.ignored, ["REDIS_URL", "USE_STATSD"]);
    }

    #[test]
    fn every_wrong_value_is_told() {
        let problems = read(&[
            ("GRPC_UDS", "/run/x"),
            ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
            ("SHADOW_MODE", "maybe"),
            ("PORT", "http"),
        ]);
        let expect = [
            r#"GRPC_UDS = "/run/x": is not supported: set GRPC_HOST and GRPC_PORT"#,
            r#"CONFIG_TYPE = "GRPC_XDS_SOTW": must be FILE: rules come from files"#,
            r#"SHADOW_MODE = "maybe": must be true or false"#,
            r#"PORT = "http": must be a port from 0 to 65535"#,
        ];
        assert_eq!(problems.unwrap_err(), expect);
    }
}
