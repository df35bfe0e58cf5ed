use super::super::context::tests::{context, pass};
use super::*;
use aliquot_core::budget::{Budget, BudgetDraft};

fn budget() -> Budget {
    let draft = BudgetDraft {
        key: "k".into(),
        rate: Some("10/s".into()),
        ..BudgetDraft::default()
    };
    draft.validate().unwrap()
}

#[test]
fn the_settings_come_first_and_then_the_budgets_under_one_request() {
    let (mut progress, mut context) = (Progress::default(), context());
    context.options.initial_contents.budgets = vec![budget()];
    let creator = Some(Incarnation::new(4));
    let mut state = State::new();
    let settings = progress.next_command(creator, &state, &mut context);
    assert!(matches!(settings, Some(Command::Configure { .. })));
    state.apply(1, settings.as_ref());
    let first = progress.next_command(creator, &state, &mut context);
    let again = progress.next_command(creator, &state, &mut context);
    assert!(matches!(
        first,
        Some(Command::Apply {
            creator: Some(_),
            ..
        })
    ));
    assert_eq!(first, again);
    state.apply(2, first.as_ref());
    assert_eq!(progress.next_command(creator, &state, &mut context), None);
}

#[test]
fn nothing_is_proposed_again_within_half_a_second_or_once_all_is_applied() {
    let (mut progress, mut context) = (Progress::default(), context());
    let mut state = State::new();
    progress.propose(None, &state, &mut context);
    let asked = progress.asked;
    pass(&mut context, Span::from_millis(499));
    progress.propose(None, &state, &mut context);
    assert_eq!(progress.asked, asked);
    let settings = progress.next_command(None, &state, &mut context);
    state.apply(1, settings.as_ref());
    pass(&mut context, Span::from_millis(1));
    progress.propose(None, &state, &mut context);
    assert!(progress.asked > asked && progress.done);
}

#[test]
fn the_first_budgets_wait_for_a_node_that_holds_their_tokens() {
    let (mut progress, mut context) = (Progress::default(), context());
    context.options.initial_contents.budgets = vec![budget()];
    let mut state = State::new();
    let settings = progress.next_command(None, &state, &mut context);
    state.apply(1, settings.as_ref());
    progress.propose(None, &state, &mut context);
    assert!(progress.asked.is_none() && !progress.done);
    progress.propose(Some(Incarnation::new(4)), &state, &mut context);
    assert!(progress.asked.is_some() && !progress.done);
}
