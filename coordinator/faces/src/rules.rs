//! Rules that map the keys of requests to keys of budgets.
//!
//! A rule is written `FACE:PATTERN -> KEY`. The pattern is a text, or a prefix with a `*` at its end. The rest of
//! a request's key that the `*` stands for replaces the `*` of the budget's key:
//!
//! | rule | request | budget's key |
//! |---|---|---|
//! | `redis:cl/* -> cl/*` | `cl/user7` | `cl/user7` |
//! | `redis:rate:* -> api/*` | `rate:user7` | `api/user7` |
//! | `http:health -> internal/health` | `health` | `internal/health` |
//! | `any:* -> all` | any | `all` |
//!
//! **Precedence.** Of all rules that match, a rule of the face beats one of `any`, a text beats a prefix, and a
//! longer prefix beats a shorter one. The order in which rules are written does not matter.
//!
//! A face without any rule uses the request's key as it is. A face with rules has no budget for keys that none of
//! them matches.

use crate::scope::Scope;
use aliquot_core::budget::Key;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

/// A protocol in which services ask, by keys of their own that rules map to budgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Face {
    /// JSON over HTTP.
    Http,
    /// The gRPC service `aliquot.v1.Limits`.
    Grpc,
    /// The protocol of Redis.
    Redis,
    /// The rate limit quota service of Envoy.
    Rlqs,
}

impl Face {
    /// All faces, in order.
    pub const ALL: [Self; 4] = [Self::Http, Self::Grpc, Self::Redis, Self::Rlqs];

    /// Returns the name, as in rules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Redis => "redis",
            Self::Rlqs => "rlqs",
        }
    }

    /// Returns true if requests of the protocol can put back tokens without naming the charge.
    #[must_use]
    pub const fn refunds(self) -> bool {
        matches!(self, Self::Redis)
    }

    /// Returns true if keys of the protocol may have bytes that no budget's key has. Those are escaped.
    #[must_use]
    pub const fn escapes(self) -> bool {
        matches!(self, Self::Redis)
    }
}

impl fmt::Display for Face {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no face with rules. Those of Envoy's rate limit service are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be http, grpc, redis or rlqs; `aliquot rls` has rules of its own, which its debug port shows at /rlconfig"
)]
pub struct UnknownFace;

impl FromStr for Face {
    type Err = UnknownFace;

    fn from_str(text: &str) -> Result<Self, UnknownFace> {
        let known = Self::ALL.into_iter().find(|face| face.name() == text);
        known.ok_or(UnknownFace)
    }
}

/// A rule is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The rule has not the form of one.
    #[error(
        "{rule:?} must be FACE:PATTERN -> KEY, such as \"redis:cl/* -> cl/*\", where FACE is http, grpc, redis, \
         rlqs or any, and a \"*\" stands at the end of the pattern only"
    )]
    Form {
        /// The rule.
        rule: String,
    },
    /// The budget's key takes a part that the pattern does not have.
    #[error("{rule:?} has a \"*\" in its key, but its pattern does not end in \"*\"")]
    NoPart {
        /// The rule.
        rule: String,
    },
    /// The budget's key is not valid.
    #[error("{rule:?}: the budget's key {error}")]
    Key {
        /// The rule.
        rule: String,
        /// Description of what is wrong.
        error: String,
    },
    /// Another rule has the same face and pattern.
    #[error("{rule:?} has the same face and pattern as another rule")]
    Twice {
        /// The rule.
        rule: String,
    },
}

impl RuleError {
    /// Returns the rule.
    #[must_use]
    pub fn rule(&self) -> &str {
        match self {
            Self::Form { rule }
            | Self::NoPart { rule }
            | Self::Key { rule, .. }
            | Self::Twice { rule } => rule,
        }
    }
}

/// A request's key has no budget's key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyProblem {
    /// No rule of the face matches.
    #[error("no rule of the face {face} matches the key")]
    NoRule {
        /// The face.
        face: Face,
    },
    /// The key is not valid for a budget, and neither is its escaped form.
    #[error("the key {0}")]
    Invalid(String),
    /// The caller may not ask for the key.
    #[error("this caller may not use the key {key:?}, only {scope}")]
    Outside {
        /// Key of the budget.
        key: String,
        /// Keys that the caller may ask for.
        scope: Scope,
    },
}

/// A rule, read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    text: String,
    to: String,
}

/// Rules by face, `None` for `any`.
type ByFace<T> = BTreeMap<Option<Face>, T>;

/// The rules of all faces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRules {
    exact: ByFace<BTreeMap<String, Rule>>,
    prefix: ByFace<BTreeMap<String, Rule>>,
}

/// The budget's key of a request, and the rule that named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped<'a> {
    /// Key of the budget.
    pub key: String,
    /// The rule as it was written; `None` if the face has none, and the key is used as it is.
    pub rule: Option<&'a str>,
}

impl KeyRules {
    /// Maximum number of rules.
    pub const MOST: usize = 4_096;

    /// Reads rules.
    ///
    /// # Errors
    ///
    /// [`RuleError`] of the first rule that is not valid.
    pub fn parse<'r>(rules: impl IntoIterator<Item = &'r str>) -> Result<Self, RuleError> {
        let mut read = Self::default();
        for rule in rules {
            read.add(rule)?;
        }
        Ok(read)
    }

    fn add(&mut self, text: &str) -> Result<(), RuleError> {
        let rule = || text.to_owned();
        let form = || RuleError::Form { rule: rule() };
        let (from, to) = text.split_once("->").ok_or_else(form)?;
        let (from, to) = (from.trim(), to.trim());
        let (face, pattern) = from.split_once(':').ok_or_else(form)?;
        let face = match face {
            "any" => None,
            face => Some(face.parse().map_err(|_| form())?),
        };
        let (group, pattern) = match pattern.strip_suffix('*') {
            Some(prefix) => (&mut self.prefix, prefix),
            None => (&mut self.exact, pattern),
        };
        let is_prefix = from.ends_with('*');
        if pattern.contains('*')
            || (pattern.is_empty() && !is_prefix)
            || to.matches('*').count() > 1
        {
            return Err(form());
        }
        if to.contains('*') && !is_prefix {
            return Err(RuleError::NoPart { rule: rule() });
        }
        let example = to.replace('*', "x");
        if let Err(error) = Key::try_from(example) {
            let error = error.to_string();
            return Err(RuleError::Key {
                rule: rule(),
                error,
            });
        }
        let known = group.entry(face).or_default();
        let added = Rule {
            text: rule(),
            to: to.to_owned(),
        };
        match known.insert(pattern.to_owned(), added) {
            Some(_) => Err(RuleError::Twice { rule: rule() }),
            None => Ok(()),
        }
    }

    /// Returns the budget's key for the key of a request.
    ///
    /// # Errors
    ///
    /// [`KeyProblem`] if there is none.
    pub fn budget_key(&self, face: Face, key: &[u8]) -> Result<Mapped<'_>, KeyProblem> {
        let text = as_text(face, key)?;
        let (key, rule) = match self.find(face, &text) {
            Some((rule, rest)) => (rule.to.replace('*', rest), Some(rule.text.as_str())),
            None if self.has_rules(face) => return Err(KeyProblem::NoRule { face }),
            None => (text.into_owned(), None),
        };
        match Key::check(&key) {
            Ok(()) => Ok(Mapped { key, rule }),
            Err(error) => Err(KeyProblem::Invalid(error.to_string())),
        }
    }

    fn has_rules(&self, face: Face) -> bool {
        let of = |face| self.exact.contains_key(&face) || self.prefix.contains_key(&face);
        of(Some(face)) || of(None)
    }

    /// Returns the rule of a key, and the part that its `*` stands for.
    fn find<'k>(&self, face: Face, key: &'k str) -> Option<(&Rule, &'k str)> {
        [Some(face), None].into_iter().find_map(|face| {
            let exact = self.exact.get(&face).and_then(|rules| rules.get(key));
            exact.map(|rule| (rule, "")).or_else(|| {
                let rules = self.prefix.get(&face)?;
                longest(rules, key)
            })
        })
    }
}

/// Returns the rule with the longest prefix of `key`. All prefixes of a key that are in the map stand before the
/// key, and a longer one behind a shorter one, so each step back shortens the part that is searched.
fn longest<'r, 'k>(rules: &'r BTreeMap<String, Rule>, key: &'k str) -> Option<(&'r Rule, &'k str)> {
    let mut end = key;
    loop {
        let (prefix, rule) = rules.range::<str, _>(up_to(end)).next_back()?;
        if let Some(rest) = key.strip_prefix(prefix.as_str()) {
            return Some((rule, rest));
        }
        let common = common(prefix, end);
        end = &end[..common];
    }
}

fn up_to(end: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Unbounded, Bound::Included(end))
}

/// Returns the length of the longest text with which both begin.
fn common(left: &str, right: &str) -> usize {
    let same = left.chars().zip(right.chars()).take_while(|(l, r)| l == r);
    same.map(|(c, _)| c.len_utf8()).sum()
}

/// Returns a key as text. Bytes that no budget's key has are escaped as `%XX` if the protocol may have them, and
/// so is `%`: two keys never become one.
fn as_text(face: Face, key: &[u8]) -> Result<Cow<'_, str>, KeyProblem> {
    if key.len() > Key::BYTES_MAX {
        let error = format!(
            "must have at most {} bytes (it has {})",
            Key::BYTES_MAX,
            key.len()
        );
        return Err(KeyProblem::Invalid(error));
    }
    if !face.escapes() {
        let text = str::from_utf8(key);
        return text
            .map(Cow::Borrowed)
            .map_err(|_| KeyProblem::Invalid("must be visible ASCII".into()));
    }
    let slash_is_plain = |at: usize| {
        let neighbour =
            |at: Option<usize>| at.and_then(|at| key.get(at)).is_some_and(|b| *b != b'/');
        neighbour(at.checked_sub(1)) && at + 1 < key.len()
    };
    let plain = |(at, byte): (usize, &u8)| match byte {
        b'*' | b'%' => false,
        b'/' => slash_is_plain(at),
        byte => byte.is_ascii_graphic(),
    };
    if key.iter().enumerate().all(plain) {
        return Ok(String::from_utf8_lossy(key));
    }
    let mut text = String::with_capacity(key.len() + 8);
    for (at, byte) in key.iter().enumerate() {
        match plain((at, byte)) {
            true => text.push(char::from(*byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(Cow::Owned(text))
}

#[cfg(test)]
#[path = "../tests/unit/rules.rs"]
mod tests;
