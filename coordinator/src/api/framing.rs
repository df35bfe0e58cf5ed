//! gRPC's framing of a stream that stays open.
//!
//! tonic keeps two buffers for each stream as long as it is open, each of the size of the largest message so far. A
//! session stays open for days, and its largest messages are the first ones, which name its keys: with 500 keys, the two
//! buffers took 54 kB of a node. Here a buffer exists only while a message is incomplete.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use prost::Message;
use std::error::Error;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio_stream::Stream;
use tonic::Status;

/// Number of bytes before each message: a flag that says if it is compressed, and its length in four bytes.
const HEAD_BYTES: usize = 5;

/// Messages that are read from the body of a request.
///
/// It ends with the body, and after the first error: `OutOfRange` for a message that is too long, `Internal` for one that
/// is compressed, cut off, or not valid protobuf, and any other code if the connection was lost.
#[derive(Debug)]
pub(super) struct Messages<B, M> {
    /// `None` after the end.
    body: Option<B>,
    /// Bytes of the next message that have arrived, and of those after it.
    arrived: BytesMut,
    /// Maximum number of bytes of a message.
    most: usize,
    kind: PhantomData<fn() -> M>,
}

impl<B, M: Message + Default> Messages<B, M> {
    /// Reads from a body messages of at most `most` bytes.
    pub(super) fn new(body: B, most: usize) -> Self {
        Self {
            body: Some(body),
            arrived: BytesMut::new(),
            most,
            kind: PhantomData,
        }
    }

    /// Takes the next message, or returns `None` if it has not arrived completely.
    fn take(&mut self) -> Result<Option<M>, Status> {
        let Some(mut head) = self.arrived.get(..HEAD_BYTES) else {
            return Ok(None);
        };
        let (flag, length) = (head.get_u8(), head.get_u32() as usize);
        if flag != 0 {
            return Err(Status::internal(format!(
                "compressed flag of a message = {flag}: must be 0, because this call has no grpc-encoding"
            )));
        }
        if length > self.most {
            return Err(Status::out_of_range(format!(
                "length of a message = {length} bytes: must be at most {}",
                self.most
            )));
        }
        let missing = (HEAD_BYTES + length).saturating_sub(self.arrived.len());
        if missing > 0 {
            self.arrived.reserve(missing);
            return Ok(None);
        }
        let mut message = self.arrived.split_to(HEAD_BYTES + length);
        if self.arrived.is_empty() {
            // Otherwise it would keep the memory of the message.
            self.arrived = BytesMut::new();
        }
        message.advance(HEAD_BYTES);
        let message = M::decode(message.freeze());
        message
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }
}

impl<B, M> Stream for Messages<B, M>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    M: Message + Default,
{
    type Item = Result<M, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let error = loop {
            match this.take() {
                Ok(Some(message)) => return Poll::Ready(Some(Ok(message))),
                Ok(None) => {}
                Err(status) => break Some(status),
            }
            let Some(body) = &mut this.body else {
                return Poll::Ready(None);
            };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    // A client has no trailers that mean anything.
                    if let Ok(data) = frame.into_data() {
                        this.arrived.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => break Some(Status::from_error(error.into())),
                None if this.arrived.is_empty() => break None,
                None => break Some(Status::internal("the stream ended within a message")),
            }
        };
        this.body = None;
        this.arrived = BytesMut::new();
        Poll::Ready(error.map(Err))
    }
}

/// Messages as the body of a response, with the status of the call after the last one.
#[derive(Debug)]
pub(super) struct MessageBody<S> {
    /// `None` once the status was written.
    messages: Option<S>,
}

impl<S> MessageBody<S> {
    /// Writes the messages of a stream. Its first error is the status of the call.
    pub(super) const fn new(messages: S) -> Self {
        Self {
            messages: Some(messages),
        }
    }
}

impl<S, M> Body for MessageBody<S>
where
    S: Stream<Item = Result<M, Status>> + Unpin,
    M: Message,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(messages) = &mut self.messages else {
            return Poll::Ready(None);
        };
        let status = match ready!(Pin::new(messages).poll_next(context)) {
            Some(Ok(message)) => return Poll::Ready(Some(framed(&message).map(Frame::data))),
            Some(Err(status)) => status,
            None => Status::ok(""),
        };
        self.messages = None;
        let mut trailers = HeaderMap::new();
        let written = status.add_header(&mut trailers);
        Poll::Ready(Some(written.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.messages.is_none()
    }
}

/// Returns the bytes of a message and those before it.
fn framed(message: &impl Message) -> Result<Bytes, Status> {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + length);
    bytes.put_u8(0);
    let length = u32::try_from(length);
    bytes.put_u32(length.map_err(|_| Status::internal("a message has 4 GiB or more"))?);
    let written = message.encode(&mut bytes);
    written.map_err(|error| Status::internal(error.to_string()))?;
    Ok(bytes.freeze())
}

#[cfg(test)]
#[path = "../../tests/unit/api/framing.rs"]
mod tests;
