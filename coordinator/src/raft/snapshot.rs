//! Transfer of snapshots from the leader to a follower, in chunks. An interrupted transfer is resumed.

use super::calls::{CallError, Calls};
use super::machine::Core;
use super::skip::checksum;
use super::types::{Snapshot, Types, Vote, damaged, meta_in, meta_out, vote_in, vote_out};
use aliquot_wire::Wire;
use aliquot_wire::limits::CHUNK_BYTES_MAX;
use aliquot_wire::raft as wire;
use bytes::{Bytes, BytesMut};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Unreachable;
use openraft::network::{RPCOption, RPCTypes};
use openraft::raft::SnapshotResponse;
use std::cmp::Ordering;
use std::io;

/// Maximum number of chunks without progress, after which the transfer is aborted and started again
/// later.
const STALLS_MAX: usize = 3;

/// Sends a snapshot. After an interruption, the next attempt resumes at the offset that the receiver
/// names, as long as it is the same snapshot.
pub(super) async fn send(
    calls: &Calls,
    vote: Vote,
    snapshot: Snapshot,
    option: RPCOption,
) -> Result<SnapshotResponse<Types>, CallError> {
    let data = snapshot.snapshot;
    let hash = checksum(&data);
    let offer = wire::SnapshotOffer {
        header: calls.header.clone(),
        vote: vote_out(&vote),
        meta: meta_out(&snapshot.meta),
        bytes: data.len() as u64,
        hash,
    };
    let (mut client, ttl) = (calls.client()?, option.soft_ttl());
    let call = async { client.offer_snapshot(offer.to_message()).await };
    let kind = RPCTypes::InstallSnapshot;
    let mut progress: wire::SnapshotProgress = calls.answer(kind, ttl, call).await?;
    let piece = option.snapshot_chunk_size().unwrap_or(CHUNK_BYTES_MAX);
    let piece = piece.clamp(1, CHUNK_BYTES_MAX);
    let mut stalls = 0;
    loop {
        let theirs = vote_in(progress.vote);
        if progress.installed || theirs.partial_cmp(&vote) == Some(Ordering::Greater) {
            return Ok(SnapshotResponse::new(theirs));
        }
        let start = usize::try_from(progress.offset).unwrap_or(usize::MAX);
        if start > data.len() || stalls > STALLS_MAX {
            let what = format!("a snapshot of {} bytes stalls at {start}", data.len());
            return Err(Unreachable::from_string(what).into());
        }
        let end = start.saturating_add(piece).min(data.len());
        let chunk = wire::SnapshotChunk {
            header: calls.header.clone(),
            vote: vote_out(&vote),
            hash,
            offset: progress.offset,
            data: data.slice(start..end),
        };
        let call = async { client.send_chunk(chunk.to_message()).await };
        let next: wire::SnapshotProgress = calls.answer(kind, ttl, call).await?;
        if next.offset <= progress.offset {
            stalls += 1;
        }
        progress = next;
    }
}

/// The snapshot that is being received, if there is one. A newer announcement replaces an older one.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    arriving: Option<Arriving>,
}

/// A snapshot that was received in part.
#[derive(Debug)]
pub(super) struct Arriving {
    meta: wire::SnapshotMeta,
    bytes: u64,
    hash: u64,
    data: BytesMut,
}

/// Result of a received chunk.
#[derive(Debug)]
pub(super) enum Taken {
    /// More chunks are needed, from this offset on.
    Partly(u64),
    /// The snapshot is complete.
    Whole(Arriving),
    /// The snapshot must be announced first.
    Unannounced,
    /// The chunk goes beyond the announced length.
    TooLong,
}

impl Inbox {
    /// Registers an announced snapshot. Returns the offset at which its next chunk must begin.
    pub(super) fn offer(&mut self, offer: wire::SnapshotOffer) -> u64 {
        if let Some(known) = &self.arriving
            && (known.hash, known.bytes) == (offer.hash, offer.bytes)
            && known.meta == offer.meta
        {
            return known.data.len() as u64;
        }
        self.arriving = Some(Arriving {
            meta: offer.meta,
            bytes: offer.bytes,
            hash: offer.hash,
            data: BytesMut::new(),
        });
        0
    }

    /// Takes a chunk. The last one completes the snapshot, which is then returned.
    pub(super) fn take(&mut self, chunk: &wire::SnapshotChunk) -> Taken {
        let Some(known) = self.arriving.as_mut() else {
            return Taken::Unannounced;
        };
        if known.hash != chunk.hash {
            return Taken::Unannounced;
        }
        let have = known.data.len() as u64;
        if have != chunk.offset {
            return Taken::Partly(have);
        }
        let have = have.saturating_add(chunk.data.len() as u64);
        if have > known.bytes {
            return Taken::TooLong;
        }
        known.data.extend_from_slice(&chunk.data);
        if have < known.bytes {
            return Taken::Partly(have);
        }
        self.arriving
            .take()
            .map_or(Taken::Unannounced, Taken::Whole)
    }
}

/// Installs a snapshot that was received completely.
pub(super) async fn install(
    core: &Core,
    vote: wire::Vote,
    whole: Arriving,
) -> io::Result<wire::SnapshotProgress> {
    let data: Bytes = whole.data.freeze();
    if checksum(&data) != whole.hash {
        return Err(damaged("the snapshot is not what was announced"));
    }
    let snapshot = Snapshot {
        meta: meta_in(whole.meta)?,
        snapshot: data,
    };
    let answer = core.install_full_snapshot(vote_in(vote), snapshot).await;
    let answer = answer.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(wire::SnapshotProgress {
        vote: vote_out(&answer.vote),
        offset: whole.bytes,
        installed: true,
    })
}

/// Returns this node's vote if it is greater than a leader's. Then nothing is taken from that leader.
pub(super) fn higher(core: &Core, theirs: wire::Vote) -> Option<wire::Vote> {
    let ours = core.metrics().borrow_watched().vote;
    let greater = ours.partial_cmp(&vote_in(theirs)) == Some(Ordering::Greater);
    greater.then(|| vote_out(&ours))
}

pub(super) fn progress(vote: wire::Vote, offset: u64) -> wire::SnapshotProgress {
    wire::SnapshotProgress {
        vote,
        offset,
        installed: false,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/raft/snapshot.rs"]
mod tests;
