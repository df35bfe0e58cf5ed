//! What the actor listens to, and whose turn it is.

use super::actor::Passed;
use super::handle::Question;
use super::machine::Log;
use super::writes::Written;
use crate::{gossip, session};
use aliquot_core::command::Command;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, oneshot};

/// What the actor listens to beside [`Control`](super::actor::Control), which is short and seldom, and
/// comes first.
///
/// There are three classes, which take turns: what peers say, which renews
/// leases here and there; the log; and everything else. However much there is of one, the others wait
/// for no more than a turn of it.
pub(super) struct Ears {
    pub(super) links: mpsc::Receiver<gossip::Event>,
    pub(super) log: mpsc::Receiver<Log>,
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) central: mpsc::Receiver<Passed>,
    pub(super) writes: mpsc::Receiver<(Command, oneshot::Sender<Written>)>,
    pub(super) leave: mpsc::Receiver<oneshot::Sender<()>>,
    pub(super) sessions: mpsc::Receiver<session::Event>,
    /// Which class comes first.
    pub(super) turn: Class,
}

/// Inputs that wait for each other.
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
    /// Entries that were begun with are to be gone on with.
    GoOn,
    Question(Question),
    Passed(Passed),
    Write(Command, oneshot::Sender<Written>),
    Leave(oneshot::Sender<()>),
    Session(session::Event),
    /// Every handle is gone.
    Gone,
}

/// What is listened to just now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Whether entries are half applied: then nothing new of the log is taken.
    pub(super) applying: bool,
    pub(super) sessions: bool,
}

impl Ears {
    /// The next input, by turns.
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
        let mut polled = some(self.questions.poll_recv(context), Input::Question);
        if polled.is_pending() {
            polled = some(self.central.poll_recv(context), Input::Passed);
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

/// A channel that is closed says nothing.
fn some<T>(polled: Poll<Option<T>>, input: impl FnOnce(T) -> Input) -> Poll<Input> {
    match polled {
        Poll::Ready(Some(said)) => Poll::Ready(input(said)),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    }
}
