use super::*;
use aliquot_core::unit::{Number, Term};

fn record(number: u64, bytes: usize) -> Sealed<Record> {
    let head = Head {
        topic: Topic::Report,
        incarnation: Incarnation::new(9),
        version: Heard {
            term: Term::new(0),
            number: Number::new(number),
        },
    };
    let payload = vec![7; bytes].into();
    Sealed::seal(&Record { head, payload }).unwrap()
}

/// The book of the first of three nodes, whose peers have told their incarnations: 5 and 6.
fn book() -> Book {
    let mut book = Book::new(Incarnation::new(1));
    for (peer, incarnation) in [(2, 5), (3, 6)] {
        book.join(NodeId::new(peer));
        book.handle(NodeId::new(peer), message(incarnation, Vec::new()));
    }
    book
}

fn message(sender: u64, records: Vec<Sealed<Record>>) -> GossipMessage {
    GossipMessage {
        sender: Incarnation::new(sender),
        digest: Vec::new(),
        records,
    }
}

/// Tells if a record is listed to node 2 in the next two rounds.
fn is_listed(book: &mut Book) -> bool {
    let peer = NodeId::new(2);
    (0..2).any(|_| {
        book.tick(peer);
        let message = book.poll(peer);
        message.is_some_and(|message| !message.digest.is_empty())
    })
}

#[test]
fn a_record_is_not_listed_to_a_peer_that_has_sent_it() {
    for sends in [false, true] {
        let mut book = book();
        assert_eq!(
            book.handle(NodeId::new(3), message(6, vec![record(1, 10)]))
                .len(),
            1
        );
        if sends {
            book.handle(NodeId::new(2), message(5, vec![record(1, 10)]));
        }
        assert_eq!(is_listed(&mut book), !sends);
    }
}

#[test]
fn what_a_former_incarnation_sent_is_listed_to_the_present_one() {
    let mut book = book();
    book.handle(NodeId::new(3), message(6, vec![record(1, 10)]));
    book.handle(NodeId::new(2), message(4, vec![record(1, 10)]));
    assert!(is_listed(&mut book));
}

#[test]
fn a_later_version_takes_the_room_of_the_earlier_one() {
    let mut book = book();
    for (number, bytes) in [(1, 100), (2, 10), (3, 1_000)] {
        let record = record(number, bytes);
        let size = record.bytes().len();
        book.publish(record).unwrap();
        assert_eq!(book.bytes, size);
    }
    book.forget(Incarnation::new(9));
    assert_eq!(book.bytes, 0);
}
