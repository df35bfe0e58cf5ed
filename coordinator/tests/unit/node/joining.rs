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
