use super::*;
use aliquot_client::{KeyRefused, Limit, Limiter};
use aliquot_faces::decider::{Limiters, Options};
use aliquot_faces::{Decider, grpc};
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use std::convert::Infallible;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::service::Routes;
use tower::ServiceExt;

struct Local;

impl Limiters for Local {
    fn limiter(&self, _: &str) -> Result<Limiter, KeyRefused> {
        Ok(Limiter::local(Limit::per_sec(10), 10).unwrap())
    }
}

type Frames = mpsc::Sender<Result<Frame<Bytes>, Infallible>>;

/// Sends a request whose body stays open.
async fn send(method: &str) -> (Frames, http::Response<Body>) {
    let (frames, receiver) = mpsc::channel(4);
    let body = Body::new(StreamBody::new(ReceiverStream::new(receiver)));
    let request = Request::post(format!("/aliquot.v1.Limits/{method}"))
        .header("content-type", "application/grpc")
        .body(body)
        .unwrap();
    let decider = Decider::of(Local, Options::default());
    let routes = Routes::new(grpc::service(decider)).prepare();
    let response = routes.map_request(in_time).oneshot(request).await.unwrap();
    (frames, response)
}

/// Returns the status in the header or the trailer.
async fn status(response: http::Response<Body>) -> Option<i32> {
    let (parts, body) = response.into_parts();
    let of = |headers: &http::HeaderMap| headers.get("grpc-status")?.to_str().ok()?.parse().ok();
    match of(&parts.headers) {
        Some(status) => Some(status),
        None => body.collect().await.ok()?.trailers().and_then(of),
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_must_arrive_within_five_seconds() {
    let begun = Instant::now();
    let (_frames, response) = send("Check").await;
    assert_eq!(
        status(response).await,
        Some(tonic::Code::DeadlineExceeded as i32)
    );
    assert_eq!(begun.elapsed(), MESSAGE_WITHIN);
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_be_idle_for_a_while_and_no_longer() {
    let begun = Instant::now();
    let (frames, response) = send("CheckStream").await;
    let feeder = tokio::spawn(async move {
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(140)).await;
            // The key "a", uncompressed.
            let message = Bytes::from_static(&[0, 0, 0, 0, 3, 0x0a, 1, b'a']);
            frames.send(Ok(Frame::data(message))).await.unwrap();
        }
        frames
    });
    assert_eq!(
        status(response).await,
        Some(tonic::Code::DeadlineExceeded as i32)
    );
    assert_eq!(
        begun.elapsed(),
        Duration::from_secs(2 * 140) + STREAM_IDLE_MAX
    );
    drop(feeder.await);
}
