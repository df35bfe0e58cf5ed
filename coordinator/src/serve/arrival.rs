//! Requests of gRPC that must arrive in time.

use crate::timer::{self, Sleep};
use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tonic::Status;

/// Maximum time for the message of a request to arrive.
const MESSAGE_WITHIN: Duration = Duration::from_secs(5);

/// Maximum time between two messages of a stream of questions.
const STREAM_IDLE_MAX: Duration = Duration::from_secs(150);

/// End of the paths of methods that take a stream.
const STREAM: &str = "/CheckStream";

/// Limits the time in which the messages of a request arrive: one that is late ends with `DEADLINE_EXCEEDED`.
pub(super) fn in_time<B>(request: Request<B>) -> Request<Arriving<B>> {
    let span = match request.uri().path().ends_with(STREAM) {
        true => Span::BetweenMessages,
        false => Span::Whole,
    };
    request.map(|body| Arriving {
        body,
        span,
        late: None,
    })
}

/// Meaning of the time limit of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// The whole body.
    Whole,
    /// Each part of it.
    BetweenMessages,
}

impl Span {
    const fn most(self) -> Duration {
        match self {
            Self::Whole => MESSAGE_WITHIN,
            Self::BetweenMessages => STREAM_IDLE_MAX,
        }
    }
}

/// A body that fails if it is late.
pub(super) struct Arriving<B> {
    body: B,
    span: Span,
    /// Runs while a part is awaited. Most bodies are there when they are read, and need no timer.
    late: Option<Pin<Box<Sleep>>>,
}

impl<B> HttpBody for Arriving<B>
where
    B: HttpBody + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = B::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Status>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            if self.span == Span::BetweenMessages {
                self.late = None;
            }
            let frame = frame.map(|frame| frame.map_err(|error| Status::from_error(error.into())));
            return Poll::Ready(frame);
        }
        let most = self.span.most();
        let late = self
            .late
            .get_or_insert_with(|| Box::pin(timer::sleep(most)));
        ready!(late.as_mut().poll(context));
        let what = format!("a message must arrive within {:?}", self.span.most());
        Poll::Ready(Some(Err(Status::deadline_exceeded(what))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/serve/arrival.rs"]
mod tests;
