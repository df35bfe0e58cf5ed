//! The records on which a verdict is based.

use crate::demo::machine::Lateness;
use crate::demo::record::Recording;
use crate::demo::waits::Waits;
use aliquot_core::budget::Budget;
use aliquot_core::unit::{Drift, Span, Tick};
use serde::Serialize;
use std::collections::BTreeMap;

/// Time at the start of a run that is left out when its utilisation is measured.
pub const SETTLING: Span = Span::from_secs(2);

/// Time after a kill in which the limit may be used less than fully.
pub const AFTERMATH: Span = Span::from_secs(5);

/// Minimum time of a run after a kill, to judge its effects: the aftermath and one complete second.
pub const SEEN_AFTER: Span = Span::from_secs(6);

/// Times of the main events of a run, on the host's boot clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Time of the first scheduled request.
    pub start: Tick,
    /// End of the schedule.
    pub end: Tick,
    /// Time at which a node was killed.
    pub killed: Option<Tick>,
    /// Time at which it was restarted.
    pub restarted: Option<Tick>,
}

/// Counts of the answers that the load generator received from one service under one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AnswerCounts {
    /// Number of requests sent.
    pub sent: u64,
    /// Total cost of these requests, in tokens.
    pub cost: u64,
    /// Number of answers 200.
    pub admitted: u64,
    /// Number of answers 429.
    pub limited: u64,
    /// Number of other answers, and of requests without an answer.
    pub other: u64,
}

/// The processes that hold the shares from which requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deciders {
    /// Each service, or a process beside it. They survive a node that is killed.
    Services,
    /// Each node, or a process beside it that is killed with it.
    Nodes,
}

/// The records on which a verdict is based.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Records of each service, by its name, or the reason why they cannot be read.
    pub recordings: BTreeMap<String, Result<Recording, String>>,
    /// Counts of the answers that the generator received, by service and key.
    pub answers: BTreeMap<(String, String), AnswerCounts>,
    /// Times of the main events.
    pub timeline: Timeline,
    /// The budgets in force.
    pub budgets: Vec<Budget>,
    /// The bound on clock drift that the cluster states.
    pub drift: Drift,
    /// The processes that decide.
    pub deciders: Deciders,
    /// The key whose utilisation is measured, if any.
    pub shared: Option<String>,
    /// Lateness of the machine while the load lasted.
    pub lateness: Lateness,
    /// Time for which the demo's processes waited for a processor meanwhile.
    pub waits: Waits,
    /// Number of messages of the services' sessions, both ways, if they were counted.
    pub messages: Option<u64>,
    /// Number of reports among these messages, each answered by a node, if they were counted.
    pub reports: Option<u64>,
}
