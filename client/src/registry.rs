//! The keys of a client and their gates: made when they are first asked for, forgotten when nobody
//! needs them any more.
//!
//! # Who may forget a gate
//!
//! A gate is **held** while a handle has it: a limiter, a permit, a reservation, a question that is under
//! way. Besides handles only the registry has it, and the session from when it
//! [is told](Registry::take_changes). A handle comes from another handle, or from here under the lock. So
//! whoever has the lock and counts no more than these two knows that no handle is there, and that none
//! will be once the gate is out of the map. Nobody waits at it either, for who waits holds it.
//!
//! Who asks for the key afterwards gets **another gate**, which has nothing. It gets a part by the
//! session alone, and that takes back what the former one has before it meets the new one: both
//! changes are taken under one lock, and what has gone comes first. So of two gates of a key never both
//! hold anything. Nor would it be an excess if a handle of the former one were left: what it had was
//! withdrawn from its cell in one step, after which nothing is admitted there.
//!
//! What would be missed is [not forgotten](Gate::may_be_forgotten), though nobody holds it.

use crate::error::KeyRefused;
use crate::key::Gate;
use crate::key::touch::{Touch, Touched};
use crate::switch::{Mode, Overruled};
use crate::tap::Tap;
use aliquot_core::budget::Key;
use aliquot_core::unit::{Span, Tick};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: BTreeMap<Key, Entry>,
    /// What the session has not been told of yet: the keys that it knows and that are forgotten, and
    /// those that it does not know.
    changes: Changes,
    past: Past,
    /// Nobody could make room, so that it is not tried again before this.
    vain_until: Tick,
    pub(crate) closed: bool,
    mode: Mode,
    tap: Option<Arc<Tap>>,
    touched: Arc<Touched>,
    /// Places for marks that keys had which are forgotten.
    places: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    gate: Arc<Gate>,
    /// When it was asked for last, or seen to be held.
    used: Tick,
}

/// What became of keys, in this order.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Those that are forgotten. One may be among the others again.
    pub(crate) gone: Vec<Key>,
    /// Those that are new.
    pub(crate) fresh: BTreeMap<Key, Arc<Gate>>,
}

/// What was counted of keys that are forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) overruled: Overruled,
}

/// When it is, and whether the session's lease holds then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Tick,
    pub(crate) leased: bool,
}

impl Registry {
    /// A gate that nobody holds or asks for is forgotten after so long.
    const IDLE: Span = Span::from_secs(60);
    /// Who needs room makes it for one in so many of all, so that others need not look for it at once.
    const ROOM: usize = 8;
    /// Where all are held, it is not looked for room again within this: a look is at all keys.
    const VAIN: Span = Span::from_millis(10);

    /// No keys, of which those that are asked are marked there.
    pub(crate) fn new(touched: Arc<Touched>) -> Self {
        Self {
            touched,
            ..Self::default()
        }
    }

    /// The gate of a key, if there is one.
    pub(crate) fn find(&mut self, key: &Key, now: Tick) -> Option<Arc<Gate>> {
        let entry = self.entries.get_mut(key)?;
        entry.used = entry.used.max(now);
        Some(Arc::clone(&entry.gate))
    }

    /// The gate of a key that has none, if there is room for it among `most`, or can be made.
    pub(crate) fn add(&mut self, key: Key, most: usize, now: Now) -> Result<Arc<Gate>, KeyRefused> {
        if self.entries.len() >= most && !self.make_room(most, now) {
            return Err(KeyRefused::TooMany { most });
        }
        // All places below that of the last key are those of keys, or free.
        let last = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        let place = self.places.pop().unwrap_or(last);
        let gate = Arc::new(Gate::new(key.as_str()));
        let touched = Arc::clone(&self.touched);
        gate.tally.touches(Touch::new(touched, place));
        gate.switch.set_client(self.mode);
        if let Some(tap) = &self.tap {
            gate.watch(tap);
        }
        let entry = Entry {
            gate: Arc::clone(&gate),
            used: now.at,
        };
        self.entries.insert(key.clone(), entry);
        self.changes.fresh.insert(key, Arc::clone(&gate));
        Ok(gate)
    }

    /// Forgets what nobody has held or asked for in a while.
    pub(crate) fn sweep(&mut self, now: Now) {
        for (_, key) in self.spare(now, Self::IDLE) {
            self.forget(&key);
        }
    }

    /// Forgets those that nobody has held or asked for the longest. Whether there are any.
    fn make_room(&mut self, most: usize, now: Now) -> bool {
        if now.at < self.vain_until {
            return false;
        }
        let mut spare = self.spare(now, Span::ZERO);
        spare.sort_unstable();
        spare.truncate((most / Self::ROOM).max(1));
        for (_, key) in &spare {
            self.forget(key);
        }
        if spare.is_empty() {
            self.vain_until = now.at.after(Self::VAIN);
        }
        !spare.is_empty()
    }

    /// Returns the keys that were not used for `idle` and could be forgotten, each with the start of that time.
    fn spare(&mut self, now: Now, idle: Span) -> Vec<(Tick, Key)> {
        let mut spare = Vec::new();
        for (key, entry) in &mut self.entries {
            match entry.is_held() {
                true => entry.used = entry.used.max(now.at),
                false if now.at.since(entry.used) < idle => {}
                false if entry.gate.may_be_forgotten(now.at, now.leased) => {
                    spare.push((entry.used, key.clone()));
                }
                false => {}
            }
        }
        spare
    }

    fn forget(&mut self, key: &Key) {
        let Some(Entry { gate, .. }) = self.entries.remove(key) else {
            return;
        };
        self.past.add(&gate);
        let place = gate.tally.place().and_then(|at| u32::try_from(at).ok());
        self.places.extend(place);
        // The session never hears of one that it had not heard of before.
        if self.changes.fresh.remove(key).is_none() {
            self.changes.gone.push(key.clone());
        }
    }

    /// What the session has not been told of yet.
    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Another mode for all keys, those that come later too.
    pub(crate) fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        for gate in self.gates() {
            gate.switch.set_client(mode);
            gate.changed();
        }
    }

    /// All keys are watched, those that come later too.
    pub(crate) fn watch(&mut self, tap: &Arc<Tap>) {
        let tap = Arc::clone(self.tap.get_or_insert_with(|| Arc::clone(tap)));
        for gate in self.gates() {
            gate.watch(&tap);
        }
    }

    /// The mode for all keys.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// All gates, by key.
    pub(crate) fn gates(&self) -> impl Iterator<Item = &Arc<Gate>> {
        self.entries.values().map(|entry| &entry.gate)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What was counted of keys that are forgotten.
    pub(crate) const fn past(&self) -> Past {
        self.past
    }
}

impl Entry {
    /// Whether anybody has the gate but the registry, and the session or those that are fresh.
    fn is_held(&self) -> bool {
        let held = Arc::strong_count(&self.gate) > 2;
        // What was done with a handle happened before it was dropped, and so before this.
        fence(Ordering::Acquire);
        held
    }
}

impl Past {
    fn add(&mut self, gate: &Gate) {
        // What threads refused by themselves and have not counted is lost; it is a report's worth.
        gate.tally.admitted(gate.cell.take_uncounted());
        let [admitted, refused, _] = gate.tally.totals();
        let overruled = gate.switch.overruled();
        self.admitted = self.admitted.saturating_add(admitted);
        self.refused = self.refused.saturating_add(refused);
        self.overruled = self.overruled.plus(overruled);
    }
}

#[cfg(test)]
mod tests {
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

    fn ask(registry: &mut Registry, text: &str, most: usize, now: Now) -> Option<Arc<Gate>> {
        let found = registry.find(&key(text), now.at);
        found.or_else(|| registry.add(key(text), most, now).ok())
    }

    fn names(registry: &Registry) -> String {
        registry.gates().map(|gate| gate.name()).collect()
    }

    /// Keys that are asked for, each at its own time, by callers who keep nothing; `+` stands before who
    /// keeps the gate. What is left of them, of at most four.
    fn check(asked: &str, left: &str) {
        let (mut registry, mut kept) = (Registry::default(), Vec::new());
        let mut keeps = false;
        for (letter, millis) in asked.chars().zip(0..) {
            if letter == '+' {
                keeps = true;
                continue;
            }
            let gate = ask(&mut registry, &letter.to_string(), 4, at(millis));
            kept.extend(gate.filter(|_| std::mem::take(&mut keeps)));
        }
        assert_eq!(names(&registry), left, "{asked}");
    }

    #[test]
    fn the_one_that_is_of_no_use_the_longest_makes_room() {
        check("abcd", "abcd");
        check("abcde", "bcde");
        check("abcdae", "acde");
        check("abcdabef", "abef");
        check("+abcdef", "adef");
    }

    #[test]
    fn where_all_are_held_there_is_no_room_until_one_is_not() {
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
    fn what_is_idle_for_a_minute_is_swept_and_what_is_held_or_asked_for_is_not() {
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
        // A minute counts from when it was last seen to be held.
        drop(held);
        registry.sweep(at(149_999));
        assert_eq!(names(&registry), "a");
        registry.sweep(at(150_000));
        assert_eq!(names(&registry), "");
    }

    #[test]
    fn what_a_session_is_told_it_can_do_in_order() {
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
        assert_eq!(Arc::strong_count(&former), 1, "nobody else has it");
    }

    fn marked(registry: &Registry) -> Vec<usize> {
        let mut places = Vec::new();
        registry.touched.take(|place| places.push(place));
        places
    }

    #[test]
    fn each_key_that_is_asked_is_marked_once_until_it_is_looked_at() {
        let mut registry = Registry::new(Arc::new(Touched::of(5_000)));
        let gate = |at| ask(&mut registry, &format!("k/{at}"), 5_000, self::at(0)).expect("room");
        let gates: Vec<_> = (0..5_000).map(gate).collect();
        assert_eq!(marked(&registry), [0; 0]);
        for at in [4_999, 64, 63, 4_096, 0, 64] {
            gates[at].tally.denied(1);
        }
        assert_eq!(marked(&registry), [0, 63, 64, 4_096, 4_999]);
        gates[63].tally.denied(1);
        assert_eq!(marked(&registry), [0; 0], "it was not looked at since");
        gates[63].drain(1);
        gates[63].tally.admitted(0);
        assert_eq!(marked(&registry), [0; 0], "nothing was asked");
        gates[63].tally.admitted(1);
        assert_eq!(marked(&registry), [63]);
    }

    #[test]
    fn who_comes_takes_the_place_of_who_was_forgotten() {
        let mut registry = Registry::new(Arc::new(Touched::of(2)));
        for (text, millis) in [("a", 0), ("b", 1), ("c", 2), ("d", 3)] {
            let gate = ask(&mut registry, text, 2, at(millis)).expect("room");
            assert!(gate.tally.place().is_some_and(|place| place < 2), "{text}");
        }
    }

    #[test]
    fn what_was_counted_of_the_forgotten_stays_counted() {
        let mut registry = Registry::default();
        let gate = ask(&mut registry, "a", 1, at(0)).expect("room");
        gate.tally.admitted(3);
        gate.tally.denied(2);
        drop(gate);
        ask(&mut registry, "b", 1, at(1));
        assert_eq!((registry.past().admitted, registry.past().refused), (3, 2));
    }

    #[test]
    fn a_mode_of_its_own_is_not_forgotten() {
        let mut registry = Registry::default();
        let gate = ask(&mut registry, "a", 1, at(0)).expect("room");
        gate.switch.set_own(Mode::Freeze);
        drop(gate);
        assert!(ask(&mut registry, "b", 1, at(100_000)).is_none());
        registry.sweep(at(200_000));
        assert_eq!(names(&registry), "a");
    }
}
