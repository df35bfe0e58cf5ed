//! Scenario files: they define the fleet, the load, the faults and the assertions.
//!
//! A scenario is a TOML file. All sections and keys are listed in the tables of [`mod@format`], which drive
//! both the reader and the documentation. The reader reports all problems at once, each with its field, its
//! value and the allowed values.
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
#[cfg(feature = "network")]
pub(crate) mod cluster;
mod fault;
mod fields;
pub mod format;
pub(crate) mod kinds;
mod lease;
mod load;
pub(crate) mod path;
mod problem;
mod reader;
mod sections;
mod skew;

pub use assert::{Assert, What};
pub use fault::{DamagedPart, Fault, MemberChange, Swarm, Target};
pub use fields::Bound;
pub use lease::Lease;
pub(crate) use load::KEYS as LOAD_KEYS;
pub use load::{Group, Shape, Verb};
pub use problem::{Problem, Problems};
pub use sections::{ClockRule, Run, Spread, Tier, Topology};
pub use skew::ManyKeys;

use aliquot_budgets::draft_of;
use aliquot_core::budget::{Budget, BudgetDraft, Key};
use std::path::PathBuf;
use toml::{Table, Value};

/// A scenario that was read and validated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name of the scenario: the file's name without its extension, or its name in the library.
    pub name: String,
    /// Durations, seeds and the invariants that may be broken.
    pub run: Run,
    /// Nodes, zones and links.
    pub topology: Topology,
    /// Configuration of the cluster.
    pub lease: Lease,
    /// The budgets, as written and as validated.
    pub budgets: Vec<(BudgetDraft, Budget)>,
    /// Groups of clients, with their load.
    pub clients: Vec<Group>,
    /// Rules for clocks that are not drawn; those with wider targets come first.
    pub clocks: Vec<ClockRule>,
    /// Faults.
    pub faults: Vec<Fault>,
    /// Parameters of faults that are drawn for each seed.
    pub swarm: Option<Swarm>,
    /// Assertions, in addition to the invariants.
    pub asserts: Vec<Assert>,
    /// Text of the file.
    pub text: String,
    /// Folder in which files named by the scenario are looked up.
    pub beside: Option<PathBuf>,
}

impl Scenario {
    /// Returns the same scenario on a tier, without the assertions that some seed must hit a mark, and without
    /// settings of the model: the network tier cannot see some marks and has no model.
    ///
    /// # Errors
    ///
    /// Returns [`Problems`] if the tier cannot run it.
    pub fn on(&self, tier: Tier) -> Result<Self, Problems> {
        let mut root: Table = self.text.parse().unwrap_or_default();
        if let Value::Table(run) = root
            .entry("run")
            .or_insert_with(|| Value::Table(Table::new()))
        {
            let word = match tier {
                Tier::Kernel => "kernel",
                Tier::Network => "network",
            };
            run.insert("tier".into(), Value::String(word.into()));
        }
        if let (Tier::Network, Some(Value::Table(lease))) = (tier, root.get_mut("lease")) {
            lease.remove("tick");
        }
        if let (Tier::Kernel, Some(Value::Table(topology))) = (tier, root.get_mut("topology")) {
            topology.remove("old_nodes");
        }
        if let Some(Value::Array(asserts)) = root.get_mut("assert") {
            asserts.retain(|assert| assert.get("sometimes").is_none());
        }
        let text = toml::to_string(&root).unwrap_or_default();
        Self::parse(&self.name, &text, self.beside.as_deref())
    }

    /// Returns a budget with the fields of `set` changed. If `set` has a `key`, it selects the budget;
    /// otherwise the first budget is changed.
    ///
    /// # Errors
    ///
    /// Returns a message if a field is invalid or if there is no such budget.
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
        if let Some(error) = aliquot_budgets::zones::zone_error(&budget) {
            return Err(said(vec![error]));
        }
        Ok((draft, budget))
    }

    /// Checks that a fault can write its budget.
    fn writable(&self, fault: &Fault) -> Result<(), String> {
        let (_, budget) = self.changed(&fault.set)?;
        match fault.kind == "budget_delete" && budget.key().is_template() {
            true => {
                Err("names a template: only a budget with a key of its own can be deleted".into())
            }
            false => Ok(()),
        }
    }

    /// Returns the budget that applies to a key: its own, or else the first template that it matches.
    pub(crate) fn budget_of(&self, key: &Key) -> Option<&Budget> {
        let budgets = || self.budgets.iter().map(|(_, budget)| budget);
        let exact = budgets().find(|budget| budget.key().as_str() == key.as_str());
        exact.or_else(|| budgets().find(|budget| budget.key().matches(key)))
    }

    /// Returns the key of a group, or the pattern of its keys: the first budget's if it names none.
    pub(crate) fn key_of(&self, group: &Group) -> String {
        let first = || self.budgets.first().map(|(draft, _)| draft.key.clone());
        group.key.clone().or_else(first).unwrap_or_default()
    }

    /// Returns the number of clients in all groups.
    #[must_use]
    pub fn clients_count(&self) -> usize {
        self.clients.iter().map(|group| group.count).sum()
    }

    /// Returns the names and sizes of all groups.
    #[must_use]
    pub fn groups(&self) -> Vec<(String, usize)> {
        let groups = self.clients.iter();
        groups
            .map(|group| (group.name.clone(), group.count))
            .collect()
    }
}
