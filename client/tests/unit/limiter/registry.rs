//! Keys that are forgotten, and keys that are not.
//!
//! They stand here because the registry is not public.

use super::*;

fn at(millis: u64) -> Now {
    Now {
        at: Tick::from_nanos(millis * 1_000_000),
        leased: true,
    }
}

fn key(text: &str) -> Key {
    Key::try_from(text).expect("a key")
}

fn ask(registry: &mut Registry, text: &str, most: usize, now: Now) -> Option<Arc<KeyState>> {
    let found = registry.find(text, now.at);
    found.or_else(|| registry.add(key(text), most, now).ok())
}

fn names(registry: &Registry) -> String {
    registry
        .key_states()
        .map(|key_state| key_state.name())
        .collect()
}

/// Asks for each key of `asked` at its own time, without keeping the key state; a `+` before a key keeps
/// its key state. Checks which keys are left, of at most four.
fn check(asked: &str, left: &str) {
    let (mut registry, mut kept) = (Registry::default(), Vec::new());
    let mut keeps = false;
    for (letter, millis) in asked.chars().zip(0..) {
        if letter == '+' {
            keeps = true;
            continue;
        }
        let key_state = ask(&mut registry, &letter.to_string(), 4, at(millis));
        kept.extend(key_state.filter(|_| std::mem::take(&mut keeps)));
    }
    assert_eq!(names(&registry), left, "{asked}");
}

#[test]
fn the_least_recently_used_key_makes_room() {
    check("abcd", "abcd");
    check("abcde", "bcde");
    check("abcdae", "acde");
    check("abcdabef", "abef");
    check("+abcdef", "adef");
}

/// Two states of one key would each admit all of its part.
#[test]
fn a_key_has_one_state_however_often_it_is_asked_for() {
    let mut registry = Registry::default();
    let first = ask(&mut registry, "a", 4, at(0)).expect("room");
    let again = ask(&mut registry, "a", 4, at(1)).expect("it is there");
    assert!(Arc::ptr_eq(&first, &again));
}

#[test]
fn without_a_free_key_there_is_no_room() {
    let mut registry = Registry::default();
    let mut held: Vec<_> = ["a", "b"]
        .map(|text| ask(&mut registry, text, 2, at(0)).expect("room"))
        .into();
    assert!(ask(&mut registry, "c", 2, at(1)).is_none());
    held.remove(0);
    assert!(
        ask(&mut registry, "c", 2, at(2)).is_none(),
        "not looked for"
    );
    assert!(ask(&mut registry, "c", 2, at(11)).is_some());
    assert_eq!(names(&registry), "bc");
}

#[test]
fn idle_keys_are_swept_after_a_minute_unless_held() {
    let mut registry = Registry::default();
    let held = ask(&mut registry, "a", 9, at(0));
    for text in ["b", "c"] {
        ask(&mut registry, text, 9, at(0)).expect("room");
    }
    ask(&mut registry, "c", 9, at(30_000));
    registry.sweep(at(59_999));
    assert_eq!(names(&registry), "abc");
    registry.sweep(at(60_000));
    assert_eq!(names(&registry), "ac");
    registry.sweep(at(90_000));
    assert_eq!(names(&registry), "a");
    // A minute counts from when the key state was last seen to be held.
    drop(held);
    registry.sweep(at(149_999));
    assert_eq!(names(&registry), "a");
    registry.sweep(at(150_000));
    assert_eq!(names(&registry), "");
}

#[test]
fn changes_of_keys_can_be_applied_in_order() {
    let mut registry = Registry::default();
    ask(&mut registry, "a", 1, at(0));
    let mut session = registry.take_changes().fresh;
    assert!(session.contains_key(&key("a")));
    ask(&mut registry, "b", 1, at(1));
    let again = ask(&mut registry, "a", 1, at(2)).expect("room");
    let changes = registry.take_changes();
    assert_eq!(changes.gone, [key("a")], "it never heard of the other");
    let fresh = changes.fresh.get(&key("a")).expect("anew");
    assert!(Arc::ptr_eq(fresh, &again) && changes.fresh.len() == 1);
    let former = session.remove(&key("a")).expect("the former one");
    assert_eq!(Arc::strong_count(&former), 1, "no other reference is left");
}

fn marked(registry: &Registry) -> Vec<usize> {
    let mut places = Vec::new();
    registry.touched.take(|place| places.push(place));
    places
}

#[test]
fn a_used_key_is_marked_once_per_look() {
    let mut registry = Registry::new(Arc::new(Touched::of(5_000)));
    let key_state = |at| ask(&mut registry, &format!("k/{at}"), 5_000, self::at(0)).expect("room");
    let key_states: Vec<_> = (0..5_000).map(key_state).collect();
    assert_eq!(marked(&registry), [0; 0]);
    for at in [4_999, 64, 63, 4_096, 0, 64] {
        key_states[at].tally.denied(1);
    }
    assert_eq!(marked(&registry), [0, 63, 64, 4_096, 4_999]);
    key_states[63].tally.denied(1);
    assert_eq!(marked(&registry), [0; 0], "it was not looked at since");
    key_states[63].drain(1);
    key_states[63].tally.admitted(0);
    assert_eq!(marked(&registry), [0; 0], "nothing was asked");
    key_states[63].tally.admitted(1);
    assert_eq!(marked(&registry), [63]);
}

#[test]
fn a_new_key_takes_the_place_of_a_forgotten_one() {
    let mut registry = Registry::new(Arc::new(Touched::of(2)));
    for (text, millis) in [("a", 0), ("b", 1), ("c", 2), ("d", 3)] {
        let key_state = ask(&mut registry, text, 2, at(millis)).expect("room");
        assert!(
            key_state.tally.place().is_some_and(|place| place < 2),
            "{text}"
        );
    }
}

#[test]
fn counts_of_forgotten_keys_are_kept() {
    let mut registry = Registry::default();
    let key_state = ask(&mut registry, "a", 1, at(0)).expect("room");
    key_state.tally.admitted(3);
    key_state.tally.denied(2);
    drop(key_state);
    ask(&mut registry, "b", 1, at(1));
    assert_eq!((registry.past().admitted, registry.past().refused), (3, 2));
}

#[test]
fn a_key_with_a_mode_of_its_own_is_not_forgotten() {
    let mut registry = Registry::default();
    let key_state = ask(&mut registry, "a", 1, at(0)).expect("room");
    key_state.switch.set_own(Mode::Freeze);
    drop(key_state);
    assert!(ask(&mut registry, "b", 1, at(100_000)).is_none());
    registry.sweep(at(200_000));
    assert_eq!(names(&registry), "a");
}
