use super::*;
use aliquot_core::unit::Span;

#[test]
fn a_key_has_the_limit_that_it_named_last_and_old_ones_are_forgotten() {
    let limits = Limits::default();
    let limit = |n| NamedLimit::per(n, Span::from_secs(1), n).ok();
    let key = Bytes::from_static(b"first");
    let add = |key: &Bytes, n| limits.named(key, limit(n).expect("a limit"));
    add(&key, 5);
    add(&key, 6);
    assert_eq!(limits.of(&key), limit(6));
    for n in 0..Limits::MOST as u64 {
        add(&Bytes::from(n.to_string()), 7);
    }
    assert_eq!(limits.of(&key), None);
    assert_eq!(limits.of(&Bytes::from_static(b"65535")), limit(7));
    let tables = limits.0.lock().expect("not poisoned");
    assert!(tables.newer.len() + tables.older.len() <= Limits::MOST);
}
