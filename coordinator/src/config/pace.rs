//! The lease, heartbeats and elections, as they follow from the round trip between nodes.

use super::check::leader_change;
use super::values::PaceConfig;
use aliquot_core::lease::parent_span;
use aliquot_core::unit::{Drift, Span};

/// The settings as they are written. What is not set follows from the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChosenPace {
    pub(super) report_every: Span,
    pub(super) drift: Drift,
    pub(super) round_trip: Span,
    pub(super) lease: Option<Span>,
    pub(super) heartbeat: Option<Span>,
    pub(super) election_min: Option<Span>,
    pub(super) election_max: Option<Span>,
}

impl ChosenPace {
    const HEARTBEAT: Span = Span::from_millis(150);
    const ELECTION_MIN: Span = Span::from_millis(300);
    const LEASE: Span = Span::from_secs(3);

    /// Returns all settings: those that are not set are as for a round trip of 50 ms, or as much longer as this one
    /// needs.
    pub(super) fn complete(&self) -> PaceConfig {
        // Replication gives an RPC three quarters of the heartbeat.
        let answered = self.round_trip.times_or_max(4).nanos().div_ceil(3);
        let answered = rounded(Span::from_nanos(answered), Span::from_millis(10));
        let heartbeat = self.heartbeat.unwrap_or(Self::HEARTBEAT.max(answered));
        let twice = heartbeat.times_or_max(2).max(Self::ELECTION_MIN);
        let election_min = self.election_min.unwrap_or(twice);
        let election_max = self.election_max;
        let mut pace = PaceConfig {
            lease: Self::LEASE,
            report_every: self.report_every,
            drift: self.drift,
            heartbeat,
            election_min,
            election_max: election_max.unwrap_or(election_min.times_or_max(2)),
            round_trip: self.round_trip,
        };
        pace.lease = self.lease.unwrap_or_else(|| {
            let needs = parent_span(parent_span(leader_change(&pace), self.drift), self.drift);
            Self::LEASE.max(rounded(needs, Span::from_millis(500)))
        });
        pace
    }
}

/// Rounds a span up to a multiple of `step`.
fn rounded(span: Span, step: Span) -> Span {
    step.times_or_max(span.nanos().div_ceil(step.nanos()))
}
