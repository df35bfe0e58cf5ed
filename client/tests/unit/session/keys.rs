use super::*;

#[test]
fn a_key_is_asked_for_at_the_time_that_was_set_last() {
    let (mut keys, key) = (Keys::default(), Key::try_from("a").expect("a key"));
    keys.entries.insert(key.clone(), entry(None));
    assert_eq!(keys.next_ask(), None);
    for millis in [5, 9, 3] {
        let at = Tick::from_nanos(1_000_000 * millis);
        keys.ask_at(&key, at);
        assert_eq!(keys.next_ask(), Some(at));
    }
    assert!(keys.take_due(Tick::from_nanos(2_999_999)).is_empty());
    assert_eq!(keys.take_due(Tick::from_nanos(3_000_000)), [key]);
}

/// Returns the state of a key that has a budget or not.
fn entry(budget: Option<BudgetId>) -> Entry {
    Entry {
        place: None,
        decider: None,
        budget,
        ask_at: None,
        pending: false,
        asked: 0,
        by_outage_rule: false,
    }
}

#[test]
fn a_session_is_opened_with_some_keys_and_the_others_are_asked_for_afterwards() {
    const KEYS: usize = 3_000;
    let mut keys = Keys::default();
    let key = |at: usize| Key::try_from(format!("k/{at:04}").as_str()).expect("a key");
    for at in 0..KEYS {
        // Two of three are known already.
        let budget = (at % 3 > 0).then(|| BudgetId::new(at as u64));
        keys.entries.insert(key(at), entry(budget));
    }
    let opened_with = keys.names();
    assert_eq!(opened_with.len(), Keys::PENDING_MAX);
    let named = opened_with.iter().map(|key| Interned {
        key: key.clone(),
        budget: Ok(BudgetId::new(1)),
    });
    let now = Tick::from_nanos(1_000_000);
    keys.ask_others(&named.collect::<Vec<_>>(), now);
    let mut asked = Vec::new();
    loop {
        let part = keys.take_due(now);
        if part.is_empty() {
            break;
        }
        for key in &part {
            keys.settle(key);
        }
        asked.extend(part);
    }
    let unknown = (Keys::PENDING_MAX..KEYS).filter(|at| at % 3 == 0).count();
    let is_known = |key: &Key| keys.entries[key].budget.is_some();
    assert_eq!(asked.iter().position(is_known), Some(unknown), "these last");
    asked.sort();
    assert_eq!(
        asked,
        (Keys::PENDING_MAX..KEYS).map(key).collect::<Vec<_>>()
    );
}
