//! Inputs of the actor, and the order in which they are polled.

use super::machine::Log;
use super::view::View;
use crate::raft::{ProposeError, Raft};
use crate::{gossip, session};
use aliquot_core::central::{DecisionReply, DecisionRequest, Release};
use aliquot_core::command::Command;
use aliquot_core::leadership::Barrier;
use aliquot_core::state::Effect;
use aliquot_core::unit::{RequestId, Term};
use bytes::Bytes;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

/// Inputs that must not wait behind those of clients.
pub(super) enum Control {
    /// The Raft log has been opened.
    Raft(Raft),
    /// The home node's decision on a client's request, or a refusal if it did not answer.
    DecisionReply(DecisionReply),
    /// The proposal of a batch of new keys has ended, whether or not it was taken.
    Instantiated { batch: u64 },
    /// The actor must stop.
    Stop,
    /// The barrier has ended. `held` is true if a quorum acknowledged it.
    Barrier { barrier: Barrier, held: bool },
    /// The proposal of a round, made in `term`, has ended.
    Round {
        term: Term,
        command: Bytes,
        result: Result<(), ProposeError>,
    },
    /// An operator's command was not taken, or its fate is unknown.
    WriteFailed {
        request: RequestId,
        error: ProposeError,
    },
}

/// A query that the actor runs between two inputs.
pub(super) type Query = Box<dyn FnOnce(&View<'_>) + Send>;

/// Central requests that a peer forwarded.
pub(super) enum Forwarded {
    /// A request for a decision.
    DecisionRequest(DecisionRequest, oneshot::Sender<DecisionReply>),
    /// Permits that a client returns.
    Release(Release),
}

/// Result of a write: the effects of the command, or the reason that there are none.
pub(super) type Written = Result<Vec<Effect>, ProposeError>;

/// Inputs of the actor except [`Control`], which is rare and comes first.
///
/// There are three classes, which take turns: messages of peers, which renew leases; the log; and
/// everything else. However many inputs one class has, the others wait for at most one of them.
pub(super) struct Inbox {
    pub(super) links: mpsc::Receiver<gossip::Event>,
    pub(super) log: mpsc::Receiver<Log>,
    pub(super) queries: mpsc::Receiver<Query>,
    pub(super) central: mpsc::Receiver<Forwarded>,
    pub(super) writes: mpsc::Receiver<(Command, oneshot::Sender<Written>)>,
    pub(super) leave: mpsc::Receiver<oneshot::Sender<()>>,
    pub(super) sessions: mpsc::Receiver<session::Event>,
    /// The class that is polled first.
    pub(super) turn: Class,
}

/// Classes of inputs that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Peers,
    Log,
    Rest,
}

impl Class {
    const fn next(self) -> Self {
        match self {
            Self::Peers => Self::Log,
            Self::Log => Self::Rest,
            Self::Rest => Self::Peers,
        }
    }
}

/// One input.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and it is taken apart at once"
)]
pub(super) enum Input {
    Link(gossip::Event),
    Log(Log),
    /// Apply more of the entries that are half applied.
    GoOn,
    Query(Query),
    Forwarded(Forwarded),
    Write(Command, oneshot::Sender<Written>),
    Leave(oneshot::Sender<()>),
    Session(session::Event),
    /// All handles are gone.
    Gone,
}

/// Inputs that are polled at this moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Set while entries are half applied. Then no new request is taken from the log.
    pub(super) applying: bool,
    pub(super) sessions: bool,
}

impl Inbox {
    /// Polls for the next input, by turns.
    pub(super) fn poll(&mut self, context: &mut Context<'_>, open: Open) -> Poll<Input> {
        let mut class = self.turn;
        for _ in 0..3 {
            let polled = match class {
                Class::Peers => self.poll_peers(context),
                Class::Log if open.applying => Poll::Ready(Input::GoOn),
                Class::Log => self.poll_log(context),
                Class::Rest => self.poll_rest(context, open),
            };
            if polled.is_ready() {
                self.turn = class.next();
                return polled;
            }
            class = class.next();
        }
        Poll::Pending
    }

    fn poll_peers(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        some(self.links.poll_recv(context), Input::Link)
    }

    fn poll_log(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        some(self.log.poll_recv(context), Input::Log)
    }

    fn poll_rest(&mut self, context: &mut Context<'_>, open: Open) -> Poll<Input> {
        let write = |(command, reply)| Input::Write(command, reply);
        let mut polled = some(self.queries.poll_recv(context), Input::Query);
        if polled.is_pending() {
            polled = some(self.central.poll_recv(context), Input::Forwarded);
        }
        if polled.is_pending() {
            polled = some(self.writes.poll_recv(context), write);
        }
        if polled.is_pending() {
            polled = some(self.leave.poll_recv(context), Input::Leave);
        }
        if polled.is_pending() && open.sessions {
            polled = self
                .sessions
                .poll_recv(context)
                .map(|event| event.map_or(Input::Gone, Input::Session));
        }
        polled
    }
}

/// Maps a received value to its input. A closed channel counts as one without inputs.
fn some<T>(polled: Poll<Option<T>>, input: impl FnOnce(T) -> Input) -> Poll<Input> {
    match polled {
        Poll::Ready(Some(received)) => Poll::Ready(input(received)),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    }
}

/// Handles `first` and the inputs queued behind it: at most `most`, and until `handle` returns false.
/// No input is taken from the queue without being handled.
pub(super) fn take_some<T>(
    first: T,
    more: &mut mpsc::Receiver<T>,
    most: usize,
    mut handle: impl FnMut(T) -> bool,
) {
    let (mut next, mut taken) = (Some(first), 0);
    while let Some(input) = next {
        taken += 1;
        let goes_on = handle(input) && taken < most;
        next = goes_on.then(|| more.try_recv().ok()).flatten();
    }
}

#[cfg(test)]
#[path = "../../tests/unit/node/inbox.rs"]
mod tests;
