//! A decider over limits of this process, for tests of faces.

use super::{Ask, Cost, Decider, Limiters, Options};
use aliquot_client::{KeyRefused, Limit, Limiter, ManualClock};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ten tokens a second and a burst of ten for each key, on a clock that the test moves.
#[derive(Debug)]
struct Local {
    clock: Arc<ManualClock>,
    known: Mutex<BTreeMap<String, Limiter>>,
}

impl Limiters for Local {
    fn limiter(&self, key: &str) -> Result<Limiter, KeyRefused> {
        let mut known = self.known.lock().expect("no panic");
        if let Some(limiter) = known.get(key) {
            return Ok(limiter.clone());
        }
        let limiter = Limiter::local_with(Limit::per_sec(10), 10, self.clock.clone());
        let limiter = limiter.expect("a valid limit");
        known.insert(key.to_owned(), limiter.clone());
        Ok(limiter)
    }
}

/// Returns a decider that holds at most that many keys, and its clock.
pub(crate) fn decider(keys: usize) -> (Decider, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let local = Local {
        clock: clock.clone(),
        known: Mutex::default(),
    };
    let options = Options {
        keys,
        ..Options::default()
    };
    (Decider::of(local, options), clock)
}

/// Keys that have no node to ask.
#[derive(Debug)]
struct NoSession;

impl Limiters for NoSession {
    fn limiter(&self, _: &str) -> Result<Limiter, KeyRefused> {
        Err(KeyRefused::TooMany { most: 0 })
    }

    fn has_session(&self) -> bool {
        false
    }
}

/// Returns a decider without a session.
pub(crate) fn without_session() -> Decider {
    Decider::of(NoSession, Options::default())
}

/// Returns a question with a deadline of 20 ms.
pub(crate) fn ask(key: &str, cost: Cost) -> Ask {
    Ask {
        key: key.into(),
        cost,
        within: Duration::from_millis(20),
    }
}

/// Returns what is left of a key.
pub(crate) async fn remaining(decider: &Decider, key: &str) -> u64 {
    let answer = decider.decide(&ask(key, Cost::Peek)).await;
    answer.remaining.expect("limits of this process")
}

/// Asks through a face for a key in use, whose budget's key is `budget`, and then for many that are made up. The key in
/// use is kept, and the number of keys is bounded. `ask` is given the name of a key.
pub(crate) async fn flood(decider: &Decider, budget: &str, mut ask: impl AsyncFnMut(String)) {
    for _ in 0..2 {
        ask("real".to_owned()).await;
    }
    let kept = Arc::downgrade(&decider.held(budget).expect("held"));
    let most = decider.keys_max() * 3 / 4;
    for made_up in 0..2_000 {
        ask(format!("x{made_up}")).await;
        assert!(decider.keys_held() <= most, "{}", decider.keys_held());
    }
    assert!(decider.keys_held() > most / 4, "{}", decider.keys_held());
    assert!(kept.upgrade().is_some(), "the key in use was dropped");
}
