use super::*;

fn order(failover: &Failover) -> Vec<usize> {
    failover.order().collect()
}

fn unreachable() -> Failure {
    Failure::Unreachable(String::new())
}

fn undecided() -> Failure {
    Failure::Undecided(String::new())
}

#[test]
fn a_request_asks_each_face_once_and_first_the_one_after_the_last_that_failed() {
    let failover = Failover::new(3);
    assert_eq!(order(&failover), [0, 1, 2]);
    failover.failed(0, &unreachable());
    assert_eq!(order(&failover), [1, 2, 0]);
    failover.failed(1, &unreachable());
    failover.failed(2, &unreachable());
    assert_eq!(order(&failover), [0, 1, 2]);
}

#[test]
fn requests_that_fail_together_skip_no_face() {
    let failover = Failover::new(3);
    let both = [order(&failover), order(&failover)];
    for order in both {
        failover.failed(order[0], &unreachable());
    }
    assert_eq!(failover.current(), 1);
}

#[test]
fn a_face_is_left_for_many_undecided_requests_in_a_row() {
    let failover = Failover::new(2);
    for _ in 0..3 {
        for _ in 1..UNDECIDED_MAX {
            failover.failed(0, &undecided());
        }
        assert_eq!(failover.current(), 0);
        failover.decided(0);
    }
    for _ in 0..UNDECIDED_MAX {
        failover.failed(0, &undecided());
        // The state of the other face does not show the state of this one.
        failover.decided(1);
    }
    assert_eq!(failover.current(), 1);
    failover.failed(1, &undecided());
    assert_eq!(failover.current(), 1, "it is counted anew");
}

#[test]
fn one_face_is_asked_again_and_none_is_asked_never() {
    let failover = Failover::new(1);
    failover.failed(0, &unreachable());
    assert_eq!(order(&failover), [0]);
    let none = Failover::new(0);
    none.failed(0, &unreachable());
    assert!(order(&none).is_empty());
}
