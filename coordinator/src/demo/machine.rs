//! Lateness of this machine with what is due, as a thread that only waits sees it.
//!
//! A run on a machine that is busy with something else may miss a bound although nothing is wrong. Late answers do not
//! tell that: they may be late because of the software that is judged. A thread without work is late only if the
//! machine gives it no processor.

use crate::clock::SharedClock;
use aliquot_core::unit::{Span, Tick};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Time between two timers of the thread.
const EVERY: Duration = Duration::from_millis(5);

/// Lateness of each timer, with the time at which it was due, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness(Vec<(Tick, Span)>);

impl Lateness {
    /// Returns the lateness of timers, which are in the order of time.
    #[must_use]
    pub fn new(timers: Vec<(Tick, Span)>) -> Self {
        Self(timers)
    }

    /// Returns the time by which nine tenths of the timers due in `[from, to)` were late at most. Returns `None` if
    /// none was due.
    #[must_use]
    pub fn of_nine_tenths(&self, from: Tick, to: Tick) -> Option<Span> {
        let due = |at: Tick| self.0.partition_point(|(due, _)| *due < at);
        let mut late: Vec<Span> = self
            .0
            .get(due(from)..due(to))?
            .iter()
            .map(|of| of.1)
            .collect();
        late.sort_unstable();
        late.get((late.len() * 9).div_ceil(10).checked_sub(1)?)
            .copied()
    }
}

/// The thread, while it waits.
#[derive(Debug)]
pub(super) struct MachineWatch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Lateness>,
}

impl MachineWatch {
    /// Starts the thread. Dropping the value ends it.
    pub(super) fn start(clock: SharedClock) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut timers = Vec::new();
            let mut due = clock.now().after(span(EVERY));
            while stopped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let now = clock.now();
                timers.push((due, now.since(due)));
                due = now.after(span(EVERY));
            }
            Lateness(timers)
        });
        Self { stop, thread }
    }

    /// Ends the thread. Returns how late its timers were: nothing, if it failed.
    pub(super) fn end(self) -> Lateness {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
#[path = "../../tests/unit/demo/machine.rs"]
mod tests;
