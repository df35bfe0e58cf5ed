use super::super::context::tests::{context, pass};
use super::*;
use aliquot_core::state::State;
use aliquot_core::unit::NodeId;
use rand::SeedableRng;

#[test]
fn a_node_that_missed_its_own_join_in_a_snapshot_joins_with_another_request() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut joining = Joining::at(Step::Join, &mut rng);
    let mut state = State::new();
    let mut asks = |index, joining: &mut Joining, heard: bool| {
        let join = Command::Join {
            node: NodeId::new(7),
            request: joining.request,
        };
        let effects = state.apply(index, Some(&join));
        let effects = effects.iter().filter(|_| heard);
        effects
            .filter_map(|effect| joining.follow(effect, &mut rng))
            .last()
    };
    assert_eq!(
        asks(1, &mut joining, false),
        None,
        "the entry came in a snapshot"
    );
    assert_eq!(
        asks(2, &mut joining, true),
        None,
        "a repeated request adds no member"
    );
    let joined = asks(3, &mut joining, true).expect("another request");
    assert!(joining.step == Step::Joined && joined > Incarnation::new(1));
}

#[test]
fn a_node_asks_to_join_only_when_it_has_applied_what_was_committed_before_its_start() {
    let mut context = context();
    let mut joining = Joining::new(&mut context.rng);
    let mut state = State::new();
    assert_eq!(
        joining.next(&state, &mut context),
        None,
        "no cluster is formed"
    );
    context.status.formed = true;
    let fence = joining.next(&state, &mut context).expect("an empty entry");
    assert!(matches!(&fence, Command::Apply { puts, .. } if puts.is_empty()));
    assert_eq!(joining.next(&state, &mut context), None, "it waits");
    pass(&mut context, Joining::AGAIN);
    assert_eq!(
        joining.next(&state, &mut context).as_ref(),
        Some(&fence),
        "nothing was applied here: the same entry is proposed again"
    );
    state.apply(1, Some(&fence));
    let join = joining.next(&state, &mut context).expect("a request");
    assert!(matches!(join, Command::Join { .. }));
    let effects = state.apply(2, Some(&join));
    let joined = effects
        .iter()
        .find_map(|effect| joining.follow(effect, &mut context.rng));
    assert!(joined.is_some(), "{effects:?}");
    pass(&mut context, Joining::AGAIN);
    assert_eq!(joining.next(&state, &mut context), None, "it is in");
}

#[test]
fn an_empty_entry_that_came_in_a_snapshot_counts() {
    let mut context = context();
    context.status.formed = true;
    let mut joining = Joining::new(&mut context.rng);
    let fence = joining.next(&State::new(), &mut context);
    // The entry's effects are never seen here: only the state in which it was carried out.
    let mut restored = State::new();
    restored.apply(1, fence.as_ref());
    let next = joining.next(&restored, &mut context);
    assert!(matches!(next, Some(Command::Join { .. })), "{next:?}");
}
