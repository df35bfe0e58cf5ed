use super::*;
use alloc::vec;

fn ids(ids: impl IntoIterator<Item = u64>) -> Vec<BudgetId> {
    ids.into_iter().map(BudgetId::new).collect()
}

/// Budgets 1 to 6 with three claimants each: 2, 4 and 6 are urgent.
fn queue() -> PlanningQueue {
    let mut queue = PlanningQueue::default();
    for budget in ids(1..=6) {
        (1..=3).for_each(|child| queue.claims(budget, Incarnation::new(child)));
        queue.touch(budget);
    }
    ids([2, 4, 6])
        .into_iter()
        .for_each(|id| queue.mark_urgent(id));
    queue
}

#[test]
fn urgent_budgets_are_taken_in_turn_and_none_is_skipped() {
    let mut queue = queue();
    let mut claimants_left = 4;
    assert_eq!(queue.take_some_urgent(&mut claimants_left), ids([2, 4]));
    assert_eq!(claimants_left, 0);
    assert_eq!(queue.take_some_urgent(&mut claimants_left), vec![]);
    queue.mark_urgent(BudgetId::new(2));
    claimants_left = 7;
    assert_eq!(queue.take_some_urgent(&mut claimants_left), ids([6, 2]));
    assert_eq!(claimants_left, 1);
    assert_eq!(queue.take(), ids([1, 3, 5]));
}

#[test]
fn a_part_of_the_budgets_is_summed_at_a_time_and_none_is_skipped() {
    let mut queue = queue();
    let first = queue.take_unsummed(SumScope::Urgent, usize::MAX);
    assert_eq!(
        first.into_iter().collect::<Vec<_>>(),
        ids(1..=6),
        "first claims"
    );
    queue.unsummed.extend(ids([1, 2, 3, 5]));
    queue.ask(BudgetId::new(5));
    let mut take = |which, claims| -> (Vec<BudgetId>, bool) {
        let taken = queue.take_unsummed(which, claims);
        (taken.into_iter().collect(), queue.has_unsummed(which))
    };
    assert_eq!(take(SumScope::All, 6), (ids([1, 5]), true));
    assert_eq!(take(SumScope::Urgent, 6), (vec![], false));
    assert_eq!(take(SumScope::All, 1), (ids([2]), true));
    assert_eq!(take(SumScope::All, 4), (ids([3]), false));
}

#[test]
fn of_those_that_can_wait_one_goes_on_whatever_is_urgent() {
    let mut queue = queue();
    assert_eq!(queue.take_some(9), ids([2, 4, 6, 1]));
    queue.mark_urgent(BudgetId::new(5));
    queue.mark_urgent(BudgetId::new(6));
    assert_eq!(queue.take_some(1), ids([5, 3]));
    assert_eq!(queue.take_some(0), ids([6]));
    assert!(queue.urgent.is_empty() && queue.dirty.is_empty());
}
