use super::super::context::tests::context;
use super::*;
use crate::session::{Outbox, Remote, StreamId};
use aliquot_core::budget::{BudgetDraft, Labels};
use aliquot_core::unit::{Edge, RequestId};

fn key(number: usize) -> Key {
    Key::try_from(format!("k/{number:05}").as_str()).unwrap()
}

#[test]
fn keys_beyond_a_turn_are_looked_up_in_later_turns() {
    let (mut names, mut counts) = (KeyNames::default(), context().counts);
    let mut registry = Registry::new(usize::MAX);
    let edge = Edge {
        parent: Incarnation::new(1),
        child: Incarnation::new(2),
    };
    let caller = Caller {
        edge,
        stream: StreamId::new(1),
    };
    let (outbox, _outgoing) = Outbox::new();
    let remote = Remote::default();
    registry.open(caller, outbox, remote, Labels::new(), Tick::ZERO);
    let state = State::new();
    let keys = (0..2 * KEYS_A_TURN + 1).map(key).collect();
    let sent = names.names(caller, keys, &mut registry, &state, &mut counts);
    assert_eq!(sent.len(), KEYS_A_TURN);
    assert_eq!(sent[0].budget, Err(KeyRefusal::NoRule));
    for left in [KEYS_A_TURN + 1, 1, 0] {
        assert_eq!((names.unresolved_keys, names.is_behind()), (left, left > 0));
        names.tell_more(&mut registry, &state, &mut counts);
    }
    assert!(names.is_empty());
}

#[test]
fn a_new_key_beyond_those_that_wait_is_counted_once() {
    let (mut names, mut counts) = (KeyNames::default(), context().counts);
    let mut registry = Registry::new(usize::MAX);
    let caller = Caller {
        edge: Edge::default(),
        stream: StreamId::new(1),
    };
    let (outbox, _outgoing) = Outbox::new();
    let remote = Remote::default();
    registry.open(caller, outbox, remote, Labels::new(), Tick::ZERO);
    let draft = BudgetDraft {
        key: "k/*".to_owned(),
        rate: Some("1/s".into()),
        burst: Some("1".into()),
        ..BudgetDraft::default()
    };
    let mut state = State::new();
    let put = Command::PutRule {
        request: RequestId::new(1),
        budget: draft.validate().unwrap(),
        creator: None,
    };
    state.apply(1, Some(&put));
    for number in 0..Wanted::KEYS_MAX {
        assert!(names.wanted.want(&key(number)));
    }
    for (number, shed) in [(0, 0), (99_999, 1)] {
        let keys = vec![key(number)];
        let sent = names.names(caller, keys, &mut registry, &state, &mut counts);
        assert_eq!(sent[0].budget, Err(KeyRefusal::NotYet));
        assert_eq!(counts.keys_shed, shed);
    }
}

#[test]
fn sessions_are_read_while_fewer_keys_than_the_maximum_wait() {
    let has_room = |unresolved_keys| {
        let names = KeyNames {
            unresolved_keys,
            ..KeyNames::default()
        };
        names.has_room()
    };
    assert!(has_room(KeyNames::UNRESOLVED_MAX - 1));
    assert!(!has_room(KeyNames::UNRESOLVED_MAX));
}

#[test]
fn a_change_during_a_sweep_leads_to_another_sweep() {
    let mut stale = StaleKeys::default();
    stale.all();
    stale.all();
    assert_eq!(stale.sweep.take(), Some(None), "one sweep has not begun");
    stale.swept(Some(key(1)));
    stale.all();
    assert_eq!(stale.sweep.take(), Some(Some(key(1))), "it goes on");
    stale.swept(None);
    assert_eq!(stale.sweep.take(), Some(None), "another one follows");
    stale.swept(None);
    assert!(stale.is_empty());
}
