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
struct Apart;

impl Limiters for Apart {
    fn limiter(&self, _: &str) -> Result<Limiter, KeyRefused> {
        Err(KeyRefused::TooMany { most: 0 })
    }

    fn has_session(&self) -> bool {
        false
    }
}

/// Returns a decider without a session.
pub(crate) fn without_session() -> Decider {
    Decider::of(Apart, Options::default())
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
