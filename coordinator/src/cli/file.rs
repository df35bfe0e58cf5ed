//! Budget files: YAML or TOML, one budget or many.

use super::Failure;
use crate::config::nearest;
use aliquot_core::budget::BudgetDraft;
use aliquot_wire::limits::PAGE_MAX;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// A budget, and where it stands, for messages.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: String,
    pub(super) draft: BudgetDraft,
}

/// Reads the budgets of all files, `-` being standard input.
///
/// A file is one budget, or a list of them, or a table whose `budgets` is a
/// list; in YAML there may be several such documents. A file whose name ends in
/// `.toml` is TOML, any other YAML (of which JSON is a part).
pub(super) fn read(paths: &[String]) -> Result<Vec<Found>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let text = text_of(path)?;
        let is_toml = Path::new(path)
            .extension()
            .is_some_and(|extension| extension == "toml");
        let path = named(path);
        let documents = parse(path, is_toml, &text)?;
        for value in documents.into_iter().flat_map(budgets_of) {
            let place = format!("{path}, budget {}", found.len() + 1);
            let draft = draft_of(&place, value)?;
            let place = format!("{path}, budget {:?}", draft.key);
            found.push(Found { place, draft });
        }
    }
    let names: Vec<&str> = paths.iter().map(|path| named(path)).collect();
    match found.len() {
        0 => Err(Failure::Usage(format!(
            "{} holds no budget",
            names.join(", ")
        ))),
        many if many > PAGE_MAX => Err(Failure::Usage(format!(
            "{many} budgets are too many for one atomic set: at most {PAGE_MAX}"
        ))),
        _ => Ok(found),
    }
}

fn text_of(path: &str) -> Result<String, Failure> {
    let read = if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::Usage(format!("{path} cannot be read: {error}")))
}

fn named(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}

fn parse(path: &str, is_toml: bool, text: &str) -> Result<Vec<Value>, Failure> {
    if is_toml {
        let document = toml::from_str(text).map_err(|error| error.to_string());
        return document
            .map(|document| vec![document])
            .map_err(|error| Failure::Usage(format!("{path} is not TOML: {}", error.trim_end())));
    }
    serde_saphyr::from_multiple(text)
        .map_err(|error| Failure::Usage(format!("{path} is not YAML: {error}")))
}

fn budgets_of(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Array(budgets) => budgets,
        Value::Object(mut table) if table.len() == 1 => match table.remove("budgets") {
            Some(Value::Array(budgets)) => budgets,
            Some(other) => vec![other],
            None => vec![Value::Object(table)],
        },
        other => vec![other],
    }
}

fn draft_of(place: &str, value: Value) -> Result<BudgetDraft, Failure> {
    let Value::Object(fields) = &value else {
        return Err(Failure::Usage(format!(
            "{place} must be a table of fields such as `key` and `rate`, not {value}"
        )));
    };
    let known = serde_json::to_value(BudgetDraft::default()).unwrap_or_default();
    let known: Vec<&str> = known
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys().map(String::as_str))
        .collect();
    for name in fields.keys() {
        if known.contains(&name.as_str()) {
            continue;
        }
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("a budget has {}", known.join(", ")),
        };
        let key = fields.get("key").and_then(Value::as_str);
        let key = key.map_or_else(String::new, |key| format!(" ({key})"));
        return Err(Failure::Usage(format!(
            "{place}{key}: there is no field `{name}`; {hint}"
        )));
    }
    serde_json::from_value(value).map_err(|error| Failure::Usage(format!("{place}: {error}")))
}
