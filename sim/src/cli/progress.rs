//! Progress of a run on standard error: a line that is redrawn on a terminal, otherwise a line every ten seconds.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A progress line that is redrawn as seeds end.
#[derive(Debug)]
pub(super) struct Progress {
    name: String,
    total: u64,
    done: AtomicU64,
    failed: AtomicU64,
    since: Instant,
    is_terminal: bool,
    /// Seconds since the start at which the latest line was written, if this is no terminal.
    told: AtomicU64,
}

/// Interval between two lines where they are not redrawn, in seconds.
const EVERY: u64 = 10;

impl Progress {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long it still takes is for people; no verdict reads it"
    )]
    pub(super) fn new(name: &str, total: u64) -> Self {
        Self {
            name: name.to_owned(),
            total,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            since: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            told: AtomicU64::new(0),
        }
    }

    /// Counts one more seed as done, and shows the number of failures.
    pub(super) fn step(&self, failed: bool) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        let failed =
            self.failed.fetch_add(u64::from(failed), Ordering::Relaxed) + u64::from(failed);
        self.reach(done, &format!("{failed} failed"));
    }

    /// Shows that `done` seeds are done, with a text.
    pub(super) fn reach(&self, done: u64, says: &str) {
        if self.is_terminal {
            return self.draw(done, says);
        }
        let now = self.seconds() as u64;
        let told = self.told.load(Ordering::Relaxed);
        if now < told + EVERY {
            return;
        }
        // Of several threads, one writes the line.
        let relaxed = Ordering::Relaxed;
        if self
            .told
            .compare_exchange(told, now, relaxed, relaxed)
            .is_ok()
        {
            let left = self.left(done);
            let (name, total) = (&self.name, self.total);
            let mut out = std::io::stderr().lock();
            let _ = writeln!(
                out,
                "{name}: {done}/{total} seeds, {says}, {left:.0} s left"
            );
        }
    }

    /// Estimates the seconds that the rest takes.
    fn left(&self, done: u64) -> f64 {
        self.seconds() / done.max(1) as f64 * (self.total - done.min(self.total)) as f64
    }

    fn draw(&self, done: u64, says: &str) {
        const WIDTH: u64 = 24;
        let full = (done * WIDTH / self.total.max(1)) as usize;
        let bar: String = (0..WIDTH as usize)
            .map(|n| if n < full { '█' } else { '·' })
            .collect();
        let left = self.left(done);
        let name = &self.name;
        let mut out = std::io::stderr().lock();
        let _ = write!(
            out,
            "\r\x1b[K{name} {bar} {done}/{} seeds, {says}, {left:.0} s left",
            self.total
        );
        let _ = out.flush();
    }

    /// Returns the wall time since the start, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.since.elapsed().as_secs_f64()
    }

    /// Clears the line.
    pub(super) fn end(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}
