//! Messages that arrive in pieces, and what is wrong with some.

use super::*;
use aliquot_wire::pb;
use aliquot_wire::pb::client_message::Kind;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::task::Waker;
use tonic::Code;

const MOST: usize = 1_000;

/// A body whose frames have arrived. Before the first one, and after each, it waits once.
struct Arriving {
    frames: VecDeque<Result<Bytes, Status>>,
    waits: bool,
}

impl Arriving {
    fn new(frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self {
            frames: frames.into_iter().map(|frame| Ok(frame.into())).collect(),
            waits: true,
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.waits = !self.waits;
        if !self.waits {
            return Poll::Pending;
        }
        Poll::Ready(self.frames.pop_front().map(|data| data.map(Frame::data)))
    }
}

fn messages(body: Arriving) -> Messages<Arriving, pb::ClientMessage> {
    Messages::new(body, MOST)
}

fn message(report: Vec<u8>) -> pb::ClientMessage {
    pb::ClientMessage {
        kind: Some(Kind::Report(report.into())),
    }
}

/// Polls until something other than a wait comes.
fn next<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(ready) = poll(&mut context) {
            return ready;
        }
    }
}

/// Reads a stream to its end.
fn read(messages: &mut Messages<Arriving, pb::ClientMessage>) -> Vec<Result<Bytes, Code>> {
    let mut read = Vec::new();
    while let Some(message) = next(|context| Pin::new(&mut *messages).poll_next(context)) {
        read.push(match message {
            Ok(pb::ClientMessage {
                kind: Some(Kind::Report(report)),
            }) => Ok(report),
            Ok(other) => panic!("{other:?} was not sent"),
            Err(status) => Err(status.code()),
        });
    }
    assert!(next(|context| Pin::new(&mut *messages).poll_next(context)).is_none());
    read
}

/// Writes messages and then a status, as the response to a call.
fn written(messages: Vec<Result<pb::ClientMessage, Status>>) -> (Vec<Bytes>, HeaderMap) {
    let mut body = MessageBody::new(tokio_stream::iter(messages));
    let mut frames = Vec::new();
    loop {
        assert!(!body.is_end_stream());
        let frame = next(|context| Pin::new(&mut body).poll_frame(context)).unwrap();
        match frame.unwrap().into_data() {
            Ok(data) => frames.push(data),
            Err(trailers) => {
                assert!(body.is_end_stream());
                assert!(next(|context| Pin::new(&mut body).poll_frame(context)).is_none());
                return (frames, trailers.into_trailers().unwrap());
            }
        }
    }
}

fn bytes(reports: &[Vec<u8>]) -> Vec<u8> {
    let messages = reports.iter().cloned().map(|report| Ok(message(report)));
    written(messages.collect()).0.concat()
}

proptest! {
    #[test]
    fn messages_are_the_same_however_the_bytes_are_divided(
        reports in vec(vec(any::<u8>(), 0..200), 0..6),
        sizes in vec(1_usize..300, 1..20),
    ) {
        let (bytes, mut frames, mut from) = (bytes(&reports), Vec::new(), 0);
        for size in sizes.iter().cycle() {
            let to = bytes.len().min(from + size);
            frames.push(bytes[from..to].to_vec());
            if to == bytes.len() {
                break;
            }
            from = to;
        }
        let expected: Vec<_> = reports.into_iter().map(|it| Ok(Bytes::from(it))).collect();
        prop_assert_eq!(read(&mut messages(Arriving::new(frames))), expected);
    }
}

#[test]
fn no_memory_is_kept_between_messages() {
    let frame = bytes(&[vec![7; 900]]);
    let (first, rest) = frame.split_at(300);
    let mut messages = messages(Arriving::new([first.to_vec(), rest.to_vec()]));
    let mut poll = || {
        let mut context = Context::from_waker(Waker::noop());
        let polled = Pin::new(&mut messages).poll_next(&mut context);
        (polled.is_ready(), messages.arrived.capacity())
    };
    assert_eq!(poll(), (false, 0));
    let (ready, kept) = poll();
    assert!(!ready && kept >= 300, "{kept} bytes for the first part");
    assert_eq!(poll(), (true, 0), "the message is read");
    let kept = messages.arrived.try_reclaim(1);
    assert!(!kept, "the memory of the message is kept");
}

#[test]
fn what_is_wrong_ends_the_stream_with_its_code() {
    let good = bytes(&[b"good".to_vec()]);
    let with = |bad: &[u8]| {
        let body = Arriving::new([[&good[..], bad, &good[..]].concat()]);
        let mut read = read(&mut messages(body));
        assert_eq!(read.remove(0), Ok(Bytes::from_static(b"good")));
        read
    };
    assert_eq!(with(&bytes(&[vec![1; MOST - 3]])).len(), 2, "the maximum");
    assert_eq!(
        with(&bytes(&[vec![1; MOST - 2]])),
        [Err(Code::OutOfRange)],
        "one byte more"
    );
    assert_eq!(with(&[0, 255, 255, 255, 255]), [Err(Code::OutOfRange)]);
    assert_eq!(with(&[1, 0, 0, 0, 0]), [Err(Code::Internal)], "compressed");
    assert_eq!(
        with(&[0, 0, 0, 0, 1, 255]),
        [Err(Code::Internal)],
        "no protobuf"
    );
}

#[test]
fn a_body_that_ends_within_a_message_is_an_error() {
    let whole = bytes(&[b"good".to_vec()]);
    for cut in 1..whole.len() {
        let mut messages = messages(Arriving::new([whole[..cut].to_vec()]));
        assert_eq!(
            read(&mut messages),
            [Err(Code::Internal)],
            "after {cut} bytes"
        );
    }
    assert_eq!(read(&mut messages(Arriving::new([]))), []);
}

#[test]
fn a_lost_connection_ends_the_stream() {
    let mut body = Arriving::new([bytes(&[b"good".to_vec()])]);
    body.frames.push_back(Err(Status::cancelled("reset")));
    let expected = [Ok(Bytes::from_static(b"good")), Err(Code::Cancelled)];
    assert_eq!(read(&mut messages(body)), expected);
}

#[test]
fn the_status_of_a_call_follows_its_messages() {
    let (frames, trailers) = written(vec![Ok(message(b"one".to_vec())), Ok(message(Vec::new()))]);
    assert_eq!(frames.len(), 2, "each leaves by itself");
    assert_eq!(trailers["grpc-status"], "0");
    let refused = Status::aborted("another stream resumed this session");
    let (frames, trailers) = written(vec![Ok(message(Vec::new())), Err(refused)]);
    assert_eq!(frames.len(), 1);
    assert_eq!(trailers["grpc-status"], "10");
    assert_eq!(
        trailers["grpc-message"],
        "another%20stream%20resumed%20this%20session"
    );
}
