//! The place of one setting in a scenario's file, such as `topology.nodes` or `clients[2].rate`.

use super::format::{self, SECTIONS};
use aliquot_budgets::nearest;
use std::fmt;
use toml::{Table, Value};

/// The place of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

/// A key, with the number of the table if the key's value is a list of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    key: String,
    /// From 1.
    number: Option<usize>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Step { key, number }) in self.steps.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            write!(f, "{dot}{key}")?;
            if let Some(number) = number {
                write!(f, "[{number}]")?;
            }
        }
        Ok(())
    }
}

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// Returns a message if there is no such section or no such key, with the nearest path that there is.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{text:?}: {what}");
        let steps: Option<Vec<Step>> = text.split('.').map(step).collect();
        let Some(steps) = steps else {
            return Err(wrong(
                "must be SECTION.KEY, such as topology.nodes or clients[2].rate",
            ));
        };
        let known = || {
            SECTIONS.iter().flat_map(|section| {
                let keys = section.keys.iter();
                keys.map(|key| format!("{}.{}", section.name, key.name))
            })
        };
        let section = format::section(&steps[0].key);
        let key = match (section, &steps[..]) {
            // A budget has the fields of a budget file, which its own reader checks.
            (Some(section), [_, _, ..]) if section.keys.is_empty() => return Ok(Self { steps }),
            // The rules of clocks have the name of their hosts between section and key.
            (Some(section), [_, _, last]) if section.name == "clock" => Some((section, last)),
            (Some(section), [_, key, ..]) if section.name != "clock" => Some((section, key)),
            _ => None,
        };
        if key.is_some_and(|(section, step)| section.keys.iter().any(|key| key.name == step.key)) {
            return Ok(Self { steps });
        }
        let last = &steps[steps.len() - 1].key;
        let plain: Vec<&str> = steps.iter().map(|step| &*step.key).collect();
        let plain = plain.join(".");
        let all: Vec<String> = known().collect();
        let same = |path: &&String| path.rsplit('.').next() == Some(last.as_str());
        let in_section = section.and_then(|section| {
            let near = nearest(last, section.keys.iter().map(|key| key.name))?;
            Some(format!("{}.{near}", section.name))
        });
        let near = in_section
            .or_else(|| nearest(&plain, all.iter().map(String::as_str)).map(str::to_owned))
            .or_else(|| all.iter().find(same).cloned());
        Err(wrong(&match near {
            Some(near) => format!("there is no such setting; did you mean {near:?}?"),
            None => "there is no such setting; `aliquot-sim explain-format` lists all".to_owned(),
        }))
    }

    /// Sets the value in the tables of a file: in each table of a list that has no number here.
    ///
    /// # Errors
    ///
    /// Returns a message if a list or a table of a list is not there.
    pub(crate) fn set(&self, root: &mut Table, value: &str) -> Result<(), String> {
        set(root, &self.steps, &value_of(value)).map_err(|what| format!("{self}: {what}"))
    }
}

fn step(text: &str) -> Option<Step> {
    let (key, number) = match text.strip_suffix(']') {
        Some(rest) => {
            let (key, number) = rest.split_once('[')?;
            (key, Some(number.parse().ok().filter(|number| *number > 0)?))
        }
        None => (text, None),
    };
    let key = key.trim();
    (!key.is_empty()).then(|| Step {
        key: key.to_owned(),
        number,
    })
}

fn set(table: &mut Table, steps: &[Step], value: &Value) -> Result<(), String> {
    let Some((Step { key, number }, rest)) = steps.split_first() else {
        return Ok(());
    };
    if rest.is_empty() {
        table.insert(key.clone(), value.clone());
        return Ok(());
    }
    // Sections that a file may have several times are there already; others are made.
    let repeated = ["budget", "clients", "fault", "assert"].contains(&key.as_str());
    if repeated && !table.contains_key(key) {
        return Err(format!("the scenario has no [[{key}]]"));
    }
    let entry = table.entry(key.as_str());
    match entry.or_insert_with(|| Value::Table(Table::new())) {
        Value::Table(inner) if number.is_none() => set(inner, rest, value),
        Value::Array(all) => {
            let count = all.len();
            let chosen: Vec<&mut Value> = match number {
                None => all.iter_mut().collect(),
                Some(number) => all.get_mut(number - 1).into_iter().collect(),
            };
            if chosen.is_empty() {
                return Err(format!("the scenario has {count} of [[{key}]]"));
            }
            let mut tables = chosen.into_iter().filter_map(Value::as_table_mut);
            tables.try_for_each(|inner| set(inner, rest, value))
        }
        _ => Err(format!("{key} is no list of tables")),
    }
}

/// Reads a value as a file would: a number, `true`, `false`, a list or a table; anything else is a text.
fn value_of(text: &str) -> Value {
    let text = text.trim();
    let read = format!("value = {text}").parse::<Table>();
    let read = read.ok().and_then(|mut table| table.remove("value"));
    // A date is a text to a scenario.
    read.filter(|value| !value.is_datetime())
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Splits values at commas outside of brackets and quotes.
pub(crate) fn split(text: &str) -> Vec<String> {
    let (mut all, mut depth, mut quoted) = (vec![String::new()], 0_usize, false);
    for char in text.chars() {
        match char {
            '"' => quoted = !quoted,
            '[' | '{' if !quoted => depth += 1,
            ']' | '}' if !quoted => depth = depth.saturating_sub(1),
            ',' if !quoted && depth == 0 => {
                all.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = all.last_mut() {
            last.push(char);
        }
    }
    all.iter().map(|value| value.trim().to_owned()).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/scenario/path.rs"]
mod tests;
