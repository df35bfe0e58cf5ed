//! Changes of membership by the leader. One change at a time is made, and completed before the next.

use super::outcome::{BarrierError, ChangeError};
use super::shared::Shared;
use super::status::Status;
use super::types::{Types, index_out};
use crate::store::START_ANEW;
use crate::timer;
use aliquot_wire::peer::{Change, PeerAddress};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError as CoreError};
use openraft::{BasicNode, ChangeMembers};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for a learner to catch up before a promotion is given up.
const CATCH_UP: Duration = Duration::from_secs(30);

/// Maximum time for a quorum to commit new members.
const COMMIT: Duration = Duration::from_secs(15);

/// Steps of a change, as openraft defines them.
type Steps = ChangeMembers<u64, BasicNode>;

/// Makes a change on the leader. A leader that is to be removed first transfers its leadership, and
/// returns the new leader as an error.
pub(super) async fn make(shared: &Arc<Shared>, change: Change) -> Result<(), ChangeError> {
    let _turn = shared.changing.lock().await;
    let status = leading_with_quorum(shared).await?;
    match change {
        Change::Add(peer) => add(shared, &status, peer).await,
        Change::Promote(node) => promote(shared, &status, node).await,
        Change::Remove(node) => remove(shared, &status, node).await,
        Change::Replace { former, successor } => replace(shared, &status, former, successor).await,
        Change::Transfer(heir) => transfer(shared, &status, heir).await,
    }
}

/// Admits a node that asks to join. It becomes a voter, and replaces members that had its address.
/// Returns the members that it replaced.
pub(super) async fn admit(
    shared: &Arc<Shared>,
    peer: PeerAddress,
) -> Result<Vec<u64>, ChangeError> {
    let _turn = shared.changing.lock().await;
    let status = leading_with_quorum(shared).await?;
    let (node, address) = (peer.node, &peer.address);
    if status.voters.get(&node) == Some(address) {
        return known(shared, &status, node);
    }
    let members = status.voters.iter().chain(&status.learners);
    let former: Vec<u64> = members
        .filter(|(id, at)| *at == address && **id != node)
        .map(|(id, _)| *id)
        .collect();
    if former.is_empty() && !shared.options.peers.contains(address) {
        return refused(format!(
            "{address} is not among the peers of the leader: let node {node} in with `aliquot cluster add {address}` \
             and `aliquot cluster promote {node}`, or in a dead node's place with `aliquot cluster replace NODE {address}`"
        ));
    }
    // The node that answers at the address must be the one that asks.
    match shared.hello(address).await {
        Ok(greeting) if greeting.node == node => {}
        Ok(greeting) => {
            let there = greeting.node;
            return refused(format!(
                "node {there}, not node {node}, answers at {address}"
            ));
        }
        Err(error) => return refused(format!("the leader cannot reach {address}: {error}")),
    }
    add(shared, &status, peer).await?;
    if former.is_empty() {
        vote(shared, node).await?;
    } else {
        take_place(shared, &former, node).await?;
    }
    tracing::info!(node, ?former, "a node has joined");
    Ok(former)
}

/// Handles a voter that asks to become one. Either it is one of the first members and has not heard from the
/// leader yet, or it has lost its log.
fn known(shared: &Shared, status: &Status, node: u64) -> Result<Vec<u64>, ChangeError> {
    let metrics = shared.core.metrics();
    let replication = metrics.borrow_watched().replication.clone();
    let reached = replication.and_then(|reached| reached.get(&node).copied().flatten());
    // A new leader does not know how far other logs reached. A missing log is harmless only if no
    // leader existed before this one.
    let lost = reached.is_some() || {
        let before = shared.store.had_a_leader_before(status.term);
        before.map_err(|error| ChangeError::Refused {
            reason: error.to_string(),
        })?
    };
    if !lost {
        return Ok(Vec::new());
    }
    refused(format!(
        "node {node} is a voter and had entries already: if it does not hear of them soon, it has lost its disk, and \
         must come back under another id; {START_ANEW}"
    ))
}

fn refused<T>(reason: impl Into<String>) -> Result<T, ChangeError> {
    let reason = reason.into();
    Err(ChangeError::Refused { reason })
}

/// Confirms that this node leads and that a quorum acknowledges it. A leader that was elected just now,
/// or that lost its quorum, may not be able to write.
async fn leading_with_quorum(shared: &Shared) -> Result<Status, ChangeError> {
    let status = leading(shared)?;
    match shared.barrier(status.term).await {
        Ok(()) => leading(shared),
        Err(BarrierError::NoQuorum) => refused("no quorum acknowledges the leader"),
        Err(BarrierError::Stopped) => Err(ChangeError::Stopped),
        Err(BarrierError::NotLeader { leader }) => Err(ChangeError::NotLeader { leader }),
        Err(BarrierError::OtherTerm { .. }) => Err(ChangeError::NotLeader { leader: None }),
    }
}

fn leading(shared: &Shared) -> Result<Status, ChangeError> {
    let status = shared.now();
    if status.failed.is_some() {
        return Err(ChangeError::Stopped);
    }
    if status.leads {
        return Ok(status);
    }
    let leader = status.leader_address();
    let leader = leader.filter(|(node, _)| *node != shared.options.node);
    Err(ChangeError::NotLeader { leader })
}

async fn add(shared: &Shared, status: &Status, peer: PeerAddress) -> Result<(), ChangeError> {
    match status.address(peer.node) {
        Some(address) if *address == peer.address => return Ok(()),
        Some(address) => {
            let node = peer.node;
            return refused(format!(
                "node {node} is a member at {address}: remove it first, with `aliquot cluster remove {node}`"
            ));
        }
        None => {}
    }
    let node = BasicNode { addr: peer.address };
    let nodes = BTreeMap::from([(peer.node, node)]);
    commit(shared, ChangeMembers::AddNodes(nodes), true).await
}

async fn promote(shared: &Shared, status: &Status, node: u64) -> Result<(), ChangeError> {
    if status.voters.contains_key(&node) {
        return Ok(());
    }
    // Reads the metrics of the core, because the status may not yet show a node that was added just
    // now.
    let latest = Status::of(&shared.core.metrics().borrow_watched(), true);
    if !latest.learners.contains_key(&node) {
        return refused(no_learner(&latest, node));
    }
    vote(shared, node).await
}

/// Gives a learner a vote once it has caught up.
async fn vote(shared: &Shared, node: u64) -> Result<(), ChangeError> {
    catch_up(shared, node).await?;
    commit(
        shared,
        ChangeMembers::AddVoterIds(BTreeSet::from([node])),
        true,
    )
    .await
}

/// Explains that a node is not a member. It never catches up, so that a mistyped id is reported at
/// once, with the ids that could be meant.
fn no_learner(status: &Status, node: u64) -> String {
    let learners: Vec<String> = status.learners.keys().map(ToString::to_string).collect();
    let meant = match learners.as_slice() {
        [] => "every member has a vote already".to_owned(),
        some => format!("members without a vote: {}", some.join(", ")),
    };
    format!(
        "node {node} is no member: let it in first, with `aliquot cluster add ADDRESS`; {meant}"
    )
}

async fn remove(shared: &Shared, status: &Status, node: u64) -> Result<(), ChangeError> {
    if status.address(node).is_none() {
        return refused(format!("node {node} is no member"));
    }
    if status.voters.len() == 1 && status.voters.contains_key(&node) {
        return refused(format!("node {node} is the only voter"));
    }
    if node == shared.options.node {
        return hand_over(shared, status).await;
    }
    forget(shared, node).await?;
    commit(shared, leave(status, node), false).await
}

async fn replace(
    shared: &Shared,
    status: &Status,
    former: u64,
    successor: PeerAddress,
) -> Result<(), ChangeError> {
    let node = successor.node;
    if former == node {
        return refused(format!("node {node} cannot take its own place"));
    }
    if status.address(former).is_none() {
        return match status.voters.get(&node) {
            // The change was made by an earlier attempt whose answer was lost.
            Some(address) if *address == successor.address => Ok(()),
            _ => refused(format!("node {former} is no member")),
        };
    }
    if former == shared.options.node {
        return hand_over(shared, status).await;
    }
    add(shared, status, successor).await?;
    take_place(shared, &[former], node).await
}

/// Makes a learner a voter in the same step that removes others, which may be dead. At no point is a
/// quorum harder to reach than before.
async fn take_place(shared: &Shared, former: &[u64], node: u64) -> Result<(), ChangeError> {
    catch_up(shared, node).await?;
    for gone in former {
        forget(shared, *gone).await?;
    }
    let status = leading(shared)?;
    let leave = former.iter().map(|gone| leave(&status, *gone));
    let enter = ChangeMembers::AddVoterIds(BTreeSet::from([node]));
    let steps: Vec<Steps> = leave.chain([enter]).collect();
    commit(shared, ChangeMembers::Batch(steps), false).await
}

fn leave(status: &Status, node: u64) -> Steps {
    let nodes = BTreeSet::from([node]);
    match status.voters.contains_key(&node) {
        true => ChangeMembers::RemoveVoters(nodes),
        false => ChangeMembers::RemoveNodes(nodes),
    }
}

/// Winds up a node's part of the state before the node is removed.
async fn forget(shared: &Shared, node: u64) -> Result<(), ChangeError> {
    let Some(command) = (shared.options.forget_node)(node) else {
        return Ok(());
    };
    let proposed = timer::timeout(COMMIT, shared.propose(command, None)).await;
    match proposed {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => unknown(format!("node {node} is still a member: {error}")),
        Err(_) => unknown(format!("node {node} is still a member: no quorum answers")),
    }
}

fn unknown<T>(what: impl Into<String>) -> Result<T, ChangeError> {
    let what = what.into();
    Err(ChangeError::Unknown { what })
}

/// Transfers the leadership of a leader that is to be removed. It never removes itself: the caller asks
/// its successor to do so.
async fn hand_over(shared: &Shared, status: &Status) -> Result<(), ChangeError> {
    transfer_leadership(shared, status).await?;
    let leader = shared.now().leader_address();
    Err(ChangeError::NotLeader { leader })
}

/// Transfers the leadership to the voter whose log reaches furthest, or else to the next one that
/// answers.
async fn transfer_leadership(shared: &Shared, status: &Status) -> Result<(), ChangeError> {
    let metrics = shared.core.metrics().borrow_watched().clone();
    let reached = metrics.replication.unwrap_or_default();
    let others = status.voters.keys().filter(|node| **node != status.node);
    let mut heirs: Vec<u64> = others.copied().collect();
    heirs.sort_by_key(|node| Reverse(reached.get(node).copied().flatten()));
    let mut handed = refused("no other voter could lead");
    for heir in heirs {
        handed = transfer(shared, status, heir).await;
        if !matches!(handed, Err(ChangeError::Refused { .. })) {
            break;
        }
    }
    handed
}

/// Transfers the leadership, if this node leads.
pub(super) async fn retire(shared: &Shared) -> Result<(), ChangeError> {
    let _turn = shared.changing.lock().await;
    match leading(shared) {
        Ok(status) => transfer_leadership(shared, &status).await,
        Err(ChangeError::NotLeader { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn transfer(shared: &Shared, status: &Status, heir: u64) -> Result<(), ChangeError> {
    if heir == status.node {
        return Ok(());
    }
    let Some(address) = status.voters.get(&heir) else {
        return refused(format!("node {heir} is no voter"));
    };
    // A leader stops leading even if its successor does not answer, so ask first.
    match shared.hello(address).await {
        Ok(greeting) if greeting.node == heir => {}
        Ok(greeting) => return refused(format!("node {} answers at {address}", greeting.node)),
        Err(error) => return refused(format!("node {heir} does not answer: {error}")),
    }
    let asked = shared.core.trigger().transfer_leader(heir).await;
    asked.map_err(|_| ChangeError::Stopped)?;
    let mut statuses = shared.coarse_status.clone();
    let another = |status: &Status| status.leader.is_some_and(|leader| leader != status.node);
    let limit = shared.options.timing.election_max.saturating_mul(5);
    let led = timer::timeout(limit, statuses.wait_for(another)).await;
    match led {
        Ok(Ok(status)) if status.leader == Some(heir) => Ok(()),
        Ok(Ok(status)) => {
            let leader = status.leader;
            unknown(format!("node {leader:?} leads instead"))
        }
        Ok(Err(_)) => Err(ChangeError::Stopped),
        Err(_) => unknown("no other node has taken over in time"),
    }
}

/// Waits until a member has all entries of the current log. openraft's own wait ends at once while the
/// log is short.
async fn catch_up(shared: &Shared, node: u64) -> Result<(), ChangeError> {
    let mut metrics = shared.core.metrics();
    let goal = metrics.borrow_watched().last_log_index;
    let caught_up = async {
        loop {
            {
                let now = metrics.borrow_and_update();
                let Some(replication) = &now.replication else {
                    return Err(ChangeError::NotLeader { leader: None });
                };
                let reached = replication.get(&node).copied().flatten();
                if reached.map(|id| id.index) >= goal && reached.is_some() {
                    return Ok(());
                }
            }
            let changed = metrics.changed().await;
            changed.map_err(|_| ChangeError::Stopped)?;
        }
    };
    let late = || {
        let goal = goal.map_or(0, index_out);
        let reason = format!("node {node} has not reached entry {goal} within {CATCH_UP:?}");
        ChangeError::Refused { reason }
    };
    let caught_up = timer::timeout(CATCH_UP, caught_up).await;
    caught_up.map_err(|_| late())?
}

/// Commits new members, through a joint configuration if the voters change.
async fn commit(shared: &Shared, change: Steps, retain: bool) -> Result<(), ChangeError> {
    let changed = shared.core.change_membership(change, retain);
    match timer::timeout(COMMIT, changed).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(not_committed(error)),
        Err(_) => unknown(format!("no quorum agreed within {COMMIT:?}")),
    }
}

fn not_committed(error: CoreError<Types, ClientWriteError<Types>>) -> ChangeError {
    match error {
        CoreError::APIError(ClientWriteError::ChangeMembershipError(error)) => {
            let reason = error.to_string();
            ChangeError::Refused { reason }
        }
        // The first of two steps may already have been made.
        CoreError::APIError(error) => ChangeError::Unknown {
            what: error.to_string(),
        },
        CoreError::Fatal(_) => ChangeError::Stopped,
    }
}
