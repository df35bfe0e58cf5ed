//! Refusals of a key that are counted in a thread cache.

use crate::cell::CellDecider;
use crate::key_state::KeyState;
use aliquot_core::client::Decider;
use std::sync::Arc;

#[test]
fn all_is_counted_and_now_and_then_it_is_found_out_anew_whether_it_may_be() {
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = CellDecider::new(Arc::clone(&key_state));
    let cache = key_state.cell.thread_cache(1);
    assert!(!cache.deny_repeated(), "no thread counts here yet");
    let (mut counted, mut anew) = (0, 0);
    for _ in 0..1_000 {
        if !cache.deny_repeated() {
            assert!(cache.denied(1).is_some());
            anew += 1;
        }
        counted += 1;
    }
    assert_eq!(anew, 4);
    let observed = decider.observed().expect("it was asked for");
    assert_eq!(observed.denied, counted);
}
