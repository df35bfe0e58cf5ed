use super::super::context::tests::joined;
use super::*;
use aliquot_core::unit::Tick;

#[test]
fn a_caller_waits_until_a_node_that_has_joined_has_left() {
    let (state, incarnation) = joined();
    let mut node = Node::new(incarnation, state.drift());
    let mut leaving = Leaving::default();
    leaving.begin();
    node.leave(Tick::ZERO);
    let (reply, mut left) = oneshot::channel();
    leaving.wait(reply);
    leaving.resolve(Some(&node));
    assert!(leaving.is_awaited() && left.try_recv().is_err());
    leaving.resolve(None);
    assert!(!leaving.is_awaited() && left.try_recv().is_ok());
}
