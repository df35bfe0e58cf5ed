use super::*;

#[test]
fn a_missing_entry_that_was_acknowledged_in_the_same_term_is_lost() {
    let (guard, id) = (MatchIndexGuard::default(), |index| {
        LogId::new_term_index(1, index)
    });
    assert!(!guard.lost(2, 3, id(0)));
    guard.acknowledge(2, 3, Some(id(5)));
    guard.acknowledge(2, 3, Some(id(4)));
    guard.acknowledge(2, 3, None);
    assert!(guard.lost(2, 3, id(5)) && guard.lost(2, 3, id(0)));
    assert!(!guard.lost(2, 3, id(6)));
    // Another leader may have truncated entries that were never committed.
    assert!(!guard.lost(2, 4, id(5)) && !guard.lost(1, 3, id(5)));
    guard.acknowledge(2, 4, Some(id(2)));
    assert!(guard.lost(2, 4, id(2)) && !guard.lost(2, 4, id(3)));
}
