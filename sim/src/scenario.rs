//! Scenario files: what is simulated, and what must hold.
//!
//! A scenario is TOML. Its sections and keys stand once, in [`format`], from
//! where they are read and documented. Everything that is wrong is told at
//! once, each with its field, its value and what may be written.
//!
//! ```
//! use aliquot_sim::scenario::Scenario;
//!
//! let text = "
//!     [[budget]]
//!     key = \"reads\"
//!     rate = \"100/s\"
//!
//!     [[clients]]
//!     count = 3
//!     rate = \"50/s\"
//! ";
//! let scenario = Scenario::parse("mine", text, None)?;
//! assert_eq!(scenario.clients[0].count, 3);
//!
//! let problems = Scenario::parse("mine", &text.replace("count", "cuont"), None).unwrap_err();
//! assert!(problems.to_string().contains("did you mean `count`?"));
//! # Ok::<(), aliquot_sim::scenario::Problems>(())
//! ```

mod assert;
mod fault;
mod fields;
pub mod format;
mod load;
mod problem;
mod sections;

pub use assert::{Assert, Bound, What};
pub use fault::{Fault, Swarm, Target};
pub use load::{Group, Shape};
pub use problem::{Problem, Problems};
pub use sections::{ClockRule, Lease, Run, Spread, Topology};

use crate::mark::Mark;
use aliquot_coordinator::budgets::{self, draft_of};
use aliquot_coordinator::config::nearest;
use aliquot_core::budget::{Budget, BudgetDraft};
use fields::Fields;
use format::SECTIONS;
use std::cell::RefCell;
use std::path::Path;
use toml::{Table, Value};

/// A scenario that was read and checked.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is called: the file's name without its ending, or a library's name.
    pub name: String,
    /// How long, how often, and what is judged.
    pub run: Run,
    /// Nodes, zones and links.
    pub topology: Topology,
    /// What the cluster is configured with.
    pub lease: Lease,
    /// The budgets, as they were written and as they were understood.
    pub budgets: Vec<(BudgetDraft, Budget)>,
    /// Who asks.
    pub clients: Vec<Group>,
    /// Clocks that are not left to chance, the wider targets first.
    pub clocks: Vec<ClockRule>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What goes wrong by chance.
    pub swarm: Option<Swarm>,
    /// What must hold besides the invariants.
    pub asserts: Vec<Assert>,
    /// The file itself.
    pub text: String,
}

/// What a file is being read with.
struct Reader<'a> {
    root: &'a Table,
    problems: RefCell<Problems>,
    empty: Table,
}

impl Scenario {
    /// Reads a scenario. Files that it names are looked for in the folder `beside`.
    ///
    /// # Errors
    ///
    /// [`Problems`]: everything that is wrong with it.
    pub fn parse(name: &str, text: &str, beside: Option<&Path>) -> Result<Self, Problems> {
        let root: Table = text.parse().map_err(|error: toml::de::Error| {
            let mut problems = Problems::default();
            let said = error.to_string();
            problems.add(name, "", format!("is not TOML: {}", said.trim_end()));
            problems
        })?;
        let reader = Reader {
            root: &root,
            problems: RefCell::default(),
            empty: Table::new(),
        };
        reader.look_for_strangers();
        let scenario = reader.scenario(name, text, beside);
        for (index, fault) in scenario.faults.iter().enumerate() {
            if fault.kind == "budget_change"
                && let Err(error) = scenario.changed(&fault.set)
            {
                reader.refuse(&format!("fault[{}].set", index + 1), error);
            }
        }
        match reader.problems.into_inner() {
            problems if problems.0.is_empty() => Ok(scenario),
            problems => Err(problems),
        }
    }

    /// The budget with these fields changed: the first, or the one that `set` names by `key`.
    ///
    /// # Errors
    ///
    /// What is wrong with the fields, or that there is no such budget.
    pub fn changed(&self, set: &Table) -> Result<(BudgetDraft, Budget), String> {
        let named = set.get("key").and_then(Value::as_str);
        let found = match named {
            Some(key) => self.budgets.iter().find(|(draft, _)| draft.key == key),
            None => self.budgets.first(),
        };
        let (draft, _) =
            found.ok_or_else(|| format!("there is no budget {:?}", named.unwrap_or_default()))?;
        let mut fields = serde_json::to_value(draft).map_err(|error| error.to_string())?;
        if let Some(fields) = fields.as_object_mut() {
            for (name, value) in set {
                let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
                fields.insert(name.clone(), value);
            }
        }
        let draft = draft_of("set", fields).map_err(|error| error.to_string())?;
        let said = |errors: Vec<aliquot_core::budget::FieldError>| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            errors.join("; ")
        };
        let budget = draft.clone().validate().map_err(said)?;
        Ok((draft, budget))
    }

    /// The clients of all groups.
    #[must_use]
    pub fn clients_count(&self) -> usize {
        self.clients.iter().map(|group| group.count).sum()
    }

    /// The groups' names and sizes.
    #[must_use]
    pub fn groups(&self) -> Vec<(String, usize)> {
        let groups = self.clients.iter();
        groups
            .map(|group| (group.name.clone(), group.count))
            .collect()
    }
}

impl Reader<'_> {
    /// Sections that there are not.
    fn look_for_strangers(&self) {
        let known = || {
            SECTIONS
                .iter()
                .map(|section| section.name)
                .chain(["budgets"])
        };
        for (name, value) in self.root {
            if known().any(|known| known == name) {
                continue;
            }
            let hint = match nearest(name, known()) {
                Some(near) => format!("there is no such section; did you mean `{near}`?"),
                None => {
                    let all: Vec<&str> = known().collect();
                    format!("there is no such section; there are {}", all.join(", "))
                }
            };
            let value = match value {
                Value::Table(_) | Value::Array(_) => String::new(),
                other => other.to_string(),
            };
            self.problems.borrow_mut().add(name, value, hint);
        }
    }

    fn refuse(&self, field: &str, allowed: impl Into<String>) {
        self.problems.borrow_mut().add(field, "", allowed);
    }

    /// The one section of that name; empty if there is none.
    fn one(&self, name: &'static str) -> Fields<'_> {
        let table = match self.root.get(name) {
            Some(Value::Table(table)) => table,
            Some(_) => {
                self.refuse(name, format!("must be a section, written [{name}]"));
                &self.empty
            }
            None => &self.empty,
        };
        self.fields(name, name.to_owned(), table)
    }

    fn fields<'b>(&'b self, name: &str, place: String, table: &'b Table) -> Fields<'b> {
        let section = format::section(name).unwrap_or(&SECTIONS[0]);
        Fields::open(section, place, table, &self.problems)
    }

    /// The tables of a repeated section, with where they stand.
    fn many(&self, name: &str) -> Vec<(String, &Table)> {
        let found = match self.root.get(name) {
            None => return Vec::new(),
            Some(Value::Array(values)) => {
                let tables = values.iter().map(Value::as_table);
                tables.collect::<Option<Vec<_>>>()
            }
            Some(_) => None,
        };
        let Some(tables) = found else {
            self.refuse(
                name,
                format!("must be written [[{name}]], as often as needed"),
            );
            return Vec::new();
        };
        let place = |index: usize| format!("{name}[{}]", index + 1);
        let tables = tables.into_iter().enumerate();
        tables.map(|(index, table)| (place(index), table)).collect()
    }

    fn scenario(&self, name: &str, text: &str, beside: Option<&Path>) -> Scenario {
        let run = Run::read(&self.one("run"));
        let topology = Topology::read(&self.one("topology"));
        let lease = Lease::read(&self.one("lease"));
        let budgets = self.budgets(beside);
        let groups = self.many("clients").into_iter().enumerate();
        let clients: Vec<Group> = groups
            .map(|(index, (place, table))| {
                let fields = self.fields("clients", place, table);
                let group = Group::read(&fields, index, beside);
                self.check_group(&fields, &group, &topology, &budgets);
                group
            })
            .collect();
        if clients.is_empty() {
            self.refuse(
                "clients",
                "is missing: at least one [[clients]] must ask for something",
            );
        }
        let names: Vec<_> = clients
            .iter()
            .map(|group| (group.name.clone(), group.count))
            .collect();
        for (index, (name, _)) in names.iter().enumerate() {
            if names[..index].iter().any(|(other, _)| other == name) {
                self.refuse(
                    &format!("clients[{}].name", index + 1),
                    format!("is taken: {name:?} is another group's"),
                );
            }
        }
        let target = |text: &str| Target::parse(text, topology.nodes, &topology.zones, &names);
        let faults = self.many("fault").into_iter();
        let faults =
            faults.map(|(place, table)| Fault::read(&self.fields("fault", place, table), &target));
        let faults = faults.collect();
        let swarm = self
            .root
            .contains_key("swarm")
            .then(|| Swarm::read(&self.one("swarm")));
        let marks: Vec<&str> = Mark::ALL.iter().map(|mark| mark.name()).collect();
        let asserts = self.many("assert").into_iter();
        let asserts = asserts
            .filter_map(|(place, table)| {
                Assert::read(&self.fields("assert", place, table), run.duration, &marks)
            })
            .collect();
        Scenario {
            name: name.to_owned(),
            clocks: self.clocks(&target),
            run,
            topology,
            lease,
            budgets,
            clients,
            faults,
            swarm,
            asserts,
            text: text.to_owned(),
        }
    }

    fn check_group(
        &self,
        fields: &Fields<'_>,
        group: &Group,
        topology: &Topology,
        budgets: &[(BudgetDraft, Budget)],
    ) {
        if group.home.is_some_and(|home| home >= topology.nodes) {
            fields.refuse("home", format!("must be one of n1 to n{}", topology.nodes));
        }
        if let Some(zone) = &group.zone
            && !topology.zones.contains(zone)
        {
            fields.refuse(
                "zone",
                format!(
                    "must be one of topology.zones: {}",
                    topology.zones.join(", ")
                ),
            );
        }
        if let Some(key) = &group.key
            && !budgets.is_empty()
        {
            let named = aliquot_core::budget::Key::try_from(key.as_str());
            let falls =
                named.is_ok_and(|key| budgets.iter().any(|(_, budget)| budget.key().matches(&key)));
            if !falls {
                fields.refuse("key", "must be a key that one of the budgets names");
            }
        } else if let Some((_, first)) = budgets.first()
            && aliquot_core::budget::Key::try_from(first.key().as_str()).is_err()
        {
            fields.refuse(
                "key",
                "is missing: the first budget is a template, so say which of its keys",
            );
        }
    }

    fn clocks(&self, target: &dyn Fn(&str) -> Result<Target, String>) -> Vec<ClockRule> {
        let Some(value) = self.root.get("clock") else {
            return Vec::new();
        };
        let Some(tables) = value.as_table() else {
            self.refuse("clock", "must be sections such as [clock.n1]");
            return Vec::new();
        };
        let mut rules = Vec::new();
        for (name, value) in tables {
            let place = format!("clock.{name}");
            match (target(name), value.as_table()) {
                (Ok(target), Some(table)) => {
                    rules.push(ClockRule::read(&self.fields("clock", place, table), target));
                }
                (Ok(_), None) => {
                    self.refuse(&place, format!("must be a section, written [{place}]"))
                }
                (Err(problem), _) => self.refuse(&place, problem),
            }
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.target.width()));
        rules
    }

    fn budgets(&self, beside: Option<&Path>) -> Vec<(BudgetDraft, Budget)> {
        let mut drafts = Vec::new();
        if let Some(value) = self.root.get("budgets") {
            drafts.extend(self.budgets_of_file(value, beside));
        }
        for (place, table) in self.many("budget") {
            let value = serde_json::to_value(table).unwrap_or_default();
            match draft_of(&place, value) {
                Ok(draft) => drafts.push((place, draft)),
                Err(error) => self.refuse(&place, error.to_string()),
            }
        }
        if drafts.is_empty()
            && !self.root.contains_key("budgets")
            && !self.root.contains_key("budget")
        {
            self.refuse(
                "budget",
                "is missing: at least one [[budget]] must limit something",
            );
        }
        let mut budgets = Vec::new();
        for (place, draft) in drafts {
            match draft.clone().validate() {
                Ok(budget) => budgets.push((draft, budget)),
                Err(errors) => {
                    for error in errors {
                        let field = format!("{place}.{}", error.field);
                        let allowed = format!("must be {}", error.allowed);
                        self.problems.borrow_mut().add(
                            &field,
                            format!("{:?}", error.value),
                            allowed,
                        );
                    }
                }
            }
        }
        budgets
    }

    fn budgets_of_file(&self, value: &Value, beside: Option<&Path>) -> Vec<(String, BudgetDraft)> {
        let (Some(file), Some(beside)) = (value.as_str(), beside) else {
            self.refuse("budgets", "must be the name of a file beside the scenario");
            return Vec::new();
        };
        let path = beside.join(file).display().to_string();
        match budgets::read(&[path]) {
            Ok(found) => found
                .into_iter()
                .map(|found| (found.place, found.draft))
                .collect(),
            Err(error) => {
                self.refuse("budgets", error.to_string());
                Vec::new()
            }
        }
    }
}
