//! The table of planted bugs, with a scenario that catches each.

use aliquot_core::planted::Bug;

/// A bug and a scenario that catches it. A scenario without assertions can catch a bug only by an invariant.
/// One with assertions can also catch it by a figure.
pub(crate) type Row = (Bug, &'static str);

pub(crate) const LEASE: &[Row] = &[
    (Bug::LeaseFromReceipt, "pause-past-lease"),
    (Bug::NoDriftMargin, "blackhole"),
    (Bug::NoPatience, "leader-crash"),
    (Bug::PatienceLags, "swarm"),
    (Bug::ClientOutlivesNode, "partition-leader"),
    (Bug::ShortGrantWins, "late-and-twice"),
    (Bug::JumpEndsSessions, "clock-strobe"),
    (Bug::LeaseUnchecked, "swarm"),
    (Bug::LeaseUnreadByBucket, "network-clocks"),
    (Bug::BarrierUnasked, "network-partition"),
];

pub(crate) const BUCKET: &[Row] = &[
    (Bug::GrantStartsFull, "floors"),
    (Bug::RaiseArrivesFull, "limit-dance"),
    (Bug::WithdrawLeavesFull, "small-burst"),
    (Bug::ReclaimCarriesTokens, "swarm"),
    (Bug::FloorUnclipped, "floors"),
    (Bug::SupplyRoundsUp, "swarm"),
    (Bug::AccruesAtNewRate, "swarm"),
    (Bug::ChangeForgetsDebt, "network-calm"),
    (Bug::PartArrivesFull, "network-calm"),
    (Bug::WithdrawnSaidFull, "network-budgets"),
];

pub(crate) const ALLOCATION: &[Row] = &[
    (Bug::OldLevelTrusted, "flash-crowd"),
    (Bug::RemainderTwice, "flash-crowd"),
    (Bug::NewcomerHeldBack, "flash-crowd"),
    (Bug::SavingsUnseen, "pulses"),
    (Bug::HeadroomRestless, "distbucket/mixed"),
];

pub(crate) const REPLICATION: &[Row] = &[
    (Bug::IncarnationReused, "swarm"),
    (Bug::ApplyTwice, "rolling-nodes"),
    (Bug::DeadEscrowFree, "quota-churn"),
    (Bug::CloseFreesAll, "swarm"),
    (Bug::ReturnsAddUp, "swarm"),
    (Bug::CreditedBeforeBooked, "swarm"),
    (Bug::LoweringForgets, "swarm"),
    (Bug::OldPoolKept, "swarm"),
    (Bug::SnapshotUnread, "network-swarm"),
    (Bug::EntriesUnsynced, "network-blackout"),
];

pub(crate) const GOSSIP: &[Row] = &[(Bug::LearnedNotPassedOn, "network-partial")];

pub(crate) const SESSION: &[Row] = &[
    (Bug::PairNotFenced, "swarm"),
    (Bug::LingeringFloorsReturned, "swarm"),
    (Bug::LingeringPermitsReturned, "swarm"),
    (Bug::CentralReleasedTwice, "swarm"),
    (Bug::KeptAndDealt, "swarm"),
    (Bug::GiftsAddUp, "swarm"),
    (Bug::ReturnedNotLowered, "swarm"),
    (Bug::ToldOnce, "lossy"),
    (Bug::SilenceIsDeath, "gossip-table/loss"),
    (Bug::BothPartsUsed, "swarm"),
];
