//! Events, and their order.

use super::mending::Mending;
use super::raft::RaftMessage;
use aliquot_core::central::{DecisionReply, DecisionRequest};
use aliquot_core::message::{Answer, Report};
use aliquot_core::unit::Edge;
use std::cmp::Ordering;
use std::rc::Rc;

/// Messages between hosts.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Raft(RaftMessage),
    /// A node's report, on its way to the leader, through every node that receives it.
    Report {
        report: Rc<Report>,
        relayed: bool,
    },
    /// A leader's answer, on its way to its node.
    Answer {
        answer: Rc<Answer>,
        relayed: bool,
    },
    Open {
        nonce: u64,
    },
    Opened {
        nonce: u64,
        edge: Edge,
    },
    ClientReport(Report),
    ClientAnswer(Answer),
    DecisionRequest(DecisionRequest),
    DecisionReply(DecisionReply),
}

/// An event. Timers carry the process that set them: those of another process are void.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Deliver {
        from: usize,
        to: usize,
        message: Box<Message>,
    },
    Timer {
        host: usize,
        process: u64,
        timer: Timer,
    },
    Fault(usize),
    Mend(Mending),
    Admin,
    Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    NodeTick,
    NodeReport,
    RaftTick,
    Apply,
    ClientReport,
    Arrival,
    Retry,
    Release,
}

#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) at: u64,
    pub(crate) id: u64,
    pub(crate) event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.id).cmp(&(self.at, self.id))
    }
}
