//! Marks of used keys, in every interleaving that loom finds.

use super::explore;
use crate::key::Gate;
use crate::key::touch::{Touch, Touched};
use crate::sync::Bug;
use loom::thread;
use std::sync::Arc;

/// Two threads are refused while the session looks; what its look misses, the next one finds.
#[test]
fn what_is_counted_is_found_by_this_look_or_by_the_next() {
    explore(
        || {
            let list = Arc::new(Touched::of(1));
            let gate = Arc::new(Gate::new("k"));
            gate.tally.touches(Touch::new(Arc::clone(&list), 0));
            let asks = || {
                let gate = Arc::clone(&gate);
                thread::spawn(move || gate.tally.denied(1))
            };
            let look = || {
                let mut seen = 0;
                list.take(|_| seen += gate.drain(1).denied);
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
