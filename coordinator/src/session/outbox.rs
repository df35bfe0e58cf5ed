//! What waits for one client: the latest of everything, never a queue.

use super::Refused;
use aliquot_core::asking::Asking;
use aliquot_core::budget::Key;
use aliquot_core::central::Told;
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

/// The sending end: what is put in leaves as fast as the client takes it.
///
/// It holds at most one answer, one name per key, one wish to move and as many
/// answers to questions as a client may ask, so a slow
/// client costs no more memory than a quick one and is never cut for being
/// slow. A later message takes an earlier one's place where it says at least as
/// much:
///
/// - **Answers.** A ledger says a line again in every answer that it makes until
///   the child echoes an answer that had it. So each answer has all lines of the
///   earlier ones that the child has not seen, and has been sent no less: the
///   greatest number of an edge stands for all. What a client echoes it has read,
///   so no answer that was replaced here is ever taken for heard. A closed edge
///   gets no further answer.
/// - **Names** replace each other by key.
/// - **Answers to questions** leave in order, and only a client that reads
///   none of them has some dropped, the oldest first.
///
/// Names leave before answers, answers to reports and to questions in turn, so
/// that no question keeps a lease from being renewed; and nothing before the
/// answer to the open.
#[derive(Clone, Debug)]
pub struct Outbox {
    shared: Arc<Shared>,
}

/// The receiving end, a stream of messages for the transport. Dropped, it
/// closes the outbox.
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
    /// Whether the answer to the open was put in.
    is_open: bool,
    names: BTreeMap<Key, Result<BudgetId, KeyRefusal>>,
    answer: Option<Answer>,
    wish: Option<String>,
    told: VecDeque<Told>,
    /// Whether one of them was the last to leave.
    told_last: bool,
    /// Nothing more comes in; why, if the client should know.
    end: Option<Option<Refused>>,
    reader: Option<Waker>,
}

impl Outbox {
    /// An empty outbox and the stream that empties it.
    #[must_use]
    pub fn new() -> (Self, Outgoing) {
        let shared = Arc::<Shared>::default();
        let outgoing = Outgoing {
            shared: Arc::clone(&shared),
        };
        (Self { shared }, outgoing)
    }

    /// Puts a message in. It never waits; once the outbox is closed it does nothing.
    pub fn send(&self, message: NodeMessage) {
        let mut slots = self.shared.slots();
        if slots.end.is_some() {
            return;
        }
        slots.put(message);
        wake(slots);
    }

    /// Lets what is inside leave, and then ends the stream: with a reason, or
    /// without one.
    pub fn close(&self, refused: Option<Refused>) {
        let mut slots = self.shared.slots();
        slots.end.get_or_insert(refused);
        wake(slots);
        self.shared.closed.notify_waiters();
    }

    /// Whether nothing more comes in, or nobody is there to take it.
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
            Some(refused) => Poll::Ready(refused.take().map(|refused| Err(refused.into()))),
            None => {
                slots.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Shared {
    /// No holder of the lock can panic, and what it guards is whole after any.
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the reader once the lock is free.
fn wake(mut slots: MutexGuard<'_, Slots>) {
    let reader = slots.reader.take();
    drop(slots);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Slots {
    /// The bytes that names may take in one message: half of it, so that what
    /// goes with them has room.
    const NAMES_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;

    /// So many answers to questions wait: as many as a client may have open.
    const TOLD_MAX: usize = Asking::PENDING_MAX;

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
            // A question has one answer, and is asked again if that is lost.
            NodeMessage::Told(told) => {
                if self.told.len() >= Self::TOLD_MAX {
                    self.told.pop_front();
                }
                self.told.push_back(told);
            }
        }
    }

    /// What does not fit beside the answer to the open follows it.
    fn open(&mut self, mut opened: SessionOpened) {
        let bytes: usize = opened.keys.iter().map(|name| size(&name.key)).sum();
        if bytes > Self::NAMES_BYTES_MAX {
            for name in std::mem::take(&mut opened.keys) {
                // What was put in since is later than what the reply says.
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
        let answer_first = self.told_last && self.answer.is_some();
        self.told_last = !answer_first && !self.told.is_empty();
        if self.told_last
            && let Some(told) = self.told.pop_front()
        {
            return Some(NodeMessage::Told(told));
        }
        if let Some(answer) = self.answer.take() {
            return Some(NodeMessage::Answer(answer));
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
        names
    }
}

/// The bytes of a name, at most: its key, its number, and three frames.
fn size(key: &Key) -> usize {
    key.as_str().len() + 24
}

/// Whether an answer stands for the one that waits: of two on one edge the
/// greater number does, and a closed edge has no other; of two edges the later does.
fn replaces(answer: &Answer, waiting: &Answer) -> bool {
    if answer.edge != waiting.edge {
        return true;
    }
    waiting.verdict == Verdict::Open
        && (answer.verdict == Verdict::Closed || answer.number > waiting.number)
}
