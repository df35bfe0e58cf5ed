use super::super::context::tests::{context, joined, pass};
use super::*;
use aliquot_core::command::Command;
use aliquot_core::message::{Answer, Heard, Verdict};
use aliquot_core::state::Effect;
use aliquot_core::unit::{Incarnation, RequestId, Term};

/// Lets a node join, and returns its incarnation.
pub(in super::super) fn join(state: &mut State, node: u64) -> Incarnation {
    let index = state.applied() + 1;
    let join = Command::Join {
        node: NodeId::new(node),
        request: RequestId::new(index),
    };
    let effects = state.apply(index, Some(&join));
    let joined = effects.iter().find_map(|effect| match effect {
        Effect::Joined { incarnation, .. } => Some(*incarnation),
        _ => None,
    });
    joined.expect("it joins")
}

/// Publishes the presence of an incarnation with 7 sessions.
pub(in super::super) fn announce(
    book: &mut Book,
    incarnation: Incarnation,
    number: u64,
    address: &str,
) {
    let presence = Presence {
        incarnation,
        number: Number::new(number),
        address: address.to_owned(),
        sessions: 7,
    };
    let record = Record::of_presence(&Sealed::seal(&presence).unwrap());
    book.publish(Sealed::seal(&record).unwrap()).unwrap();
}

#[test]
fn a_node_that_leaves_tells_no_address_even_while_it_has_a_lease() {
    let context = context();
    let (state, incarnation) = joined();
    let mut node = Node::new(incarnation, state.drift());
    let report = node.report(context.now, 0).expect("a report");
    let answer = Answer {
        edge: report.edge,
        number: Heard {
            term: Term::new(1),
            number: Number::new(1),
        },
        answers: report.seq,
        taken: report.seq,
        lease: Span::from_secs(3),
        verdict: Verdict::Open,
        lines: Vec::new(),
    };
    node.handle_answer(&answer, context.now);
    let address = |takes_clients| {
        let mut own = OwnPresence::new(context.now);
        let record = own.next(&node, &state, 0, takes_clients, &context)?;
        Some(record.presence().unwrap().into_value().address)
    };
    assert_eq!(address(true), Some(context.options.address.clone()));
    assert_eq!(address(false), Some(String::new()));
}

#[test]
fn a_node_without_a_lease_tells_no_address_and_repeats_its_presence_each_second() {
    let mut context = context();
    let (state, incarnation) = joined();
    let node = Node::new(incarnation, state.drift());
    let mut own = OwnPresence::new(context.now);
    let mut next = |state: &State, sessions, context: &Context| {
        let record = own.next(&node, state, sessions, true, context)?;
        Some(record.presence().unwrap().into_value())
    };
    assert_eq!(next(&State::new(), 3, &context), None, "not a member");
    let first = next(&state, 3, &context).expect("the first");
    assert_eq!((first.address.as_str(), first.sessions), ("", 3));
    assert_eq!(next(&state, 3, &context), None, "nothing is new");
    let second = next(&state, 4, &context).expect("another count");
    assert!(second.number > first.number);
    pass(&mut context, PRESENCE);
    let third = next(&state, 4, &context).expect("a second later");
    assert!(third.number > second.number);
}
