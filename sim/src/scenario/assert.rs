//! `[[assert]]`: assertions in addition to the invariants.

use super::fields::{Fields, part};
use super::format::METRICS;
use aliquot_core::budget::grammar;
use toml::Value;

/// The subject of an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// An invariant, by name, which must not be broken in the window.
    Never(String),
    /// A figure at the end of the healing phase.
    AfterHeal(&'static str),
    /// A figure over the window.
    Metric(&'static str),
    /// A mark, which some seed must hit.
    Sometimes(String),
}

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A value in the figure's own unit; spans are in seconds.
    Plain(f64),
    /// A multiple of the budget's rate.
    OfRate(f64),
}

/// One assertion.
#[derive(Clone, Debug, PartialEq)]
pub struct Assert {
    /// The subject.
    pub what: What,
    /// The lower bound, inclusive.
    pub at_least: Option<Bound>,
    /// The upper bound, inclusive.
    pub at_most: Option<Bound>,
    /// Begin of the window, in nanoseconds of true time.
    pub from: u64,
    /// End of the window.
    pub to: u64,
    /// Name of a client group; if set, only its clients count.
    pub group: Option<String>,
    /// The key whose figures count; the first budget's if `None`.
    pub key: Option<String>,
    /// The assertion in words, for messages.
    pub says: String,
}

impl Assert {
    pub(super) fn read(fields: &Fields<'_>, duration: u64, marks: &[&str]) -> Option<Self> {
        let named = ["never", "after_heal", "metric", "sometimes"];
        let written: Vec<&str> = named.into_iter().filter(|name| fields.has(name)).collect();
        let [name] = written[..] else {
            fields.refuse(
                "metric",
                format!("exactly one of {} must be there", named.join(", ")),
            );
            return None;
        };
        let word = fields.maybe_word(name)?;
        let metric = || METRICS.iter().find(|known| **known == word).copied();
        let what = match name {
            "never" => What::Never(word.clone()),
            "after_heal" => What::AfterHeal(metric()?),
            "metric" => What::Metric(metric()?),
            _ if marks.contains(&word.as_str()) => What::Sometimes(word.clone()),
            _ => {
                let near = aliquot_budgets::nearest(&word, marks.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
                fields.refuse(name, format!("there is no such mark{near}"));
                return None;
            }
        };
        let all = ["at_least", "at_most", "from", "to", "group", "key"];
        let used: &[&str] = match name {
            "metric" => &all,
            "after_heal" => &["at_least", "at_most", "group", "key"],
            "never" => &["from", "to"],
            _ => &[],
        };
        fields.refuse_unused(name, &all, used);
        let (at_least, at_most) = (bound(fields, "at_least"), bound(fields, "at_most"));
        let figure = matches!(what, What::AfterHeal(_) | What::Metric(_));
        if figure && !fields.has("at_least") && !fields.has("at_most") {
            fields.refuse("at_least", "a figure needs at_least, at_most or both");
            return None;
        }
        let (from, to) = (
            fields.nanos("from"),
            fields.maybe_nanos("to").unwrap_or(duration),
        );
        if from >= to {
            fields.refuse("from", "must be before the window's end");
        }
        Some(Self {
            says: said(name, &word, fields),
            what,
            at_least,
            at_most,
            from,
            to,
            group: fields.maybe_word("group"),
            key: fields.maybe_word("key"),
        })
    }
}

fn said(name: &str, word: &str, fields: &Fields<'_>) -> String {
    let mut said = match name {
        "metric" => word.to_owned(),
        name => format!("{name} {word}"),
    };
    for key in ["at_least", "at_most", "from", "to", "group", "key"] {
        if let Some(text) = fields.maybe_word(key).filter(|_| fields.has(key)) {
            said.push_str(&format!(" {} {text}", key.replace('_', " ")));
        } else if fields.has(key) {
            let nanos = fields.nanos(key) as f64 / 1e9;
            said.push_str(&format!(" {key} {nanos}s"));
        }
    }
    said
}

fn bound(fields: &Fields<'_>, name: &str) -> Option<Bound> {
    let text = fields.maybe_word(name)?;
    let read = match text.strip_suffix('R') {
        Some(times) => times.trim().parse().ok().map(Bound::OfRate),
        None => plain(text.trim()).map(Bound::Plain),
    };
    if read.is_none() {
        fields.refuse(name, "must be a number, a part such as \"98%\", a span such as \"3s\", or times the rate such as \"0.99 R\"");
    }
    read
}

fn plain(text: &str) -> Option<f64> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    if text.ends_with('%') {
        return part(&Value::String(text.to_owned()));
    }
    grammar::span(text).map(|span| span.nanos() as f64 / 1e9)
}
