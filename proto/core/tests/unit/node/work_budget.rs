use super::*;

#[test]
fn what_was_done_is_worked_off_by_time_alone() {
    let at = |micros: u64| Tick::from_nanos(micros.saturating_mul(1_000));
    let mut work_budget = WorkBudget::new(Span::from_nanos(5_000), 4_000);
    assert_eq!(work_budget.left_at(at(1_000_000)), 4_000);
    work_budget.spend(3_999);
    assert_eq!(work_budget.left_at(at(1_000_000)), 1);
    work_budget.spend(501);
    assert_eq!(work_budget.left_at(at(1_002_499)), 0, "one was too large");
    assert_eq!(work_budget.left_at(at(1_002_504)), 0);
    assert_eq!(work_budget.left_at(at(1_002_505)), 1);
    assert_eq!(work_budget.left_at(at(1_002_509)), 1, "no time is lost");
    assert_eq!(work_budget.left_at(at(1_002_510)), 2);
    assert_eq!(
        work_budget.left_at(at(1_000_000)),
        2,
        "nor gained by going back"
    );
    assert_eq!(work_budget.left_at(at(9_000_000)), 4_000);
}
