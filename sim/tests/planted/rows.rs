//! The table of planted bugs, with the scenario that catches each, and the invariant or figure that does.

use aliquot_core::planted::Bug;

/// A bug, a scenario that catches it within the first seeds, and the invariant that is broken, or the figure that
/// an assertion bounds. On the network tier a bug may also break the software itself, so its rows name neither.
pub(crate) type Row = (Bug, &'static str, &'static str);

pub(crate) const LEASE: &[Row] = &[
    (Bug::LeaseFromReceipt, "pause-past-lease", "conservation"),
    (Bug::NoDriftMargin, "blackhole", "disjointness"),
    (Bug::NoPatience, "leader-crash", "patience"),
    (Bug::PatienceLags, "swarm", "disjointness"),
    (Bug::ClientOutlivesNode, "partition-leader", "disjointness"),
    (Bug::ShortGrantWins, "late-and-twice", "disjointness"),
    (Bug::JumpEndsSessions, "clock-strobe", "disjointness"),
    (Bug::LeaseUnchecked, "swarm", "disjointness"),
    (Bug::JumpEndsAtZero, "network-clock-steps", ""),
    (Bug::LeaseUnreadByBucket, "network-leader-crash", ""),
    (Bug::BarrierUnasked, "network-partition", ""),
];

pub(crate) const BUCKET: &[Row] = &[
    (Bug::GrantStartsFull, "floors", "conservation"),
    (Bug::RaiseArrivesFull, "limit-dance", "conservation"),
    (Bug::WithdrawLeavesFull, "small-burst", "envelope"),
    (Bug::ReclaimCarriesTokens, "swarm", "conservation"),
    (Bug::FloorUnclipped, "floors", "conservation"),
    (Bug::SupplyRoundsUp, "swarm", "conservation"),
    (Bug::AccruesAtNewRate, "swarm", "conservation"),
    (Bug::ChangeForgetsDebt, "network-calm", ""),
    (Bug::PartArrivesFull, "network-calm", ""),
    (Bug::WithdrawnSaidFull, "network-budgets", ""),
];

pub(crate) const ALLOCATION: &[Row] = &[
    (Bug::OldLevelTrusted, "flash-crowd", "settled"),
    (Bug::RemainderTwice, "flash-crowd", "settled"),
    (Bug::NewcomerHeldBack, "flash-crowd", "settled"),
    (Bug::SavingsUnseen, "pulses", "loss_against_ideal"),
    (Bug::HeadroomRestless, "distbucket/mixed", "requests"),
    (Bug::SmallBudgetDealt, "small-burst", "utilisation"),
    (Bug::SmallPartsDealt, "small-parts", "admitted"),
    (Bug::ClientsUncounted, "quiet-beside-greedy", "admitted"),
    (Bug::LargeCostsChased, "large-costs-wait", "utilisation"),
    (Bug::RecalledPermitTaken, "permits-newcomers", "admitted"),
    (Bug::LeaderReportsSeldom, "leader-killed", "worst_second"),
    (Bug::QuotaDealtWhole, "quota-boundary", "utilisation"),
    (
        Bug::DeniedCostUnseen,
        "quota-large-costs",
        "loss_against_ideal",
    ),
    (Bug::FormerForgotten, "kept-shares", "utilisation"),
];

pub(crate) const REPLICATION: &[Row] = &[
    (Bug::IncarnationReused, "swarm", "monotone-edges"),
    (Bug::ApplyTwice, "rolling-nodes", "commit-before-effect"),
    (Bug::DeadEscrowFree, "quota-churn", "envelope"),
    (Bug::CloseFreesAll, "swarm", "conservation"),
    (Bug::ReturnsAddUp, "swarm", "disjointness"),
    (Bug::CreditedBeforeBooked, "swarm", "conservation"),
    (Bug::LoweringForgets, "swarm", "conservation"),
    (Bug::OldPoolKept, "swarm", "conservation"),
    (Bug::RebornOnNewBooks, "deleted", "envelope"),
    (Bug::ReturnCrossesStamps, "quota", "work-conservation"),
    (Bug::SnapshotUnread, "network-snapshot-received", ""),
    (Bug::EntriesUnsynced, "network-blackout", ""),
];

pub(crate) const GOSSIP: &[Row] = &[(Bug::LearnedNotPassedOn, "network-partial", "")];

pub(crate) const SESSION: &[Row] = &[
    (Bug::PairNotFenced, "swarm", "disjointness"),
    (Bug::LingeringFloorsReturned, "swarm", "conservation"),
    (Bug::LingeringPermitsReturned, "swarm", "envelope"),
    (Bug::CentralReleasedTwice, "swarm", "envelope"),
    (Bug::KeptAndDealt, "swarm", "envelope"),
    (Bug::GiftsAddUp, "swarm", "conservation"),
    (Bug::ReturnedNotLowered, "swarm", "conservation"),
    (Bug::ToldOnce, "lossy", "utilisation"),
    (Bug::SilenceIsDeath, "gossip-table/loss", "utilisation"),
    (Bug::BothPartsUsed, "swarm", "envelope"),
];
