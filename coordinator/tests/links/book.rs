//! The book: every node gets every record, at a low cost.

use crate::mesh::{Mesh, ROUND_STEPS, record};
use aliquot_coordinator::gossip::{Book, NotKept};
use aliquot_core::unit::{Incarnation, NodeId};
use aliquot_wire::Wire;
use aliquot_wire::gossip::{GossipMessage, Topic};
use aliquot_wire::limits::RECORD_BYTES_MAX;
use proptest::prelude::*;

/// Simulates the usual traffic: every node reports and is answered every 500 ms.
fn usual_talk(mesh: &mut Mesh, number: u64) {
    for node in 0..mesh.books.len() {
        let incarnation = node as u64 + 1;
        mesh.books[node]
            .publish(record(Topic::Report, incarnation, number, 160))
            .unwrap();
        mesh.books[0]
            .publish(record(Topic::Answer, incarnation, number, 60))
            .unwrap();
    }
}

#[test]
fn a_fully_connected_peer_is_relayed_nothing() {
    for nodes in [3, 7] {
        let mut mesh = Mesh::new(nodes, 1);
        mesh.delay = 3;
        mesh.steps(ROUND_STEPS * 3);
        let seconds = 60;
        mesh.cost = Default::default();
        for number in 1..=2 * seconds {
            usual_talk(&mut mesh, number);
            mesh.steps(50);
        }
        let cost = mesh.cost;
        let per_node = cost.bytes / seconds / nodes as u64;
        println!("{nodes} nodes, {seconds} s: {cost:?}, {per_node} B/s from each node");
        let records = 2 * seconds * 2 * nodes as u64 * (nodes as u64 - 1);
        assert!(cost.own >= records - 2 * seconds * 2, "{cost:?}");
        assert!(cost.relayed * 100 <= cost.own, "{cost:?}");
    }
}

#[test]
fn what_is_said_behind_a_cut_comes_through_a_third_within_two_rounds() {
    let mut mesh = Mesh::new(3, 2);
    mesh.cuts.insert((0, 2));
    mesh.steps(ROUND_STEPS * 3);
    let (mut first, mut worst) = (0, 0);
    for number in 1..=40 {
        usual_talk(&mut mesh, number);
        let asked = mesh.now;
        let arrived = |mesh: &Mesh| {
            mesh.number(2, Topic::Report, 1) == number
                && mesh.number(0, Topic::Report, 3) == number
                && mesh.number(2, Topic::Answer, 3) == number
        };
        while !arrived(&mesh) {
            mesh.step();
            assert!(mesh.now - asked <= 2 * ROUND_STEPS + 5, "{number} is late");
        }
        let took = mesh.now - asked;
        if number == 1 {
            first = took;
        } else {
            worst = worst.max(took);
        }
        mesh.steps(50 - took);
    }
    println!("the first took {first} steps of 10 ms, the slowest after it {worst}");
}

#[test]
fn a_relay_is_asked_once_and_then_sends_at_once() {
    let mut mesh = Mesh::new(3, 3);
    mesh.cuts.insert((0, 2));
    mesh.steps(ROUND_STEPS * 3);
    usual_talk(&mut mesh, 1);
    mesh.steps(50);
    usual_talk(&mut mesh, 2);
    mesh.steps(4);
    assert_eq!(mesh.number(2, Topic::Report, 1), 2);
    assert_eq!(mesh.number(0, Topic::Report, 3), 2);
}

#[test]
fn while_nothing_changes_a_message_in_25_rounds_is_all() {
    let mut mesh = Mesh::new(3, 4);
    usual_talk(&mut mesh, 1);
    mesh.steps(ROUND_STEPS * 60);
    mesh.cost = Default::default();
    mesh.steps(ROUND_STEPS * 100);
    println!("100 idle rounds of three nodes: {:?}", mesh.cost);
    assert_eq!(mesh.cost.messages, 6 * 4);
    assert_eq!((mesh.cost.own, mesh.cost.relayed), (0, 0));
}

#[test]
fn large_records_go_in_as_many_messages_as_they_need() {
    let mut mesh = Mesh::new(2, 5);
    let bytes = RECORD_BYTES_MAX - 64;
    for incarnation in 10..15 {
        mesh.books[0]
            .publish(record(Topic::Report, incarnation, 1, bytes))
            .unwrap();
    }
    mesh.books[0]
        .publish(record(Topic::Answer, 99, 1, bytes))
        .unwrap();
    let first = mesh.books[0].poll(NodeId::new(1)).unwrap();
    assert_eq!(first.records[0].value().head.topic, Topic::Answer);
    assert_eq!(first.records.len(), 2);
    mesh.steps(ROUND_STEPS * 4);
    for incarnation in 10..15 {
        assert_eq!(mesh.number(1, Topic::Report, incarnation), 1);
    }
}

#[test]
fn a_peer_that_lives_again_is_reported_everything_again() {
    let mut mesh = Mesh::new(2, 6);
    usual_talk(&mut mesh, 1);
    mesh.steps(ROUND_STEPS * 3);
    mesh.books[1] = Book::new(Incarnation::new(9));
    mesh.books[1].join(NodeId::new(0));
    mesh.books[1]
        .publish(record(Topic::Report, 9, 1, 10))
        .unwrap();
    let hello = mesh.books[1].poll(NodeId::new(0)).unwrap();
    mesh.books[0].handle(NodeId::new(1), hello);
    let all = mesh.books[0].poll(NodeId::new(1)).unwrap();
    assert_eq!(all.digest.len(), 4, "all but what it has just sent");
}

#[test]
fn a_peer_whose_link_was_up_first_is_asked_once_ours_is() {
    let mut book = Book::new(Incarnation::new(1));
    let peer = NodeId::new(2);
    let theirs = record(Topic::Report, 9, 4, 10).value().head;
    let hello = GossipMessage {
        sender: Incarnation::new(2),
        digest: vec![theirs],
        records: Vec::new(),
    };
    book.handle(peer, hello);
    book.join(peer);
    let asked = book.poll(peer).unwrap().digest;
    assert_eq!(asked.len(), 1);
    assert!(theirs.replaces(&asked[0]), "{asked:?}");
}

#[test]
fn a_link_that_begins_anew_says_everything_again() {
    let mut mesh = Mesh::new(2, 8);
    usual_talk(&mut mesh, 1);
    mesh.steps(ROUND_STEPS * 3);
    let peer = NodeId::new(1);
    assert_eq!(mesh.books[0].poll(peer), None);
    mesh.books[0].join(peer);
    assert_eq!(mesh.books[0].poll(peer).unwrap().digest.len(), 4);
}

#[test]
fn a_forgotten_incarnation_is_not_brought_back() {
    let mut mesh = Mesh::new(3, 7);
    usual_talk(&mut mesh, 5);
    mesh.steps(ROUND_STEPS * 3);
    let gone = Incarnation::new(3);
    mesh.books[0].forget(gone);
    mesh.books[1].forget(gone);
    let late = GossipMessage {
        sender: gone,
        digest: Vec::new(),
        records: vec![record(Topic::Report, 3, 9, 10)],
    };
    assert!(mesh.books[0].handle(NodeId::new(2), late).is_empty());
    let refused = mesh.books[0].publish(record(Topic::Answer, 3, 9, 10));
    assert_eq!(refused, Err(NotKept::Forgotten));
    // The third node has not forgotten the incarnation yet, and lists it.
    for _ in 0..60 * ROUND_STEPS {
        let peer = NodeId::new(0);
        while let Some(message) = mesh.books[2].poll(peer) {
            mesh.books[0].handle(NodeId::new(2), message);
        }
        mesh.books[2].tick(peer);
    }
    assert!(mesh.books[0].get(Topic::Report, gone).is_none());
    assert_eq!(mesh.books[0].records().count(), 4);
}

#[test]
fn a_full_book_takes_later_versions_and_no_other_names() {
    let mut book = Book::new(Incarnation::new(1));
    for incarnation in 1..=Book::NAMES_MAX as u64 {
        book.publish(record(Topic::Report, incarnation, 1, 0))
            .unwrap();
    }
    assert_eq!(book.publish(record(Topic::Report, 1, 2, 0)), Ok(()));
    assert_eq!(
        book.publish(record(Topic::Answer, 1, 1, 0)),
        Err(NotKept::Full)
    );
    book.join(NodeId::new(1));
    let stranger = GossipMessage {
        sender: Incarnation::new(2),
        digest: vec![record(Topic::Answer, 7, 7, 0).value().head],
        records: vec![record(Topic::Answer, 8, 1, 0)],
    };
    assert!(book.handle(NodeId::new(1), stranger).is_empty());
    let all = book.poll(NodeId::new(1)).unwrap();
    assert_eq!(all.digest.len(), Book::NAMES_MAX);
    assert!(all.to_bytes().len() < 1 << 20);
    book.forget(Incarnation::new(2));
    assert_eq!(book.publish(record(Topic::Answer, 1, 1, 0)), Ok(()));
}

#[test]
fn a_version_of_zero_is_no_version() {
    let mut book = Book::new(Incarnation::new(1));
    let refused = book.publish(record(Topic::Report, 1, 0, 0));
    assert!(
        matches!(refused, Err(NotKept::NotLater { .. })),
        "{refused:?}"
    );
}

/// Parameters of a run.
#[derive(Clone, Debug)]
struct Weather {
    nodes: usize,
    seed: u64,
    lost: u32,
    doubled: u32,
    delay: u64,
    cuts: Vec<(usize, usize)>,
}

fn weather() -> impl Strategy<Value = Weather> {
    let cuts = proptest::collection::vec((0_usize..5, 0_usize..5), 0..6);
    (
        2_usize..=5,
        any::<u64>(),
        0_u32..60,
        0_u32..60,
        1_u64..40,
        cuts,
    )
        .prop_map(|(nodes, seed, lost, doubled, delay, cuts)| Weather {
            nodes,
            seed,
            lost,
            doubled,
            delay,
            cuts,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Invariants 6 and 8: versions never go back (the mesh checks this at each step). Once the network
    /// works, every node has the latest version of each record.
    #[test]
    fn once_the_net_is_well_everybody_knows_everything(weather in weather()) {
        let mut mesh = Mesh::new(weather.nodes, weather.seed);
        (mesh.lost, mesh.doubled, mesh.delay) = (weather.lost, weather.doubled, weather.delay);
        mesh.cuts = weather.cuts.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        let mut numbers = vec![0; weather.nodes];
        for _ in 0..400 {
            if mesh.chance(15) {
                let node = mesh.below(weather.nodes as u64) as usize;
                numbers[node] += 1;
                let bytes = mesh.below(64) as usize;
                let report = record(Topic::Report, node as u64 + 1, numbers[node], bytes);
                mesh.books[node].publish(report).unwrap();
            }
            if mesh.chance(2) {
                mesh.cuts.pop_first();
            }
            mesh.step();
        }
        mesh.cuts.clear();
        (mesh.lost, mesh.delay) = (0, 1);
        // Time for messages under way, a round with a full digest, and two answers.
        mesh.steps(40 + 27 * ROUND_STEPS + 4);
        let latest = mesh.known(0);
        for (node, number) in numbers.iter().enumerate() {
            prop_assert_eq!(mesh.number(0, Topic::Report, node as u64 + 1), *number);
            prop_assert_eq!(&mesh.known(node), &latest);
        }
    }
}
