//! The sections `[run]` and `[topology]`, and the rules `[clock.*]`.

use super::fault::{Target, ppm};
use super::fields::Fields;
use super::format::INVARIANTS;

/// The software that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The core's state machines, with a modelled log and network.
    Kernel,
    /// The real nodes and clients, in a simulated network.
    Network,
}

/// Durations, seeds and the invariants that may be broken. Durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The software that is simulated.
    pub tier: Tier,
    /// Reason for which the tiers differ, if they do.
    pub tiers_differ: Option<String>,
    /// Title of the scenario.
    pub says: Option<String>,
    /// Duration of the safety phase.
    pub duration: u64,
    /// Duration of the healing phase, if the file sets it.
    pub heal: Option<u64>,
    /// The seeds, as a half-open range.
    pub seeds: (u64, u64),
    /// Invariants whose breach is not a failure.
    pub breaks: Vec<&'static str>,
    /// The part of what one limiter would use that must be used, in each window without faults.
    pub availability: f64,
    /// The same over the whole run at once, with its faults.
    pub availability_through_faults: f64,
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
            tiers_differ: fields.maybe_word("tiers_differ"),
            says: fields.maybe_word("says"),
            duration: fields.nanos("duration"),
            heal: fields.maybe_nanos("heal"),
            seeds: fields.range("seeds").unwrap_or((0, 1)),
            breaks: known.copied().collect(),
            availability: fields.number("availability"),
            availability_through_faults: fields.number("availability_through_faults"),
        }
    }
}

/// Distribution of the random part of a message's delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Uniform, from zero to the spread.
    Uniform,
    /// Exponential, with the spread as mean.
    Exponential,
    /// Pareto with exponent 2.5, with the spread as mean.
    Pareto,
}

/// Nodes, zones and links. Durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Number of coordinator nodes.
    pub nodes: usize,
    /// Number of nodes, from the first on, that run the version of the log before the present one until they start
    /// again.
    pub old_nodes: usize,
    /// Names of the zones; at least one.
    pub zones: Vec<String>,
    /// Minimum one-way delay.
    pub delay: u64,
    /// Size of the random part of the delay, see [`Spread`].
    pub spread: u64,
    /// Distribution of the random part.
    pub shape: Spread,
    /// Additional delay between two zones.
    pub zone_delay: u64,
    /// Fraction of messages that are lost.
    pub loss: f64,
    /// Fraction of messages that arrive twice.
    pub duplicate: f64,
    /// Time that a node takes to make an entry durable.
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
            old_nodes: fields.whole("old_nodes") as usize,
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

/// A rule for the clocks of some hosts, instead of drawn values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockRule {
    /// Hosts to which the rule applies.
    pub target: Target,
    /// Rate relative to true time, in ppm: positive if the clock runs fast.
    pub ppm: Option<i64>,
    /// Initial reading of the boot clock, in nanoseconds.
    pub offset: Option<u64>,
    /// Offset of the wall clock, in nanoseconds.
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
