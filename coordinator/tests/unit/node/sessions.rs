use super::super::context::tests::context;
use super::*;
use crate::session::{Outbox, Remote, StreamId};
use aliquot_core::unit::Drift;
use aliquot_wire::Wire;
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio_stream::StreamExt;

/// Opens a session, and returns the reply and the number of clients refused.
fn open(
    sessions: &mut Sessions,
    node: Option<&mut Node>,
    leaving: bool,
    resume: Option<Edge>,
) -> (Result<SessionOpened, StreamEnd>, u64) {
    let (reply, mut opened) = oneshot::channel();
    let opening = Opening {
        stream: StreamId::new(1),
        open: SessionOpen {
            resume,
            ..SessionOpen::default()
        },
        remote: Remote::default(),
        outbox: Outbox::new().0,
        reply,
    };
    let mut context = context();
    sessions.open(opening, node, leaving, &State::new(), &mut context);
    (opened.try_recv().unwrap(), context.counts.refused)
}

#[test]
fn a_node_that_has_not_joined_or_leaves_opens_no_session() {
    let mut sessions = Sessions::new(10, Tick::ZERO);
    let (reply, refused) = open(&mut sessions, None, false, None);
    assert!(matches!(reply, Err(StreamEnd::NotServing { .. })) && refused == 1);
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let (reply, refused) = open(&mut sessions, Some(&mut node), true, None);
    assert!(reply == Err(StreamEnd::Stopping) && refused == 1);
    assert!(sessions.registry().is_empty());
}

#[test]
fn a_session_that_wants_the_members_is_reported_them_now_and_when_they_change() {
    let mut sessions = Sessions::new(10, Tick::ZERO);
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let (state, mut context) = (State::new(), context());
    let own = context.options.node.get();
    context.status.voters.insert(own, "peer".to_owned());
    let book = Book::new(Incarnation::default());
    let mut outgoing = [false, true].map(|wants_members| {
        let ((outbox, outgoing), (reply, mut opened)) = (Outbox::new(), oneshot::channel());
        let open = SessionOpen {
            wants_members,
            ..SessionOpen::default()
        };
        let opening = Opening {
            stream: StreamId::new(1),
            open,
            remote: Remote::default(),
            outbox: outbox.clone(),
            reply,
        };
        sessions.open(opening, Some(&mut node), false, &state, &mut context);
        outbox.send(NodeMessage::Opened(opened.try_recv().unwrap().unwrap()));
        outgoing
    });
    sessions.keep(Some(&node), false, &book, &state, &mut context);
    let own = NodeMessage::Members(vec![context.options.address.clone()]);
    let sent = outgoing.each_mut().map(|outgoing| {
        let sent = std::iter::from_fn(|| outgoing.next().now_or_never()?);
        sent.map(|message| NodeMessage::from_message(message.unwrap()).unwrap())
            .filter(|message| !matches!(message, NodeMessage::Opened(_)))
            .collect::<Vec<_>>()
    });
    assert_eq!(sent, [vec![], vec![own]]);
}

#[test]
fn a_leaving_node_still_resumes_the_sessions_that_it_has() {
    let mut sessions = Sessions::new(10, Tick::ZERO);
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let (opened, _) = open(&mut sessions, Some(&mut node), false, None);
    let edge = opened.unwrap().edge;
    let (resumed, _) = open(&mut sessions, Some(&mut node), true, Some(edge));
    assert_eq!(resumed.unwrap().edge, edge);
    assert_eq!(sessions.registry().len(), 1);
}

#[test]
fn a_session_is_not_connected_once_its_stream_has_ended() {
    let mut sessions = Sessions::new(10, Tick::ZERO);
    let mut node = Node::new(Incarnation::new(1), Drift::default());
    let (reply, _) = open(&mut sessions, Some(&mut node), false, None);
    let caller = Caller {
        edge: reply.expect("it is opened").edge,
        stream: StreamId::new(1),
    };
    assert!(sessions.is_current(&caller));
    assert_eq!(sessions.registry().connected(), 1);
    let other = Caller {
        stream: StreamId::new(2),
        ..caller
    };
    sessions.gone(&other);
    assert_eq!(sessions.registry().connected(), 1);
    sessions.gone(&caller);
    assert_eq!(
        (sessions.registry().connected(), sessions.registry().len()),
        (0, 1)
    );
}

#[test]
fn sessions_are_due_when_the_pause_of_many_short_reports_ends() {
    let mut sessions = Sessions::new(10, Tick::ZERO);
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    assert_eq!(sessions.due(at(20)), None);
    // A hundred reports within 20 ms are more than one in each millisecond.
    sessions.note_reports(100, 100, at(20));
    assert_eq!(sessions.due(at(20)), Some(at(21)));
    assert!(!sessions.listens(at(20)) && sessions.listens(at(21)));
    assert_eq!(sessions.due(at(21)), None);
}
