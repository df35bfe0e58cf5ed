//! The body of a response that holds permits.

use crate::limiter::permit::Permit;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// The body of a response, with the permits of its request, if it took any. They are released after the last frame
    /// or a failed one, or when the body is dropped, as it is when the caller hangs up, or the connection is upgraded.
    #[derive(Debug, Default)]
    pub struct PermitBody<R> {
        #[pin]
        body: R,
        permits: Vec<Permit>,
    }
}

impl<R> PermitBody<R> {
    pub(super) const fn new(body: R, permits: Vec<Permit>) -> Self {
        Self { body, permits }
    }

    /// Returns the body as the service made it, and releases the permits.
    #[must_use]
    pub fn into_inner(self) -> R {
        self.body
    }
}

/// Makes a body without permits, so that a layer around this one can answer by itself.
impl<R: From<String>> From<String> for PermitBody<R> {
    fn from(text: String) -> Self {
        Self::new(R::from(text), Vec::new())
    }
}

impl<R: Body> Body for PermitBody<R> {
    type Data = R::Data;
    type Error = R::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        let this = self.project();
        let mut body = this.body;
        let frame = body.as_mut().poll_frame(cx);
        let is_last = frame.is_ready() && body.is_end_stream();
        if is_last || matches!(frame, Poll::Ready(None | Some(Err(_)))) {
            this.permits.clear();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
