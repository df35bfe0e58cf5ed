//! Sessions over real connections: accepted and rejected messages.

use crate::server::{Node, Peer, channel, keys, report, within};
use aliquot_coordinator::session::GateLimits;
use aliquot_core::central::{DecisionRequest, RetryPolicy, Route};
use aliquot_core::unit::{BudgetId, Edge, Incarnation, RequestId};
use aliquot_wire::Wire;
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb;
use aliquot_wire::pb::client_message::Kind;
use aliquot_wire::session::{ClientMessage, KeyRefusal, NodeMessage, SessionOpen};
use std::num::NonZeroU64;
use std::time::Duration;
use tonic::Code;

fn open_with(names: &[&str]) -> SessionOpen {
    SessionOpen {
        keys: keys(names),
        ..SessionOpen::default()
    }
}

#[tokio::test]
async fn a_session_is_opened_named_answered_and_left() {
    let mut node = Node::start(GateLimits::default()).await;
    let (mut peer, opened) = Peer::open(channel(node.address), open_with(&["t/1"])).await;
    assert_eq!(opened.keys[0].budget, Ok(BudgetId::new(1)));
    peer.say(&ClientMessage::Intern(keys(&["t/2", "none"])))
        .await;
    let NodeMessage::Interned(mut names) = peer.hear().await.unwrap() else {
        panic!("no names");
    };
    names.sort_by_key(|name| name.key.clone());
    assert_eq!(names[0].budget, Err(KeyRefusal::NoRule));
    assert_eq!(names[1].budget, Ok(BudgetId::new(2)));
    peer.say(&report(opened.edge, 1)).await;
    let NodeMessage::Answer(answer) = peer.hear().await.unwrap() else {
        panic!("no answer");
    };
    assert_eq!(answer.answers.get(), 1);
    drop(peer);
    for expect in ["open new", "intern", "report", "gone true"] {
        assert_eq!(node.heard().await, expect);
    }
    within(async {
        while node.gate.streams() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Sends messages after the open, and checks the status with which the stream ends.
async fn check(found: &[pb::ClientMessage], code: Code, words: &[&str]) {
    let mut node = Node::start(GateLimits::default()).await;
    let mut peer = Peer::call(channel(node.address)).await.unwrap();
    for message in found {
        peer.say.send(message.clone()).await.unwrap();
    }
    let (ended, text) = peer.end().await;
    assert_eq!(ended, code, "{text}");
    for word in words {
        assert!(text.contains(word), "{text:?} has no {word:?}");
    }
    // The node still works, and serves the next client.
    Peer::open(channel(node.address), SessionOpen::default()).await;
    while node.heard().await != "open new" {}
}

#[tokio::test]
async fn what_must_not_be_said_ends_the_stream_and_names_the_field() {
    let open = ClientMessage::Open(SessionOpen::default()).to_message();
    let intern = ClientMessage::Intern(keys(&["a"])).to_message();
    let elsewhere = Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(99),
    };
    let foreign = report(elsewhere, 1).to_message();
    let ask = ClientMessage::DecisionRequest(DecisionRequest {
        edge: elsewhere,
        request: RequestId::new(1),
        budget: BudgetId::new(1),
        kind: aliquot_core::share::Kind::Rate,
        cost: NonZeroU64::MIN,
        retry_policy: RetryPolicy::Once,
        route: Route::Direct,
    });
    let kind = |kind| pb::ClientMessage { kind: Some(kind) };
    let bad_key = kind(Kind::Intern(pb::InternKeys {
        keys: vec!["a b".into()],
    }));
    let bad_report = kind(Kind::Report(vec![0xff; 9].into()));
    let huge = kind(Kind::Report(vec![0; MESSAGE_BYTES_MAX].into()));
    let order = Code::FailedPrecondition;
    let wrong = Code::InvalidArgument;
    check(&[intern], order, &["kind = \"intern\"", "open"]).await;
    check(&[open.clone(), open.clone()], order, &["kind = \"open\""]).await;
    check(&[open.clone(), foreign], order, &["report.edge", "i99"]).await;
    let asked = [open.clone(), ask.to_message()];
    check(&asked, order, &["ask.edge", "i99"]).await;
    check(&[open.clone(), bad_key], wrong, &["intern.keys[0]", "a b"]).await;
    check(&[open.clone(), bad_report], wrong, &["no Report"]).await;
    check(
        &[open.clone(), pb::ClientMessage { kind: None }],
        wrong,
        &["kind"],
    )
    .await;
    check(&[open, huge], wrong, &["length of a message", "4194304"]).await;
}

#[tokio::test]
async fn a_session_that_is_full_of_keys_is_reported_so_and_goes_on() {
    let node = Node::start(GateLimits::default()).await;
    let three = open_with(&["a/1", "a/2", "a/3"]);
    let (mut peer, opened) = Peer::open(channel(node.address), three).await;
    assert!(opened.keys.iter().all(|name| name.budget.is_ok()));
    peer.say(&ClientMessage::Intern(keys(&["a/4", "a/1"])))
        .await;
    let NodeMessage::Interned(mut names) = peer.hear().await.unwrap() else {
        panic!("no names");
    };
    names.sort_by_key(|name| name.key.clone());
    assert_eq!(names[0].budget, Ok(BudgetId::new(1)));
    assert_eq!(names[1].budget, Err(KeyRefusal::SessionFull));
    peer.say(&report(opened.edge, 1)).await;
    assert!(matches!(peer.hear().await, Ok(NodeMessage::Answer(_))));
}

#[tokio::test]
async fn a_stream_without_an_open_in_time_is_cut() {
    let limits = GateLimits {
        open_within: Duration::from_millis(20),
        ..GateLimits::default()
    };
    let node = Node::start(limits).await;
    let mut peer = Peer::call(channel(node.address)).await.unwrap();
    let (code, text) = peer.end().await;
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(text.contains("open = nothing within 20ms"), "{text}");
}

#[tokio::test]
async fn a_full_node_says_so_and_takes_the_next_when_one_has_left() {
    let limits = GateLimits {
        streams: 1,
        ..GateLimits::default()
    };
    let node = Node::start(limits).await;
    let (first, _) = Peer::open(channel(node.address), SessionOpen::default()).await;
    let refused = Peer::call(channel(node.address)).await.err().unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("at most 1"), "{refused}");
    drop(first);
    within(async {
        while node.gate.streams() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    Peer::open(channel(node.address), SessionOpen::default()).await;
}

#[tokio::test]
async fn a_session_goes_on_over_another_stream_with_its_names() {
    let mut node = Node::start(GateLimits::default()).await;
    let (mut old, opened) = Peer::open(channel(node.address), open_with(&["t/1"])).await;
    let resume = SessionOpen {
        resume: Some(opened.edge),
        ..open_with(&["t/1"])
    };
    let (mut new, again) = Peer::open(channel(node.address), resume).await;
    assert_eq!(again, opened);
    let (code, text) = old.end().await;
    assert_eq!(code, Code::Aborted, "{text}");
    new.say(&report(opened.edge, 1)).await;
    assert!(matches!(new.hear().await, Ok(NodeMessage::Answer(_))));
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(node.heard().await);
    }
    heard.sort();
    // The end of the old stream does not affect the session.
    assert_eq!(heard, ["gone false", "open new", "open resumed", "report"]);
}

#[tokio::test]
async fn five_hundred_clients_on_a_hundred_connections_are_all_answered() {
    let node = Node::start(GateLimits::default()).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let channel = channel(node.address);
        for _ in 0..5 {
            let channel = channel.clone();
            clients.spawn(async move {
                let (mut peer, opened) = Peer::open(channel, SessionOpen::default()).await;
                for seq in 1..=3 {
                    peer.say(&report(opened.edge, seq)).await;
                    let NodeMessage::Answer(answer) = peer.hear().await.unwrap() else {
                        panic!("no answer");
                    };
                    assert_eq!(answer.answers.get(), seq);
                }
                opened.edge.child
            });
        }
    }
    let mut incarnations = clients.join_all().await;
    incarnations.sort_unstable();
    incarnations.dedup();
    assert_eq!(incarnations.len(), 500);
}
