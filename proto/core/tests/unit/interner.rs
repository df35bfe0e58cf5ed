use super::*;

#[test]
fn equal_values_are_shared_as_long_as_they_are_among_the_latest() {
    let mut interner = Interner::default();
    let first = interner.share(&0);
    for other in 1..8 {
        interner.share(&other);
    }
    let again = interner.share(&0);
    assert!(Arc::ptr_eq(&first, &again));
    for other in 1..=8 {
        interner.share(&other);
    }
    let stored_again = interner.share(&0);
    assert_eq!(first, stored_again);
    assert!(!Arc::ptr_eq(&first, &stored_again));
}
