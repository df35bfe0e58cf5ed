use super::super::options::tests::options;
use super::*;
use aliquot_core::state::{Effect, State};
use aliquot_core::unit::{Incarnation, NodeId, RequestId, Span};

/// Returns a context without a log, at time 0.
pub(in crate::node) fn context() -> Context {
    Context::new(options(), mpsc::unbounded_channel().0)
}

/// Moves the time on.
pub(in crate::node) fn pass(context: &mut Context, span: Span) {
    context.now = context.now.after(span);
}

/// Returns a state with one member, and its incarnation.
pub(in crate::node) fn joined() -> (State, Incarnation) {
    let mut state = State::new();
    let join = Command::Join {
        node: NodeId::new(1),
        request: RequestId::new(7),
    };
    let effects = state.apply(1, Some(&join));
    let incarnation = effects.iter().find_map(|effect| match effect {
        Effect::Joined { incarnation, .. } => Some(*incarnation),
        _ => None,
    });
    (state, incarnation.expect("it joins"))
}
