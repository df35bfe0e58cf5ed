use super::*;
use crate::clock::{Clock, HostClock};
use std::sync::Arc;

#[test]
fn nine_tenths_are_those_of_the_window() {
    let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    let late = |millis: u64| Span::from_millis(millis);
    let timers = (0..20).map(|n| (at(n), late(if n < 10 { 0 } else { n })));
    let lateness = Lateness::new(timers.collect());
    assert_eq!(lateness.of_nine_tenths(at(0), at(10)), Some(late(0)));
    assert_eq!(lateness.of_nine_tenths(at(10), at(20)), Some(late(18)));
    assert_eq!(lateness.of_nine_tenths(at(19), at(99)), Some(late(19)));
    assert_eq!(lateness.of_nine_tenths(at(20), at(99)), None);
}

#[test]
fn a_thread_without_work_sees_when_it_ran() {
    let start = HostClock.now();
    let watch = MachineWatch::start(Arc::new(HostClock));
    while HostClock.now().since(start) < Span::from_millis(30) {
        thread::yield_now();
    }
    let Lateness(timers) = watch.end();
    assert!(timers.iter().all(|(due, _)| *due > start) && timers.is_sorted());
    assert!(timers.len() < 100, "{} timers", timers.len());
}
