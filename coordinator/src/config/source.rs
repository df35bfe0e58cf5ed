//! Merges file, variables and flags into one text per setting.

use super::flags::Flags;
use super::problem::{Origin, Problems};
use super::setting::{SETTINGS, Setting, Shape, nearest, setting};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The sources of a configuration, as text.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    file: Option<(PathBuf, String)>,
    env: BTreeMap<String, String>,
    flags: Flags,
    /// Defaults of another program than a node.
    defaults: BTreeMap<&'static str, &'static str>,
}

impl Sources {
    /// Sets the file: its path, which is only for messages, and its content.
    pub fn file(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        self.file = Some((path.into(), text.into()));
    }

    /// Adds every variable whose name begins with `ALIQUOT_`.
    pub fn env(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        let ours = variables.into_iter();
        self.env
            .extend(ours.filter(|(name, _)| name.starts_with(PREFIX)));
    }

    /// Sets the default of a setting, instead of that of a node.
    pub fn default_of(&mut self, key: &'static str, text: &'static str) {
        self.defaults.insert(key, text);
    }

    /// Sets the flags.
    pub fn flags(&mut self, flags: Flags) {
        self.flags = flags;
    }

    /// Returns a warning for each variable that is similar to one of ours. It is no error, because an
    /// orchestrator sets variables of its own for every service.
    pub(super) fn warnings(&self) -> Vec<String> {
        let known = |name: &str| SETTINGS.iter().any(|setting| setting.variable() == name);
        let odd = self
            .env
            .keys()
            .filter(|name| !known(name) && !OTHERS.contains(&name.as_str()));
        odd.filter_map(|name| {
            let key = name.strip_prefix(PREFIX)?.to_lowercase();
            let near = setting(nearest(&key)?)?.variable();
            Some(format!(
                "the variable {name} is not a setting; did you mean {near}?"
            ))
        })
        .collect()
    }
}

const PREFIX: &str = "ALIQUOT_";

/// Variables of ours that are not settings of a node.
const OTHERS: &[&str] = &[
    "ALIQUOT_CONFIG",
    "ALIQUOT_ENDPOINTS",
    "ALIQUOT_TOKEN_FILE",
    "ALIQUOT_CLI_TLS_CA",
    "ALIQUOT_CLI_TLS_CERT",
    "ALIQUOT_CLI_TLS_KEY",
    "ALIQUOT_CLI_TIMEOUT",
];

/// The texts of one setting, and their origin.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) texts: Vec<String>,
    pub(super) origin: Origin,
}

/// The texts of all settings, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Written(BTreeMap<&'static str, Entry>);

impl Written {
    /// Merges the sources. A flag overrides a variable, a variable the file, the file the default.
    pub(super) fn of(sources: &Sources, problems: &mut Problems) -> Self {
        let mut written = Self::default();
        for setting in SETTINGS {
            let own = sources.defaults.get(setting.key).copied();
            let text = own.unwrap_or(setting.default);
            written.set(setting, text, Origin::Default, problems);
        }
        if let Some((path, text)) = &sources.file {
            written.read_file(path, text, problems);
        }
        for setting in SETTINGS {
            let name = setting.variable();
            if let Some(text) = sources.env.get(&name) {
                written.set(setting, text, Origin::Env(name), problems);
            }
            if let Some(texts) = sources.flags.get(setting.key) {
                let origin = Origin::Flag(format!("--{}", setting.flag()));
                written.set(setting, &texts.join(","), origin, problems);
            }
        }
        written
    }

    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.0.get(key)
    }

    /// Sets a text. An empty text removes what was set before.
    fn set(&mut self, setting: &Setting, text: &str, origin: Origin, problems: &mut Problems) {
        let text = text.trim();
        let texts = match setting.shape {
            _ if text.is_empty() => Vec::new(),
            Shape::List => text.split(',').map(str::trim).map(str::to_owned).collect(),
            Shape::One | Shape::Flag => vec![text.to_owned()],
        };
        self.put(setting, texts, text, origin, problems);
    }

    /// Sets texts, which are `written` so. An empty item of a list may be a forgotten one.
    fn put(
        &mut self,
        setting: &Setting,
        mut texts: Vec<String>,
        written: &str,
        origin: Origin,
        problems: &mut Problems,
    ) {
        if setting.shape == Shape::List {
            let (empty, items) = (texts.iter().position(String::is_empty), texts.len());
            if let Some(at) = empty {
                let item = at + 1;
                let what = format!(
                    "has an empty item, number {item} of {items}: each must be {}",
                    setting.value
                );
                problems.add(setting.key, Some(written.to_owned()), &origin, what);
            }
        }
        texts.retain(|text| !text.is_empty());
        self.0.insert(setting.key, Entry { texts, origin });
    }

    fn read_file(&mut self, path: &Path, text: &str, problems: &mut Problems) {
        let file = File { path, text };
        match DeTable::parse(text) {
            Ok(table) => self.read_table("", table.get_ref(), &file, problems),
            Err(error) => {
                let start = error.span().map_or(0, |span| span.start);
                let what = format!("is not TOML: {}", error.message());
                problems.add("the file", None, &file.at(start), what);
            }
        }
    }

    fn read_table(
        &mut self,
        prefix: &str,
        table: &DeTable<'_>,
        file: &File<'_>,
        problems: &mut Problems,
    ) {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            let origin = file.at(name.span().start);
            let is_group = |setting: &Setting| {
                let rest = setting.key.strip_prefix(key.as_str());
                rest.is_some_and(|rest| rest.starts_with('.'))
            };
            match (setting(&key), value.get_ref()) {
                (Some(setting), inner) => {
                    let written = file.text.get(value.span()).unwrap_or_default();
                    match texts_of(setting, inner) {
                        Ok(texts) => self.put(setting, texts, written, origin, problems),
                        Err(what) => problems.add(&key, Some(shortened(written)), &origin, what),
                    }
                }
                (None, DeValue::Table(inner)) if SETTINGS.iter().any(is_group) => {
                    self.read_table(&format!("{key}."), inner, file, problems);
                }
                (None, _) if SETTINGS.iter().any(is_group) => {
                    let what = format!("must be a table: write [{key}]");
                    problems.add(&key, None, &origin, what);
                }
                (None, _) => problems.add(&key, None, &origin, unknown(&key)),
            }
        }
    }
}

fn unknown(key: &str) -> String {
    // The table may be the mistake: `id` for `cluster.id`.
    let last = key.rsplit('.').next().unwrap_or(key);
    let ends = SETTINGS.iter().map(|setting| setting.key);
    let elsewhere = ends
        .clone()
        .find(|known| known.rsplit('.').next() == Some(last));
    match elsewhere.or_else(|| nearest(key)) {
        Some(near) => format!("is not a setting; did you mean {near:?}?"),
        None => "is not a setting; `aliquot serve --print-config` shows all settings".to_owned(),
    }
}

/// Maximum number of characters of a value in an error.
const VALUE_CHARS_MAX: usize = 80;

fn shortened(written: &str) -> String {
    written.chars().take(VALUE_CHARS_MAX).collect()
}

fn texts_of(setting: &Setting, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match (setting.shape, value) {
        (Shape::List, DeValue::Array(values)) => {
            let values = values.iter().map(Spanned::get_ref);
            values.map(|value| text_of(setting, value)).collect()
        }
        (Shape::List, _) => Err(format!("must be a list, such as [{:?}]", setting.value)),
        (Shape::One | Shape::Flag, value) => Ok(vec![text_of(setting, value)?]),
    }
}

/// Returns a value as a variable or a flag would write it. Whether it is allowed depends on the setting.
fn text_of(setting: &Setting, value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.trim().to_owned()),
        DeValue::Boolean(flag) => Ok(flag.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            let decimal = i64::from_str_radix(&digits, number.radix());
            Ok(decimal.map_or(digits, |number| number.to_string()))
        }
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Datetime(time) => Ok(time.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => {
            let value = setting.value;
            Err(match setting.shape {
                Shape::List => format!("must be a list, each item one {value}"),
                Shape::One | Shape::Flag => format!("must be one {value}"),
            })
        }
    }
}

struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    fn at(&self, offset: usize) -> Origin {
        let before = self.text.bytes().take(offset);
        Origin::File {
            path: self.path.to_owned(),
            line: before.filter(|byte| *byte == b'\n').count() + 1,
        }
    }
}
