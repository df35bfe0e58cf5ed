//! Marks of used keys, in every interleaving that loom finds.

use super::explore;
use crate::limiter::key_state::KeyState;
use crate::limiter::key_state::touch::{Touch, Touched};
use crate::sync::Bug;
use loom::thread;
use std::sync::Arc;

/// Two threads are refused while the session looks; what its look misses, the next one finds.
#[test]
fn a_count_is_found_by_this_look_or_the_next() {
    explore(
        || {
            let list = Arc::new(Touched::of(1));
            let key_state = Arc::new(KeyState::new("k"));
            key_state.tally.touches(Touch::new(Arc::clone(&list), 0));
            let asks = || {
                let key_state = Arc::clone(&key_state);
                thread::spawn(move || key_state.tally.denied(1))
            };
            let look = || {
                let mut seen = 0;
                list.take(|_| seen += key_state.drain(1).denied);
                seen
            };
            let threads = [asks(), asks()];
            let mut seen = look();
            for thread in threads {
                thread.join().expect("it asks once");
            }
            seen += look();
            assert_eq!(seen, 2);
        },
        &[Bug::Unmarked],
    );
}
