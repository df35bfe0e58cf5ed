//! Refusals of a key that are counted in a thread cache.

use crate::bucket::BucketDecider;
use crate::limiter::key_state::KeyState;
use aliquot_core::client::Decider;
use std::sync::Arc;

#[test]
fn each_refusal_of_a_thread_is_counted() {
    let key_state = Arc::new(KeyState::new("a"));
    let mut decider = BucketDecider::new(Arc::clone(&key_state));
    let cache = key_state.bucket.thread_cache(1);
    let counted = || cache.denied(1);
    assert_eq!(counted(), Some(true), "no thread counted here before");
    assert!((0..999).all(|_| counted() == Some(false)));
    assert_eq!(cache.denied(2), None, "another thread counts here");
    assert_eq!(decider.observed().expect("it was asked for").denied, 1_000);
    assert_eq!(cache.denied(2), None, "it counted here since the last look");
    // After a look without refusals another thread may count here.
    assert_eq!(decider.observed().map_or(0, |observed| observed.denied), 0);
    assert_eq!(cache.denied(2), Some(true));
}
