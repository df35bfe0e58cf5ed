//! The clock thread stops, as in a forked process: no request is refused for good.

use super::refusals::{limiters, refused_in_numbers};
use crate::clock::{Clock, HostClock};
use crate::limit::Limit;
use aliquot_core::unit::Span;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Index into [`limiters`].
const WHICH: &str = "ALIQUOT_UNWRITTEN_WHICH";

/// Asks without a pause for a token that is made five times a second.
#[test]
#[ignore = "the process that the other starts, since its clock stops for all of its tests"]
fn child() {
    let which = std::env::var(WHICH).expect("started by the other");
    let [fast, unbatched] = limiters();
    let limiter = if which == "0" { fast } else { unbatched };
    refused_in_numbers(&limiter);
    let stopped = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&stopped);
    HostClock::keep_doing(Box::new(move || {
        tells.store(true, Ordering::Relaxed);
        loop {
            thread::park();
        }
    }));
    while !stopped.load(Ordering::Relaxed) {
        assert!(limiter.try_acquire(1).is_err());
    }
    assert_ne!(HostClock::noted_word(), 0, "it was written down until then");
    limiter.set_limit(Limit::per_sec(5)).expect("a limit");
    let began = HostClock.now();
    let mut refused = 0_u64;
    while limiter.try_acquire(1).is_err() {
        refused += 1;
        let took = HostClock.now().since(began);
        assert!(took < Span::from_secs(10), "refused {refused} times");
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn requests_are_admitted_although_the_clock_thread_stopped() {
    for which in ["0", "1"] {
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "limiter::fast_path::unwritten::child"])
            .args(["--ignored", "--nocapture"])
            .env(WHICH, which)
            .output()
            .expect("a process");
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success(), "{which}: {said}");
        assert!(said.contains("1 passed"), "{which}: {said}");
    }
}
