//! Being silent towards who does not answer.

use super::runtime::HostInstant;
use openraft::Instant;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What other nodes left unanswered.
///
/// A leader that is heard but hears nothing would lead for ever: its heartbeats keep the others from
/// electing one that could commit. So a node that has left calls unanswered for some time is called only now and
/// then, and in between is silence enough for an election:
///
/// ```text
///  heard ──no answer──► doubted ──[`Hush::AFTER`]──► hushed: one call in [`Hush::EVERY`]
///    ▲                     │                            │
///    └──────answered───────┴────────────answered────────┘
/// ```
///
/// A refused connection says nothing either way.
#[derive(Debug)]
pub(super) struct Hush {
    election_max: Duration,
    doubted: Mutex<BTreeMap<u64, Doubt>>,
}

/// Since when a node has answered nothing, and when it was last called.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    since: HostInstant,
    called: HostInstant,
}

impl Hush {
    /// In greatest election timeouts: it takes two for an ordinary election, so that leases, which allow
    /// for one, outlast this and an election together.
    const AFTER: u32 = 2;

    /// In greatest election timeouts: one until a follower doubts, one until it stands, one to be elected.
    const EVERY: u32 = 3;

    pub(super) fn new(election_max: Duration) -> Self {
        Self {
            election_max,
            doubted: Mutex::default(),
        }
    }

    /// Whether the node may be called at `now`, which then counts as done.
    pub(super) fn may_call(&self, node: u64, now: HostInstant) -> bool {
        let doubted = self.doubted.lock();
        let mut doubted = doubted.unwrap_or_else(PoisonError::into_inner);
        let Some(doubt) = doubted.get_mut(&node) else {
            return true;
        };
        let young = now.saturating_duration_since(doubt.since) < self.election_max * Self::AFTER;
        let due = now.saturating_duration_since(doubt.called) >= self.election_max * Self::EVERY;
        if young || due {
            doubt.called = now;
        }
        young || due
    }

    /// It answered.
    pub(super) fn answered(&self, node: u64) {
        let doubted = self.doubted.lock();
        doubted
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&node);
    }

    /// It may have heard, and did not answer in time.
    pub(super) fn unanswered(&self, node: u64, now: HostInstant) {
        let doubted = self.doubted.lock();
        let mut doubted = doubted.unwrap_or_else(PoisonError::into_inner);
        doubted.entry(node).or_insert(Doubt {
            since: now,
            called: now,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_calls_unanswered_is_called_seldom_until_it_answers() {
        let (hush, begun) = (Hush::new(Duration::from_millis(600)), HostInstant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        let called = |from: u64, to: u64| {
            let all = (from..to).step_by(100);
            all.filter(|ms| hush.may_call(2, at(*ms))).count()
        };
        assert_eq!(called(0, 1_000), 10);
        hush.unanswered(2, at(1_000));
        hush.unanswered(2, at(2_000));
        assert_eq!(called(1_000, 2_200), 12, "one may be late");
        assert_eq!(called(2_200, 3_900), 0, "long enough for an election");
        assert_eq!(called(3_900, 7_500), 2);
        assert!(hush.may_call(3, at(7_500)), "others are called as ever");
        hush.answered(2);
        assert_eq!(called(7_500, 8_500), 10);
    }
}
