use super::*;

#[test]
fn a_key_is_asked_for_at_the_time_that_was_set_last() {
    let (mut keys, key) = (Keys::default(), Key::try_from("a").expect("a key"));
    let entry = Entry {
        place: None,
        decider: None,
        budget: None,
        ask_at: None,
        pending: false,
        asked: 0,
        by_outage_rule: false,
    };
    keys.entries.insert(key.clone(), entry);
    assert_eq!(keys.next_ask(), None);
    for millis in [5, 9, 3] {
        let at = Tick::from_nanos(1_000_000 * millis);
        keys.ask_at(&key, at);
        assert_eq!(keys.next_ask(), Some(at));
    }
    assert!(keys.take_due(Tick::from_nanos(2_999_999)).is_empty());
    assert_eq!(keys.take_due(Tick::from_nanos(3_000_000)), [key]);
}
