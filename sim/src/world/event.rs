//! Messages, events and timers, and the order of events.

use super::log::LogMessage;
use aliquot_core::central::{DecisionReply, DecisionRequest, Release};
use aliquot_core::command::Command;
use aliquot_core::message::{Answer, Report};
use aliquot_core::unit::{BudgetId, Edge, Scale, Span};
use std::cmp::Ordering;
use std::rc::Rc;

/// A message between two hosts.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Message {
    Log(LogMessage),
    /// A command for the leader.
    Propose(Rc<Command>),
    /// A node's report, on its way to the leader. Other nodes may relay it. With it goes the number of the node's
    /// sessions, if it takes clients.
    Report {
        report: Rc<Report>,
        sessions: Option<u64>,
        relayed: bool,
    },
    /// A leader's answer, on its way to a node.
    Answer {
        answer: Rc<Answer>,
        relayed: bool,
    },
    /// A client's request for a session, with its present edge if it has one, and the age of its process.
    Open {
        nonce: u64,
        resume: Option<Edge>,
        age: Span,
    },
    Opened {
        nonce: u64,
        edge: Edge,
    },
    /// A client's request for the budget of a key.
    Name {
        key: usize,
    },
    Named {
        key: usize,
        budget: BudgetId,
        scale: Scale,
    },
    ClientReport(Report),
    ClientAnswer(Answer),
    /// The node asks the client to move to another one; to any other if it names none, because it is leaving.
    Move {
        to: Option<usize>,
    },
    /// The connection is lost.
    Reset,
    DecisionRequest(DecisionRequest),
    DecisionReply(DecisionReply),
    Release(Release),
}

impl Message {
    /// Returns the name of the message's kind.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Log(LogMessage::RequestVote { .. }) => "log vote request",
            Self::Log(LogMessage::Vote { .. }) => "log vote",
            Self::Log(LogMessage::Append { .. }) => "log append",
            Self::Log(LogMessage::Appended { .. }) => "log appended",
            Self::Log(LogMessage::Newer { .. }) => "log newer",
            Self::Log(LogMessage::Stand { .. }) => "log stand",
            Self::Propose(_) => "propose",
            Self::Report { .. } => "report",
            Self::Answer { .. } => "answer",
            Self::Open { .. } => "open",
            Self::Opened { .. } => "opened",
            Self::Name { .. } => "name",
            Self::Named { .. } => "named",
            Self::ClientReport(_) => "client report",
            Self::ClientAnswer(_) => "client answer",
            Self::Move { .. } => "move",
            Self::Reset => "reset",
            Self::DecisionRequest(_) => "decision request",
            Self::DecisionReply(_) => "decision reply",
            Self::Release(_) => "release",
        }
    }
}

/// An event. A timer belongs to the process that set it, and is void for another one.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Deliver {
        from: u32,
        to: u32,
        message: Box<Message>,
    },
    Timer {
        host: u32,
        process: u32,
        timer: Timer,
    },
    /// Injects a fault, by its index in the plan.
    Inject(u32),
    Strobe(u32, u64),
    /// Ends a fault.
    Recover(u32),
    /// Lets operators submit their commands.
    Operate,
    /// Inspects all hosts.
    Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    NodeTick,
    LogTick,
    Apply,
    /// A client's session checks what is due.
    Look,
    Arrival,
    /// The callers that wait for a key try again, by its index.
    Retry(u32),
    /// A caller is done with its permit.
    Done,
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

/// Orders the earliest event as the greatest, so that it comes last in a sorted vector.
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.id).cmp(&(self.at, self.id))
    }
}
