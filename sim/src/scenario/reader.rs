//! Reads a whole file: its sections, the references between them, and its budgets.

use super::fields::Fields;
use super::format::{self, SECTIONS};
use super::kinds::FaultKind;
use super::{
    Assert, ClockRule, Fault, Group, Lease, Problems, Run, Scenario, Swarm, Target, Tier, Topology,
    Verb, What,
};
use crate::mark::Mark;
use aliquot_budgets::{draft_of, nearest, zones};
use aliquot_core::budget::{Budget, BudgetDraft, Key};
use aliquot_core::share::Kind;
use std::cell::RefCell;
use std::path::Path;
use toml::{Table, Value};

impl Scenario {
    /// Reads a scenario. Files that it names are looked up in the folder `beside`.
    ///
    /// # Errors
    ///
    /// Returns [`Problems`], which lists everything that is wrong with it.
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
        reader.check_cluster(&scenario);
        for (index, fault) in scenario.faults.iter().enumerate() {
            if fault.writes_budget()
                && let Err(error) = scenario.writable(fault)
            {
                reader.refuse(&format!("fault[{}].set", index + 1), error);
            }
        }
        let old = scenario.topology.old_nodes;
        if old > scenario.topology.nodes {
            let most = format!(
                "is {old}: must be at most topology.nodes, {}",
                scenario.topology.nodes
            );
            reader.refuse("topology.old_nodes", most);
        }
        match scenario.run.tier {
            Tier::Network => reader.check_network(&scenario),
            Tier::Kernel => reader.check_kernel(&scenario),
        }
        match reader.problems.into_inner() {
            problems if problems.0.is_empty() => Ok(scenario),
            problems => Err(problems),
        }
    }
}

/// A file that is being read.
pub(super) struct Reader<'a> {
    pub(super) root: &'a Table,
    pub(super) problems: RefCell<Problems>,
    pub(super) empty: Table,
}

impl Reader<'_> {
    /// Reports unknown sections.
    pub(super) fn look_for_strangers(&self) {
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
                    format!(
                        "there is no such section; the sections are {}",
                        all.join(", ")
                    )
                }
            };
            let value = match value {
                Value::Table(_) | Value::Array(_) => String::new(),
                other => other.to_string(),
            };
            self.problems.borrow_mut().add(name, value, hint);
        }
    }

    pub(super) fn refuse(&self, field: &str, allowed: impl Into<String>) {
        self.problems.borrow_mut().add(field, "", allowed);
    }

    /// Returns the section with that name; an empty one if the file does not have it.
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

    /// Returns the tables of a repeated section, each with its place for messages.
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

    pub(super) fn scenario(&self, name: &str, text: &str, beside: Option<&Path>) -> Scenario {
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
                "is missing: at least one [[clients]] section is required",
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
                    format!("must be unique: another group has the name {name:?}"),
                );
            }
        }
        let target = |text: &str| Target::parse(text, topology.nodes, &topology.zones, &names);
        let faults = self.many("fault").into_iter();
        let faults = faults.map(|(place, table)| {
            let fields = self.fields("fault", place, table);
            let fault = Fault::read(&fields, &target);
            if run.duration > 0 && fault.at >= run.duration {
                fields.refuse(
                    "at",
                    "must be before the end of the run, or it never happens",
                );
            }
            fault
        });
        let faults = faults.collect();
        let swarm = self
            .root
            .contains_key("swarm")
            .then(|| Swarm::read(&self.one("swarm")));
        let asserts = self.asserts(run.duration, swarm.is_some(), &clients, &budgets);
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
            beside: beside.map(Path::to_owned),
        }
    }

    /// Reads the assertions, whose groups and keys must be those of the scenario. A swarm draws its own.
    fn asserts(
        &self,
        duration: u64,
        is_swarm: bool,
        clients: &[Group],
        budgets: &[(BudgetDraft, Budget)],
    ) -> Vec<Assert> {
        let marks: Vec<&str> = Mark::ALL.iter().map(|mark| mark.name()).collect();
        let groups: Vec<&str> = clients.iter().map(|group| group.name.as_str()).collect();
        let asked = clients.iter().filter_map(|group| group.key.as_deref());
        let written = budgets.iter().map(|(_, budget)| budget.key().as_str());
        let keys: Vec<&str> = asked.chain(written).collect();
        let asserts = self.many("assert").into_iter();
        asserts
            .filter_map(|(place, table)| {
                let fields = self.fields("assert", place, table);
                let assert = Assert::read(&fields, duration, &marks)?;
                if !is_swarm {
                    check_known(&fields, "key", assert.key.as_deref(), &keys);
                    check_known(&fields, "group", assert.group.as_deref(), &groups);
                }
                Some(assert)
            })
            .collect()
    }

    /// Reports the settings that a real node would refuse for these links. A build without the real code cannot tell.
    #[cfg_attr(
        not(feature = "network"),
        expect(unused_variables, clippy::unused_self)
    )]
    fn check_cluster(&self, scenario: &Scenario) {
        #[cfg(feature = "network")]
        if self.problems.borrow().0.is_empty() {
            let refused = scenario.lease.refused(&scenario.topology);
            let mut problems = self.problems.borrow_mut();
            for (field, value, allowed) in refused {
                problems.add(&field, value, allowed);
            }
        }
    }

    /// Refuses what only the network tier has.
    fn check_kernel(&self, scenario: &Scenario) {
        if scenario.topology.old_nodes > 0 {
            self.refuse(
                "topology.old_nodes",
                "has no effect in the kernel tier: its log has one version",
            );
        }
        for (index, _) in scenario
            .clients
            .iter()
            .enumerate()
            .filter(|(_, of)| of.also.is_some())
        {
            self.refuse(
                &format!("clients[{}].also", index + 1),
                "has no effect in the kernel tier: its callers need one budget",
            );
        }
    }

    /// Reports everything that the network tier does not support.
    pub(super) fn check_network(&self, scenario: &Scenario) {
        /// Every host costs time in each step. Two more hosts run the clients.
        const NODES_MAX: usize = 6;
        /// Half as many as a node takes in one session, so that a client may move all of them to another session.
        const KEYS_MAX: usize = 512;
        if cfg!(not(feature = "network")) {
            self.refuse(
                "run.tier",
                "must be kernel: this build has no network tier; build aliquot-sim with its feature `network`",
            );
        }
        let most = scenario.swarm.as_ref().and_then(|swarm| swarm.nodes);
        let most = most.map_or(0, |(_, end)| end as usize - 1);
        let nodes = scenario.topology.nodes.max(most);
        if nodes > NODES_MAX {
            self.refuse(
                "topology.nodes",
                format!("is up to {nodes}: the network tier takes at most {NODES_MAX}"),
            );
        }
        let lease = self.root.get("lease").and_then(Value::as_table);
        if lease.is_some_and(|lease| lease.contains_key("tick")) {
            self.refuse(
                "lease.tick",
                "has no effect in the network tier: real nodes use timers",
            );
        }
        if scenario.lease.monotonic {
            self.refuse(
                "lease.counted_on",
                "must be \"boot\": the real code uses no other clock",
            );
        }
        for (index, group) in scenario.clients.iter().enumerate() {
            if let Some(keys) = group.keys.as_ref().filter(|keys| keys.count > KEYS_MAX) {
                self.problems.borrow_mut().add(
                    &format!("clients[{}].keys", index + 1),
                    keys.count,
                    format!("must be at most {KEYS_MAX} in the network tier"),
                );
            }
        }
        for (index, assert) in scenario.asserts.iter().enumerate() {
            let What::Sometimes(name) = &assert.what else {
                continue;
            };
            let mark = Mark::ALL.iter().find(|mark| mark.name() == name);
            if mark.is_some_and(|mark| mark.is_of_kernel()) {
                self.refuse(
                    &format!("assert[{}].sometimes", index + 1),
                    format!("must not be {name} in the network tier: that tier cannot observe it"),
                );
            }
        }
        let faults = scenario.faults.iter().enumerate();
        let faults =
            faults.map(|(index, fault)| (format!("fault[{}].kind", index + 1), fault.kind));
        let classes = scenario.swarm.iter().flat_map(|swarm| &swarm.kinds);
        let classes = classes.map(|kind| ("swarm.kinds".to_owned(), *kind));
        for (place, kind) in faults.chain(classes) {
            if let Some(why) = FaultKind::named(kind).and_then(|row| row.not_on_network) {
                self.refuse(
                    &place,
                    format!("must not be {kind} in the network tier: {why}"),
                );
            }
        }
    }

    fn check_group(
        &self,
        fields: &Fields<'_>,
        group: &Group,
        topology: &Topology,
        budgets: &[(BudgetDraft, Budget)],
    ) {
        Self::check_kind(fields, group, budgets);
        Self::check_also(fields, group, budgets);
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
        // Of keys that are wrong themselves, nothing more can be said.
        if budgets.is_empty() || (fields.has("keys") && group.keys.is_none()) {
            return;
        }
        let Some(key) = group.key.as_deref().or(first_of(budgets)) else {
            return;
        };
        let found = group.first_key(key);
        let found = found.filter(|key| budgets.iter().any(|(_, budget)| budget.key().matches(key)));
        match (found, &group.keys, &group.key) {
            (_, Some(_), _) if key.matches('*').count() != 1 => fields.refuse(
                "key",
                "must have one `*`, which stands for the numbers of the `keys`, such as users/*",
            ),
            (None, _, None) => fields.refuse(
                "key",
                "is missing: the first budget is a template, so name one of its keys, or say how many `keys` are used",
            ),
            (None, Some(_), Some(_)) => {
                fields.refuse("key", "must be a pattern whose keys one of the budgets covers")
            }
            (None, None, Some(_)) => {
                fields.refuse("key", "must be a key that one of the budgets names")
            }
            (Some(_), ..) => {}
        }
    }

    /// Reports the keys that have no effect on the kind of the group's budget.
    fn check_kind(fields: &Fields<'_>, group: &Group, budgets: &[(BudgetDraft, Budget)]) {
        let key = group.key.as_deref().and_then(|key| group.first_key(key));
        let found = match &key {
            Some(key) => budgets.iter().find(|(_, of)| of.key().matches(key)),
            None => budgets.first(),
        };
        match found.map(|(_, budget)| budget.kind()) {
            Some(Kind::Concurrency) if fields.has("cost") => {
                fields.refuse("cost", "has no effect here: a request takes one permit");
            }
            Some(Kind::Rate | Kind::Quota) if fields.has("hold") => {
                fields.refuse("hold", "has no effect here: only permits are held");
            }
            _ => {}
        }
    }

    /// Checks the second key of a group's requests.
    fn check_also(fields: &Fields<'_>, group: &Group, budgets: &[(BudgetDraft, Budget)]) {
        let Some(also) = &group.also else {
            return;
        };
        let budget_of = |key: &Key| {
            let mut of = budgets.iter().map(|(_, budget)| budget);
            of.find(|budget| budget.key().matches(key))
        };
        let is_rate = |budget: &&Budget| budget.kind() == Kind::Rate;
        let name = group.key.as_deref().or(first_of(budgets));
        let first = name.and_then(|name| group.first_key(name));
        let first = first.and_then(|key| budget_of(&key));
        let other = Key::try_from(also.as_str()).ok();
        match other.and_then(|key| budget_of(&key)).filter(is_rate) {
            None => fields.refuse(
                "also",
                "must be a key that one of the budgets names, which is a rate",
            ),
            Some(other) if first.is_some_and(|first| first.key() == other.key()) => {
                fields.refuse("also", "must be a key of another budget than `key`");
            }
            Some(_) if !first.as_ref().is_some_and(is_rate) => {
                fields.refuse("also", "is for callers of a rate");
            }
            Some(_) => {}
        }
        if group.verb != Verb::TryAcquire {
            fields.refuse(
                "also",
                "needs verb = \"try_acquire\": no caller waits for two budgets",
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
                "is missing: at least one [[budget]] section is required",
            );
        }
        let mut budgets = Vec::new();
        for (place, draft) in drafts {
            let validated = draft.clone().validate();
            let zoned = validated.and_then(|budget| match zones::zone_error(&budget) {
                Some(error) => Err(vec![error]),
                None => Ok(budget),
            });
            match zoned {
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
        match aliquot_budgets::read(&[path]) {
            Ok(found) => found
                .into_iter()
                .map(|found| (found.place(), found.draft))
                .collect(),
            Err(error) => {
                self.refuse("budgets", error.to_string());
                Vec::new()
            }
        }
    }
}

/// Returns the key or the pattern of the first budget.
fn first_of(budgets: &[(BudgetDraft, Budget)]) -> Option<&str> {
    budgets.first().map(|(draft, _)| draft.key.as_str())
}

/// Refuses the name of something that the scenario does not have.
fn check_known(fields: &Fields<'_>, field: &str, name: Option<&str>, known: &[&str]) {
    let Some(name) = name.filter(|name| !known.contains(name)) else {
        return;
    };
    let near = nearest(name, known.iter().copied());
    let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    fields.refuse(field, format!("the scenario has no such {field}{near}"));
}
