use super::*;
use crate::decider::testing::{decider, flood, remaining};

fn check(key: &str, cost: u64) -> pb::CheckRequest {
    pb::CheckRequest {
        key: key.into(),
        cost: Some(cost),
        within_ms: None,
    }
}

#[tokio::test]
async fn a_refusal_is_a_reply() {
    let (decider, _) = decider(64);
    let service = Service(decider);
    let reply = service
        .check(Request::new(check("a", 4)))
        .await
        .expect("a reply")
        .into_inner();
    assert!(reply.allowed);
    assert_eq!(
        (reply.limit, reply.window_s, reply.remaining),
        (Some(10), Some(1), Some(6))
    );
    assert_eq!(reply.reset_after_ms, 400);
    let reply = service
        .check(Request::new(check("a", 7)))
        .await
        .expect("a reply")
        .into_inner();
    assert_eq!(reply.outcome(), pb::LimitOutcome::OverLimit);
    assert_eq!(
        (reply.reason.as_str(), reply.retry_after_ms),
        ("throttled", Some(100))
    );
    assert_eq!(reply.excess, None);
    let reply = service
        .check(Request::new(check("a", 11)))
        .await
        .expect("a reply")
        .into_inner();
    assert_eq!(reply.outcome(), pb::LimitOutcome::Never);
    let excess = pb::Excess {
        cost: 11,
        burst: 10,
    };
    assert_eq!(reply.excess, Some(excess));
    let peek = pb::PeekRequest {
        key: "a".into(),
        within_ms: Some(5),
    };
    let reply = service
        .peek(Request::new(peek))
        .await
        .expect("a reply")
        .into_inner();
    assert_eq!((reply.allowed, reply.remaining), (true, Some(6)));
}

#[tokio::test]
async fn a_wrong_field_is_named() {
    let (decider, _) = decider(64);
    let service = Service(decider);
    let status = service
        .check(Request::new(check("a//b", 1)))
        .await
        .expect_err("a status");
    assert!(
        status
            .message()
            .starts_with("key = \"a//b\": must be mapped"),
        "{status}"
    );
    let batch = pb::CheckBatchRequest::default();
    let status = service
        .check_batch(Request::new(batch))
        .await
        .expect_err("a status");
    assert_eq!(
        status.message(),
        "checks = a list of 0: must be a list of 1 to 1000"
    );
    let late = pb::CheckRequest {
        within_ms: Some(0),
        ..check("a", 1)
    };
    let status = service
        .check(Request::new(late))
        .await
        .expect_err("a status");
    assert_eq!(status.message(), "within_ms = 0: must be from 1 to 10000");
}

#[tokio::test]
async fn a_batch_and_a_reservation_are_all_or_none() {
    let (decider, _) = decider(64);
    let service = Service(decider.clone());
    let batch = pb::CheckBatchRequest {
        checks: vec![check("a", 3), check("b", 11)],
        all: true,
        within_ms: None,
    };
    let reply = service
        .check_batch(Request::new(batch))
        .await
        .expect("a reply")
        .into_inner();
    assert_eq!((reply.allowed, reply.answers.len()), (false, 2));
    let part = |key: &str, cost| pb::ReservePart {
        key: key.into(),
        cost: Some(cost),
    };
    let reserve = pb::ReserveRequest {
        parts: vec![part("a", 3), part("b", 4)],
        ..Default::default()
    };
    let reply = service
        .reserve(Request::new(reserve))
        .await
        .expect("a reply")
        .into_inner();
    assert!(reply.allowed);
    let settle = pb::SettleRequest {
        id: reply.id.clone(),
        costs: vec![3, 1],
    };
    let settled = service
        .settle(Request::new(settle))
        .await
        .expect("a reply")
        .into_inner();
    assert_eq!(settled.parts[1].restored, 3);
    assert_eq!(
        (
            remaining(&decider, "a").await,
            remaining(&decider, "b").await
        ),
        (7, 9)
    );
    let release = pb::ReleaseRequest { id: "x".into() };
    let status = service
        .release(Request::new(release))
        .await
        .expect_err("a status");
    assert_eq!(status.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn a_key_outside_of_what_a_caller_may_ask_for_is_denied() {
    let (decider, _) = decider(64);
    let service = Service(decider);
    let mut request = Request::new(check("b", 1));
    let scope = Scope::under(["a".to_owned()]);
    request.extensions_mut().insert(scope);
    let status = service.check(request).await.expect_err("a status");
    assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
    assert!(status.message().contains("keys under a"), "{status}");
}

#[tokio::test]
async fn a_flood_of_made_up_keys_replaces_no_key_in_use() {
    let (decider, _) = decider(64);
    let service = Service(decider.clone());
    let ask = async |key: String| {
        let reply = service.check(Request::new(check(&key, 1))).await;
        assert!(reply.is_ok(), "{key}: {reply:?}");
    };
    flood(&decider, "real", ask).await;
}
