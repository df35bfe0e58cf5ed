//! The configuration of a node that has a scenario's settings.

use super::sections::Topology;
use aliquot_coordinator::config::{Config, PaceConfig, SETTINGS, Sources};
use aliquot_core::budget::grammar;
use aliquot_core::unit::{Drift, Span};

/// A setting that a node would refuse: its key, its value, and the values that are allowed.
pub(super) type Refused = (String, String, String);

/// Returns the settings of a node that has these, in nanoseconds; those that are not set follow from the others.
///
/// # Errors
///
/// Returns every setting that `aliquot serve` would refuse.
pub(super) fn pace(drift: Drift, set: &[(&str, u64)]) -> Result<PaceConfig, Vec<Refused>> {
    let line = |(key, nanos): &(&str, u64)| format!("{key} = \"{}\"\n", Span::from_nanos(*nanos));
    let lines: String = set.iter().map(line).collect();
    let mut sources = Sources::default();
    sources.file("[lease]", format!("drift_ppm = {}\n{lines}", drift.ppm()));
    let loaded = Config::load(&sources).map_err(|problems| {
        let refused = problems.0.into_iter().map(|problem| {
            let value = problem.value.unwrap_or_default();
            let allowed = format!("`aliquot serve` refuses this: {}", problem.what);
            (problem.key, format!("{value:?}"), allowed)
        });
        refused.collect::<Vec<_>>()
    })?;
    Ok(loaded.config.pace)
}

/// Returns the round trip that a node is configured for where its file does not set it.
pub(super) fn default_round_trip() -> Span {
    let default = SETTINGS.iter().find(|of| of.key == "round_trip");
    let default = default.and_then(|of| grammar::span(of.default));
    default.unwrap_or_default()
}

/// Returns the slowest usual round trip between two nodes, with the time in which an entry is made durable.
pub(crate) fn round_trip(topology: &Topology) -> Span {
    let zone = match topology.zones.len() {
        1 => 0,
        _ => topology.zone_delay,
    };
    let one_way = match topology.nodes {
        1 => 0,
        _ => topology.delay + topology.spread + zone,
    };
    Span::from_nanos(2 * one_way + topology.commit_delay)
}
