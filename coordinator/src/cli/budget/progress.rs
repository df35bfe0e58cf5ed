//! Progress of a long operation, for the person at the terminal.

use super::super::Out;
use aliquot_client::Clock;
use aliquot_client::clock::{HostClock, Span, Tick};
use crossterm::terminal::{Clear, ClearType};
use serde_json::json;
use std::io::{IsTerminal, Write};

/// Shortest operation for which progress is shown.
const SOON: Span = Span::from_secs(1);

/// Interval between two updates of the bar, or between two lines if there is no terminal.
const BAR_EVERY: Span = Span::from_millis(100);
const LINE_EVERY: Span = Span::from_secs(3);

const BAR_CHARS: usize = 30;

/// Shows progress on standard error if an operation takes longer than a second.
pub(super) struct Progress {
    out: Out,
    is_terminal: bool,
    verb: &'static str,
    total: usize,
    begun: Tick,
    last_shown: Option<Tick>,
}

impl Progress {
    /// Begins an operation on `total` budgets; `verb` says what is done to each, such as "applied".
    pub(super) fn new(out: Out, verb: &'static str, total: usize) -> Self {
        Self {
            out,
            is_terminal: !out.json && std::io::stderr().is_terminal(),
            verb,
            total,
            begun: HostClock.now(),
            last_shown: None,
        }
    }

    /// Reports that `done` items are done.
    pub(super) fn step(&mut self, done: usize) {
        let now = HostClock.now();
        let every = if self.is_terminal {
            BAR_EVERY
        } else {
            LINE_EVERY
        };
        let is_due = self
            .last_shown
            .is_none_or(|last_shown| now.since(last_shown) >= every);
        if now.since(self.begun) < SOON || !is_due {
            return;
        }
        self.last_shown = Some(now);
        let Self { verb, total, .. } = *self;
        let mut err = std::io::stderr().lock();
        // If this fails there is no other place to report it.
        let _ = if self.is_terminal {
            let full = done * BAR_CHARS / total.max(1);
            let (bar, rest) = ("█".repeat(full), " ".repeat(BAR_CHARS.saturating_sub(full)));
            write!(err, "\r▕{bar}{rest}▏ {done} of {total} budgets {verb}")
                .and_then(|()| err.flush())
        } else if self.out.json {
            writeln!(err, "{}", json!({ "of": total, verb: done }))
        } else {
            writeln!(err, "{done} of {total} budgets {verb}")
        };
    }

    /// Clears the bar, to make room for other output.
    pub(super) fn end(&mut self) {
        if self.is_terminal && self.last_shown.take().is_some() {
            let _ = write!(std::io::stderr(), "\r{}", Clear(ClearType::CurrentLine));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
