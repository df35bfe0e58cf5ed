use super::*;

#[test]
fn new_budgets_are_full_as_soon_as_any_node_has_joined() {
    let mut state = State::new();
    let [first, second] = [1, 2].map(NodeId::new);
    assert_eq!(creator(&state, Some(first)), None);
    for (index, node) in [(1, first), (2, second), (3, first)] {
        let request = RequestId::new(index);
        state.apply(index, Some(&Command::Join { node, request }));
    }
    let rows = [(Some(first), 3), (Some(second), 2), (None, 3)];
    for (leader, expect) in rows {
        assert_eq!(creator(&state, leader), Some(Incarnation::new(expect)));
    }
    // The leader has not joined yet.
    let third = Some(NodeId::new(3));
    assert_eq!(creator(&state, third), Some(Incarnation::new(3)));
}
