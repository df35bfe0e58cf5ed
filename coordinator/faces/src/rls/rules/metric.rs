//! Names of a rule in statistics.

use super::entry::Entry;
use crate::rls::stats::SEPARATOR;

/// The name of a rule in statistics: its domain, and a part for each depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Metric {
    domain: String,
    parts: Vec<Part>,
}

/// One depth of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The same for all requests, such as `user_alice`, or `user` if the rule has no value.
    Fixed(String),
    /// A key, and the value of the request.
    Valued(String),
}

impl Metric {
    pub(super) fn new(domain: &str, parts: impl Iterator<Item = Part>) -> Self {
        Self {
            domain: domain.to_owned(),
            parts: parts.collect(),
        }
    }

    /// Returns the name, if it is the same for all requests.
    pub(super) fn fixed(&self) -> String {
        self.joined(&[])
    }

    /// Returns the name for a descriptor, or `None` if it is the same for all.
    pub(super) fn of(&self, entries: &[Entry<'_>]) -> Option<String> {
        let valued = self
            .parts
            .iter()
            .any(|part| matches!(part, Part::Valued(_)));
        valued.then(|| self.joined(entries))
    }

    fn joined(&self, entries: &[Entry<'_>]) -> String {
        let mut name = self.domain.clone();
        for (index, part) in self.parts.iter().enumerate() {
            name.push(SEPARATOR);
            match part {
                Part::Fixed(text) => name.push_str(text),
                Part::Valued(key) => {
                    name.push_str(key);
                    let value = entries.get(index).map_or(&b""[..], |entry| entry.value);
                    if !value.is_empty() {
                        name.push('_');
                        name.push_str(&String::from_utf8_lossy(value).replace(SEPARATOR, "_"));
                    }
                }
            }
        }
        name
    }
}
