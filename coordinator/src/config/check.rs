//! Checks of settings against each other.

use super::address::FaceAddress;
use super::problem::Problems;
use super::source::Written;
use super::values::{ClientCerts, Config, PaceConfig, Security};
use aliquot_core::lease::child_span;
use aliquot_core::unit::Span;
use aliquot_faces::Face;
use std::net::{IpAddr, SocketAddr};

/// A lease is too short for an ordinary leader change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is too short for a leader change: 3 × report_every + 2 × election_max + 5 × round_trip + 5/4 × heartbeat = {needs}, \
     but a client may use only {} ms of the lease: make lease longer, or report_every, election_max, round_trip or heartbeat shorter",
    lasts.nanos() / 1_000_000
)]
pub struct LeaseTooShort {
    /// Longest duration of an ordinary leader change.
    pub needs: Span,
    /// Duration of a client's lease.
    pub lasts: Span,
}

/// Checks that a lease outlasts an ordinary leader change, so that no lease runs out during one.
///
/// Let `L` be the lease, `r` the report interval, `E` the longest election
/// timeout, `t` the round trip between nodes with its flush and `h` the heartbeat interval. Two
/// heartbeats may be a quarter further apart than `h`. A child counts
/// `σ(x) = x · (1 − ρ)/(1 + ρ)` of a span `x` of its parent. A client counts `σ(σ(L))`, because
/// its lease depends on its node's. Let the last report that the old leader confirms be sent at 0.
/// Then:
///
/// | by | latest event |
/// |---|---|
/// | `r + 5/4 h + t` | the leader is dead: otherwise the next heartbeat would have confirmed the next report |
/// | `+ 2 E` | a follower's election timeout has passed, then its own random wait before the vote |
/// | `+ t` | the new leader is ready: an entry of its own term is committed |
/// | `+ r + t` | it has received the node's next report |
/// | `+ t` | a quorum has confirmed it, because a new leader does not wait for a heartbeat, and the node knows |
/// | `+ r + t` | the client has reported and been answered |
///
/// The condition is `3 r + 2 E + 5 t + 5/4 h ≤ σ(σ(L))`. With the defaults it is
/// 1,350 + 1,200 + 250 + 187.5 = 2,987.5 ms ≤ 2,988 ms.
///
/// # Errors
///
/// [`LeaseTooShort`], with both sides of the inequality.
pub fn lease_needs(pace: &PaceConfig) -> Result<(), LeaseTooShort> {
    let lasts = child_span(child_span(pace.lease, pace.drift), pace.drift);
    let needs = leader_change(pace);
    if needs <= lasts {
        return Ok(());
    }
    Err(LeaseTooShort { needs, lasts })
}

/// Returns the longest duration of an ordinary leader change: the left side of the condition of [`lease_needs`].
pub(super) fn leader_change(pace: &PaceConfig) -> Span {
    pace.report_every
        .times_or_max(3)
        .plus_or_max(pace.election_max.times_or_max(2))
        .plus_or_max(pace.round_trip.times_or_max(5))
        .plus_or_max(Span::from_nanos(pace.heartbeat.times_or_max(5).nanos() / 4))
}

/// Adds a problem for every setting that contradicts another.
pub(super) fn all(config: &Config, written: &Written, problems: &mut Problems) {
    let mut refuse = |key: &str, what: String| {
        let Some(entry) = written.get(key) else {
            return;
        };
        let value = (!entry.texts.is_empty()).then(|| entry.texts.join(", "));
        problems.add(key, value, &entry.origin, what);
    };
    pace(&config.pace, &mut refuse);
    peers(config, &mut refuse);
    security(config, &mut refuse);
}

fn pace(pace: &PaceConfig, refuse: &mut impl FnMut(&str, String)) {
    if let Err(error) = lease_needs(pace) {
        refuse("lease", error.to_string());
    }
    if pace.election_min >= pace.election_max {
        refuse(
            "election_min",
            format!(
                "must be less than election_max = {}: if all followers wait equally long, votes split",
                pace.election_max
            ),
        );
    }
    if pace.election_min < pace.heartbeat.times_or_max(2) {
        refuse(
            "election_min",
            format!(
                "must be at least twice heartbeat = {}: one lost heartbeat must not depose the leader",
                pace.heartbeat
            ),
        );
    }
    // Replication gives an RPC three quarters of the heartbeat.
    if pace.heartbeat.times_or_max(3) < pace.round_trip.times_or_max(4) {
        refuse(
            "heartbeat",
            format!(
                "must be at least 4/3 of round_trip = {}: otherwise answers to heartbeats arrive too late",
                pace.round_trip
            ),
        );
    }
}

fn peers(config: &Config, refuse: &mut impl FnMut(&str, String)) {
    let (own, peers) = (&config.peer_advertise, &config.cluster.peers);
    if !peers.contains(own) {
        refuse(
            "cluster.peers",
            format!("must contain this node's own peer_advertise = \"{own}\", exactly as written"),
        );
    }
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    let ports = [
        ("listen", Some(config.listen)),
        ("peer_listen", Some(config.peer_listen)),
        ("metrics_listen", config.metrics_listen),
    ];
    let faces = face_ports(config).map(|(key, address)| (key, Some(address)));
    for (key, address) in ports.into_iter().chain(faces) {
        let Some(address) = address else { continue };
        let same = |other: &&(&str, SocketAddr)| other.1 == address && address.port() != 0;
        if let Some((other, _)) = taken.iter().find(same) {
            refuse(key, format!("is already the address of {other}"));
        }
        taken.push((key, address));
    }
}

fn security(config: &Config, refuse: &mut impl FnMut(&str, String)) {
    if let Some(tls) = &config.tls
        && tls.client_certs == ClientCerts::Optional
        && config.tokens.is_none()
    {
        let what = "needs tokens: a caller without a certificate is identified by its token";
        refuse("tls.require_client_cert", what.to_owned());
    }
    if config.security == Security::Insecure {
        return;
    }
    let metrics_off_loopback = config.metrics_listen.filter(|at| !is_loopback(at.ip()));
    if metrics_off_loopback.is_some() && config.metrics_security == Security::Strict {
        let what = "is not a loopback address, so anyone who can connect could read the names of the busiest keys, \
                    with TLS or without: allow this with metrics_open = true, or set it to off";
        refuse("metrics_listen", what.to_owned());
    }
    if config.tls.is_some() {
        return;
    }
    let ports = [
        ("listen", config.listen),
        ("peer_listen", config.peer_listen),
    ];
    for (key, address) in ports.into_iter().chain(face_ports(config)) {
        if !is_loopback(address.ip()) {
            let what = "is not a loopback address, and plaintext is allowed only on loopback: set tls.cert, tls.key \
                        and tls.ca, or allow plaintext with insecure = true";
            refuse(key, what.to_owned());
        }
    }
}

/// Returns the TCP ports of the faces that are on, with their settings.
fn face_ports(config: &Config) -> impl Iterator<Item = (&'static str, SocketAddr)> {
    let faces = config.faces.listen.iter();
    faces.filter_map(|(face, address)| match address {
        FaceAddress::Tcp(address) => Some((face_setting(*face), *address)),
        FaceAddress::Unix(_) => None,
    })
}

/// Returns the setting of a face's address.
pub(crate) const fn face_setting(face: Face) -> &'static str {
    match face {
        Face::Http => "faces.http_listen",
        Face::Grpc => "faces.grpc_listen",
        Face::Redis => "faces.redis_listen",
        Face::Rlqs => "faces.rlqs_listen",
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
