//! Progress of a run on standard error: a line that is redrawn on a terminal, otherwise a line every five seconds.
//! Runs that take less get none.

use crate::runner::Reached;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A progress line that is redrawn as seeds go on and end. Clones show the same run.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Line>);

#[derive(Debug)]
struct Line {
    name: String,
    total: u64,
    done: AtomicU64,
    failed: AtomicU64,
    since: Instant,
    is_terminal: bool,
    /// Milliseconds since the start at which the latest line was written.
    last_shown: AtomicU64,
    /// The latest text, after the number of seeds.
    says: Mutex<String>,
}

/// Interval between two lines where they are not redrawn, in milliseconds.
const EVERY: u64 = 5_000;

/// The same where they are redrawn. The first line is written after this time, too.
const REDRAWN_EVERY: u64 = 500;

impl Progress {
    #[expect(
        clippy::disallowed_methods,
        reason = "how long it still takes is for people; no verdict reads it"
    )]
    pub(super) fn new(name: &str, total: u64) -> Self {
        Self(Arc::new(Line {
            name: name.to_owned(),
            total,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            since: Instant::now(),
            is_terminal: std::io::stderr().is_terminal(),
            last_shown: AtomicU64::new(0),
            says: Mutex::default(),
        }))
    }

    /// Counts one more seed as done, and shows the number of failures.
    pub(super) fn step(&self, failed: bool) {
        let line = &self.0;
        let done = line.done.fetch_add(1, Ordering::Relaxed) + 1;
        let failed = u64::from(failed);
        let failed = line.failed.fetch_add(failed, Ordering::Relaxed) + failed;
        self.reach(done, &format!("{failed} failed"));
    }

    /// Shows that `done` seeds are done, with a text.
    pub(super) fn reach(&self, done: u64, says: &str) {
        self.0.done.store(done, Ordering::Relaxed);
        says.clone_into(&mut self.0.says.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.show("");
    }

    /// Returns a function that shows how far a seed is, whose safety phase takes `duration` nanoseconds.
    pub(super) fn reached(&self, duration: u64) -> Reached {
        let line = Arc::clone(&self.0);
        Arc::new(move |seed, now| line.show(&within(seed, now, duration)))
    }

    /// Does the same for one seed.
    pub(super) fn of_seed(&self, seed: u64, duration: u64) -> Box<dyn Fn(u64)> {
        let reached = self.reached(duration);
        Box::new(move |now| reached(seed, now))
    }

    /// Returns the wall time since the start, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.0.since.elapsed().as_secs_f64()
    }

    /// Clears the line.
    pub(super) fn end(&self) {
        if self.0.is_terminal {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Says how far a seed is.
fn within(seed: u64, now: u64, duration: u64) -> String {
    const SEC: u64 = 1_000_000_000;
    let (now, end) = (now / SEC, duration.div_ceil(SEC));
    match now <= end {
        true => format!(", seed {seed} at {now} of {end} s simulated"),
        false => format!(", seed {seed} at {now} s simulated, healing"),
    }
}

impl Line {
    /// Writes the line if it is time to, with how far a seed is.
    fn show(&self, within: &str) {
        let now = self.since.elapsed().as_millis() as u64;
        let last_shown = self.last_shown.load(Ordering::Relaxed);
        let every = if self.is_terminal {
            REDRAWN_EVERY
        } else {
            EVERY
        };
        if now < last_shown + every {
            return;
        }
        // Of several threads, one writes the line.
        let relaxed = Ordering::Relaxed;
        let swapped = self
            .last_shown
            .compare_exchange(last_shown, now, relaxed, relaxed);
        if swapped.is_err() {
            return;
        }
        let (name, total, done) = (&self.name, self.total, self.done.load(relaxed));
        let left = match done {
            0 => String::new(),
            _ => format!(", {:.0} s left", self.left(now, done)),
        };
        let says = self.says.lock().unwrap_or_else(PoisonError::into_inner);
        let says = match says.as_str() {
            "" => String::new(),
            says => format!(", {says}"),
        };
        let mut out = std::io::stderr().lock();
        let _ = match self.is_terminal {
            true => {
                let bar = bar(done, total);
                write!(
                    out,
                    "\r\x1b[K{name} {bar} {done}/{total} seeds{says}{within}{left}"
                )
            }
            false => writeln!(out, "{name}: {done}/{total} seeds{says}{within}{left}"),
        };
        let _ = out.flush();
    }

    /// Estimates the seconds that the rest takes.
    fn left(&self, now: u64, done: u64) -> f64 {
        let rest = self.total.saturating_sub(done);
        now as f64 / 1e3 / done.max(1) as f64 * rest as f64
    }
}

fn bar(done: u64, total: u64) -> String {
    const WIDTH: u64 = 24;
    let full = done.saturating_mul(WIDTH) / total.max(1);
    let cell = |n: u64| if n < full { '█' } else { '·' };
    (0..WIDTH).map(cell).collect()
}

#[cfg(test)]
#[path = "../../tests/unit/cli/progress.rs"]
mod tests;
