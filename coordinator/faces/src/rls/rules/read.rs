//! Rules from the files of envoyproxy/ratelimit, and from resources with the same fields.
//!
//! All errors of all files are reported, each with its line if it has one.
//! A field that stands where the reference server ignores it is
//! a warning: a file that works there works here.

use super::key::{BudgetKey, Fixed};
use super::limit::{Counting, Unit, UnitLimit};
use super::metric::{Metric, Part};
use super::pattern::Pattern;
use super::{ByKey, Level, Node as RuleNode, Rule, Rules};
use aliquot_budgets::nearest;
use aliquot_budgets::tree::{Node, Shape, documents_of_yaml};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// The rules of a domain, from a file or from a resource of a management server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesFile {
    /// Name, for messages.
    pub name: String,
    /// Contents.
    pub contents: Contents,
}

/// Contents of a file of rules, or of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// A text in YAML. Errors name the line.
    Yaml(String),
    /// The same fields without lines.
    Fields(Value),
}

/// Meaning of a domain that stands in two files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SameDomain {
    /// An error.
    #[default]
    Refused,
    /// The rules of both apply.
    Merged,
}

/// Options of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Meaning of a domain that stands in two files.
    pub same_domain: SameDomain,
    /// Meaning of a limit per unit.
    pub counting: Counting,
    /// Maximum number of keys of each template that a rule makes; `None` for the default of budgets.
    pub max_keys: Option<u64>,
}

/// Everything that is wrong with the files: where, what, and what may be. No rule of them is in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unreadable {
    /// The errors, in the order of the files.
    pub problems: Vec<String>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

const ROOT: &[&str] = &["domain", "descriptors"];

const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];

const RATE_LIMIT: &[&str] = &["unit", "requests_per_unit", "unlimited", "name", "replaces"];

const REPLACES: &[&str] = &["name"];

const UNITS: &str = "second, minute, hour, day, week, month or year";

impl Rules {
    /// Reads the rules of all files, and warnings about what is ignored.
    ///
    /// # Errors
    ///
    /// [`Unreadable`]: every error of every file.
    pub fn read(files: &[RulesFile], reading: Reading) -> Result<(Self, Vec<String>), Unreadable> {
        let mut reader = Reader {
            rules: Self::default(),
            domains: BTreeMap::new(),
            reading,
            file: "",
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        for file in files {
            reader.file = &file.name;
            match &file.contents {
                Contents::Yaml(text) => reader.read(text),
                Contents::Fields(fields) => {
                    let node = without_line(fields);
                    reader.document(&node, &Texts::of(&node));
                }
            }
        }
        match reader.problems.is_empty() {
            true => Ok((reader.rules, reader.warnings)),
            false => Err(Unreadable {
                problems: reader.problems,
            }),
        }
    }
}

/// The texts of a document, as they are written: a value `007` is no number.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Texts {
    domain: Option<String>,
    key: Option<String>,
    value: Option<String>,
    rate_limit: Option<Box<Texts>>,
    name: Option<String>,
    replaces: Option<Vec<Texts>>,
    descriptors: Option<Vec<Texts>>,
}

impl Texts {
    /// Returns the texts of a document that has another shape somewhere, as far as they are known.
    fn of(node: &Node) -> Self {
        let mut texts = Self::default();
        let Shape::Table(fields) = &node.value else {
            return texts;
        };
        let list = |node: &Node| match &node.value {
            Shape::List(list) => list.iter().map(Self::of).collect(),
            _ => Vec::new(),
        };
        for (name, node) in fields.iter().filter(|(_, node)| !is_null(node)) {
            match name.as_str() {
                "domain" => texts.domain = Some(shown(node)),
                "key" => texts.key = Some(shown(node)),
                "value" => texts.value = Some(shown(node)),
                "name" => texts.name = Some(shown(node)),
                "rate_limit" => texts.rate_limit = Some(Box::new(Self::of(node))),
                "replaces" => texts.replaces = Some(list(node)),
                "descriptors" => texts.descriptors = Some(list(node)),
                _ => {}
            }
        }
        texts
    }
}

struct Reader<'a> {
    rules: Rules,
    /// The place of each domain that was read.
    domains: BTreeMap<String, String>,
    reading: Reading,
    file: &'a str,
    problems: Vec<String>,
    warnings: Vec<String>,
}

/// A table with a name for messages, such as `descriptor "shop.user_alice"`.
struct Table<'t> {
    line: u64,
    name: String,
    fields: &'t [(String, Node)],
}

impl<'t> Table<'t> {
    fn field(&self, name: &str) -> Option<&'t Node> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(known, node)| known == name && !is_null(node));
        found.map(|(_, node)| node)
    }
}

/// One depth of a rule.
#[derive(Clone, Copy)]
struct Depth<'t> {
    key: &'t str,
    value: Fixed<'t>,
    /// Set if the value of the request is a part of the name in statistics.
    counted: bool,
}

impl Depth<'_> {
    fn metric(&self, detailed: bool) -> Part {
        let Self { key, value, .. } = self;
        match value {
            Fixed::Any | Fixed::Pattern(_) if detailed || self.counted => {
                Part::Valued((*key).into())
            }
            Fixed::Any => Part::Fixed((*key).into()),
            Fixed::Value(value) | Fixed::Pattern(value) | Fixed::Shared(value) => {
                Part::Fixed(format!("{key}_{value}"))
            }
        }
    }
}

/// A rule's way from the root.
type Depths<'t> = Vec<Depth<'t>>;

impl Reader<'_> {
    fn read(&mut self, text: &str) {
        let (documents, texts) = (Node::of_yaml(text), documents_of_yaml::<Texts>(text));
        let (documents, texts) = match (documents, texts) {
            (Ok(documents), Ok(texts)) => (documents, texts),
            // A file of another shape is recognised by its fields, if possible.
            (Ok(documents), Err(error)) => {
                let before = self.problems.len();
                if let [document] = &documents[..] {
                    self.document(document, &Texts::of(document));
                }
                if self.problems.len() == before {
                    self.problems.push(format!("{} {error}", self.file));
                }
                return;
            }
            (Err(error), _) => return self.problems.push(format!("{} {error}", self.file)),
        };
        match (&documents[..], &texts[..]) {
            ([document], [texts]) => self.document(document, texts),
            _ => {
                let count = documents.len();
                let file = self.file;
                self.problems.push(format!(
                    "{file} holds {count} documents; it must hold one, with `domain` and `descriptors`"
                ));
            }
        }
    }

    fn document(&mut self, node: &Node, texts: &Texts) {
        let whole = match node.line {
            NO_LINE => "the resource",
            _ => "the file",
        };
        let Some(table) = self.table(node, whole.into(), ROOT) else {
            return;
        };
        let domain = texts.domain.clone().unwrap_or_default();
        if domain.is_empty() {
            let line = table.field("domain").map_or(table.line, |node| node.line);
            return self.wrong(line, &table.name, "domain", "", "a name that is not empty");
        }
        let place = self.place(table.line);
        if let Some(first) = self.domains.get(&domain)
            && self.reading.same_domain == SameDomain::Refused
        {
            let first = format!("written once: it is written at {first} already");
            return self.wrong(table.line, &table.name, "domain", &domain, &first);
        }
        self.domains.entry(domain.clone()).or_insert(place);
        let bytes = domain.as_bytes();
        let mut level = self.rules.domains.remove(bytes).unwrap_or_default();
        let mut depths = Vec::new();
        self.descriptors(&table, texts, &domain, &domain, &mut depths, &mut level);
        self.rules.domains.insert(bytes.into(), level);
    }

    fn descriptors<'t>(
        &mut self,
        table: &Table<'t>,
        texts: &'t Texts,
        domain: &str,
        path: &str,
        depths: &mut Depths<'t>,
        level: &mut Level,
    ) {
        let Some(node) = table.field("descriptors") else {
            return;
        };
        let Shape::List(list) = &node.value else {
            return self.wrong(
                node.line,
                &table.name,
                "descriptors",
                &shown(node),
                "a list",
            );
        };
        let none = Texts::default();
        let texts = texts.descriptors.as_deref().unwrap_or_default();
        for (index, node) in list.iter().enumerate() {
            match texts.get(index) {
                Some(texts) => self.descriptor(node, texts, domain, path, depths, level),
                None => self.descriptor(node, &none, domain, path, &mut Vec::new(), level),
            }
        }
    }

    fn descriptor<'t>(
        &mut self,
        node: &'t Node,
        texts: &'t Texts,
        domain: &str,
        path: &str,
        depths: &mut Depths<'t>,
        level: &mut Level,
    ) {
        let key = texts.key.as_deref().unwrap_or_default();
        let value = texts.value.as_deref().unwrap_or_default();
        let sign = if value.is_empty() { "" } else { "_" };
        let path = format!("{path}.{key}{sign}{value}");
        let name = format!("descriptor {path:?}");
        let Some(table) = self.table(node, name, DESCRIPTOR) else {
            return;
        };
        let line_of = |field: &str| table.field(field).map_or(table.line, |node| node.line);
        if key.is_empty() {
            return self.wrong(
                table.line,
                &table.name,
                "key",
                "",
                "a text that is not empty",
            );
        }
        if key.contains('*') {
            let allowed = "a text without `*`: only a value has wildcards";
            return self.wrong(line_of("key"), &table.name, "key", key, allowed);
        }
        let pattern = value.contains('*').then(|| Pattern::of(value)).flatten();
        let shared = self.flag(&table, "share_threshold");
        if shared && pattern.is_none() {
            let allowed = "no, unless `value` has a `*`";
            self.wrong(
                line_of("share_threshold"),
                &table.name,
                "share_threshold",
                "yes",
                allowed,
            );
        }
        let fixed = match (&pattern, value) {
            (Some(_), value) if shared => Fixed::Shared(value),
            (Some(_), value) => Fixed::Pattern(value),
            (None, "") => Fixed::Any,
            (None, value) => Fixed::Value(value),
        };
        depths.push(Depth {
            key,
            value: fixed,
            counted: self.flag(&table, "value_to_metric"),
        });
        let rule = self.rule(&table, texts, domain, path.clone(), depths);
        let mut below = Level::default();
        self.descriptors(&table, texts, domain, &path, depths, &mut below);
        depths.pop();
        let node = RuleNode { rule, below };
        let by_key = level.by_key.entry(key.as_bytes().into()).or_default();
        if !by_key.add(value, pattern, node) {
            let allowed = "written once in a list; another descriptor has the same key and value";
            self.wrong(table.line, &table.name, "key", key, allowed);
        }
    }

    fn rule(
        &mut self,
        table: &Table<'_>,
        texts: &Texts,
        domain: &str,
        path: String,
        depths: &Depths<'_>,
    ) -> Option<Arc<Rule>> {
        let shadow = self.flag(table, "shadow_mode");
        let quota = self.flag(table, "quota_mode");
        let detailed = self.flag(table, "detailed_metric");
        let metadata = table.field("metadata").cloned().map(Node::into_value);
        let node = table.field("rate_limit")?;
        let limits = self.table(node, table.name.clone(), RATE_LIMIT)?;
        let none = Texts::default();
        let texts = texts.rate_limit.as_deref().unwrap_or(&none);
        let name = texts.name.clone().unwrap_or_default();
        let limit = self.limit(&limits);
        let counting = self.reading.counting;
        let per = limit.and_then(|limit| limit.quota_per(counting));
        let fixed: Vec<_> = depths.iter().map(|it| (it.key, it.value)).collect();
        Some(Arc::new(Rule {
            place: self.place(table.line),
            limit,
            replaces: self.replaces(&limits, texts, &name),
            path,
            name,
            shadow,
            quota,
            metadata,
            key: BudgetKey::new(per, domain, &fixed),
            counting,
            max_keys: self.reading.max_keys,
            metric: Metric::new(domain, depths.iter().map(|depth| depth.metric(detailed))),
            charged_afterwards: AtomicBool::new(false),
            hits: OnceLock::new(),
        }))
    }

    fn limit(&mut self, table: &Table<'_>) -> Option<UnitLimit> {
        let unit = table.field("unit");
        let name = unit.map(shown).unwrap_or_default();
        let known = Unit::named(&name);
        let line = unit.map_or(table.line, |node| node.line);
        if self.flag(table, "unlimited") {
            if known.is_some() {
                let allowed = "absent, because the descriptor is `unlimited`";
                self.wrong(line, &table.name, "rate_limit.unit", &name, allowed);
            }
            return None;
        }
        let requests = self.requests(table);
        let Some(unit) = known else {
            self.wrong(line, &table.name, "rate_limit.unit", &name, UNITS);
            return None;
        };
        Some(UnitLimit {
            requests,
            unit,
            units: 1,
        })
    }

    fn requests(&mut self, table: &Table<'_>) -> u32 {
        let field = "rate_limit.requests_per_unit";
        let Some(node) = table.field("requests_per_unit") else {
            let place = self.place(table.line);
            let name = &table.name;
            let warning =
                format!("{place}, {name}: {field} is missing and counts as 0: nothing is admitted");
            self.warnings.push(warning);
            return 0;
        };
        let number = match &node.value {
            Shape::Leaf(Value::Number(number)) => number.as_u64(),
            _ => None,
        };
        number
            .and_then(|it| u32::try_from(it).ok())
            .unwrap_or_else(|| {
                let allowed = format!("a whole number from 0 to {}", u32::MAX);
                self.wrong(node.line, &table.name, field, &shown(node), &allowed);
                0
            })
    }

    fn replaces(&mut self, table: &Table<'_>, texts: &Texts, own: &str) -> Vec<String> {
        let Some(node) = table.field("replaces") else {
            return Vec::new();
        };
        let field = "rate_limit.replaces";
        let Shape::List(list) = &node.value else {
            self.wrong(
                node.line,
                &table.name,
                field,
                &shown(node),
                "a list of `name: NAME`",
            );
            return Vec::new();
        };
        let mut names = Vec::new();
        let texts = texts.replaces.as_deref().unwrap_or_default();
        for (index, node) in list.iter().enumerate() {
            if self.table(node, table.name.clone(), REPLACES).is_none() {
                continue;
            }
            let name = texts.get(index).and_then(|texts| texts.name.clone());
            let name = name.unwrap_or_default();
            if name.is_empty() || name == own {
                let allowed = "the name of another descriptor's rate_limit";
                self.wrong(node.line, &table.name, field, &name, allowed);
            }
            names.push(name);
        }
        names
    }

    fn flag(&mut self, table: &Table<'_>, field: &str) -> bool {
        let Some(node) = table.field(field) else {
            return false;
        };
        match &node.value {
            Shape::Leaf(Value::Bool(flag)) => *flag,
            _ => {
                self.wrong(node.line, &table.name, field, &shown(node), "true or false");
                false
            }
        }
    }

    /// Returns the table that a node is, after a look at the names of its fields.
    fn table<'t>(&mut self, node: &'t Node, name: String, allowed: &[&str]) -> Option<Table<'t>> {
        let Shape::Table(fields) = &node.value else {
            let place = self.place(node.line);
            let (list, is) = (allowed.join(", "), shown(node));
            self.problems.push(format!(
                "{place}, {name}: must be a table of {list} (it is {is:?})"
            ));
            return None;
        };
        for (field, node) in fields {
            if !allowed.contains(&field.as_str()) {
                self.stray(node, &name, field, allowed);
            }
        }
        let line = node.line;
        Some(Table { line, name, fields })
    }

    /// Tells of a field that there is not here.
    fn stray(&mut self, node: &Node, name: &str, field: &str, allowed: &[&str]) {
        let place = self.place(node.line);
        let elsewhere = [ROOT, DESCRIPTOR, RATE_LIMIT].concat();
        if elsewhere.contains(&field) {
            let list = allowed.join(", ");
            let warning =
                format!("{place}, {name}: `{field}` has no effect here; allowed fields are {list}");
            return self.warnings.push(warning);
        }
        let hint = match nearest(field, elsewhere.into_iter()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("allowed fields are {}", allowed.join(", ")),
        };
        self.problems.push(format!(
            "{place}, {name}: there is no field `{field}`; {hint}"
        ));
    }

    fn wrong(&mut self, line: u64, name: &str, field: &str, value: &str, allowed: &str) {
        let place = self.place(line);
        self.problems.push(format!(
            "{place}, {name}: {field} = {value:?}: must be {allowed}"
        ));
    }

    fn place(&self, line: u64) -> String {
        match line {
            NO_LINE => self.file.to_owned(),
            line => format!("{}:{line}", self.file),
        }
    }
}

impl ByKey {
    /// Adds a rule. Returns false if there is one with this value.
    fn add(&mut self, value: &str, pattern: Option<Pattern>, node: RuleNode) -> bool {
        match pattern {
            Some(pattern) => {
                let free = self.patterns.iter().all(|(known, _)| *known != pattern);
                self.patterns.push((pattern, node));
                free
            }
            None if value.is_empty() => self.any.replace(node).is_none(),
            None => self.exact.insert(value.as_bytes().into(), node).is_none(),
        }
    }
}

/// Line of what comes from no file. Lines of files are counted from 1.
const NO_LINE: u64 = 0;

/// Returns a value as the tree that a file with it would be.
fn without_line(value: &Value) -> Node {
    let value = match value {
        Value::Array(list) => Shape::List(list.iter().map(without_line).collect()),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| (name.clone(), without_line(value));
            Shape::Table(fields.iter().map(field).collect())
        }
        leaf => Shape::Leaf(leaf.clone()),
    };
    Node {
        line: NO_LINE,
        written: None,
        value,
    }
}

fn is_null(node: &Node) -> bool {
    matches!(node.value, Shape::Leaf(Value::Null))
}

fn shown(node: &Node) -> String {
    match &node.value {
        Shape::Leaf(Value::String(text)) => text.clone(),
        Shape::Leaf(value) => value.to_string(),
        Shape::List(_) => "a list".into(),
        Shape::Table(_) => "a table".into(),
    }
}
