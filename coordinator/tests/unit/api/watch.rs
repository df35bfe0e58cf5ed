use super::*;
use crate::gossip::Book;
use crate::node::TurnTime;
use crate::node::{Counts, RoundTrips, Traffic};
use crate::session::Registry;
use aliquot_core::leader::{Leader, Pace};
use aliquot_core::state::State;
use aliquot_core::unit::{Incarnation, Span, Tick};

#[test]
fn a_snapshot_has_each_count_once() {
    let counts = Counts {
        leader_changes: 1,
        applied: 2,
        rounds: 3,
        barriers: 4,
        refused: 5,
        moved: 6,
        reports: 7,
        answers: 8,
        keys_shed: 9,
        records: 10,
    };
    let status = Status {
        term: 11,
        ..Status::default()
    };
    let snapshot = look(&View {
        now: Tick::ZERO,
        state: &State::new(),
        leader: &Leader::new(Pace::default()),
        node: None,
        sessions: &Registry::new(1),
        book: &Book::new(Incarnation::default()),
        links_up: 12,
        round_trips: &RoundTrips::default(),
        counts: &counts,
        traffic: &Traffic::default(),
        status: &status,
        longest_turn: TurnTime {
            held: Span::from_millis(13_000),
            worked: Span::from_millis(12_000),
        },
        keys_waiting: 14,
        leaving: false,
    });
    let counted = [
        snapshot.leader_changes,
        snapshot.applied,
        snapshot.rounds,
        snapshot.refused,
        snapshot.moved,
        snapshot.reports,
        snapshot.answers,
        snapshot.keys_shed,
        snapshot.records,
        snapshot.term,
        snapshot.peers,
        snapshot.keys_waiting,
    ];
    assert_eq!(counted, [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 14]);
    assert_eq!((snapshot.sessions, snapshot.budgets), (0, 0));
    assert!((snapshot.loop_held_s - 13.0).abs() < f64::EPSILON);
    assert!((snapshot.loop_worked_s - 12.0).abs() < f64::EPSILON);
    assert!(!snapshot.is_leader && snapshot.lease_left_s == 0.0);
}
