//! The settings of a scenario's cluster, checked by the rules of `aliquot serve`.

use super::{Lease, Topology};
use aliquot_coordinator::config::{Config, SETTINGS, Sources};
use aliquot_core::budget::grammar;
use aliquot_core::unit::Span;

/// A setting that a node would refuse: its field in the scenario, its value, and the values that are allowed.
pub(super) type Refused = (String, String, String);

/// Returns every setting that `aliquot serve` would refuse. Its `round_trip` is at least that of the links.
pub(super) fn refused(lease: &Lease, topology: &Topology) -> Vec<Refused> {
    let links = round_trip(topology);
    let default = SETTINGS.iter().find(|of| of.key == "round_trip");
    let default = default.and_then(|of| grammar::span(of.default));
    let round_trip = links.max(default.unwrap_or_default());
    let spans = [
        ("lease", Span::from_nanos(lease.lease)),
        ("report_every", Span::from_nanos(lease.report_every)),
        ("heartbeat", Span::from_nanos(lease.heartbeat)),
        ("election_min", Span::from_nanos(lease.election_min)),
        ("election_max", Span::from_nanos(lease.election_max)),
        ("round_trip", round_trip),
    ];
    let spans = spans.map(|(key, span)| format!("{key} = \"{span}\"\n"));
    let text = format!("drift_ppm = {}\n{}", lease.drift.ppm(), spans.concat());
    let mut sources = Sources::default();
    sources.file("[lease]", text);
    let Err(problems) = Config::load(&sources) else {
        return Vec::new();
    };
    let hint = match links < round_trip {
        true => String::new(),
        false => format!(" (the links of [topology] have round_trip = {links})"),
    };
    let said = problems.0.into_iter().map(|problem| {
        let field = match problem.key.as_str() {
            "round_trip" => "topology.link_delay".to_owned(),
            key => format!("lease.{key}"),
        };
        let value = problem.value.unwrap_or_default();
        let allowed = format!("`aliquot serve` refuses this: {}{hint}", problem.what);
        (field, format!("{value:?}"), allowed)
    });
    said.collect()
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
