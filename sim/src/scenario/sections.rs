//! The sections that stand once: `[run]`, `[topology]`, `[lease]`, `[clock.*]`.

use super::fault::{Target, ppm};
use super::fields::Fields;
use super::format::INVARIANTS;
use aliquot_core::unit::{Drift, Span};

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The core's machines in a modelled world.
    Kernel,
    /// The real code in a simulated network.
    Network,
}

/// How long, how often, and what is judged. Spans are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What is simulated.
    pub tier: Tier,
    /// One line about it.
    pub says: Option<String>,
    /// The safety phase.
    pub duration: u64,
    /// The healing phase, if it is written.
    pub heal: Option<u64>,
    /// The seeds, the end not included.
    pub seeds: (u64, u64),
    /// Invariants whose breach is no failure.
    pub breaks: Vec<&'static str>,
}

impl Run {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let breaks = fields.texts("breaks");
        let known = INVARIANTS
            .iter()
            .filter(|name| breaks.iter().any(|text| text == *name));
        Self {
            tier: match fields.word("tier").as_str() {
                "network" => Tier::Network,
                _ => Tier::Kernel,
            },
            says: fields.maybe_word("says"),
            duration: fields.nanos("duration"),
            heal: fields.maybe_nanos("heal"),
            seeds: fields.range("seeds").unwrap_or((0, 1)),
            breaks: known.copied().collect(),
        }
    }
}

/// How what a message takes longer is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Up to it, each as likely.
    Uniform,
    /// With it as mean.
    Exponential,
    /// With it as mean and a heavy tail (exponent 2.5).
    Pareto,
}

/// Nodes, zones and links. Spans are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Coordinator nodes.
    pub nodes: usize,
    /// Zones, at least one.
    pub zones: Vec<String>,
    /// One way, at least.
    pub delay: u64,
    /// What a message takes longer.
    pub spread: u64,
    /// How that is drawn.
    pub shape: Spread,
    /// What it takes longer between zones.
    pub zone_delay: u64,
    /// The part of messages that is lost.
    pub loss: f64,
    /// The part that arrives twice.
    pub duplicate: f64,
    /// How long an entry takes to be durable.
    pub commit_delay: u64,
}

impl Topology {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let mut zones = fields.texts("zones");
        if zones.is_empty() {
            zones.push("zone".into());
        }
        Self {
            nodes: fields.whole("nodes").max(1) as usize,
            zones,
            delay: fields.nanos("link_delay"),
            spread: fields.nanos("link_spread"),
            shape: match fields.word("spread_shape").as_str() {
                "exponential" => Spread::Exponential,
                "pareto" => Spread::Pareto,
                _ => Spread::Uniform,
            },
            zone_delay: fields.nanos("zone_delay"),
            loss: fields.number("loss"),
            duplicate: fields.number("duplicate"),
            commit_delay: fields.nanos("commit_delay"),
        }
    }
}

/// What the cluster is configured with. Spans are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// How long a node may be deaf.
    pub lease: u64,
    /// The bound on drift.
    pub drift: Drift,
    /// How often nodes report.
    pub report_every: u64,
    /// How often clients report.
    pub client_report_every: u64,
    /// How often a leader says that it lives.
    pub heartbeat: u64,
    /// The shortest patience of a follower.
    pub election_min: u64,
    /// The longest.
    pub election_max: u64,
    /// How often a node looks at what is due.
    pub tick: u64,
    /// At most one round in this time.
    pub round: u64,
    /// Whether leases are counted on a clock that stands still while its machine is suspended.
    pub monotonic: bool,
}

impl Lease {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let ppm = u32::try_from(fields.whole("drift_ppm")).unwrap_or(u32::MAX);
        let lease = Self {
            lease: fields.nanos("lease"),
            drift: Drift::from_ppm(ppm).unwrap_or_default(),
            report_every: fields.nanos("report_every"),
            client_report_every: fields.nanos("client_report_every"),
            heartbeat: fields.nanos("heartbeat"),
            election_min: fields.nanos("election_min"),
            election_max: fields.nanos("election_max"),
            tick: fields.nanos("tick"),
            round: fields.nanos("round"),
            monotonic: fields.word("counted_on") == "monotonic",
        };
        if lease.election_min >= lease.election_max {
            fields.refuse("election_max", "must be longer than election_min");
        }
        lease
    }

    /// How long invariant 8 allows until everything has recovered, if a
    /// message takes up to `delay` one way: an election that two split votes
    /// lengthen, patience, two reports and two round trips.
    #[must_use]
    pub fn heals_within(&self, delay: u64) -> u64 {
        let patience = aliquot_core::lease::parent_span(Span::from_nanos(self.lease), self.drift);
        4 * self.election_max + patience.nanos() + 2 * self.report_every + 4 * delay
    }
}

/// A clock that is not left to chance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRule {
    /// Whose.
    pub target: Target,
    /// How much faster than true time it runs.
    pub ppm: Option<i64>,
    /// What it shows at the beginning, in nanoseconds.
    pub offset: Option<u64>,
    /// How far its wall clock is ahead, in nanoseconds.
    pub wall_offset: i64,
}

impl ClockRule {
    pub(super) fn read(fields: &Fields<'_>, target: Target) -> Self {
        Self {
            target,
            ppm: fields.has("ppm").then(|| ppm(fields)),
            offset: fields.maybe_nanos("offset"),
            wall_offset: fields.shift("wall_offset"),
        }
    }
}
