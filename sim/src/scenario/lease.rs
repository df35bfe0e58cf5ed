//! `[lease]`: the configuration of the cluster, completed and checked by the rules of `aliquot serve`.

#[cfg(feature = "network")]
use super::cluster;
use super::fields::Fields;
#[cfg(feature = "network")]
use super::sections::Topology;
use aliquot_core::unit::{Drift, Span};

/// Settings with the names that they have in the configuration of a node.
const SETTINGS: [&str; 6] = [
    "lease",
    "report_every",
    "heartbeat",
    "election_min",
    "election_max",
    "round_trip",
];

/// Configuration of the cluster. Durations are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Duration of a lease: the time for which a node may use its holdings without hearing from the leader.
    pub lease: u64,
    /// Bound on clock drift, ρ.
    pub drift: Drift,
    /// Interval between reports of a node.
    pub report_every: u64,
    /// Interval between reports of a client.
    pub client_report_every: u64,
    /// Interval between heartbeats of a leader.
    pub heartbeat: u64,
    /// Minimum election timeout of a follower.
    pub election_min: u64,
    /// Maximum election timeout of a follower.
    pub election_max: u64,
    /// Interval at which a node checks its timers.
    pub tick: u64,
    /// Minimum interval between two regular rounds of a leader.
    pub round: u64,
    /// If true, leases are counted on a clock that stops while the machine is suspended.
    pub monotonic: bool,
    /// The slowest round trip between nodes that must do no harm, if the file sets it.
    pub round_trip: Option<u64>,
}

impl Lease {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let ppm = u32::try_from(fields.whole("drift_ppm")).unwrap_or(u32::MAX);
        let drift = Drift::from_ppm(ppm).unwrap_or_default();
        let set = SETTINGS
            .iter()
            .filter_map(|key| Some((*key, fields.maybe_nanos(key)?)));
        let pace = Pace::complete(fields, drift, &set.collect::<Vec<_>>());
        Self {
            lease: pace.lease,
            drift,
            report_every: fields.nanos("report_every"),
            client_report_every: fields.nanos("client_report_every"),
            heartbeat: pace.heartbeat,
            election_min: pace.election_min,
            election_max: pace.election_max,
            tick: fields.nanos("tick"),
            round: fields.nanos("round"),
            monotonic: fields.word("counted_on") == "monotonic",
            round_trip: fields.maybe_nanos("round_trip"),
        }
    }

    /// Returns every setting that `aliquot serve` would refuse if it were given the round trip of the links: its field,
    /// its value, and the values that are allowed.
    #[cfg(feature = "network")]
    pub(super) fn refused(&self, topology: &Topology) -> Vec<(String, String, String)> {
        let links = cluster::round_trip(topology);
        let own = self.round_trip.map(Span::from_nanos);
        let round_trip = links.max(own.unwrap_or_else(cluster::default_round_trip));
        let set = [
            ("lease", self.lease),
            ("report_every", self.report_every),
            ("heartbeat", self.heartbeat),
            ("election_min", self.election_min),
            ("election_max", self.election_max),
            ("round_trip", round_trip.nanos()),
        ];
        let Err(refused) = cluster::pace(self.drift, &set) else {
            return Vec::new();
        };
        let hint = match links < round_trip {
            true => String::new(),
            false => format!(" (the links of [topology] have round_trip = {links})"),
        };
        let refused = refused.into_iter().map(|(key, value, allowed)| {
            let field = match key.as_str() {
                "round_trip" => "topology.link_delay".to_owned(),
                key => format!("lease.{key}"),
            };
            (field, value, format!("{allowed}{hint}"))
        });
        refused.collect()
    }

    /// Returns the time within which invariant 8 requires that everything has recovered. A message takes up
    /// to `delay` one way.
    ///
    /// The sum covers an election with two split votes, the leader's patience, two reports, two round trips, and a
    /// client's attempt at a node that did not answer before.
    #[must_use]
    pub fn heals_within(&self, delay: u64) -> u64 {
        let reports = 2 * self.report_every + 4 * delay;
        4 * self.election_max + self.patience() + reports + Self::OPEN_WAIT
    }

    /// Time after which a client gives up a node that opens no session.
    pub const OPEN_WAIT: u64 = 2_000_000_000;

    /// Returns the time for which a leader counts the lease of a node that has failed.
    #[must_use]
    pub fn patience(&self) -> u64 {
        aliquot_core::lease::parent_span(Span::from_nanos(self.lease), self.drift).nanos()
    }

    /// Returns the time within which invariant 9 requires that shares follow demand, once everything is well.
    ///
    /// Demand goes up in two reports, and shares come down in two answers, of which each may wait for another
    /// report. A round of the leader is in between.
    #[must_use]
    pub const fn converges_within(&self, delay: u64) -> u64 {
        2 * (self.report_every + self.client_report_every) + 2 * self.round + 4 * delay
    }
}

/// The settings that follow from others where the file does not set them.
struct Pace {
    lease: u64,
    heartbeat: u64,
    election_min: u64,
    election_max: u64,
}

impl Pace {
    /// Takes the settings from the configuration of a node that has these, and reports those that it refuses.
    #[cfg(feature = "network")]
    fn complete(fields: &Fields<'_>, drift: Drift, set: &[(&'static str, u64)]) -> Self {
        match cluster::pace(drift, set) {
            Ok(pace) => Self {
                lease: pace.lease.nanos(),
                heartbeat: pace.heartbeat.nanos(),
                election_min: pace.election_min.nanos(),
                election_max: pace.election_max.nanos(),
            },
            Err(refused) => {
                for (key, value, allowed) in refused {
                    fields.refuse_as(&key, value, allowed);
                }
                Self::defaults(set)
            }
        }
    }

    /// Uses the defaults: a build without the real code has no configuration of a node.
    #[cfg(not(feature = "network"))]
    fn complete(fields: &Fields<'_>, _: Drift, set: &[(&'static str, u64)]) -> Self {
        if fields.has("round_trip") {
            fields.refuse(
                "round_trip",
                "has no effect in this build; build aliquot-sim with its feature `network`",
            );
        }
        let pace = Self::defaults(set);
        if pace.election_min >= pace.election_max {
            fields.refuse("election_max", "must be longer than election_min");
        }
        pace
    }

    fn defaults(set: &[(&'static str, u64)]) -> Self {
        let or = |key: &str, default: u64| {
            let found = set.iter().find(|(name, _)| *name == key);
            found.map_or(default, |(_, nanos)| *nanos)
        };
        Self {
            lease: or("lease", 3_000_000_000),
            heartbeat: or("heartbeat", 150_000_000),
            election_min: or("election_min", 300_000_000),
            election_max: or("election_max", 600_000_000),
        }
    }
}
