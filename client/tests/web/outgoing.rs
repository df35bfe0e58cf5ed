//! Outgoing calls that wait when a server asks for it.

use super::one;
use aliquot_client::http::{OutgoingError, RetryAfterLayer, RetryAfterService};
use aliquot_client::{Clock, Limiter, ManualClock, Reason};
use http::{HeaderValue, Request, Response, StatusCode};
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;
use tower::{Layer, Service, ServiceExt, service_fn};

/// Answers the first call with 503 and this wait, then serves; counts its calls.
fn moody(
    wait: &'static str,
) -> impl Service<Request<()>, Response = Response<u32>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ 'static {
    let calls = Arc::new(AtomicU32::new(0));
    service_fn(move |_: Request<()>| {
        let call = calls.fetch_add(1, Ordering::AcqRel);
        async move {
            let mut answer = Response::new(call);
            if call == 0 {
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                answer
                    .headers_mut()
                    .insert("retry-after", HeaderValue::from_static(wait));
            }
            Ok(answer)
        }
    })
}

fn to(host: &str) -> Request<()> {
    Request::builder()
        .uri(format!("http://{host}/"))
        .body(())
        .expect("a request")
}

/// Returns the body of a call that succeeded.
async fn answered<E: Debug>(call: JoinHandle<Result<Response<u32>, E>>) -> u32 {
    let answer = call.await.expect("no panic");
    answer.expect("an answer").into_body()
}

/// Polls a call. Returns true if it is not complete.
async fn waits(call: &mut Pin<&mut impl Future>) -> bool {
    poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn no_call_is_made_before_a_host_allows_it() {
    let clock = ManualClock::new();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock.clone()))
        .wait(Duration::from_secs(10));
    let service = layer.layer(moody("5"));
    let call = |host: &str| tokio::spawn(service.clone().oneshot(to(host)));
    let first = call("a").await.expect("no panic").expect("an answer");
    assert_eq!(first.status(), StatusCode::SERVICE_UNAVAILABLE);
    let waits = call("a");
    // Calls to others go through meanwhile: this one is the second.
    assert_eq!(answered(call("b")).await, 1);
    clock.advance(Duration::from_millis(4_999));
    assert_eq!(answered(call("b")).await, 2);
    assert!(!waits.is_finished());
    clock.advance(Duration::from_millis(1));
    assert_eq!(answered(waits).await, 3);
}

#[tokio::test]
async fn a_wait_that_is_too_long_fails_at_once_and_no_server_is_believed_forever() {
    let clock = ManualClock::new();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock.clone()))
        .wait(Duration::from_secs(10))
        .max_retry_after(Duration::from_secs(60));
    let mut service = layer.layer(moody("86400"));
    let call = async |service: &mut RetryAfterService<_>| {
        service.ready().await.expect("ready").call(to("a")).await
    };
    assert!(call(&mut service).await.is_ok());
    let held = call(&mut service)
        .await
        .expect_err("it was told to wait for a day");
    assert_eq!(held, OutgoingError::Held(Duration::from_secs(60)));
    clock.advance(Duration::from_secs(60));
    assert_eq!(
        call(&mut service)
            .await
            .expect("a minute is over")
            .into_body(),
        1
    );
}

#[tokio::test]
async fn a_limiter_paces_calls_without_retry_after() {
    let (clock, limiter) = one();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock))
        .wait(Duration::from_secs(1))
        .limiter(limiter);
    let service = layer.layer(moody("0"));
    assert!(service.clone().oneshot(to("a")).await.is_ok());
    let refused = service
        .oneshot(to("b"))
        .await
        .expect_err("there is no token");
    let OutgoingError::Refused(refused) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(refused.reason, Reason::Throttled);
}

#[tokio::test]
async fn the_wait_for_a_token_is_none_for_the_server() {
    let (clock, limiter) = one();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock.clone()))
        .wait(Duration::from_secs(100))
        .limiter(limiter);
    let slow = moody("60");
    let timer = clock.clone();
    let service = layer.layer(service_fn(move |request| {
        let (slow, wait) = (slow.clone(), timer.sleep(Duration::from_secs(50)));
        async move {
            let answer = slow.oneshot(request).await;
            wait.await;
            answer
        }
    }));
    let mut first = pin!(service.clone().oneshot(to("a")));
    assert!(waits(&mut first).await);
    // It waits 90 seconds for a token, and then 20 more, since the server has asked for a wait meanwhile.
    let mut second = pin!(service.oneshot(to("a")));
    assert!(waits(&mut second).await);
    clock.advance(Duration::from_secs(50));
    let response = first.await.expect("an answer");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    clock.advance(Duration::from_secs(40));
    assert!(waits(&mut second).await);
    clock.advance(Duration::from_secs(20));
    assert!(waits(&mut second).await);
    clock.advance(Duration::from_secs(50));
    assert_eq!(second.await.expect("an answer").into_body(), 1);
}

#[tokio::test]
async fn a_host_is_the_same_however_it_is_written() {
    let clock = ManualClock::new();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock))
        .wait(Duration::ZERO);
    let service = layer.layer(moody("5"));
    let first = service
        .clone()
        .oneshot(to("me:secret@example.org:80"))
        .await;
    let first = first.expect("an answer");
    assert_eq!(first.status(), StatusCode::SERVICE_UNAVAILABLE);
    for host in ["example.org:80", "you@Example.ORG:80"] {
        let held = service.clone().oneshot(to(host)).await;
        let held = held.expect_err("it was told to wait");
        assert_eq!(held, OutgoingError::Held(Duration::from_secs(5)), "{host}");
    }
}

/// Two calls are answered one after the other, the later one with a shorter wait.
#[tokio::test]
async fn a_later_shorter_wait_does_not_replace_a_longer_one() {
    let clock = ManualClock::new();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock.clone()))
        .wait(Duration::from_secs(100));
    let (calls, answers) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(tokio::sync::Semaphore::new(0)),
    );
    let held = Arc::clone(&answers);
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let call = calls.fetch_add(1, Ordering::AcqRel);
        let held = Arc::clone(&held);
        async move {
            held.acquire().await.expect("it stays open").forget();
            let mut answer = Response::new(call);
            if let Some(wait) = ["60", "10"].get(call as usize) {
                *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                let wait = HeaderValue::from_static(wait);
                answer.headers_mut().insert("retry-after", wait);
            }
            Ok::<_, Infallible>(answer)
        }
    }));
    let call = || service.clone().oneshot(to("a"));
    let (mut first, mut second) = (pin!(call()), pin!(call()));
    assert!(waits(&mut first).await && waits(&mut second).await);
    answers.add_permits(1);
    let first = first.await.expect("an answer");
    assert_eq!(first.into_body(), 0);
    answers.add_permits(2);
    assert_eq!(second.await.expect("an answer").into_body(), 1);
    let mut third = pin!(call());
    for secs in [11, 48] {
        clock.advance(Duration::from_secs(secs));
        assert!(waits(&mut third).await, "it was asked to wait for a minute");
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(third.await.expect("an answer").into_body(), 2);
}

/// The second call gets the permit of the first, whose answer says that the host takes no calls for a minute.
#[tokio::test]
async fn a_call_that_waits_for_its_host_leaves_the_permit_to_others() {
    let clock = ManualClock::new();
    let layer = RetryAfterLayer::new()
        .clock(Arc::new(clock.clone()))
        .wait(Duration::from_secs(120))
        .limiter(Limiter::local_permits(1).expect("permits"));
    let answers = Arc::new(tokio::sync::Semaphore::new(0));
    let (server, moods) = (Arc::clone(&answers), moody("60"));
    let service = layer.layer(service_fn(move |request: Request<()>| {
        let (server, moods) = (Arc::clone(&server), moods.clone());
        async move {
            server.acquire().await.expect("it is open").forget();
            moods.oneshot(request).await
        }
    }));
    let (mut first, mut second) = (
        pin!(service.clone().oneshot(to("a"))),
        pin!(service.clone().oneshot(to("a"))),
    );
    assert!(waits(&mut first).await && waits(&mut second).await);
    answers.add_permits(1);
    assert_eq!(first.await.expect("an answer").into_body(), 0);
    assert!(waits(&mut second).await);
    answers.add_permits(2);
    let other = service.clone().oneshot(to("b"));
    let other = tokio::time::timeout(Duration::from_secs(10), other).await;
    let other = other.expect("the permit is free");
    assert_eq!(other.expect("an answer").into_body(), 1);
    clock.advance(Duration::from_secs(60));
    assert_eq!(second.await.expect("an answer").into_body(), 2);
}

#[tokio::test]
async fn a_call_holds_a_permit_until_its_answer_is_there() {
    let permits = Limiter::local_permits(1).expect("permits");
    let layer = RetryAfterLayer::new()
        .wait(Duration::from_millis(1))
        .limiter(permits.clone());
    let answers = Arc::new(tokio::sync::Semaphore::new(0));
    let server = Arc::clone(&answers);
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let server = Arc::clone(&server);
        async move {
            server.acquire().await.expect("it is open").forget();
            Ok::<_, Infallible>(Response::new(1))
        }
    }));
    let mut first = pin!(service.clone().oneshot(to("a")));
    assert!(waits(&mut first).await);
    let second = service.clone().oneshot(to("b")).await;
    let Err(OutgoingError::Refused(refused)) = second else {
        panic!("the only permit is held: {second:?}");
    };
    assert_eq!(refused.reason, Reason::Permits);
    answers.add_permits(1);
    assert_eq!(first.await.expect("an answer").into_body(), 1);
    assert_eq!(permits.peek().level, 1);
    // A caller that hangs up.
    assert!(waits(&mut pin!(service.clone().oneshot(to("a")))).await);
    assert_eq!(permits.peek().level, 1);
}
