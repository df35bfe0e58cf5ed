//! Parses the text of each setting into a value that is valid by itself.

use super::address::{Address, AddressError, FaceAddress, FaceAddressError};
use super::pace::ChosenPace;
use super::problem::Problems;
use super::skip::{SkipEntry, SkipEntryError};
use super::source::{Entry, Written};
use super::values::{
    ClientCerts, ClientName, ClusterConfig, Config, ConnectionsConfig, FacesConfig, LogConfig,
    LogFormat, PaceConfig, Security, SessionConfig, TlsConfig,
};
use aliquot_client::http::{Fields, LimitFields, Reset};
use aliquot_core::budget::{Key, grammar};
use aliquot_core::unit::{Drift, Span};
use aliquot_faces::{Face, KeyRules, Uncovered};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Parses every setting by itself. Returns `None` if a required one is wrong.
pub(super) fn config(written: &Written, problems: &mut Problems) -> Option<Config> {
    let mut read = Read { written, problems };
    let listen = read.socket("listen");
    let peer_listen = read.socket("peer_listen");
    let metrics_listen = match read.text("metrics_listen").as_deref() {
        Some("off") => Some(None),
        _ => read.socket("metrics_listen").map(Some),
    };
    let advertise = read.address_or("advertise", "listen", listen);
    let peer_advertise = read.address_or("peer_advertise", "peer_listen", peer_listen);
    let cluster = read.cluster(peer_advertise.as_ref());
    let data_dir = read.one("data_dir", "a directory", |text| Some(PathBuf::from(text)));
    let pace = read.pace();
    let snapshot_every = read.count("snapshot_every", 100, 100_000_000);
    let skip_entry = read.skips();
    let session = read.session();
    let faces = read.faces();
    let connections = read.connections(session);
    let log = read.log();
    let tls = read.tls(cluster.as_ref().map_or(&[], |cluster| &cluster.peers));
    let (insecure, metrics_open) = (read.flag("insecure"), read.flag("metrics_open"));
    let security = |accepted: bool| match accepted {
        true => Security::Insecure,
        false => Security::Strict,
    };
    Some(Config {
        cluster: cluster?,
        listen: listen?,
        peer_listen: peer_listen?,
        metrics_listen: metrics_listen?,
        advertise: advertise?,
        peer_advertise: peer_advertise?,
        data_dir: data_dir?,
        pace: pace?,
        snapshot_every: snapshot_every?,
        skip_entry: skip_entry?,
        session: session?,
        faces: faces?,
        connections: connections?,
        log: log?,
        tls: tls?,
        tokens: read.text("tokens").map(Into::into),
        budgets: read.text("budgets").map(Into::into),
        metrics_security: security(metrics_open?),
        security: security(insecure?),
    })
}

struct Read<'a> {
    written: &'a Written,
    problems: &'a mut Problems,
}

impl Read<'_> {
    fn entry(&self, key: &str) -> Option<&Entry> {
        self.written.get(key)
    }

    fn refuse(&mut self, key: &str, text: &str, what: String) {
        if let Some(entry) = self.written.get(key) {
            self.problems
                .add(key, Some(text.to_owned()), &entry.origin, what);
        }
    }

    /// Returns the text of a setting, if it has one.
    fn text(&self, key: &str) -> Option<String> {
        self.entry(key)?.texts.first().cloned()
    }

    fn texts(&self, key: &str) -> Vec<String> {
        self.entry(key)
            .map_or_else(Vec::new, |entry| entry.texts.clone())
    }

    /// Parses a setting that must have a value.
    fn one<T>(
        &mut self,
        key: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(key).unwrap_or_default();
        let value = (!text.is_empty()).then(|| read(&text)).flatten();
        if value.is_none() {
            self.refuse(key, &text, format!("must be {allowed}"));
        }
        value
    }

    fn socket(&mut self, key: &str) -> Option<SocketAddr> {
        let mut allowed = "IP:PORT, such as 127.0.0.1:7001 or 0.0.0.0:7001".to_owned();
        if key == "metrics_listen" {
            allowed.push_str(", or off");
        }
        self.one(key, &allowed, |text| {
            let text = text.replace("localhost:", "127.0.0.1:");
            text.parse().ok()
        })
    }

    /// Returns the address that is set, or the listening address if others can connect to it.
    fn address_or(
        &mut self,
        key: &str,
        listen_key: &str,
        listen: Option<SocketAddr>,
    ) -> Option<Address> {
        if let Some(text) = self.text(key) {
            return self.address(key, &text);
        }
        let listen = listen?;
        if listen.ip().is_unspecified() || listen.port() == 0 {
            let what = format!(
                "must be set to the HOST:PORT at which others reach this node, because no other host can connect to \
                 {listen_key} = \"{listen}\""
            );
            self.refuse(key, "", what);
            return None;
        }
        listen.to_string().parse().ok()
    }

    fn address(&mut self, key: &str, text: &str) -> Option<Address> {
        match text.parse() {
            Ok(address) => Some(address),
            Err(AddressError) => {
                self.refuse(key, text, AddressError.to_string());
                None
            }
        }
    }

    fn span(&mut self, key: &str, least: Span, most: Span) -> Option<Span> {
        let allowed = format!("a span from {least} to {most}, such as 500ms or 3s");
        self.one(key, &allowed, |text| {
            grammar::span(text).filter(|span| (least..=most).contains(span))
        })
    }

    fn count(&mut self, key: &str, least: u64, most: u64) -> Option<u64> {
        let allowed = format!("a whole number from {least} to {most}");
        self.one(key, &allowed, |text| {
            grammar::whole(text).filter(|count| (least..=most).contains(count))
        })
    }

    fn skips(&mut self) -> Option<Vec<SkipEntry>> {
        let texts = self.texts("skip_entry");
        let mut skips = Vec::with_capacity(texts.len());
        for text in texts {
            match text.parse() {
                Ok(entry) => skips.push(entry),
                Err(SkipEntryError) => {
                    self.refuse("skip_entry", &text, SkipEntryError.to_string());
                    return None;
                }
            }
        }
        Some(skips)
    }

    fn flag(&mut self, key: &str) -> Option<bool> {
        self.one(key, "true or false", |text| text.parse().ok())
    }

    fn cluster(&mut self, own: Option<&Address>) -> Option<ClusterConfig> {
        let id = self.one("cluster.id", "1 to 64 letters, digits, - _ and .", |text| {
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            (text.len() <= 64 && text.chars().all(legal)).then(|| text.to_owned())
        });
        let texts = self.texts("cluster.peers");
        let mut peers = Vec::new();
        for text in &texts {
            let Some(address) = self.address("cluster.peers", text) else {
                continue;
            };
            if peers.contains(&address) {
                self.refuse("cluster.peers", text, "is listed twice".to_owned());
            }
            peers.push(address);
        }
        if texts.is_empty() {
            peers.extend(own.cloned());
        }
        peers.sort();
        Some(ClusterConfig { id: id?, peers })
    }

    fn pace(&mut self) -> Option<PaceConfig> {
        // Below 20 ms, a holder forgets the reports it sent before its lease ends.
        let least = Span::from_millis(20);
        let minute = Span::from_secs(60);
        let lease = self.span_if_set("lease", Span::from_millis(200), Span::from_secs(3_600));
        let report_every = self.span("report_every", least, minute);
        let drift = self.one("drift_ppm", "a whole number from 0 to 100000", |text| {
            Drift::from_ppm(u32::try_from(grammar::whole(text)?).ok()?).ok()
        });
        let heartbeat = self.span_if_set("heartbeat", Span::from_millis(10), minute);
        let election_min = self.span_if_set("election_min", Span::from_millis(30), minute);
        let election_max = self.span_if_set("election_max", Span::from_millis(30), minute);
        let round_trip = self.span("round_trip", Span::from_millis(1), minute);
        let chosen = ChosenPace {
            report_every: report_every?,
            drift: drift?,
            round_trip: round_trip?,
            lease: lease?,
            heartbeat: heartbeat?,
            election_min: election_min?,
            election_max: election_max?,
        };
        Some(chosen.complete())
    }

    /// Returns `Some(None)` if the span is not set.
    fn span_if_set(&mut self, key: &str, least: Span, most: Span) -> Option<Option<Span>> {
        match self.text(key).is_some_and(|text| !text.is_empty()) {
            true => self.span(key, least, most).map(Some),
            false => Some(None),
        }
    }

    fn session(&mut self) -> Option<SessionConfig> {
        let most = self.count("session.max", 1, 1_000_000);
        let keys_max = aliquot_wire::limits::LINES_MAX as u64;
        let keys = self.count("session.keys", 1, keys_max);
        Some(SessionConfig {
            most: u32::try_from(most?).ok()?,
            keys: u32::try_from(keys?).ok()?,
        })
    }

    fn faces(&mut self) -> Option<FacesConfig> {
        let mut listen = BTreeMap::new();
        for (face, key) in [
            (Face::Http, "faces.http_listen"),
            (Face::Grpc, "faces.grpc_listen"),
            (Face::Redis, "faces.redis_listen"),
            (Face::Rlqs, "faces.rlqs_listen"),
        ] {
            let text = self.text(key).filter(|text| text != "off");
            let Some(text) = text else { continue };
            match text.parse::<FaceAddress>() {
                Ok(address) => drop(listen.insert(face, address)),
                Err(FaceAddressError) => self.refuse(key, &text, FaceAddressError.to_string()),
            }
        }
        let http = self.http_fields();
        let text = self.text("faces.rlqs_uncovered").unwrap_or_default();
        let uncovered = match text.parse::<Uncovered>() {
            Ok(uncovered) => uncovered,
            Err(error) => {
                self.refuse("faces.rlqs_uncovered", &text, error.to_string());
                return None;
            }
        };
        let texts = self.texts("faces.rules");
        if texts.len() > KeyRules::MOST {
            let what = format!("must be at most {} rules", KeyRules::MOST);
            self.refuse("faces.rules", &texts.len().to_string(), what);
            return None;
        }
        match KeyRules::parse(texts.iter().map(String::as_str)) {
            Ok(rules) => Some(FacesConfig {
                listen,
                rules,
                http: http?,
                uncovered,
            }),
            Err(error) => {
                self.refuse("faces.rules", error.rule(), error.to_string());
                None
            }
        }
    }

    fn http_fields(&mut self) -> Option<LimitFields> {
        let allowed = "standard, legacy, both or none";
        let fields = self.one("faces.http_fields", allowed, |text| match text {
            "standard" => Some(Fields::Standard),
            "legacy" => Some(Fields::Legacy),
            "both" => Some(Fields::Both),
            "none" => Some(Fields::None),
            _ => None,
        });
        let reset = self.one("faces.http_reset", "delta or epoch", |text| match text {
            "delta" => Some(Reset::Delta),
            "epoch" => Some(Reset::Epoch),
            _ => None,
        });
        let jitter = self.span("faces.http_jitter", Span::ZERO, Span::from_secs(3_600));
        Some(LimitFields {
            fields: fields?,
            reset: reset?,
            jitter: Duration::from_nanos(jitter?.nanos()),
        })
    }

    fn connections(&mut self, session: Option<SessionConfig>) -> Option<ConnectionsConfig> {
        let counts = [
            ("connections.clients", 64, 2_000_000),
            ("connections.peers", 64, 1_000_000),
            ("connections.metrics", 4, 1_000_000),
            ("connections.faces", 4, 1_000_000),
            ("connections.per_address", 16, 2_000_000),
        ];
        // `Some(None)` if the setting has no value, and `None` if the value is wrong.
        let counts = counts.map(|(key, least, most)| match self.text(key) {
            None => Some(None),
            Some(_) => {
                let count = self.count(key, least, most)?;
                Some(Some(u32::try_from(count).ok()?))
            }
        });
        let [clients, peers, metrics, faces, per_address] = counts;
        Some(ConnectionsConfig {
            // Room for the sessions, and for operators and sessions that are changing nodes.
            clients: match clients? {
                Some(clients) => clients,
                None => session.map(|session| session.most + session.most / 4 + 64)?,
            },
            peers: peers??,
            metrics: metrics??,
            faces: faces??,
            per_address: per_address?,
        })
    }

    fn log(&mut self) -> Option<LogConfig> {
        let format = self.one("log.format", "pretty or json", log_format);
        let allowed = "a filter such as info, or warn,aliquot_coordinator=debug";
        let filter = self.one("log.filter", allowed, |text| {
            let known = text.parse::<tracing_subscriber::filter::Targets>();
            let spans = tracing_subscriber::EnvFilter::try_new(text);
            (known.is_ok() || (text.contains('[') && spans.is_ok())).then(|| text.to_owned())
        });
        Some(LogConfig {
            format: format?,
            filter: filter?,
        })
    }

    /// Reads `tls.clients`: names, each followed by prefixes of keys if it is confined to some.
    fn client_names(&mut self) -> Vec<ClientName> {
        let mut clients = Vec::new();
        for text in self.texts("tls.clients") {
            let mut words = text.split_whitespace().map(str::to_owned);
            let (name, prefixes) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
            let is_key = |prefix: &String| Key::try_from(prefix.as_str()).is_ok();
            if !is_name(&name) || !prefixes.iter().all(is_key) {
                let what = "must be a DNS name, an IP address, or * for any name; key prefixes of whole segments \
                            may follow, such as `billing.example tenant/42`";
                self.refuse("tls.clients", &text, what.to_owned());
            }
            clients.push(ClientName { name, prefixes });
        }
        let is_all = |client: &ClientName| client.name == "*" && client.prefixes.is_empty();
        if clients.iter().any(is_all) && clients.iter().any(|client| !client.prefixes.is_empty()) {
            let what = "must not be listed together with a name that has prefixes: it matches every certificate, so \
                        no name would be restricted";
            self.refuse("tls.clients", "*", what.to_owned());
        }
        clients
    }

    /// Returns `None` if a setting is wrong, and `Some(None)` if TLS is off.
    fn tls(&mut self, peers: &[Address]) -> Option<Option<TlsConfig>> {
        let files = ["tls.cert", "tls.key", "tls.ca"];
        let required = self.flag("tls.require_client_cert");
        let texts = files.map(|key| self.text(key));
        let [Some(cert), Some(key), Some(ca)] = &texts else {
            if texts.iter().all(Option::is_none) {
                return Some(None);
            }
            for (key, _) in files.iter().zip(&texts).filter(|(_, text)| text.is_none()) {
                let what = "must be given, too: TLS needs tls.cert, tls.key and tls.ca";
                self.refuse(key, "", what.to_owned());
            }
            return None;
        };
        let mut named = self.texts("tls.peers");
        if named.is_empty() {
            named = peers.iter().map(|peer| peer.host().to_owned()).collect();
        }
        for key in ["tls.admins", "tls.peers"] {
            for name in self.texts(key) {
                if !is_name(&name) {
                    let what = "must be a DNS name, an IP address, or * for any".to_owned();
                    self.refuse(key, &name, what);
                }
            }
        }
        let clients = self.client_names();
        Some(Some(TlsConfig {
            cert: cert.into(),
            key: key.into(),
            ca: ca.into(),
            client_certs: if required? {
                ClientCerts::Required
            } else {
                ClientCerts::Optional
            },
            admins: self.texts("tls.admins"),
            clients,
            peers: named,
        }))
    }
}

/// Returns the format of the log with this name.
pub(super) fn log_format(text: &str) -> Option<LogFormat> {
    match text {
        "pretty" => Some(LogFormat::Pretty),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    text == "*" || rustls_pki_types::ServerName::try_from(text).is_ok()
}
