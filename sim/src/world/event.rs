//! What can happen, and in which order.

use super::log::LogMessage;
use aliquot_core::central::{Ask, Release, Told};
use aliquot_core::command::Command;
use aliquot_core::message::{Answer, Report};
use aliquot_core::unit::{BudgetId, Edge, Scale};
use std::cmp::Ordering;
use std::rc::Rc;

/// What hosts say to each other.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Message {
    Log(LogMessage),
    /// A command for whoever leads.
    Propose(Rc<Command>),
    /// A node's report, on its way to whoever leads, through whoever hears it.
    Report {
        report: Rc<Report>,
        relayed: bool,
    },
    /// A leader's answer, on its way to its node.
    Answer {
        answer: Rc<Answer>,
        relayed: bool,
    },
    /// A client would have a session, with the edge that it has.
    Open {
        nonce: u64,
        resume: Option<Edge>,
    },
    Opened {
        nonce: u64,
        edge: Edge,
    },
    /// What is this key called?
    Name {
        key: usize,
    },
    Named {
        key: usize,
        budget: BudgetId,
        scale: Scale,
    },
    ClientReport(Rc<Report>),
    ClientAnswer(Rc<Answer>),
    /// The node goes away; go to another one.
    Move,
    /// The connection is gone.
    Reset,
    Ask(Ask),
    Told(Told),
    Release(Release),
}

impl Message {
    /// What it is called.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Log(LogMessage::Ask { .. }) => "log ask",
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
            Self::Move => "move",
            Self::Reset => "reset",
            Self::Ask(_) => "ask",
            Self::Told(_) => "told",
            Self::Release(_) => "release",
        }
    }
}

/// What happens. Timers carry the process that set them: another one's are void.
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
    /// An occurrence begins, or one of its steps.
    Strike(u32),
    Strobe(u32, u64),
    /// It ends.
    Mend(u32),
    /// Operators do what they have to.
    Operate,
    /// The books of all hosts are looked at.
    Look,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    NodeTick,
    LogTick,
    Apply,
    /// A client's session looks at what is due.
    Look,
    Arrival,
    /// Somebody who waits tries again.
    Retry,
    /// A permit's caller is done.
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

/// The earliest is the greatest: what comes next is taken from the end.
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.id).cmp(&(self.at, self.id))
    }
}
