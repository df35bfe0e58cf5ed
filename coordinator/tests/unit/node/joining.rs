use super::super::context::tests::{context, pass};
use super::*;
use aliquot_core::state::State;
use aliquot_core::unit::NodeId;
use rand::SeedableRng;

#[test]
fn a_node_that_missed_its_own_join_in_a_snapshot_joins_with_another_request() {
    let mut rng = StdRng::seed_from_u64(1);
    let mut joining = Joining::new(&mut rng);
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
    assert!(!joining.wanted && joined > Incarnation::new(1));
}

#[test]
fn a_node_asks_to_join_only_when_it_has_applied_what_was_committed_as_it_came() {
    let mut context = context();
    let mut joining = Joining::new(&mut context.rng);
    assert_eq!(joining.next(9, 9, &context), None, "no cluster is formed");
    context.status.formed = true;
    assert_eq!(joining.next(9, 0, &context), None, "no leader was heard");
    assert_eq!(joining.next(9, 10, &context), None, "an entry is left");
    let join = joining.next(10, 500, &context);
    assert!(
        matches!(join, Some(Command::Join { .. })),
        "what was committed later does not hold it up: {join:?}"
    );
    assert_eq!(joining.next(10, 500, &context), None, "it waits");
    pass(&mut context, Joining::AGAIN);
    assert_eq!(joining.next(10, 500, &context), join, "it repeats");
}
