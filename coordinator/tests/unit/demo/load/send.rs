use super::*;
use crate::clock::{Clock, HostClock};
use axum::Router;
use axum::extract::RawQuery;
use axum::routing::get;

/// Starts a service that answers 200 to cost 1, 429 to cost 2, and 500 to anything else.
async fn service() -> SocketAddr {
    let answer = |RawQuery(query): RawQuery| async move {
        match query.as_deref() {
            None => StatusCode::OK,
            Some("cost=2") => StatusCode::TOO_MANY_REQUESTS,
            Some(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    };
    let app = Router::new().route("/", get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn every_request_is_sent_and_every_answer_counted() {
    let closed = SocketAddr::from(([127, 0, 0, 1], 1));
    let services = vec![("a".into(), service().await), ("b".into(), closed)];
    let targets = ["demo", "other"].map(|key| Target {
        key: key.into(),
        path: "/".into(),
    });
    let generator = Generator::new(services, targets.to_vec(), Arc::new(HostClock));
    let shot = |n: u64, service, key, cost| Shot {
        at: Span::from_millis(n),
        service,
        key,
        cost,
    };
    let shots = (0..60).map(move |n| shot(n, 0, 0, 1 + n % 3));
    let rest = [shot(61, 1, 1, 1), shot(62, 9, 0, 1)];
    let start = HostClock.now();
    generator.send(Box::new(shots.chain(rest)), start).await;
    let answers = generator.answers();
    let expect = AnswerCounts {
        sent: 60,
        cost: 120,
        admitted: 20,
        limited: 20,
        other: 20,
    };
    assert_eq!(answers[&("a".into(), "demo".into())], expect);
    assert_eq!(answers[&("b".into(), "other".into())].other, 1);
    assert_eq!(answers.len(), 2);
    let totals = generator.tally().totals();
    assert_eq!((totals.all.sent, totals.first_key), (61, expect));
    assert!(generator.tally().latencies().max() > Span::ZERO);
    assert!(HostClock.now().since(start) >= Span::from_millis(61));
}
