//! The state of a key in a store, as that of a limiter.

use super::Keyed;
use crate::limiter::snapshot::{LimiterState, Snapshot};
use aliquot_core::share::Kind;
use aliquot_core::unit::Tick;
use std::time::Duration;

impl Keyed {
    /// Returns the state of a key of class 0; a full bucket if the key is not remembered. Takes nothing.
    #[must_use]
    pub fn peek_at(&self, key: &str, now: Tick) -> Snapshot {
        let held = self.held_at(key, now);
        Snapshot {
            kind: Kind::Rate,
            rate: held.map_or(0, |held| held.rate),
            burst: held.map_or(0, |held| held.burst),
            level: held.map_or(0, |held| held.level),
            state: match held {
                Some(_) => LimiterState::Forever,
                None => LimiterState::Open,
            },
            remaining: Duration::MAX,
        }
    }
}
