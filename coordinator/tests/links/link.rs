//! Links between nodes over real connections.

use crate::mesh::record;
use crate::server::{Serving, channel, within};
use aliquot_coordinator::api::gossip::GossipApi;
use aliquot_coordinator::gossip::{Book, Connector, Event, Link, LinkSettings};
use aliquot_core::unit::{Incarnation, NodeId};
use aliquot_wire::gossip::{GossipMessage, Topic};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::{Endpoint, Server};

async fn node(id: u64, at: Option<SocketAddr>) -> (Serving, mpsc::Receiver<Event>) {
    let (events, inbox) = mpsc::channel(16);
    let service = GossipApi::new("c1".into(), NodeId::new(id), events).into_service();
    (
        Serving::start(Server::builder().add_service(service), at).await,
        inbox,
    )
}

fn link(address: SocketAddr, cluster: &str, node: u64, peer: u64) -> (Link, mpsc::Receiver<Event>) {
    let connect: Connector = Arc::new(|address| channel(address.parse().unwrap()));
    link_by(connect, &address.to_string(), cluster, node, peer)
}

fn link_by(
    connect: Connector,
    address: &str,
    cluster: &str,
    node: u64,
    peer: u64,
) -> (Link, mpsc::Receiver<Event>) {
    let (events, inbox) = mpsc::channel(16);
    let settings = LinkSettings {
        cluster: cluster.into(),
        node: NodeId::new(node),
        peer: NodeId::new(peer),
        address: address.into(),
        seed: 7,
    };
    (Link::open(settings, connect, events), inbox)
}

fn news(number: u64) -> GossipMessage {
    GossipMessage {
        sender: Incarnation::new(11),
        digest: Vec::new(),
        records: vec![record(Topic::Report, 11, number, 32)],
    }
}

/// Returns the next message that a node receives.
async fn heard(inbox: &mut mpsc::Receiver<Event>) -> (NodeId, GossipMessage) {
    within(async {
        loop {
            match inbox.recv().await.unwrap() {
                Event::Message { peer, message } => return (peer, message),
                Event::Called { peer } => assert_eq!(peer, NodeId::new(1)),
                event => panic!("{event:?}"),
            }
        }
    })
    .await
}

async fn up(inbox: &mut mpsc::Receiver<Event>) {
    within(async { while !matches!(inbox.recv().await, Some(Event::Up { .. })) {} }).await;
}

#[tokio::test]
async fn what_a_node_says_arrives_and_a_lost_peer_is_found_again() {
    let (serving, mut events) = node(2, None).await;
    let address = serving.address;
    let (link, mut inbox) = link(address, "c1", 1, 2);
    up(&mut inbox).await;
    assert!(link.is_up() && link.has_room());
    assert!(link.send(news(1)));
    assert_eq!(heard(&mut events).await, (NodeId::new(1), news(1)));
    // The node stops: its events are not read any more.
    drop(events);
    serving.stop().await;
    let down = within(async {
        loop {
            if let Some(Event::Down { reason, .. }) = inbox.recv().await {
                break reason;
            }
        }
    })
    .await;
    assert!(!down.is_empty() && !link.is_up());
    let (_serving, mut events) = node(2, Some(address)).await;
    up(&mut inbox).await;
    assert!(link.is_up() && link.send(news(3)));
    assert_eq!(heard(&mut events).await, (NodeId::new(1), news(3)));
}

/// A peer that is away for a while is tried every two seconds, and at once when it connects itself.
#[tokio::test(start_paused = true)]
async fn a_peer_that_calls_is_tried_at_once() {
    let connect: Connector = Arc::new(|_| {
        let unreachable = tower::service_fn(|_| async {
            Err::<TokioIo<DuplexStream>, _>(std::io::Error::other("the host is unreachable"))
        });
        Endpoint::from_static("http://unreachable").connect_with_connector_lazy(unreachable)
    });
    let (link, mut events) = link_by(connect, "unreachable", "c1", 1, 2);
    for _ in 0..8 {
        assert!(matches!(events.recv().await, Some(Event::Down { .. })));
    }
    let mut down_within = async |millis| {
        let down = timeout(Duration::from_millis(millis), events.recv()).await;
        matches!(down, Ok(Some(Event::Down { .. })))
    };
    assert!(!down_within(900).await);
    link.retry();
    assert!(down_within(1).await);
    // Then the link pauses again, starting with the shortest pause.
    assert!(!down_within(40).await);
    assert!(down_within(70).await);
}

#[tokio::test]
async fn a_wrong_target_is_refused_with_the_right_value() {
    let (serving, _heard) = node(2, None).await;
    let rows = [
        ("c2", 1, 2, "aliquot-cluster = c2: must be \"c1\""),
        (
            "c1",
            2,
            2,
            "aliquot-node = 2: must be another node than this one",
        ),
        ("c1", 1, 3, "aliquot-target = 3: must be 2"),
    ];
    for (cluster, from, to, expect) in rows {
        let (_link, mut inbox) = link(serving.address, cluster, from, to);
        let Some(Event::Down { reason, .. }) = within(inbox.recv()).await else {
            panic!("it was let in: {expect}");
        };
        assert!(reason.contains("FailedPrecondition"), "{reason}");
        assert!(reason.contains(expect), "{reason}");
    }
}

#[tokio::test]
async fn two_books_come_to_know_each_other_over_links() {
    let (at_a, mut heard_a) = node(1, None).await;
    let (at_b, mut heard_b) = node(2, None).await;
    let (a, mut up_a) = link(at_b.address, "c1", 1, 2);
    let (b, mut up_b) = link(at_a.address, "c1", 2, 1);
    let (node_a, node_b) = (NodeId::new(1), NodeId::new(2));
    let (mut book_a, mut book_b) = (
        Book::new(Incarnation::new(11)),
        Book::new(Incarnation::new(12)),
    );
    book_a.publish(record(Topic::Report, 11, 5, 1_000)).unwrap();
    book_b.publish(record(Topic::Report, 12, 6, 1_000)).unwrap();
    within(async {
        while book_a.records().count() + book_b.records().count() < 4 {
            tokio::select! {
                Some(Event::Up { peer }) = up_a.recv() => book_a.join(peer),
                Some(Event::Up { peer }) = up_b.recv() => book_b.join(peer),
                Some(Event::Message { peer, message }) = heard_a.recv() => drop(book_a.handle(peer, message)),
                Some(Event::Message { peer, message }) = heard_b.recv() => drop(book_b.handle(peer, message)),
            }
            while a.has_room() && let Some(message) = book_a.poll(node_b) {
                assert!(a.send(message));
            }
            while b.has_room() && let Some(message) = book_b.poll(node_a) {
                assert!(b.send(message));
            }
        }
    })
    .await;
    assert!(book_a.get(Topic::Report, Incarnation::new(12)).is_some());
}
