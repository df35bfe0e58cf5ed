//! Bootstrap of a cluster by its first nodes, without an operator. It happens once.
//!
//! ```text
//!            ┌── a peer is formed ──▶ join through it ──▶ voter
//! no log ────┤
//!            └── none is, and all answer ──┬─ first of the sorted list ──▶ initialise
//!                                          └─ another one ──▶ wait for it
//! ```
//!
//! While a peer does not answer, no node forms a cluster, because that peer may be part of one. A node
//! whose disk was wiped therefore joins its formed peers, and never forms a second cluster.

use super::log::put;
use super::outcome::RaftError;
use super::peer::PeerError;
use super::shared::Shared;
use super::status::Status;
use crate::timer;
use aliquot_wire::peer::{Greeting, PeerAddress};
use bytes::Bytes;
use futures_util::future::join_all;
use openraft::BasicNode;
use openraft::errors::{InitializeError, RaftError as CoreError};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// Key of the stored value that marks a join that is not complete.
const JOINING: &str = "raft.joining";

/// Shortest and longest pause between two attempts.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Maximum time that an admitted node waits until its own log has it as a voter.
const HEAR: Duration = Duration::from_secs(5);

/// Condition that this node waits for, worded to follow "waits for".
type Waits = String;

/// Forms or joins a cluster. Returns once this node votes, or at once if it had a log when it started.
///
/// # Errors
///
/// [`RaftError`] if the node has stopped.
pub(super) async fn form(shared: &Shared) -> Result<(), RaftError> {
    let joining = shared.disk.value(JOINING).map_err(storage)?;
    let joining = joining.is_some_and(|mark| mark.as_ref() == b"1");
    if shared.now().formed && !joining {
        return Ok(());
    }
    let mut rng = StdRng::seed_from_u64(shared.options.seed ^ shared.options.node);
    let mut pause = PAUSE_FIRST;
    while !votes(&shared.now()) {
        let waits = match step(shared).await {
            Ok(()) => continue,
            Err(waits) => waits,
        };
        if shared.now().failed.is_some() {
            return Err(RaftError::Stopped);
        }
        set_waiting(shared, waits);
        let jitter = rng.random_range(0.5..1.0);
        timer::sleep(pause.mul_f64(jitter)).await;
        pause = pause.saturating_mul(2).min(PAUSE_MAX);
    }
    shared.waiting.send_replace(None);
    let arrived = put(&*shared.disk, JOINING, Bytes::from_static(b"0"));
    arrived.await.map_err(storage)
}

/// Publishes and logs what is waited for, if it has changed.
fn set_waiting(shared: &Shared, waits: Waits) {
    shared.waiting.send_if_modified(|current| {
        let new = current.as_ref() != Some(&waits);
        if new {
            tracing::info!(node = shared.options.node, "bootstrap waits for {waits}");
            *current = Some(waits);
        }
        new
    });
}

fn votes(status: &Status) -> bool {
    status.voters.contains_key(&status.node)
}

fn storage(error: impl ToString) -> RaftError {
    RaftError::Storage {
        reason: error.to_string(),
    }
}

/// Makes one attempt.
async fn step(shared: &Shared) -> Result<(), Waits> {
    let (own, peers) = (&shared.options.address, shared.options.sorted_peers());
    let others = peers.iter().filter(|peer| *peer != own);
    let asked = others.map(|peer| async move { (peer, shared.hello(peer).await) });
    let answers = join_all(asked).await;
    for (peer, answer) in &answers {
        if answer.as_ref().is_ok_and(|answer| answer.formed) {
            return join(shared, peer).await;
        }
    }
    // This node's own log may have begun in the meantime. Then only a message of the leader is missing.
    if shared.store.formed().map_err(|error| error.to_string())? {
        return heard(shared).await;
    }
    let mut members = BTreeMap::from([(shared.options.node, own.clone())]);
    for (peer, answer) in &answers {
        let node = unformed(&peers, peer, answer.as_ref())?;
        if let Some(twin) = members.insert(node, (*peer).clone()) {
            return Err(format!("{peer} and {twin} to have different node ids"));
        }
    }
    match peers.first() {
        Some(first) if first != own => Err(format!("{first} to form the cluster")),
        _ => initialise(shared, members).await,
    }
}

/// Returns the id of a peer that can form a cluster with this node.
fn unformed(
    peers: &[String],
    peer: &str,
    answer: Result<&Greeting, &PeerError>,
) -> Result<u64, Waits> {
    match answer {
        Ok(greeting) if greeting.peers == peers => Ok(greeting.node),
        Ok(greeting) => {
            let theirs = &greeting.peers;
            Err(format!(
                "{peer} to be told of the peers {peers:?}; it has {theirs:?}"
            ))
        }
        Err(PeerError::Refused(why)) => Err(format!("{peer}, which refuses: {why}")),
        Err(PeerError::Silent(why)) => Err(format!("{peer}, which does not answer: {why}")),
    }
}

/// Writes the first entry of the log, which lists the members.
async fn initialise(shared: &Shared, members: BTreeMap<u64, String>) -> Result<(), Waits> {
    tracing::info!(?members, "forms the cluster");
    initialize(shared, members)
        .await
        .map_err(|error| format!("the cluster to be formed: {error}"))?;
    heard(shared).await
}

pub(super) async fn initialize(
    shared: &Shared,
    members: BTreeMap<u64, String>,
) -> Result<(), RaftError> {
    let members = members.into_iter();
    let members: BTreeMap<u64, BasicNode> = members
        .map(|(node, addr)| (node, BasicNode { addr }))
        .collect();
    match shared.core.initialize(members).await {
        Ok(()) => Ok(()),
        Err(CoreError::APIError(error @ InitializeError::NotAllowed(_))) => {
            Err(storage(format!("this node already has a log: {error}")))
        }
        Err(CoreError::APIError(InitializeError::NotInMembers(_))) => Err(RaftError::Setting {
            field: "members",
            value: "the nodes given".to_owned(),
            allowed: format!("nodes with {} among them", shared.options.node),
        }),
        Err(CoreError::Fatal(error)) => Err(storage(error)),
    }
}

/// Asks a formed peer to admit this node.
async fn join(shared: &Shared, peer: &str) -> Result<(), Waits> {
    // If this node stops before it is admitted, it asks again after the restart.
    let mark = put(&*shared.disk, JOINING, Bytes::from_static(b"1"));
    mark.await
        .map_err(|error: io::Error| format!("its own disk: {error}"))?;
    let node = PeerAddress {
        node: shared.options.node,
        address: shared.options.address.clone(),
    };
    match shared.ask_to_join(peer, node, false).await {
        Ok(joined) => {
            tracing::info!(through = peer, replaced = ?joined.replaced, "admitted to the cluster");
            heard(shared).await
        }
        Err(error) => Err(format!("{peer}, to be let in: {error}")),
    }
}

/// Waits until its own log has this node as a voter.
async fn heard(shared: &Shared) -> Result<(), Waits> {
    let mut statuses = shared.coarse_status.clone();
    let heard = statuses.wait_for(votes);
    match timer::timeout(HEAR, heard).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(_)) | Err(_) => Err("the leader to tell it that it votes".to_owned()),
    }
}
