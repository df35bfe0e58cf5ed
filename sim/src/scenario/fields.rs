//! Reads the fields of a section, as the format's table defines them.

use super::format::{Default, Key, Section, Shape};
use super::problem::Problems;
use aliquot_budgets::nearest;
use aliquot_core::budget::{Labels, WeightRule, grammar};
use std::cell::RefCell;
use toml::{Table, Value};

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A number in the figure's own unit.
    Plain(f64),
    /// A part, such as `98%`.
    Part(f64),
    /// A span, in seconds.
    Seconds(f64),
    /// A multiple of the budget's rate.
    OfRate(f64),
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Read {
    /// A duration in nanoseconds.
    Nanos(u64),
    Shift(i64),
    Whole(u64),
    /// A number, a fraction, or requests per second.
    Number(f64),
    /// A half-open range.
    Range(u64, u64),
    Texts(Vec<String>),
    Bound(Bound),
    Flag(bool),
    Points(Vec<(u64, f64)>),
    Table(Table),
}

/// One section of a file. `place` names it in messages.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    section: &'static Section,
    place: String,
    table: &'a Table,
    problems: &'a RefCell<Problems>,
}

impl<'a> Fields<'a> {
    /// Opens a section. Unknown keys are reported as problems.
    pub(super) fn open(
        section: &'static Section,
        place: String,
        table: &'a Table,
        problems: &'a RefCell<Problems>,
    ) -> Self {
        for (name, value) in table {
            if section.keys.iter().any(|key| key.name == name) {
                continue;
            }
            let names = || section.keys.iter().map(|key| key.name);
            let hint = match nearest(name, names()) {
                Some(near) => format!("there is no such key; did you mean `{near}`?"),
                None => {
                    let all: Vec<&str> = names().collect();
                    format!(
                        "there is no such key; the keys of {} are {}",
                        section.heading,
                        all.join(", ")
                    )
                }
            };
            let mut problems = problems.borrow_mut();
            problems.add(&format!("{place}.{name}"), value, hint);
        }
        Self {
            section,
            place,
            table,
            problems,
        }
    }

    /// Reports that the value of `name` is wrong.
    pub(super) fn refuse(&self, name: &str, allowed: impl Into<String>) {
        let value = self.table.get(name).map(Value::to_string);
        let field = format!("{}.{name}", self.place);
        let mut problems = self.problems.borrow_mut();
        problems.add(&field, value.unwrap_or_default(), allowed);
    }

    /// Reports that this value of `name` is wrong, which may follow from other keys.
    #[cfg(feature = "network")]
    pub(super) fn refuse_as(&self, name: &str, value: String, allowed: String) {
        let field = format!("{}.{name}", self.place);
        self.problems.borrow_mut().add(&field, value, allowed);
    }

    /// Reports the keys among `keys` that the file sets and that have no effect, because `user` uses only `used`.
    pub(super) fn refuse_unused(&self, user: &str, keys: &[&str], used: &[&str]) {
        let takes = match used {
            [] => format!("takes none of {}", keys.join(", ")),
            _ => format!("takes {}", used.join(", ")),
        };
        for name in keys.iter().filter(|name| !used.contains(name)) {
            if self.has(name) {
                self.refuse(name, format!("has no effect here: {user} {takes}"));
            }
        }
    }

    /// Returns true if the file sets this key.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    fn key(&self, name: &str) -> Option<&'static Key> {
        let key = self.section.keys.iter().find(|key| key.name == name);
        debug_assert!(key.is_some(), "{name} is not in the table");
        key
    }

    fn read(&self, name: &str) -> Option<Read> {
        let key = self.key(name)?;
        match (self.table.get(name), key.default) {
            (Some(value), _) => {
                let read = read(&key.shape, value);
                if read.is_none() {
                    self.refuse(name, format!("must be {}", key.shape.allowed()));
                }
                read
            }
            (None, Default::Is(text)) => read(&key.shape, &written(&key.shape, text)),
            (None, Default::Nothing(_)) => None,
            (None, Default::Required) => {
                self.refuse(
                    name,
                    format!("is missing; it must be {}", key.shape.allowed()),
                );
                None
            }
        }
    }

    pub(super) fn nanos(&self, name: &str) -> u64 {
        self.maybe_nanos(name).unwrap_or_default()
    }

    pub(super) fn maybe_nanos(&self, name: &str) -> Option<u64> {
        match self.read(name)? {
            Read::Nanos(nanos) => Some(nanos),
            _ => None,
        }
    }

    pub(super) fn shift(&self, name: &str) -> i64 {
        match self.read(name) {
            Some(Read::Shift(nanos)) => nanos,
            _ => 0,
        }
    }

    pub(super) fn whole(&self, name: &str) -> u64 {
        self.maybe_whole(name).unwrap_or_default()
    }

    pub(super) fn maybe_whole(&self, name: &str) -> Option<u64> {
        match self.read(name)? {
            Read::Whole(whole) => Some(whole),
            _ => None,
        }
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.maybe_number(name).unwrap_or_default()
    }

    pub(super) fn maybe_number(&self, name: &str) -> Option<f64> {
        match self.read(name)? {
            Read::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns a half-open range.
    pub(super) fn range(&self, name: &str) -> Option<(u64, u64)> {
        match self.read(name)? {
            Read::Range(from, to) => Some((from, to)),
            _ => None,
        }
    }

    pub(super) fn word(&self, name: &str) -> String {
        self.maybe_word(name).unwrap_or_default()
    }

    pub(super) fn maybe_word(&self, name: &str) -> Option<String> {
        self.texts(name).into_iter().next()
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        match self.read(name) {
            Some(Read::Texts(texts)) => texts,
            _ => Vec::new(),
        }
    }

    pub(super) fn bound(&self, name: &str) -> Option<Bound> {
        match self.read(name)? {
            Read::Bound(bound) => Some(bound),
            _ => None,
        }
    }

    /// Returns the value of a key as the file writes it, without quotes; `None` if the file does not set it.
    pub(super) fn as_written(&self, name: &str) -> Option<String> {
        let value = self.table.get(name)?;
        Some(
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned),
        )
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.read(name), Some(Read::Flag(true)))
    }

    pub(super) fn points(&self, name: &str) -> Vec<(u64, f64)> {
        match self.read(name) {
            Some(Read::Points(points)) => points,
            _ => Vec::new(),
        }
    }

    pub(super) fn labels(&self, name: &str) -> Labels {
        let table = self.table(name).into_iter();
        table
            .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())))
            .collect()
    }

    pub(super) fn table(&self, name: &str) -> Table {
        match self.read(name) {
            Some(Read::Table(table)) => table,
            _ => Table::new(),
        }
    }
}

/// Converts a default of the table to a TOML value.
fn written(shape: &Shape, text: &str) -> Value {
    let number = || text.parse().map(Value::Integer);
    match shape {
        Shape::Whole { .. } => number().unwrap_or(Value::Boolean(false)),
        Shape::Number { .. } => text.parse().map_or(Value::Boolean(false), Value::Float),
        Shape::Flag => Value::Boolean(text == "true"),
        _ => Value::String(text.to_owned()),
    }
}

/// Reads a value by its shape. Returns `None` if it does not have that shape.
pub(super) fn read(shape: &Shape, value: &Value) -> Option<Read> {
    let within = |number: f64, least: f64, most: f64| {
        (number >= least && number <= most).then_some(Read::Number(number))
    };
    match shape {
        Shape::Span { least, most } => {
            let nanos = nanos(value.as_str()?)?;
            let bounds = nanos_of(least)..=nanos_of(most);
            bounds.contains(&nanos).then_some(Read::Nanos(nanos))
        }
        Shape::Shift { most } => {
            let nanos = shift(value.as_str()?)?;
            let within = nanos.unsigned_abs() <= nanos_of(most);
            within.then_some(Read::Shift(nanos))
        }
        Shape::Whole { least, most } => {
            let whole = u64::try_from(value.as_integer()?).ok()?;
            (least..=most)
                .contains(&&whole)
                .then_some(Read::Whole(whole))
        }
        Shape::Number { least, most } => within(number(value)?, *least, *most),
        Shape::Part => within(part(value)?, 0.0, 1.0),
        Shape::Rate => rate(value.as_str()?).map(Read::Number),
        Shape::Seeds => range(value, 0).map(|(from, to)| Read::Range(from, to)),
        Shape::Range => range(value, 1).map(|(from, to)| Read::Range(from, to)),
        Shape::Word(words) => {
            let text = value.as_str()?;
            words
                .contains(&text)
                .then(|| Read::Texts(vec![text.to_owned()]))
        }
        Shape::Words(words) => {
            let texts = texts(value)?;
            let known = texts.iter().all(|text| words.contains(&text.as_str()));
            known.then_some(Read::Texts(texts))
        }
        Shape::Text => {
            let text = value.as_str()?;
            Some(Read::Texts(vec![text.to_owned()]))
        }
        Shape::Bound => bound(value).map(Read::Bound),
        Shape::Texts => texts(value).map(Read::Texts),
        Shape::Flag => value.as_bool().map(Read::Flag),
        Shape::Points => points(value).map(Read::Points),
        Shape::Budget => value.as_table().cloned().map(Read::Table),
        Shape::Labels => value
            .as_table()
            .filter(|table| are_labels(table))
            .cloned()
            .map(Read::Table),
    }
}

fn nanos(text: &str) -> Option<u64> {
    grammar::span(text).map(|span| span.nanos())
}

/// Parses a span that the table itself contains.
fn nanos_of(text: &str) -> u64 {
    nanos(text).unwrap_or_default()
}

fn shift(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    i64::try_from(nanos(rest)?).ok()?.checked_mul(sign)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(whole) => Some(*whole as f64),
        Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
        _ => None,
    }
}

/// Parses `"30%"` or a number.
fn part(value: &Value) -> Option<f64> {
    match value.as_str() {
        Some(text) => {
            let per_cent = finite(text.strip_suffix('%')?)?;
            Some(per_cent / 100.0)
        }
        None => number(value),
    }
}

/// Parses a number, `"98%"` of at most 100 %, `"3s"` or `"0.99 R"`.
fn bound(value: &Value) -> Option<Bound> {
    let Some(text) = value.as_str() else {
        return number(value).map(Bound::Plain);
    };
    if let Some(times) = text.strip_suffix('R') {
        let times = finite(times).filter(|times| *times >= 0.0);
        return times.map(Bound::OfRate);
    }
    if text.ends_with('%') {
        let part = part(value).filter(|part| (0.0..=1.0).contains(part));
        return part.map(Bound::Part);
    }
    nanos(text).map(|nanos| Bound::Seconds(nanos as f64 / 1e9))
}

fn finite(text: &str) -> Option<f64> {
    let number: f64 = text.trim().parse().ok()?;
    number.is_finite().then_some(number)
}

/// Parses a rate as requests per second.
pub(super) fn rate(text: &str) -> Option<f64> {
    const MOST: f64 = 10_000_000.0;
    let frequency = grammar::frequency(text)?;
    let per_second = frequency.tokens() as f64 * 1e9 / frequency.per().nanos() as f64;
    (per_second <= MOST).then_some(per_second)
}

/// Parses `"3..7"` or one number as a half-open range. The end counts if `more` is 1.
fn range(value: &Value, more: u64) -> Option<(u64, u64)> {
    if let Some(one) = value.as_integer() {
        let one = u64::try_from(one).ok()?;
        return Some((one, one.checked_add(1)?));
    }
    seeds(value.as_str()?, more)
}

/// Parses `"0..64"` as a half-open range. The end counts if `more` is 1.
fn seeds(text: &str, more: u64) -> Option<(u64, u64)> {
    let (from, to) = text.split_once("..")?;
    let from: u64 = from.trim().parse().ok()?;
    let to = to.trim().parse::<u64>().ok()?.checked_add(more)?;
    (from < to).then_some((from, to))
}

fn texts(value: &Value) -> Option<Vec<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        one => Some(vec![text(one)?]),
    }
}

fn are_labels(table: &Table) -> bool {
    let is_label = |(name, value): (&String, &Value)| {
        let text = value.as_str();
        text.is_some_and(|text| {
            name.len() <= WeightRule::BYTES_MAX && text.len() <= WeightRule::BYTES_MAX
        })
    };
    table.len() <= 32 && table.iter().all(is_label)
}

/// Maximum instant of a trace: a day, as of every other instant.
const POINT_MOST: u64 = 86_400_000_000_000;

fn points(value: &Value) -> Option<Vec<(u64, f64)>> {
    let point = |value: &Value| {
        let pair = value.as_array().filter(|pair| pair.len() == 2)?;
        Some((nanos(pair[0].as_str()?)?, rate(pair[1].as_str()?)?))
    };
    let points: Vec<_> = value.as_array()?.iter().map(point).collect::<Option<_>>()?;
    let rising = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    let within = points.iter().all(|(at, _)| *at <= POINT_MOST);
    (within && rising && !points.is_empty()).then_some(points)
}

#[cfg(test)]
#[path = "../../tests/unit/scenario/fields.rs"]
mod tests;
