//! Pending messages to one client: only the latest of each kind, not a queue.

use super::stream_end::StreamEnd;
use aliquot_core::budget::Key;
use aliquot_core::central::DecisionReply;
use aliquot_core::decision_requests::DecisionRequests;
use aliquot_core::message::{Answer, Verdict};
use aliquot_core::unit::BudgetId;
use aliquot_wire::Wire;
use aliquot_wire::limits::{LINES_MAX, MESSAGE_BYTES_MAX};
use aliquot_wire::pb;
use aliquot_wire::session::{Interned, KeyRefusal, NodeMessage, SessionOpened};
use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;
use tokio_stream::Stream;
use tonic::Status;

/// The sending end. Messages leave as fast as the client takes them.
///
/// The outbox holds at most one answer, one name per key, one request to move, one list of members, and as
/// many decisions as a client may have requests open. A slow client therefore costs no more memory than a fast one, and
/// is never disconnected for being slow. A later message replaces an earlier one if it says at least as
/// much:
///
/// - **Answers.** A ledger repeats a line in every answer until the child echoes an answer that had it.
///   Each answer therefore has all lines of the earlier ones that the child has not seen, so that the
///   answer with the greatest number of an edge replaces the others. A client echoes only answers that
///   it has read, so that an answer replaced here is never taken as received. After an edge is closed,
///   it gets no further answer.
/// - **Names** replace each other by key.
/// - **Decisions** of central requests leave in order. Only if a client reads none of them, the oldest
///   are dropped.
///
/// Nothing leaves before the reply to the open. Then names leave before anything else, and answers and
/// decisions take turns, so that decisions do not delay the renewal of a lease.
#[derive(Clone, Debug)]
pub struct Outbox {
    shared: Arc<Shared>,
}

/// The receiving end, a stream of messages for the transport. The outbox is closed when this is
/// dropped.
#[derive(Debug)]
pub struct Outgoing {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    slots: Mutex<Slots>,
    closed: Notify,
}

#[derive(Debug, Default)]
struct Slots {
    opened: Option<SessionOpened>,
    /// True once the reply to the open was added.
    is_open: bool,
    names: BTreeMap<Key, Result<BudgetId, KeyRefusal>>,
    answer: Option<Answer>,
    wish: Option<String>,
    members: Option<Vec<String>>,
    replies: VecDeque<DecisionReply>,
    /// True if a decision was the last to leave.
    reply_was_last: bool,
    /// Set once nothing more is accepted, with the reason if the client should know it.
    end: Option<Option<StreamEnd>>,
    reader: Option<Waker>,
}

impl Outbox {
    /// Creates an empty outbox, and the stream that empties it.
    #[must_use]
    pub fn new() -> (Self, Outgoing) {
        let shared = Arc::<Shared>::default();
        let outgoing = Outgoing {
            shared: Arc::clone(&shared),
        };
        (Self { shared }, outgoing)
    }

    /// Adds a message. It never waits. Once the outbox is closed, it does nothing.
    pub fn send(&self, message: NodeMessage) {
        let mut slots = self.shared.slots();
        if slots.end.is_some() {
            return;
        }
        slots.put(message);
        wake(slots);
    }

    /// Ends the stream after the messages already added, with a reason if there is one.
    pub fn close(&self, end: Option<StreamEnd>) {
        let mut slots = self.shared.slots();
        slots.end.get_or_insert(end);
        wake(slots);
        self.shared.closed.notify_waiters();
    }

    /// Returns true if the outbox is closed, from either end.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.slots().end.is_some()
    }

    /// Waits until the outbox is closed, from either end.
    pub async fn closed(&self) {
        let closed = self.shared.closed.notified();
        if !self.is_closed() {
            closed.await;
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.shared.slots().end.get_or_insert(None);
        self.shared.closed.notify_waiters();
    }
}

impl Stream for Outgoing {
    type Item = Result<pb::NodeMessage, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut slots = self.shared.slots();
        if let Some(message) = slots.take() {
            drop(slots);
            return Poll::Ready(Some(Ok(message.to_message())));
        }
        match &mut slots.end {
            Some(end) => Poll::Ready(end.take().map(|end| Err(end.into()))),
            None => {
                slots.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Shared {
    /// No holder of the lock can panic, and the slots are consistent after any of them.
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the reader after the lock is released.
fn wake(mut slots: MutexGuard<'_, Slots>) {
    let reader = slots.reader.take();
    drop(slots);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Slots {
    /// Maximum number of bytes of names in one message: half of the maximum, so that there is room for
    /// the rest.
    const NAMES_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;

    /// Maximum number of decisions that wait: as many as a client may have requests open.
    const REPLIES_MAX: usize = DecisionRequests::PENDING_MAX;

    fn put(&mut self, message: NodeMessage) {
        match message {
            NodeMessage::Opened(opened) => self.open(opened),
            NodeMessage::Interned(names) => {
                let names = names.into_iter().map(|name| (name.key, name.budget));
                self.names.extend(names);
            }
            NodeMessage::Answer(answer) => {
                if self
                    .answer
                    .as_ref()
                    .is_none_or(|old| replaces(&answer, old))
                {
                    self.answer = Some(answer);
                }
            }
            NodeMessage::Move(address) => self.wish = Some(address),
            NodeMessage::Members(addresses) => self.members = Some(addresses),
            // A request has one decision. If it is lost, the client asks again.
            NodeMessage::DecisionReply(replies) => {
                if self.replies.len() >= Self::REPLIES_MAX {
                    self.replies.pop_front();
                }
                self.replies.push_back(replies);
            }
        }
    }

    /// Adds the reply to the open. Names that do not fit beside it follow in further messages.
    fn open(&mut self, mut opened: SessionOpened) {
        let bytes: usize = opened.keys.iter().map(|name| size(&name.key)).sum();
        if bytes > Self::NAMES_BYTES_MAX {
            for name in std::mem::take(&mut opened.keys) {
                // Names that were added meanwhile are later than those in the reply.
                self.names.entry(name.key).or_insert(name.budget);
            }
        }
        self.is_open = true;
        self.opened = Some(opened);
    }

    fn take(&mut self) -> Option<NodeMessage> {
        if !self.is_open {
            return None;
        }
        if let Some(opened) = self.opened.take() {
            return Some(NodeMessage::Opened(opened));
        }
        if !self.names.is_empty() {
            return Some(NodeMessage::Interned(self.take_names()));
        }
        let answer_first = self.reply_was_last && self.answer.is_some();
        self.reply_was_last = !answer_first && !self.replies.is_empty();
        if self.reply_was_last
            && let Some(replies) = self.replies.pop_front()
        {
            return Some(NodeMessage::DecisionReply(replies));
        }
        if let Some(answer) = self.answer.take() {
            return Some(NodeMessage::Answer(answer));
        }
        if let Some(addresses) = self.members.take() {
            return Some(NodeMessage::Members(addresses));
        }
        self.wish.take().map(NodeMessage::Move)
    }

    fn take_names(&mut self) -> Vec<Interned> {
        let (mut names, mut room) = (Vec::new(), Self::NAMES_BYTES_MAX);
        while let Some(first) = self.names.first_entry() {
            let bytes = size(first.key());
            if bytes > room || names.len() == LINES_MAX {
                break;
            }
            room -= bytes;
            let (key, budget) = first.remove_entry();
            names.push(Interned { key, budget });
        }
        if self.names.is_empty() {
            // An empty tree still has a node, and there is one for each session.
            self.names = BTreeMap::new();
        }
        names
    }
}

/// Maximum number of bytes of a name: its key, its number, and three frames.
fn size(key: &Key) -> usize {
    key.as_str().len() + 24
}

/// Returns true if an answer replaces the one that waits. On one edge, the greater number replaces the
/// smaller, unless the edge is closed. An answer on another edge always replaces.
fn replaces(answer: &Answer, waiting: &Answer) -> bool {
    if answer.edge != waiting.edge {
        return true;
    }
    waiting.verdict == Verdict::Open
        && (answer.verdict == Verdict::Closed || answer.number > waiting.number)
}
