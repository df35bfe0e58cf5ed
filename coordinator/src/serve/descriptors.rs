//! File descriptors: the limit of the process, and its division among the ports.

use crate::api::connections::PortLimits;
use crate::config::ConnectionsConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a node needs beside connections that it accepts: files, listeners, timers.
const OWN: usize = 64;

/// Descriptors that a node needs for its connections to one peer.
const OWN_PER_PEER: usize = 8;

/// Least default of the maximum of an address: a node opens fewer than ten connections to another one.
const PER_ADDRESS_LEAST: usize = 16;

/// Raises the limit of this process as far as it may, and returns it; `None` if there is no limit.
pub(super) fn raise_limit() -> Option<usize> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // A system that refuses leaves the limit as it is.
    let _ = setrlimit(Resource::Nofile, raised);
    let allowed = getrlimit(Resource::Nofile).current;
    allowed.map(|allowed| usize::try_from(allowed).unwrap_or(usize::MAX))
}

/// Maximum connections of each port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PortsLimits {
    pub(super) clients: PortLimits,
    pub(super) peers: PortLimits,
    pub(super) metrics: PortLimits,
    /// True if they are lower than configured, because the process may not open more descriptors.
    pub(super) lowered: bool,
}

/// Divides the allowed descriptors among the ports. If there are too few, the metrics get at most a sixteenth, the
/// peers a quarter, and the clients the rest.
pub(super) fn divide(
    wanted: &ConnectionsConfig,
    peers: usize,
    allowed: Option<usize>,
) -> PortsLimits {
    let wants = [wanted.clients, wanted.peers, wanted.metrics].map(|most| most as usize);
    let own = OWN + OWN_PER_PEER * peers;
    let room = allowed.map_or(usize::MAX, |allowed| allowed.saturating_sub(own));
    let lowered = wants.iter().sum::<usize>() > room;
    let [clients, peers, metrics] = match lowered {
        false => wants,
        true => {
            let metrics = wants[2].min(room / 16).max(1);
            let peers = wants[1].min(room / 4).max(1);
            let rest = room.saturating_sub(metrics + peers);
            [wants[0].min(rest).max(1), peers, metrics]
        }
    };
    let limits = |most| port_limits(wanted, most);
    PortsLimits {
        clients: limits(clients),
        peers: limits(peers),
        metrics: limits(metrics),
        lowered,
    }
}

/// Returns the limits of a port with this maximum.
pub(super) fn port_limits(wanted: &ConnectionsConfig, most: usize) -> PortLimits {
    PortLimits {
        most,
        per_address: match wanted.per_address {
            Some(most) => most as usize,
            None => (most / 2).max(PER_ADDRESS_LEAST),
        },
    }
}

#[cfg(test)]
#[path = "../../tests/unit/serve/descriptors.rs"]
mod tests;
