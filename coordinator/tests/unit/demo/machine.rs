use super::*;
use crate::clock::{Clock, HostClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// A clock that is 7 ms later at each reading, and tells how often it was read.
#[derive(Debug)]
struct Steps {
    read: AtomicU64,
    told: mpsc::Sender<u64>,
}

impl Clock for Steps {
    fn now(&self) -> Tick {
        let read = self.read.fetch_add(1, Ordering::SeqCst);
        // The test may have ended already.
        let _ = self.told.send(read);
        Tick::from_nanos(read * 7_000_000)
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

#[test]
fn each_timer_is_due_after_five_milliseconds_and_tells_how_late_it_was() {
    let (told, times) = mpsc::channel();
    let read = AtomicU64::new(0);
    let watch = MachineWatch::start(Arc::new(Steps { read, told }));
    // The first reading is that of the start, and each later one that of a timer.
    assert!(times.iter().any(|read| read == 3));
    let Lateness(timers) = watch.end();
    let millis = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    let late = Span::from_millis(2);
    let expect = [(millis(5), late), (millis(12), late)];
    assert_eq!(timers[..2], expect);
}
