//! Budget files: YAML or TOML, one budget or many, and the time zones that they name. The command line, the
//! first node of a cluster and the simulators read budgets with this crate.

pub mod tree;
pub mod zones;

use aliquot_core::budget::{Budget, BudgetDraft, FIELDS, FieldError};
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Display};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tree::{Node, Shape};

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

/// The line of a file that a budget, or one of its fields, stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    file: Arc<str>,
    line: u64,
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The place of one field of a budget, and of each value within.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldPlace {
    /// Path as in errors, such as `burst` or `weights[2].band`.
    path: Cow<'static, str>,
    line: u64,
    /// The text as it is written, if a draft does not keep it: `true` is read as `yes`.
    written: Option<Box<str>>,
}

impl FieldPlace {
    /// Lists the fields of a table, and what is in them.
    fn of(node: &Node) -> Vec<Self> {
        let mut places = Vec::new();
        let Shape::Table(table) = &node.value else {
            return places;
        };
        for (name, value) in table {
            let known = FIELDS.iter().find(|field| field.name == name);
            let path = known.map_or_else(|| name.clone().into(), |field| field.name.into());
            Self::add(path, value, &mut places);
        }
        places
    }

    fn add(path: Cow<'static, str>, node: &Node, places: &mut Vec<Self>) {
        let inner = |path: String, node: &Node, places: &mut _| {
            Self::add(path.into(), node, places);
        };
        match &node.value {
            Shape::Leaf(_) => {}
            Shape::List(list) => {
                for (index, node) in list.iter().enumerate() {
                    inner(format!("{path}[{index}]"), node, places);
                }
            }
            Shape::Table(table) => {
                for (name, node) in table {
                    inner(format!("{path}.{name}"), node, places);
                }
            }
        }
        places.push(Self {
            path,
            line: node.line,
            written: node.written.clone(),
        });
    }

    /// Returns the place of a field, or of the nearest field that it stands in.
    fn nearest<'a>(places: &'a [Self], field: &str) -> Option<&'a Self> {
        let mut path = field;
        loop {
            if let Some(place) = places.iter().find(|place| place.path == path) {
                return Some(place);
            }
            path = path.get(..path.rfind(['.', '['])?)?;
        }
    }
}

/// A budget, and where it stands, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    place: Place,
    fields: Vec<FieldPlace>,
    /// The budget as it is written; nothing of its values is checked yet.
    pub draft: BudgetDraft,
}

impl Found {
    /// Returns a budget that something else than a budget file says, such as the rules of another rate limiter, at a
    /// line of a file.
    #[must_use]
    pub fn new(file: &str, line: u64, draft: BudgetDraft) -> Self {
        let file = Arc::from(file);
        Self {
            place: Place { file, line },
            fields: Vec::new(),
            draft,
        }
    }

    /// The budget's place and key, such as `budgets.yaml:7, budget "reads"`.
    #[must_use]
    pub fn place(&self) -> String {
        self.at(self.place.line)
    }

    /// An error with the line of the field that it is about, and the value as it is written there.
    #[must_use]
    pub fn wrong(&self, error: &FieldError) -> String {
        let field = FieldPlace::nearest(&self.fields, &error.field);
        let place = self.at(field.map_or(self.place.line, |field| field.line));
        let written = field.filter(|field| field.path == error.field.as_str());
        match written.and_then(|field| field.written.as_deref()) {
            None => format!("{place}: {error}"),
            Some(text) => {
                let error = FieldError {
                    value: text.to_owned(),
                    ..error.clone()
                };
                format!("{place}: {error}")
            }
        }
    }

    fn at(&self, line: u64) -> String {
        let file = Arc::clone(&self.place.file);
        format!("{}, budget {:?}", Place { file, line }, self.draft.key)
    }
}

/// Everything that is wrong with what was written: where, what, and what may be.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Unreadable {
    problems: Vec<String>,
}

impl Unreadable {
    /// Problems that are shown at most; those beyond are counted.
    pub const SHOWN_MAX: usize = 1_000;

    /// Every problem, in the order of the files.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn unless_empty(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(Self { problems })
    }
}

impl From<String> for Unreadable {
    fn from(problem: String) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

impl Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.problems.iter().take(Self::SHOWN_MAX);
        for (index, problem) in shown.enumerate() {
            let line = if index == 0 { "" } else { "\n" };
            write!(f, "{line}{problem}")?;
        }
        match self.problems.len().saturating_sub(Self::SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more errors"),
        }
    }
}

/// Reads the budgets of all files, `-` being standard input. Takes time and
/// memory in proportion to the files, of which there may be any number with any
/// number of budgets.
///
/// A file is one budget, or a list of them, or a table whose `budgets` is a
/// list; in YAML there may be several such documents. A file whose name ends in
/// `.toml` is TOML, any other YAML (of which JSON is a part).
///
/// # Errors
///
/// [`Unreadable`]: the first file that is missing or not understood; or every
/// budget that has a field that there is not, or a value of a wrong type; or
/// that there is no budget.
pub fn read(paths: &[String]) -> Result<Vec<Found>, Unreadable> {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        let file: Arc<str> = named(path).into();
        let text = text_of(path)?;
        for node in documents_of(path, &text)?.into_iter().flat_map(budgets_of) {
            match found_in(&file, node) {
                Ok(budget) => found.push(budget),
                Err(error) => problems.extend(error.problems),
            }
        }
    }
    Unreadable::unless_empty(problems)?;
    if found.is_empty() {
        let names: Vec<&str> = paths.iter().map(|path| named(path)).collect();
        return Err(format!("{} holds no budget", names.join(", ")).into());
    }
    Ok(found)
}

/// Validates budgets as one whole.
///
/// # Errors
///
/// [`Unreadable`]: every field of every budget that is wrong, and every key that
/// is written a second time, with the place of the first.
pub fn validate(found: &[Found]) -> Result<Vec<Budget>, Unreadable> {
    let mut firsts: BTreeMap<&str, &Found> = BTreeMap::new();
    let (mut budgets, mut problems) = (Vec::new(), Vec::new());
    for it in found {
        match it.draft.clone().validate() {
            Ok(budget) => match zones::zone_error(&budget) {
                None => budgets.push(budget),
                Some(error) => problems.push(it.wrong(&error)),
            },
            Err(errors) => problems.extend(errors.iter().map(|error| it.wrong(error))),
        }
        let key = it.draft.key.trim();
        if key.is_empty() {
            continue;
        }
        match firsts.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(it);
            }
            Entry::Occupied(first) => {
                let (again, first) = (it.place(), &first.get().place);
                problems.push(format!("{again}: is already defined at {first}"));
            }
        }
    }
    Unreadable::unless_empty(problems)?;
    Ok(budgets)
}

fn text_of(path: &str) -> Result<String, Unreadable> {
    let read = if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    let name = named(path);
    read.map_err(|error| format!("{name} cannot be read: {error}").into())
}

fn named(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}

fn documents_of(path: &str, text: &str) -> Result<Vec<Node>, Unreadable> {
    let extension = Path::new(path).extension();
    let name = named(path);
    if extension.is_some_and(|extension| extension == "toml") {
        let document = Node::of_toml(text);
        let document =
            document.map_err(|error| format!("{name} is not TOML: {}", error.trim_end()));
        return Ok(vec![document?]);
    }
    Node::of_yaml(text).map_err(|error| format!("{name} {error}").into())
}

fn budgets_of(document: Node) -> Vec<Node> {
    match document.value {
        Shape::Leaf(Value::Null) => Vec::new(),
        Shape::List(budgets) => budgets,
        Shape::Table(mut table) if table.len() == 1 && table[0].0 == "budgets" => {
            match table.pop() {
                Some((_, node)) => match node.value {
                    Shape::List(budgets) => budgets,
                    _ => vec![node],
                },
                None => Vec::new(),
            }
        }
        _ => vec![document],
    }
}

fn found_in(file: &Arc<str>, mut node: Node) -> Result<Found, Unreadable> {
    let place = |line| Place {
        file: Arc::clone(file),
        line,
    };
    let (begins, fields) = (place(node.line), FieldPlace::of(&node));
    let missing = |value: &Shape<Node>| matches!(value, Shape::Leaf(Value::Null));
    if let Shape::Table(table) = &mut node.value {
        if !table
            .iter()
            .any(|(name, node)| name == "key" && !missing(&node.value))
        {
            return Err(format!("{begins}: key is missing: must be {}", key_read_as()).into());
        }
        // A key is a text: a number is no key, however it is written.
        let values = table.iter_mut().filter(|(name, _)| name != "key");
        values.for_each(|(_, node)| node.keep_fractions_as_text());
    }
    let place_of = |name: &str| {
        let field = FieldPlace::nearest(&fields, name);
        let line = field.map_or(begins.line, |field| field.line);
        let written = field.and_then(|field| field.written.as_deref());
        (place(line).to_string(), written.map(str::to_owned))
    };
    let draft = read_draft(&begins.to_string(), node.into_value(), place_of)?;
    Ok(Found {
        place: begins,
        fields,
        draft,
    })
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
    read_draft(place, value, |_| (place.to_owned(), None))
}

/// Reads a draft. `place_of` returns the place of a field, and its value as it is written if that is known.
fn read_draft(
    place: &str,
    value: Value,
    place_of: impl Fn(&str) -> (String, Option<String>),
) -> Result<BudgetDraft, Unreadable> {
    let Value::Object(fields) = &value else {
        return Err(format!(
            "{place} must be a table of fields such as `key` and `rate`, not {value}"
        )
        .into());
    };
    let error = match BudgetDraft::deserialize(&value) {
        Ok(draft) => return Ok(draft),
        Err(error) => error,
    };
    let key = fields.get("key").and_then(Value::as_str);
    let of_key = key.map_or_else(String::new, |key| format!(", budget {key:?}"));
    let mut problems = Vec::new();
    for (name, field) in fields {
        let (place, written) = place_of(name);
        let Some(known) = FIELDS.iter().find(|known| known.name == name) else {
            problems.push(format!("{place}{of_key}: {}", unknown_field(name)));
            continue;
        };
        // What is wrong with a field by itself is told with its name.
        let alone = serde_json::json!({ name.as_str(): field });
        if let Err(error) = serde_json::from_value::<BudgetDraft>(alone) {
            let value = written.unwrap_or_else(|| match field {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            let mut allowed = known.read_as.to_owned();
            if name == "key" && (field.is_boolean() || field.is_number()) {
                allowed.push_str(
                    ", as a text: in quotes if it is read as a number, or as true or false",
                );
            }
            let error = error.to_string();
            if error.starts_with("unknown field") {
                allowed = format!("{allowed}; {error}");
            }
            let error = FieldError {
                field: name.clone(),
                value: value.chars().take(VALUE_CHARS_MAX).collect(),
                allowed,
            };
            problems.push(format!("{place}{of_key}: {error}"));
        }
    }
    if problems.is_empty() {
        problems.push(format!("{place}{of_key}: {error}"));
    }
    Err(Unreadable { problems })
}

/// Returns what a key may be.
fn key_read_as() -> &'static str {
    let key = FIELDS.iter().find(|field| field.name == "key");
    key.map_or("a key", |key| key.read_as)
}

/// Maximum number of characters of a value in an error.
const VALUE_CHARS_MAX: usize = 80;

fn unknown_field(name: &str) -> String {
    let known = || FIELDS.iter().map(|field| field.name);
    let hint = match nearest(name, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("a budget has {}", known().collect::<Vec<_>>().join(", ")),
    };
    format!("there is no field `{name}`; {hint}")
}
