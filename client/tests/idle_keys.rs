//! A keyed store forgets idle keys by itself: all of them, and no key with a debt.

use aliquot_client::{Keyed, Limit, ManualClock, Reason};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn store(keys: usize, idle: Option<Duration>) -> (Keyed, ManualClock) {
    let clock = ManualClock::new();
    let builder = Keyed::builder(Limit::per_sec(1), 5, keys);
    let builder = builder.class(Limit::every(60 * SECOND), 5);
    let builder = builder.clock(Arc::new(clock.clone())).seed(7);
    let builder = match idle {
        Some(idle) => builder.idle_after(idle),
        None => builder,
    };
    (builder.build().expect("a store"), clock)
}

/// Returns the number of groups: a quarter more slots than keys, 32 in each.
const fn groups(keys: usize) -> usize {
    (keys + keys / 4).div_ceil(32)
}

#[test]
fn idle_keys_are_gone_after_as_many_new_keys_as_groups() {
    let keys = 1_000;
    let (store, clock) = store(keys, Some(60 * SECOND));
    for key in 0..500 {
        store.try_acquire(&format!("old/{key}"), 5).expect("full");
    }
    clock.advance(5 * SECOND);
    store.try_acquire("used/0", 1).expect("full");
    // The old keys have been full for almost a minute; then for a minute.
    clock.advance(60 * SECOND - Duration::from_millis(1));
    for key in 0..2 * groups(keys) {
        store.try_acquire(&format!("new/{key}"), 5).expect("full");
    }
    let before = 501 + 2 * groups(keys);
    assert_eq!(store.len(), before);
    clock.advance(Duration::from_millis(2));
    for key in 0..groups(keys) - 1 {
        store.try_acquire(&format!("newer/{key}"), 5).expect("full");
        // A decision for a known key looks at no other keys.
        store.try_acquire("used/0", 0).expect("nothing");
    }
    assert!(
        store.len() > before - 500 + groups(keys) - 1,
        "{}",
        store.len()
    );
    store.try_acquire("newest", 5).expect("full");
    assert_eq!(store.len(), before - 500 + groups(keys));
}

#[test]
fn without_the_option_all_stays() {
    let (store, clock) = store(100, None);
    for key in 0..50 {
        clock.advance(100 * SECOND);
        store.try_acquire(&format!("old/{key}"), 5).expect("full");
    }
    assert_eq!(store.len(), 50);
}

#[test]
fn a_key_for_which_there_is_no_room_sweeps_as_well() {
    let (store, clock) = store(20, Some(Duration::ZERO));
    let taken = (0..100).filter(|key| {
        let key = format!("old/{key}");
        store.try_acquire_class_at(1, &key, 5, store.now()).is_ok()
    });
    assert_eq!(taken.count(), 32);
    let refused = store.try_acquire("new", 1).expect_err("all of them owe");
    assert_eq!(refused.reason, Reason::NoRoom);
    clock.advance(301 * SECOND);
    store.try_acquire("new", 1).expect("they do not");
    assert_eq!(store.len(), 1);
}

proptest! {
    /// Two stores, one of which forgets: they differ in `len` alone, and a key with a debt is never
    /// forgotten.
    #[test]
    fn a_store_that_forgets_decides_as_one_that_does_not(
        asked in prop::collection::vec((0..40_000_u64, 0..60_u16, 0..2_u16, 0..6_u64), 1..200),
        idle in 0..10_u64,
    ) {
        let ((forgets, one), (keeps, other)) = (store(120, Some(Duration::from_secs(idle))), store(120, None));
        let mut left = BTreeMap::new();
        for (gap, key, class, n) in asked {
            // Mostly at once, and sometimes after a minute.
            let gap = Duration::from_millis(if gap < 30_000 { gap / 100 } else { gap });
            one.advance(gap);
            other.advance(gap);
            let now = forgets.now();
            let text = format!("key/{key}");
            let mine = forgets.try_acquire_class_at(class, &text, n, now);
            prop_assert_eq!(mine, keeps.try_acquire_class_at(class, &text, n, now));
            if class == 0 {
                left.insert(text, ());
            }
            let mut owing = 0;
            for key in left.keys() {
                let tokens = forgets.tokens_at(key, now);
                prop_assert_eq!(tokens, keeps.tokens_at(key, now));
                owing += usize::from(tokens < 5);
            }
            prop_assert!(owing <= forgets.len() && forgets.len() <= keeps.len());
        }
    }
}
