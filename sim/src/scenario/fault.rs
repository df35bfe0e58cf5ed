//! `[[fault]]` and `[swarm]`, and the targets of faults.

use super::fields::Fields;
use super::kinds::{FAULTS, FaultEffect, FaultKind, KEYS};
use super::load::node_number;
use aliquot_budgets::nearest;
use toml::Table;

/// Hosts, as a scenario file names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All nodes and clients.
    All,
    /// All nodes.
    Nodes,
    /// All clients.
    Clients,
    /// A node, numbered from 0.
    Node(usize),
    /// A group of clients, by name.
    Group(String),
    /// One client of a group, numbered from 0.
    Client(String, usize),
    /// All hosts in a zone.
    Zone(String),
    /// One host of the inner target, drawn at random.
    OneOf(Box<Target>),
    /// The largest minority of the nodes, drawn at random.
    Minority,
    /// The ready leader at the time of the fault.
    Leader,
    /// A node other than the leader, drawn at random.
    Follower,
}

impl Target {
    /// Parses a target. `groups` lists the names and sizes of all groups of clients.
    ///
    /// # Errors
    ///
    /// Returns a message that names the allowed targets.
    pub fn parse(
        text: &str,
        nodes: usize,
        zones: &[String],
        groups: &[(String, usize)],
    ) -> Result<Self, String> {
        match text {
            "all" => return Ok(Self::All),
            "nodes" => return Ok(Self::Nodes),
            "clients" => return Ok(Self::Clients),
            "minority" => return Ok(Self::Minority),
            "@leader" => return Ok(Self::Leader),
            "@follower" => return Ok(Self::Follower),
            _ => {}
        }
        if let Some(rest) = text.strip_prefix("one-of:") {
            let of = Self::parse(rest, nodes, zones, groups)?;
            return Ok(Self::OneOf(Box::new(of)));
        }
        if let Some(zone) = text.strip_prefix("zone:") {
            return match zones.iter().any(|known| known == zone) {
                true => Ok(Self::Zone(zone.to_owned())),
                false => Err(format!(
                    "there is no zone {zone:?}; there are {}",
                    listed(zones)
                )),
            };
        }
        if groups.iter().any(|(name, _)| name == text) {
            return Ok(Self::Group(text.to_owned()));
        }
        if let Some(node) = node_number(text) {
            return match node < nodes {
                true => Ok(Self::Node(node)),
                false => Err(format!("there are only the nodes n1 to n{nodes}")),
            };
        }
        let client = text.rsplit_once('-').and_then(|(name, number)| {
            let number = number.parse::<usize>().ok()?.checked_sub(1)?;
            let (_, count) = groups.iter().find(|(known, _)| known == name)?;
            (number < *count).then(|| Self::Client(name.to_owned(), number))
        });
        client.ok_or_else(|| {
            let mut names = vec![
                "all",
                "nodes",
                "clients",
                "minority",
                "@leader",
                "@follower",
                "n1",
            ];
            names.extend(groups.iter().map(|(name, _)| name.as_str()));
            match nearest(text, names.iter().copied()) {
                Some(near) => format!("there is no such host; did you mean {near:?}?"),
                None => format!(
                    "there is no such host; allowed are {}, NAME-1, zone:NAME and one-of:NAME",
                    names.join(", ")
                ),
            }
        })
    }

    /// Returns the width of the target, for the precedence of clock rules: narrower targets override wider
    /// ones.
    pub(super) const fn width(&self) -> u8 {
        match self {
            Self::Node(_) | Self::Client(..) => 0,
            Self::Group(_) => 1,
            Self::Zone(_) => 2,
            Self::Nodes | Self::Clients => 3,
            _ => 4,
        }
    }
}

/// Formats the target as a scenario file writes it.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Nodes => f.write_str("nodes"),
            Self::Clients => f.write_str("clients"),
            Self::Node(node) => write!(f, "n{}", node + 1),
            Self::Group(name) => f.write_str(name),
            Self::Client(name, number) => write!(f, "{name}-{}", number + 1),
            Self::Zone(zone) => write!(f, "zone:{zone}"),
            Self::OneOf(of) => write!(f, "one-of:{of}"),
            Self::Minority => f.write_str("minority"),
            Self::Leader => f.write_str("@leader"),
            Self::Follower => f.write_str("@follower"),
        }
    }
}

fn listed(names: &[String]) -> String {
    match names.is_empty() {
        true => "none".into(),
        false => names.join(", "),
    }
}

/// A change of the members of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// The node returns everything and stops, and then is removed.
    Leave,
    /// The node is removed while it runs, returns everything, and then is stopped.
    Remove,
    /// The node starts, and is let in.
    Join,
}

impl MemberChange {
    const ALL: [Self; 3] = [Self::Leave, Self::Remove, Self::Join];

    /// The names in scenario files.
    pub(crate) const NAMES: &'static [&'static str] =
        &[Self::Leave.name(), Self::Remove.name(), Self::Join.name()];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|change| change.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Leave => "leave",
            Self::Remove => "remove",
            Self::Join => "join",
        }
    }
}

/// Part of a node's disk that a fault damages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamagedPart {
    /// A random entry of the log.
    Entry,
    /// The snapshot.
    Snapshot,
}

impl DamagedPart {
    const ALL: [Self; 2] = [Self::Entry, Self::Snapshot];

    /// The names in scenario files.
    pub(crate) const NAMES: &'static [&'static str] = &[Self::Entry.name(), Self::Snapshot.name()];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A fault of a scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The kind, by its name in scenario files.
    pub kind: &'static str,
    /// True time of the first occurrence, in nanoseconds.
    pub at: u64,
    /// Interval between occurrences; `None` if it occurs once.
    pub every: Option<u64>,
    /// Maximum number of occurrences.
    pub times: u64,
    /// Duration of an occurrence.
    pub lasts: u64,
    /// Hosts that are hit; empty for all of them.
    pub target: Vec<Target>,
    /// The other side of a link fault; empty for all other hosts.
    pub to: Vec<Target>,
    /// If true, clients are on the same side as their home node.
    pub with_clients: bool,
    /// Fraction of messages that are affected.
    pub amount: f64,
    /// Delay or clock step, in nanoseconds.
    pub by: i64,
    /// Rate of the clock relative to true time, in ppm.
    pub ppm: i64,
    /// Period of a strobe.
    pub period: u64,
    /// If true, the fault steps the wall clock; otherwise the boot clock.
    pub wall: bool,
    /// The change of the members.
    pub change: MemberChange,
    /// Part of the disk that is damaged.
    pub part: DamagedPart,
    /// Budget fields to change.
    pub set: Table,
}

impl Fault {
    /// Returns true if the fault writes a new version of a budget, when it begins or when it is over.
    #[must_use]
    pub fn writes_budget(&self) -> bool {
        let kind = FaultKind::named(self.kind);
        kind.is_some_and(|kind| {
            matches!(
                kind.effect,
                FaultEffect::ChangeBudget | FaultEffect::DeleteBudget
            )
        })
    }

    pub(super) fn read(
        fields: &Fields<'_>,
        targets: &dyn Fn(&str) -> Result<Target, String>,
    ) -> Self {
        let word = fields.word("kind");
        let known = FAULTS.iter().find(|known| **known == word).copied();
        let kind = known.unwrap_or(FAULTS[0]);
        let read = |name: &str| -> Vec<Target> {
            let texts = fields.texts(name).into_iter();
            texts
                .filter_map(|text| match targets(&text) {
                    Ok(target) => Some(target),
                    Err(problem) => {
                        fields.refuse(name, problem);
                        None
                    }
                })
                .collect()
        };
        let fault = Self {
            kind,
            at: fields.nanos("at"),
            every: fields.maybe_nanos("every"),
            times: fields.maybe_whole("times").unwrap_or(u64::MAX),
            lasts: fields.nanos("for"),
            target: read("target"),
            to: read("to"),
            with_clients: fields.flag("with_clients"),
            amount: fields.number("amount"),
            by: fields.shift("by"),
            ppm: ppm(fields),
            period: fields.nanos("period"),
            wall: fields.word("clock") == "wall",
            change: MemberChange::named(&fields.word("change")).unwrap_or(MemberChange::Leave),
            part: DamagedPart::named(&fields.word("part")).unwrap_or(DamagedPart::Entry),
            set: fields.table("set"),
        };
        if let Some(row) = known.and_then(FaultKind::named) {
            let used: Vec<&str> = ["at", "every", "times"]
                .into_iter()
                .chain(row.keys())
                .collect();
            fields.refuse_unused(kind, KEYS, &used);
        }
        if kind == "budget_change" && fault.set.is_empty() {
            fields.refuse(
                "set",
                "is missing: the fields that change, such as { rate = \"500/s\" }",
            );
        }
        if matches!(kind, "delay" | "reorder" | "slow" | "slow_disk") && fault.by < 0 {
            fields.refuse("by", format!("must not be negative for {kind}"));
        }
        fault
    }
}

/// Reads a rate in ppm. It must be a multiple of 100, so that clock readings are exact.
pub(super) fn ppm(fields: &Fields<'_>) -> i64 {
    let ppm = fields.number("ppm");
    if ppm % 100.0 != 0.0 {
        fields.refuse("ppm", "must be a multiple of 100");
    }
    ppm as i64
}

/// Parameters for faults that are drawn for each seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Swarm {
    /// The kinds of faults to draw from.
    pub kinds: Vec<&'static str>,
    /// Probability that a seed leaves a kind out.
    pub omit: f64,
    /// Mean time between two faults.
    pub every: u64,
    /// True time at which faults begin.
    pub from: u64,
    /// Maximum duration of a fault.
    pub longest: u64,
    /// Number of nodes, as a half-open range.
    pub nodes: Option<(u64, u64)>,
    /// Number of client groups that a seed keeps, as a half-open range.
    pub groups: Option<(u64, u64)>,
    /// Number of clients in all groups together, as a half-open range.
    pub clients: Option<(u64, u64)>,
    /// If true, the load of each group is drawn as well.
    pub load: bool,
}

impl Swarm {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let texts = fields.texts("kinds");
        let known = FAULTS
            .iter()
            .filter(|kind| texts.iter().any(|text| text == *kind));
        let swarm = Self {
            kinds: known.copied().collect(),
            omit: fields.number("omit"),
            every: fields.nanos("every"),
            from: fields.nanos("from"),
            longest: fields.nanos("longest"),
            nodes: fields.range("nodes"),
            groups: fields.range("groups"),
            clients: fields.range("clients"),
            load: fields.flag("load"),
        };
        if swarm.groups.is_some_and(|(from, _)| from < 1) {
            fields.refuse("groups", "must be at least 1");
        }
        if swarm.nodes.is_some_and(|(from, to)| from < 1 || to > 10) {
            fields.refuse("nodes", "must be from 1 to 9");
        }
        if swarm
            .clients
            .is_some_and(|(from, to)| from < 1 || to > 20_001)
        {
            fields.refuse("clients", "must be from 1 to 20000");
        }
        swarm
    }
}
