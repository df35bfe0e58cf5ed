//! Prints the effective configuration, with the origin of each value.

use super::Loaded;
use super::setting::{SETTINGS, Setting, Shape};
use super::values::Config;
use std::fmt;

impl Loaded {
    /// Returns the configuration as one JSON object: `{"lease": {"value": "3s", "origin": "default"}}`.
    /// A setting without a value is `null`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let settings = SETTINGS.iter().map(|setting| {
            let texts = effective(self, setting);
            let value = match (setting.shape, texts.as_slice()) {
                (Shape::List, texts) => texts.into(),
                (Shape::Flag, [text]) => (text == "true").into(),
                (_, [text]) => text.as_str().into(),
                _ => serde_json::Value::Null,
            };
            let origin = self.origin(setting.key).map(ToString::to_string);
            let shown = serde_json::json!({ "value": value, "origin": origin });
            (setting.key.to_owned(), shown)
        });
        serde_json::Value::Object(settings.collect())
    }
}

/// Formats the configuration as a file, with the origins as comments.
impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |setting: &Setting, name: &str| {
            let texts = effective(self, setting);
            let quoted = texts.iter().map(|text| format!("{text:?}"));
            let value = match (setting.shape, texts.as_slice()) {
                (Shape::List, _) => format!("[{}]", quoted.collect::<Vec<_>>().join(", ")),
                (Shape::Flag, [text]) => text.clone(),
                (_, [text]) if text.parse::<u32>().is_ok() => text.clone(),
                (_, [text]) => format!("{text:?}"),
                _ => String::new(),
            };
            let off = if value.is_empty() { "# " } else { "" };
            let assignment = format!("{off}{name} = {value}");
            let origin = self.origin(setting.key);
            (
                assignment,
                origin.map_or_else(String::new, ToString::to_string),
            )
        };
        let plain = SETTINGS.iter().filter(|setting| !setting.key.contains('.'));
        for setting in plain {
            let (assignment, origin) = line(setting, setting.key);
            writeln!(f, "{assignment:<44} # {origin}")?;
        }
        let mut group = "";
        for setting in SETTINGS {
            let Some((table, name)) = setting.key.split_once('.') else {
                continue;
            };
            if table != group {
                writeln!(f, "\n[{table}]")?;
                group = table;
            }
            let (assignment, origin) = line(setting, name);
            writeln!(f, "{assignment:<44} # {origin}")?;
        }
        Ok(())
    }
}

/// Returns the value in force: as written, or as it follows from other settings.
fn effective(loaded: &Loaded, setting: &Setting) -> Vec<String> {
    let config: &Config = &loaded.config;
    match setting.key {
        "advertise" => vec![config.advertise.to_string()],
        "peer_advertise" => vec![config.peer_advertise.to_string()],
        "lease" => vec![config.pace.lease.to_string()],
        "heartbeat" => vec![config.pace.heartbeat.to_string()],
        "election_min" => vec![config.pace.election_min.to_string()],
        "election_max" => vec![config.pace.election_max.to_string()],
        "connections.clients" => vec![config.connections.clients.to_string()],
        "cluster.peers" => config
            .cluster
            .peers
            .iter()
            .map(ToString::to_string)
            .collect(),
        "tls.peers" => config
            .tls
            .as_ref()
            .map_or_else(Vec::new, |tls| tls.peers.clone()),
        key => loaded
            .written
            .get(key)
            .map_or_else(Vec::new, |entry| entry.texts.clone()),
    }
}
