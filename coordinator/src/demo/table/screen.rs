//! The output of a run.

use super::View;
use crate::terminal::lines;
use crossterm::QueueableCommand;
use crossterm::cursor::MoveToPreviousLine;
use crossterm::terminal::{Clear, ClearType};
use std::io::{self, Write};

/// Kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A terminal: the table is redrawn in place.
    Terminal {
        /// Number of columns.
        columns: u16,
        /// Number of rows.
        rows: u16,
    },
    /// Any other output: lines are only added.
    Lines,
}

/// Output of a run.
pub struct Screen {
    out: Box<dyn Write + Send>,
    device: Device,
    /// Number of lines of the last table, which will be overwritten.
    drawn: u16,
    /// Number of events that were written as lines.
    printed: usize,
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen")
            .field("device", &self.device)
            .field("drawn", &self.drawn)
            .finish_non_exhaustive()
    }
}

impl Screen {
    /// Creates an output to `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, device: Device) -> Self {
        Self {
            out,
            device,
            drawn: 0,
            printed: 0,
        }
    }

    /// Writes text that stays.
    pub fn print_line(&mut self, text: &str) {
        self.drawn = 0;
        // Errors are ignored: without an output there is still a verdict.
        let _ = writeln!(self.out, "{}", text.trim_end());
        let _ = self.out.flush();
    }

    /// Shows progress. On a terminal it overwrites what was shown before.
    pub fn progress(&mut self, text: &str) {
        if let Device::Terminal { .. } = self.device {
            let _ = self.over(text);
        }
    }

    /// Shows the run: a table on a terminal, or else a line and the new events.
    pub fn show(&mut self, view: &View) {
        if let Device::Terminal { .. } = self.device {
            let _ = self.over(&view.table());
            return;
        }
        for (_, event) in view.events.iter().skip(self.printed) {
            let _ = writeln!(self.out, "{event}");
        }
        self.printed = view.events.len();
        let _ = writeln!(self.out, "{}", view.headline());
        let _ = self.out.flush();
    }

    /// Returns the interval at which views should be shown.
    #[must_use]
    pub fn every_ms(&self) -> u64 {
        match self.device {
            Device::Terminal { .. } => 250,
            Device::Lines => 2_000,
        }
    }

    fn over(&mut self, text: &str) -> io::Result<()> {
        let Device::Terminal { columns, rows } = self.device else {
            return Ok(());
        };
        if self.drawn > 0 {
            self.out.queue(MoveToPreviousLine(self.drawn))?;
        }
        self.out.queue(Clear(ClearType::FromCursorDown))?;
        self.drawn = 0;
        for line in lines(text, columns, rows) {
            writeln!(self.out, "{line}")?;
            self.drawn = self.drawn.saturating_add(1);
        }
        self.out.flush()
    }
}
