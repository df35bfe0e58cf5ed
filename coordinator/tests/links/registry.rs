//! The actor's table of sessions: names of keys, and the sessions to tell of changes.

use crate::server::keys;
use aliquot_coordinator::session::{
    Caller, Name, Outbox, Outgoing, Registry, Remote, StreamEnd, StreamId,
};
use aliquot_core::budget::{Key, Labels};
use aliquot_core::unit::{BudgetId, Drift, Edge, Incarnation, Span, Tick};
use aliquot_wire::Wire;
use aliquot_wire::session::{Interned, KeyRefusal, NodeMessage, SessionOpened};
use std::task::{Context, Poll, Waker};
use tokio_stream::Stream;

fn caller(client: u64, stream: u64) -> Caller {
    Caller {
        edge: Edge {
            parent: Incarnation::new(1),
            child: Incarnation::new(client),
        },
        stream: StreamId::new(stream),
    }
}

/// Opens a session, and discards the reply to the open.
fn open(registry: &mut Registry, client: u64) -> Outgoing {
    let (outbox, mut outgoing) = Outbox::new();
    let caller = caller(client, client);
    outbox.send(NodeMessage::Opened(SessionOpened {
        edge: caller.edge,
        drift: Drift::from_ppm(0).unwrap(),
        report_every: Span::from_secs(1),
        keys: Vec::new(),
    }));
    read(&mut outgoing).unwrap();
    registry.open(
        caller,
        outbox,
        Remote::default(),
        Labels::new(),
        Tick::from_nanos(client),
    );
    outgoing
}

fn read(outgoing: &mut Outgoing) -> Option<NodeMessage> {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::Pin::new(outgoing).poll_next(&mut context) {
        Poll::Ready(Some(Ok(message))) => Some(NodeMessage::from_message(message).unwrap()),
        _ => None,
    }
}

fn named(key: &str, name: Name) -> NodeMessage {
    let key = Key::try_from(key).unwrap();
    NodeMessage::Interned(vec![Interned { key, budget: name }])
}

fn intern(registry: &mut Registry, client: u64, key: &str, name: Name) -> Result<Name, StreamEnd> {
    let key = keys(&[key]).remove(0);
    let interned = registry.intern(Incarnation::new(client), key, |_| name);
    interned.map(|interned| interned.budget)
}

const NOT_YET: Name = Err(KeyRefusal::NotYet);

#[test]
fn a_budget_that_comes_ends_or_begins_anew_is_reported_to_all_who_use_its_key() {
    let mut registry = Registry::new(10);
    let (mut one, mut two) = (open(&mut registry, 1), open(&mut registry, 2));
    assert_eq!(intern(&mut registry, 1, "a", NOT_YET), Ok(NOT_YET));
    assert_eq!(registry.waiting().count(), 1);
    // The second session asks when the budget exists, and the first one is told of it.
    let there = Ok(BudgetId::new(5));
    assert_eq!(intern(&mut registry, 2, "a", there), Ok(there));
    assert_eq!(read(&mut one), Some(named("a", there)));
    assert_eq!(read(&mut two), None);
    assert_eq!(registry.waiting().count(), 0);
    assert_eq!(registry.refresh_after(None, 9, |_| there), (0, None));
    let key = Key::try_from("a").unwrap();
    assert_eq!(registry.key_of(BudgetId::new(5)), Some(&key));
    for name in [Err(KeyRefusal::NoRule), Ok(BudgetId::new(6))] {
        let notified = registry.refresh_after(None, 9, |_| name);
        assert_eq!(notified, (2, None), "two sessions use it");
        assert_eq!(read(&mut one), Some(named("a", name)));
        assert_eq!(read(&mut two), Some(named("a", name)));
    }
    assert_eq!(registry.key_of(BudgetId::new(5)), None);
    assert_eq!(registry.key_of(BudgetId::new(6)), Some(&key));
}

#[test]
fn many_names_are_looked_at_some_at_a_time_and_none_is_left_out() {
    let mut registry = Registry::new(10);
    let mut stream = open(&mut registry, 1);
    for key in ["a", "b", "c", "d"] {
        assert_eq!(intern(&mut registry, 1, key, NOT_YET), Ok(NOT_YET));
    }
    let there: Name = Ok(BudgetId::new(5));
    let (mut after, mut looks) = (None, 0);
    loop {
        let (_, last) = registry.refresh_after(after.as_ref(), 2, |_| there);
        looks += 1;
        after = last;
        if after.is_none() {
            break;
        }
    }
    // The last refresh finds no further keys.
    assert_eq!(looks, 3);
    match read(&mut stream) {
        Some(NodeMessage::Interned(names)) => assert_eq!(names.len(), 4),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_last_as_long_as_a_session_uses_them() {
    let mut registry = Registry::new(10);
    let _streams = (open(&mut registry, 1), open(&mut registry, 2));
    for client in 1..=2 {
        assert_eq!(intern(&mut registry, client, "a", NOT_YET), Ok(NOT_YET));
    }
    registry.remove(Incarnation::new(1), None);
    registry.forget_keys(9);
    assert_eq!(registry.waiting().count(), 1);
    // Sessions are swept in turn, connected or not.
    registry.sweep(1, |_| true);
    assert_eq!(registry.len(), 1);
    registry.sweep(1, |_| false);
    registry.sweep(1, |_| false);
    registry.forget_keys(1);
    assert_eq!(registry.waiting().count(), 0);
    assert_eq!(registry.sessions().count(), 0);
    assert_eq!(
        intern(&mut registry, 1, "a", NOT_YET),
        Err(StreamEnd::Lapsed)
    );
}

#[test]
fn the_keys_of_a_removed_session_are_forgotten_some_at_a_time() {
    let mut registry = Registry::new(10);
    let _streams = (open(&mut registry, 1), open(&mut registry, 2));
    for key in ["a", "b", "c", "d", "e"] {
        assert_eq!(intern(&mut registry, 1, key, NOT_YET), Ok(NOT_YET));
    }
    assert_eq!(intern(&mut registry, 2, "c", NOT_YET), Ok(NOT_YET));
    registry.remove(Incarnation::new(1), None);
    for left in [3, 2] {
        assert!(registry.has_keys_to_forget());
        registry.forget_keys(2);
        assert_eq!(registry.waiting().count(), left);
    }
    // A change meanwhile is sent to no session that is gone.
    let id = |key: &str| BudgetId::new(u64::from(key.as_bytes()[0]));
    let notified = registry.refresh_after(None, 9, |key| Ok(id(&key.to_string())));
    assert_eq!(notified, (1, None));
    registry.forget_keys(2);
    assert!(!registry.has_keys_to_forget());
    let known = |registry: &Registry| ["a", "c"].map(|key| registry.key_of(id(key)).is_some());
    assert_eq!(known(&registry), [false, true], "one is used");
    registry.remove(Incarnation::new(2), None);
    registry.forget_keys(0);
    assert!(registry.has_keys_to_forget());
    registry.forget_keys(9);
    assert_eq!(known(&registry), [false, false]);
}

#[test]
fn a_session_with_all_the_keys_it_may_have_is_reported_so_and_goes_on() {
    let mut registry = Registry::new(2);
    let (one, two) = (open(&mut registry, 1), open(&mut registry, 2));
    for key in ["a", "b", "a"] {
        assert_eq!(intern(&mut registry, 1, key, NOT_YET), Ok(NOT_YET));
    }
    let full = Err(KeyRefusal::SessionFull);
    assert_eq!(intern(&mut registry, 1, "c", NOT_YET), Ok(full));
    assert_eq!(intern(&mut registry, 1, "b", NOT_YET), Ok(NOT_YET));
    assert_eq!(registry.connected(), 2);
    assert_eq!(intern(&mut registry, 2, "c", NOT_YET), Ok(NOT_YET));
    assert_eq!(registry.get(Incarnation::new(1)).unwrap().key_count(), 2);
    drop((one, two));
}

#[test]
fn only_the_stream_that_carries_a_session_speaks_for_it() {
    let mut registry = Registry::new(2);
    let _old = open(&mut registry, 1);
    let (outbox, _new) = Outbox::new();
    assert!(registry.resume(caller(1, 9), outbox.clone(), Remote::default()));
    assert!(!registry.resume(caller(2, 9), outbox, Remote::default()));
    assert!(registry.is_current(&caller(1, 9)));
    assert!(!registry.is_current(&caller(1, 1)));
    registry.gone(&caller(1, 1));
    assert_eq!(registry.connected(), 1);
    registry.gone(&caller(1, 9));
    assert_eq!((registry.connected(), registry.sessions().count()), (0, 1));
}

#[test]
fn a_redirected_session_is_not_asked_again_for_a_while() {
    let mut registry = Registry::new(2);
    let mut streams: Vec<Outgoing> = (1..=3).map(|client| open(&mut registry, client)).collect();
    let now = Tick::from_nanos(1_000);
    let to = NodeMessage::Move("b:7001".into());
    assert_eq!(registry.ask_to_move(2, "b:7001", now, |_| false), 2);
    assert_eq!(registry.staying(now), 1);
    let notified: Vec<bool> = streams
        .iter_mut()
        .map(|stream| read(stream).as_ref() == Some(&to))
        .collect();
    assert_eq!(notified, [true, true, false]);
    assert_eq!(registry.ask_to_move(3, "b:7001", now, |_| false), 1);
    assert_eq!(registry.staying(now), 0);
    let later = now.after(Registry::GOES_WITHIN);
    assert_eq!(registry.staying(later), 3, "none of them went");
    assert_eq!(registry.ask_to_move(9, "b:7001", later, |_| false), 0);
    let later = now.after(Registry::ASK_AGAIN);
    assert_eq!(registry.ask_to_move(9, "b:7001", later, |_| false), 3);
}

#[test]
fn sessions_that_hold_permits_are_asked_to_move_last() {
    let mut registry = Registry::new(2);
    let mut streams: Vec<Outgoing> = (1..=3).map(|client| open(&mut registry, client)).collect();
    let now = Tick::from_nanos(1_000);
    let holds_permits = |client: Incarnation| client.get() < 3;
    let own = registry.own_sessions(now, holds_permits);
    assert_eq!((own.staying, own.without_permits), (3, 1));
    assert_eq!(registry.ask_to_move(2, "b:7001", now, holds_permits), 2);
    let to = NodeMessage::Move("b:7001".into());
    let notified: Vec<bool> = streams
        .iter_mut()
        .map(|stream| read(stream).as_ref() == Some(&to))
        .collect();
    assert_eq!(notified, [true, false, true]);
    let own = registry.own_sessions(now, holds_permits);
    assert_eq!((own.staying, own.without_permits), (1, 0));
}
