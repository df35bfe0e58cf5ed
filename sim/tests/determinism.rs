//! Invariant 14: the same seed gives the same trace, byte for byte, in two processes.
//!
//! The hash covers every message with its contents, time and hosts, and the state of the host that received
//! it.

use aliquot_sim::trace::{Trace, TraceEvent, Tracer};
use std::process::Command;

fn trace(scenario: &str, seed: u64) -> String {
    let program = env!("CARGO_BIN_EXE_aliquot-sim");
    let output = Command::new(program)
        .args(["replay", scenario, "--hash", "--seed", &seed.to_string()])
        .output()
        .expect("the program runs");
    let printed = String::from_utf8(output.stdout).expect("it speaks UTF-8");
    assert!(printed.contains("\"trace\""), "{printed}");
    printed
}

#[test]
fn a_seed_is_a_world_and_the_same_one_in_every_process() {
    assert_eq!(trace("swarm", 1), trace("swarm", 1));
    assert_ne!(trace("calm", 1), trace("calm", 0));
}

fn hash_of(what: &str, at: u64, from: &str) -> String {
    let mut trace = Trace::default();
    trace.record(&TraceEvent {
        at,
        kind: "message",
        host: "n1",
        from,
        what: &what.to_owned(),
    });
    trace.hash()
}

#[test]
fn events_that_differ_have_different_hashes() {
    let first = hash_of("something", 7, "n2");
    assert_eq!(first, hash_of("something", 7, "n2"));
    for other in [
        hash_of("something else", 7, "n2"),
        hash_of("something", 8, "n2"),
        hash_of("something", 7, "n3"),
    ] {
        assert_ne!(first, other);
    }
}
