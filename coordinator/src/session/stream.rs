//! The task of one stream: checks a client's messages and passes them to the actor.

use super::STREAMS_MAX;
use super::event::{Caller, Event, Opening, Remote, StreamId};
use super::outbox::{Outbox, Outgoing};
use super::stream_end::StreamEnd;
use crate::timer;
use aliquot_core::demand::{CALLER_SEGMENTS_MAX, CALLERS_MAX, DemandCurve, WEIGHT_ONE};
use aliquot_core::message::ReportLine;
use aliquot_core::unit::Edge;
use aliquot_wire::Wire;
use aliquot_wire::limits::LINES_MAX;
use aliquot_wire::pb;
use aliquot_wire::session::{ClientMessage, NodeMessage, SessionOpen, SessionOpened};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

/// Limits of a gate.
#[derive(Clone, Copy, Debug)]
pub struct GateLimits {
    /// Maximum number of streams.
    pub streams: usize,
    /// Maximum time for the first message of a stream.
    pub open_within: Duration,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            streams: STREAMS_MAX,
            open_within: Duration::from_secs(10),
        }
    }
}

/// Accepts client streams, up to a limit.
#[derive(Clone, Debug)]
pub struct Gate {
    events: mpsc::Sender<Event>,
    limits: GateLimits,
    room: Arc<Semaphore>,
    next: Arc<AtomicU64>,
    /// Number of streams that were refused because there were too many.
    refused: Arc<AtomicU64>,
}

impl Gate {
    /// Creates a gate whose streams send their events to `events`.
    #[must_use]
    pub fn new(events: mpsc::Sender<Event>, mut limits: GateLimits) -> Self {
        // A semaphore counts only to an eighth of the range.
        limits.streams = limits.streams.min(Semaphore::MAX_PERMITS);
        Self {
            events,
            limits,
            room: Arc::new(Semaphore::new(limits.streams)),
            next: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Returns the number of streams that were refused because there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn streams(&self) -> usize {
        let most = self.limits.streams;
        most - self.room.available_permits().min(most)
    }

    /// Serves a stream of a client's messages. If a message is not allowed, the stream ends with a
    /// status that names the field and its value.
    ///
    /// # Errors
    ///
    /// [`StreamEnd::Full`] if there are too many streams. Nothing was started then.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime.
    pub fn serve<S>(&self, messages: S, remote: Remote) -> Result<Outgoing, StreamEnd>
    where
        S: Stream<Item = Result<pb::ClientMessage, Status>> + Send + Unpin + 'static,
    {
        let permit = Arc::clone(&self.room).try_acquire_owned();
        let most = self.limits.streams;
        let permit = permit.map_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            StreamEnd::Full { most }
        })?;
        let (outbox, outgoing) = Outbox::new();
        let task = Task {
            stream: StreamId::new(self.next.fetch_add(1, Ordering::Relaxed)),
            messages,
            events: self.events.clone(),
            outbox,
            open_within: self.limits.open_within,
            _permit: permit,
        };
        tokio::spawn(task.run(remote));
        Ok(outgoing)
    }
}

struct Task<S> {
    stream: StreamId,
    messages: S,
    events: mpsc::Sender<Event>,
    outbox: Outbox,
    open_within: Duration,
    _permit: OwnedSemaphorePermit,
}

impl<S> Task<S>
where
    S: Stream<Item = Result<pb::ClientMessage, Status>> + Send + Unpin,
{
    async fn run(mut self, remote: Remote) {
        let end = match self.open(remote).await {
            Ok(Some(edge)) => {
                let caller = Caller {
                    edge,
                    stream: self.stream,
                };
                let end = self.listen(caller).await.err();
                // If the actor has ended, nothing must be sent to it.
                let _ = self.events.send(Event::Gone { caller }).await;
                end
            }
            Ok(None) => None,
            Err(end) => Some(end),
        };
        if let Some(end) = &end {
            tracing::debug!(stream = self.stream.0, %end, "a session's stream is cut");
        }
        self.outbox.close(end);
    }

    /// Waits for the first message and the actor's reply to it. Returns `None` if the client left
    /// before.
    async fn open(&mut self, remote: Remote) -> Result<Option<Edge>, StreamEnd> {
        let within = self.open_within;
        let first = timer::timeout(within, self.next()).await;
        let Some(first) = first.map_err(|_| StreamEnd::Late { within })?? else {
            return Ok(None);
        };
        let ClientMessage::Open(open) = first else {
            let kind = kind(&first);
            let text = StreamEnd::field("kind", kind, "open in the first message of a stream");
            return Err(StreamEnd::OutOfOrder(text));
        };
        let opened = self.ask(open, remote).await?;
        let edge = opened.edge;
        self.outbox.send(NodeMessage::Opened(opened));
        Ok(Some(edge))
    }

    async fn ask(&mut self, open: SessionOpen, remote: Remote) -> Result<SessionOpened, StreamEnd> {
        let (reply, replied) = oneshot::channel();
        let opening = Opening {
            stream: self.stream,
            open,
            remote,
            outbox: self.outbox.clone(),
            reply,
        };
        let event = Event::Opening(Box::new(opening));
        let sent = self.events.send(event).await;
        sent.map_err(|_| StreamEnd::Stopping)?;
        // Waits even if the client leaves, because an opened session must be ended.
        replied.await.map_err(|_| StreamEnd::Stopping)?
    }

    /// Passes on the client's messages until it leaves.
    async fn listen(&mut self, caller: Caller) -> Result<(), StreamEnd> {
        while let Some(message) = self.next().await? {
            let event = match message {
                ClientMessage::Intern(keys) => Event::Intern { caller, keys },
                ClientMessage::Report(report) => {
                    own("report.edge", report.edge, caller)?;
                    of_one_client(&report.lines)?;
                    Event::Report { caller, report }
                }
                ClientMessage::DecisionRequest(ask) => {
                    own("ask.edge", ask.edge, caller)?;
                    Event::DecisionRequest { caller, ask }
                }
                // A permit may outlive the session in which it was acquired.
                ClientMessage::Release(release) => Event::Release { release },
                ClientMessage::Open(_) => {
                    let allowed =
                        "intern, report, ask or release after the first message of a stream";
                    let text = StreamEnd::field("kind", "open", allowed);
                    return Err(StreamEnd::OutOfOrder(text));
                }
            };
            let sent = self.events.send(event).await;
            sent.map_err(|_| StreamEnd::Stopping)?;
        }
        Ok(())
    }

    /// Returns the client's next message, or `None` once either end is closed.
    async fn next(&mut self) -> Result<Option<ClientMessage>, StreamEnd> {
        let message = tokio::select! {
            biased;
            () = self.outbox.closed() => return Ok(None),
            () = self.events.closed() => return Err(StreamEnd::Stopping),
            message = self.messages.next() => message,
        };
        match message {
            Some(Ok(message)) => {
                let message = ClientMessage::from_message(message);
                let message = message.map_err(|error| StreamEnd::Malformed(error.to_string()))?;
                Ok(Some(message))
            }
            // The transport could not read the message: it is too large, or not valid protobuf.
            Some(Err(status)) if is_ours(&status) => {
                Err(StreamEnd::Malformed(status.message().to_owned()))
            }
            Some(Err(_)) | None => Ok(None),
        }
    }
}

/// Checks that a message is about its own session.
fn own(field: &str, edge: Edge, caller: Caller) -> Result<(), StreamEnd> {
    if edge == caller.edge {
        return Ok(());
    }
    let ours = format!("{:?}, the edge of this session", caller.edge);
    Err(StreamEnd::OutOfOrder(StreamEnd::field(field, edge, ours)))
}

/// Checks that the demand in a client's report is that of no more callers than one client may count for.
fn of_one_client(lines: &[ReportLine]) -> Result<(), StreamEnd> {
    for (index, line) in lines.iter().enumerate() {
        let sum = |part: fn(&DemandCurve) -> u64| {
            let curves = line.demand.iter().map(|band| part(&band.curve));
            curves.fold(0, u64::saturating_add)
        };
        let segments = sum(|curve| curve.segments().len() as u64);
        let callers = sum(DemandCurve::weight).div_ceil(WEIGHT_ONE);
        for (what, value, most) in [
            ("segments", segments, CALLER_SEGMENTS_MAX),
            ("weight", callers, CALLERS_MAX),
        ] {
            if value > most as u64 {
                let field = format!("report.lines[{index}].demand.{what}");
                let allowed = format!("at most {most} in all bands of a client");
                return Err(StreamEnd::Malformed(StreamEnd::field(
                    &field, value, allowed,
                )));
            }
        }
    }
    Ok(())
}

/// Returns true if the transport refused a message, and false if it lost the client.
fn is_ours(status: &Status) -> bool {
    use tonic::Code;
    matches!(
        status.code(),
        Code::OutOfRange | Code::InvalidArgument | Code::Internal | Code::ResourceExhausted
    )
}

const fn kind(message: &ClientMessage) -> &'static str {
    match message {
        ClientMessage::Open(_) => "open",
        ClientMessage::Intern(_) => "intern",
        ClientMessage::Report(_) => "report",
        ClientMessage::DecisionRequest(_) => "ask",
        ClientMessage::Release(_) => "release",
    }
}

/// The limit on lines in a message also bounds the keys.
const _: () = assert!(super::KEYS_MAX <= LINES_MAX);

#[cfg(test)]
#[path = "../../tests/unit/session/stream.rs"]
mod tests;
