//! Budget files: YAML or TOML, one budget or many. Whoever reads budgets from
//! text reads them here: the command line, a node at its founding, simulators.

use aliquot_core::budget::BudgetDraft;
use aliquot_wire::limits::PAGE_MAX;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// The name that is most like `text`, if it is alike enough to be what was meant.
///
/// ```
/// let names = ["rate", "burst"];
/// assert_eq!(aliquot_budgets::nearest("rat", names.into_iter()), Some("rate"));
/// assert_eq!(aliquot_budgets::nearest("quota", names.into_iter()), None);
/// ```
#[must_use]
pub fn nearest<'a>(text: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.8;
    let scored = names.map(|name| (strsim::jaro_winkler(text, name), name));
    let best = scored.max_by(|(left, _), (right, _)| left.total_cmp(right))?;
    (best.0 >= ALIKE).then_some(best.1)
}

/// A budget, and where it stands, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The file, and the budget's key.
    pub place: String,
    /// What is written there; nothing of its values is checked yet.
    pub draft: BudgetDraft,
}

/// What was written cannot be read as budgets: where, what, and what may be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

/// Reads the budgets of all files, `-` being standard input.
///
/// A file is one budget, or a list of them, or a table whose `budgets` is a
/// list; in YAML there may be several such documents. A file whose name ends in
/// `.toml` is TOML, any other YAML (of which JSON is a part).
///
/// # Errors
///
/// [`Unreadable`]: the first file that is missing or not understood, the first
/// field that there is not, or more budgets than one atomic set may have.
pub fn read(paths: &[String]) -> Result<Vec<Found>, Unreadable> {
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
        0 => Err(Unreadable(format!("{} holds no budget", names.join(", ")))),
        many if many > PAGE_MAX => Err(Unreadable(format!(
            "{many} budgets are too many for one atomic set: at most {PAGE_MAX}"
        ))),
        _ => Ok(found),
    }
}

fn text_of(path: &str) -> Result<String, Unreadable> {
    let read = if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let name = named(path);
    read.map_err(|error| Unreadable(format!("{name} cannot be read: {error}")))
}

fn named(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}

fn parse(path: &str, is_toml: bool, text: &str) -> Result<Vec<Value>, Unreadable> {
    if is_toml {
        let document = toml::from_str(text).map_err(|error| error.to_string());
        return document
            .map(|document| vec![document])
            .map_err(|error| Unreadable(format!("{path} is not TOML: {}", error.trim_end())));
    }
    serde_saphyr::from_multiple(text).map_err(|error| {
        // Advice for whoever writes a program.
        let advice = ", set DuplicateKeyPolicy in Options if acceptable";
        let error = error.to_string().replace(advice, "");
        Unreadable(format!("{path} is not YAML: {error}"))
    })
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

/// The budget that `value` is, a table of the fields of [`BudgetDraft`]; `place`
/// says where it stands.
///
/// # Errors
///
/// [`Unreadable`]: it is no table, a field is not one of a budget's (with the
/// nearest that is), or a value has the wrong type.
///
/// ```
/// use aliquot_budgets::draft_of;
/// use serde_json::json;
///
/// let draft = draft_of("a.toml", json!({ "key": "reads", "rate": "100/s" }))?;
/// assert_eq!(draft.key, "reads");
/// let error = draft_of("a.toml", json!({ "key": "reads", "rat": "100/s" })).unwrap_err();
/// assert!(error.to_string().contains("did you mean `rate`?"));
/// # Ok::<(), aliquot_budgets::Unreadable>(())
/// ```
pub fn draft_of(place: &str, value: Value) -> Result<BudgetDraft, Unreadable> {
    let Value::Object(fields) = &value else {
        return Err(Unreadable(format!(
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
        return Err(Unreadable(format!(
            "{place}{key}: there is no field `{name}`; {hint}"
        )));
    }
    // What is wrong with a field by itself is told with its name.
    for (name, field) in fields {
        let alone = serde_json::json!({ name.as_str(): field });
        if let Err(error) = serde_json::from_value::<BudgetDraft>(alone) {
            return Err(Unreadable(format!("{place}: {name}: {error}")));
        }
    }
    serde_json::from_value(value).map_err(|error| Unreadable(format!("{place}: {error}")))
}
