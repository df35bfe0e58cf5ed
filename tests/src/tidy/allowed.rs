//! The shrinking list of exceptions: `tests/tidy.toml`.

use super::Finding;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The content of the list.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// Files that are too long, with their exact length.
    pub file_lines: BTreeMap<String, usize>,
    /// Functions that are too long, as `path::name`, with their exact length.
    pub function_lines: BTreeMap<String, usize>,
    /// Files with retired words, with their exact number.
    pub retired_words: BTreeMap<String, usize>,
    /// Files with refused openings of doc comments, with their exact number.
    pub doc_openings: BTreeMap<String, usize>,
    /// Documents that are linked before they are written.
    pub unwritten: Vec<String>,
    banned: Vec<(String, String)>,
}

impl Allowed {
    /// The path of the list.
    pub const PATH: &'static str = "tests/tidy.toml";

    /// Reads the list.
    ///
    /// # Errors
    ///
    /// The error of the list, as text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|error| format!("{error}"))?;
        let known = [
            "file_lines",
            "function_lines",
            "retired_words",
            "doc_openings",
            "unwritten",
            "banned",
        ];
        if let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(format!("no such section: `{key}`"));
        }
        Ok(Self {
            file_lines: numbers(&table, "file_lines")?,
            function_lines: numbers(&table, "function_lines")?,
            retired_words: numbers(&table, "retired_words")?,
            doc_openings: numbers(&table, "doc_openings")?,
            unwritten: unwritten(&table)?,
            banned: banned(&table)?,
        })
    }

    /// Returns true if `path` has a reason to make a banned call.
    #[must_use]
    pub fn excuses(&self, path: &str, call: &str) -> bool {
        self.excused().any(|excused| excused == (path, call))
    }

    /// Returns every (path, call) that has a reason.
    pub fn excused(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.banned.iter();
        pairs.map(|(path, call)| (path.as_str(), call.as_str()))
    }
}

/// Compares the findings of a rule with the counts of the list. If a file has more
/// findings than its count, all of them are reported; a count above the truth is a
/// finding as well.
#[must_use]
pub fn beyond(findings: Vec<Finding>, allowed: &BTreeMap<String, usize>) -> Vec<Finding> {
    let mut files: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        let file = files.entry(finding.path.clone()).or_default();
        file.push(finding);
    }
    let mut beyond = Vec::new();
    for (path, entry) in allowed {
        let real = files.get(path).map_or(0, Vec::len);
        if real < *entry {
            let change = if real == 0 { "drop" } else { "lower" };
            let what = format!("`{path}` has only {real} of {entry} now: {change} the entry");
            beyond.push(Finding::of(Allowed::PATH, what));
        }
    }
    for (path, findings) in files {
        let most = allowed.get(&path).copied().unwrap_or(0);
        if findings.len() > most {
            let what = format!("{} findings, {most} are allowed:", findings.len());
            beyond.push(Finding::of(&path, what));
            beyond.extend(findings);
        }
    }
    beyond
}

fn numbers(table: &Table, key: &str) -> Result<BTreeMap<String, usize>, String> {
    let section = table.get(key).and_then(Value::as_table);
    let entries = section.into_iter().flatten();
    entries
        .map(|(name, value)| {
            let lines = value.as_integer().and_then(|n| usize::try_from(n).ok());
            let lines = lines.ok_or_else(|| format!("{key}.{name} must be a number"))?;
            Ok((name.clone(), lines))
        })
        .collect()
}

fn unwritten(table: &Table) -> Result<Vec<String>, String> {
    let Some(value) = table.get("unwritten") else {
        return Ok(Vec::new());
    };
    let paths = value.as_array().ok_or("`unwritten` must be a list")?;
    let text = |path: &Value| path.as_str().map(str::to_owned);
    let paths: Option<_> = paths.iter().map(text).collect();
    paths.ok_or_else(|| "`unwritten` must be a list of paths".into())
}

fn banned(table: &Table) -> Result<Vec<(String, String)>, String> {
    let entries = table.get("banned").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    entries
        .map(|entry| {
            let field = |name: &str| {
                let value = entry.get(name).and_then(Value::as_str);
                value.filter(|value| !value.is_empty()).map(str::to_owned)
            };
            match (field("path"), field("call"), field("reason")) {
                (Some(path), Some(call), Some(_)) => Ok((path, call)),
                _ => Err("a `banned` entry needs path, call and reason".into()),
            }
        })
        .collect()
}
