//! `[[fault]]`, `[swarm]`, and whom they strike.

use super::fields::Fields;
use super::format::FAULTS;
use super::load::node_number;
use aliquot_budgets::nearest;
use toml::Table;

/// Hosts, as a file names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All nodes and clients.
    All,
    /// All nodes.
    Nodes,
    /// All clients.
    Clients,
    /// A node, from 0.
    Node(usize),
    /// A group of clients.
    Group(String),
    /// One client of a group, from 0.
    Client(String, usize),
    /// What is in a zone.
    Zone(String),
    /// One of those, drawn.
    OneOf(Box<Target>),
    /// The greatest number of nodes that is no majority, drawn.
    Minority,
    /// The node in office when it strikes.
    Leader,
    /// Some other node.
    Follower,
}

impl Target {
    /// Reads a target; `groups` are the groups there are.
    ///
    /// # Errors
    ///
    /// What it may be.
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
                    "there is no such host; there are {}, NAME-1, zone:NAME and one-of:NAME",
                    names.join(", ")
                ),
            }
        })
    }

    /// How wide it is, for what goes before what: the narrower the less.
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

/// As a file would write it.
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

/// A fault that a file names.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// One of the format's kinds.
    pub kind: &'static str,
    /// When, first.
    pub at: u64,
    /// How often again.
    pub every: Option<u64>,
    /// How often at most.
    pub times: u64,
    /// How long it lasts.
    pub lasts: u64,
    /// Whom it strikes; empty for all.
    pub target: Vec<Target>,
    /// The other side; empty for all others.
    pub to: Vec<Target>,
    /// Whether clients stay on the side of their node.
    pub with_clients: bool,
    /// How many messages.
    pub amount: f64,
    /// How long, or by how much.
    pub by: i64,
    /// The rate of a clock, in ppm.
    pub ppm: i64,
    /// How often a strobe steps.
    pub period: u64,
    /// Whether it is the wall clock.
    pub wall: bool,
    /// Whether a node joins instead of leaving.
    pub joins: bool,
    /// Fields of a budget that change.
    pub set: Table,
}

/// Faults that only the kernel tier knows, and why.
pub(super) const NOT_ON_NETWORK: &[(&str, &str)] = &[
    ("reorder", "a connection keeps its order"),
    ("membership", "its nodes neither join nor leave"),
    ("clone_client", "a running process cannot be copied"),
];

impl Fault {
    pub(super) fn read(
        fields: &Fields<'_>,
        targets: &dyn Fn(&str) -> Result<Target, String>,
    ) -> Self {
        let kind = fields.word("kind");
        let kind = FAULTS
            .iter()
            .find(|known| **known == kind)
            .copied()
            .unwrap_or(FAULTS[0]);
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
            joins: fields.word("change") == "join",
            set: fields.table("set"),
        };
        if kind == "budget_change" && fault.set.is_empty() {
            fields.refuse(
                "set",
                "is missing: the fields that change, such as { rate = \"500/s\" }",
            );
        }
        if matches!(kind, "delay" | "reorder" | "slow") && fault.by < 0 {
            fields.refuse("by", format!("must not be negative for {kind}"));
        }
        fault
    }
}

/// A rate in ppm, in the steps in which readings stay exact.
pub(super) fn ppm(fields: &Fields<'_>) -> i64 {
    let ppm = fields.number("ppm");
    if ppm % 100.0 != 0.0 {
        fields.refuse("ppm", "must be a multiple of 100");
    }
    ppm as i64
}

/// Faults that are drawn for each seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Swarm {
    /// The classes.
    pub kinds: Vec<&'static str>,
    /// How likely one is left out.
    pub omit: f64,
    /// The mean time between two.
    pub every: u64,
    /// When they begin.
    pub from: u64,
    /// How long one lasts at most.
    pub longest: u64,
    /// Nodes, the end not included.
    pub nodes: Option<(u64, u64)>,
    /// Groups of clients that a seed keeps, the end not included.
    pub groups: Option<(u64, u64)>,
    /// Clients of all groups that a seed keeps, the end not included.
    pub clients: Option<(u64, u64)>,
    /// Whether loads are drawn, too.
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
