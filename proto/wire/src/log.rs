//! Entries of the log and snapshots, in their envelopes.

mod changes;

use crate::codec::{self, Wire, wire};
use crate::common::drift;
use crate::error::WireError;
use crate::limits::{ENTRY_BYTES_MAX, INSTANTIATE_MAX, PAGE_MAX, SNAPSHOT_BYTES_MAX};
use crate::pb;
use crate::read;
use aliquot_core::budget::{Budget, Key, LocalClock};
use aliquot_core::command::Command;
use aliquot_core::state::Snapshot;
use aliquot_core::unit::{Incarnation, NodeId, RequestId, RuleId, Span};

/// The version of the apply rules that this code follows. Raise it with every change
/// that gives the same entry or snapshot another meaning, or that adds a new kind of
/// command.
pub const APPLY_VERSION: u32 = 5;

/// The lowest version that understands an entry. An entry of a kind that older versions
/// wrote has the same meaning to them, so replicas of two versions continue together
/// until a feature of the newer one is used.
fn needs(command: Option<&Command>) -> u32 {
    match command {
        Some(Command::PutRule { budget, .. }) => needed_by(budget),
        Some(Command::Apply { puts, .. }) => puts.iter().map(needed_by).fold(2, u32::max),
        // An older version would confirm reports during a silence.
        Some(Command::Round(changes)) if !changes.silences.is_empty() => NEEDED_BY_SILENCES,
        // An older version would read only the last key.
        Some(Command::Instantiate { keys, .. }) if keys.len() > 1 => 3,
        _ => 1,
    }
}

/// Returns the lowest version that understands a budget.
fn needed_by(budget: &Budget) -> u32 {
    let clock = budget.period().map(|period| period.clock());
    if budget.has_named_limits() {
        // An older version would give every key the whole limit of the template.
        return 5;
    }
    match clock {
        // An older version would read a zone's clock as that of UTC.
        Some(LocalClock::Zone(_)) => 4,
        _ => 1,
    }
}

/// The lowest version that knows silences.
pub const NEEDED_BY_SILENCES: u32 = 5;

/// Returns the lowest version that understands a snapshot.
fn snapshot_needs(snapshot: &Snapshot) -> u32 {
    let mut members = snapshot.members.iter();
    if members.any(|(_, member)| member.silence.is_some()) {
        return NEEDED_BY_SILENCES;
    }
    let rules = snapshot.rules.iter().map(|(_, rule)| &rule.budget);
    let generations = snapshot.budgets.iter().map(|(_, of)| &of.budget);
    let needed = rules.chain(generations).map(|budget| needed_by(budget));
    needed.fold(1, u32::max)
}

/// An entry of the log as it is stored and sent. Keep it as a
/// [`Sealed`](crate::Sealed) one, so that the bytes stay those of its author.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The command; none in the empty entry that begins a term.
    pub command: Option<Command>,
}

/// A snapshot as it is stored and sent. Keep it as a
/// [`Sealed`](crate::Sealed) one, so that the bytes stay those of its author.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotFile {
    /// The snapshot of the state.
    pub snapshot: Snapshot,
}

impl LogEntry {
    /// Returns the lowest version that understands the entry.
    #[must_use]
    pub fn needed_version(&self) -> u32 {
        needs(self.command.as_ref())
    }
}

impl SnapshotFile {
    /// Returns the lowest version that understands the snapshot.
    #[must_use]
    pub fn needed_version(&self) -> u32 {
        snapshot_needs(&self.snapshot)
    }
}

wire!(Command, Command, ENTRY_BYTES_MAX);
wire!(LogEntry, LogEntry, ENTRY_BYTES_MAX);
wire!(SnapshotFile, SnapshotFile, SNAPSHOT_BYTES_MAX);

impl From<&LogEntry> for pb::LogEntry {
    fn from(entry: &LogEntry) -> Self {
        Self {
            needs: entry.needed_version(),
            command: entry.command.as_ref().map(Wire::to_bytes),
        }
    }
}

impl TryFrom<pb::LogEntry> for LogEntry {
    type Error = WireError;

    fn try_from(entry: pb::LogEntry) -> Result<Self, WireError> {
        understood(entry.needs)?;
        let command = entry.command.map(|bytes| codec::encoded(bytes, "command"));
        Ok(Self {
            command: command.transpose()?,
        })
    }
}

impl From<&SnapshotFile> for pb::SnapshotFile {
    fn from(file: &SnapshotFile) -> Self {
        Self {
            needs: file.needed_version(),
            snapshot: file.snapshot.to_bytes(),
        }
    }
}

impl TryFrom<pb::SnapshotFile> for SnapshotFile {
    type Error = WireError;

    fn try_from(file: pb::SnapshotFile) -> Result<Self, WireError> {
        understood(file.needs)?;
        let snapshot = codec::encoded(file.snapshot, "snapshot")?;
        Ok(Self { snapshot })
    }
}

/// Refuses an entry that only a later version can apply, before its content is read.
fn understood(needs: u32) -> Result<(), WireError> {
    if (1..=APPLY_VERSION).contains(&needs) {
        return Ok(());
    }
    let allowed = format!("1 to {APPLY_VERSION}, the versions of the log that are known here");
    Err(WireError::field("needs", needs, allowed))
}

impl From<&Command> for pb::Command {
    fn from(command: &Command) -> Self {
        use pb::command::Kind;
        let kind = match command {
            Command::Join { node, request } => Kind::Join(pb::Join {
                node: node.get(),
                request: request.get(),
            }),
            Command::Remove { node } => Kind::Remove(pb::Remove { node: node.get() }),
            Command::Configure { drift, lease } => Kind::Configure(pb::Configure {
                drift_ppm: drift.ppm(),
                lease_ns: lease.nanos(),
            }),
            Command::PutRule {
                request,
                budget,
                creator,
            } => Kind::PutRule(pb::PutRule {
                request: request.get(),
                budget: Some(budget.into()),
                creator: creator.map(Incarnation::get),
            }),
            Command::DeleteRule { request, rule } => Kind::DeleteRule(pb::DeleteRule {
                request: request.get(),
                rule: rule.get(),
            }),
            Command::Apply {
                request,
                deletes,
                puts,
                creator,
            } => Kind::Apply(pb::Apply {
                request: request.get(),
                deletes: deletes.iter().copied().map(RuleId::get).collect(),
                puts: puts.iter().map(Into::into).collect(),
                creator: creator.map(Incarnation::get),
            }),
            Command::Instantiate { keys, creator } => Kind::Instantiate(pb::Instantiate {
                keys: keys.clone(),
                creator: creator.map(Incarnation::get),
            }),
            Command::Round(changes) => Kind::Round(changes.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl TryFrom<pb::Command> for Command {
    type Error = WireError;

    fn try_from(command: pb::Command) -> Result<Self, WireError> {
        use pb::command::Kind;
        let Some(kind) = command.kind else {
            let allowed = "a kind of command that is known here";
            return Err(WireError::field("kind", "nothing", allowed));
        };
        Ok(match kind {
            Kind::Join(join) => Self::Join {
                node: NodeId::new(join.node),
                request: RequestId::new(join.request),
            },
            Kind::Remove(remove) => Self::Remove {
                node: NodeId::new(remove.node),
            },
            Kind::Configure(configure) => Self::Configure {
                drift: drift(configure.drift_ppm).map_err(|error| error.within("configure"))?,
                lease: Span::from_nanos(configure.lease_ns),
            },
            Kind::PutRule(put) => Self::PutRule {
                request: RequestId::new(put.request),
                budget: read::required(put.budget, "put_rule.budget")?,
                creator: put.creator.map(Incarnation::new),
            },
            Kind::DeleteRule(delete) => Self::DeleteRule {
                request: RequestId::new(delete.request),
                rule: RuleId::new(delete.rule),
            },
            Kind::Apply(apply) => apply_set(apply)?,
            Kind::Instantiate(instantiate) => read_instantiate(instantiate)?,
            Kind::Round(changes) => Self::Round(read::required(Some(changes), "round")?),
        })
    }
}

fn read_instantiate(instantiate: pb::Instantiate) -> Result<Command, WireError> {
    let (keys, path) = (instantiate.keys, "instantiate.keys");
    read::at_most(keys.len(), path, INSTANTIATE_MAX)?;
    let keys = read::each(keys, path, |key| read::text(key, "", Key::BYTES_MAX))?;
    Ok(Command::Instantiate {
        keys,
        creator: instantiate.creator.map(Incarnation::new),
    })
}

fn apply_set(apply: pb::Apply) -> Result<Command, WireError> {
    read::at_most(apply.deletes.len(), "apply.deletes", PAGE_MAX)?;
    Ok(Command::Apply {
        request: RequestId::new(apply.request),
        deletes: apply.deletes.into_iter().map(RuleId::new).collect(),
        puts: read::list(apply.puts, "apply.puts", PAGE_MAX)?,
        creator: apply.creator.map(Incarnation::new),
    })
}
