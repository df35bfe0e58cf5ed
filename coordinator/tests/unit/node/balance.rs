use super::super::context::tests::{context, pass};
use super::super::presence::tests::{announce, join};
use super::*;
use crate::session::{Caller, Outbox, Remote, StreamId};
use aliquot_core::budget::Labels;
use aliquot_core::unit::Edge;

#[test]
fn clients_are_sent_only_to_other_nodes_that_serve_and_were_heard_lately() {
    let (mut context, mut state) = (context(), State::new());
    let mut balance = Balance::new();
    let mut book = Book::new(Incarnation::default());
    let nodes = [
        (1, "own"),
        (2, "former"),
        (2, "b"),
        (3, "c"),
        (4, ""),
        (5, "late"),
    ];
    let incarnations = nodes.map(|(node, address)| {
        let incarnation = join(&mut state, node);
        announce(&mut book, incarnation, 1, address);
        incarnation
    });
    announce(&mut book, Incarnation::new(99), 1, "no member");
    balance.hear(incarnations[5], context.now);
    pass(&mut context, Rebalancer::SILENCE);
    for incarnation in &incarnations[..5] {
        balance.hear(*incarnation, context.now);
    }
    let serving = balance.serving_nodes(&book, &state, &context);
    let serving = serving
        .iter()
        .map(|node| (node.address.as_str(), node.sessions));
    assert_eq!(serving.collect::<Vec<_>>(), [("b", 7), ("c", 7)]);
}

#[test]
fn each_client_that_is_asked_to_move_is_counted_once() {
    let (mut context, mut balance) = (context(), Balance::new());
    balance.begin_incarnation(Incarnation::new(1));
    let mut registry = Registry::new(1);
    let mut outgoing = Vec::new();
    for client in 1..=20 {
        let edge = Edge {
            parent: Incarnation::new(1),
            child: Incarnation::new(client),
        };
        let caller = Caller {
            edge,
            stream: StreamId::new(client),
        };
        let (outbox, taken) = Outbox::new();
        outgoing.push(taken);
        let remote = Remote::default();
        registry.open(caller, outbox, remote, Labels::new(), context.now);
    }
    let other = ServingNode {
        incarnation: Incarnation::new(2),
        address: "b".to_owned(),
        sessions: 0,
    };
    balance.rebalance(&[other], &mut registry, &mut context, |_| false);
    let asked = 20 - registry.staying(context.now);
    assert!(asked > 0);
    assert_eq!(context.counts.moved, asked as u64);
}
