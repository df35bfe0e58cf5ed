//! Where a run is shown.

use super::View;
use crossterm::QueueableCommand;
use crossterm::cursor::MoveToPreviousLine;
use crossterm::terminal::{Clear, ClearType};
use std::io::{self, Write};

/// What kind of thing a run is shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A terminal of so many columns and rows: the table is redrawn in place.
    Terminal {
        /// Its columns.
        columns: u16,
        /// Its rows.
        rows: u16,
    },
    /// Anything else: lines are only added.
    Lines,
}

/// A run as it is shown to somebody.
pub struct Screen {
    out: Box<dyn Write + Send>,
    device: Device,
    /// Lines of the last table, to be drawn over.
    drawn: u16,
    /// Events that were told in lines.
    told: usize,
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
    /// Shows a run on `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, device: Device) -> Self {
        Self {
            out,
            device,
            drawn: 0,
            told: 0,
        }
    }

    /// Adds text that stays.
    pub fn say(&mut self, text: &str) {
        self.drawn = 0;
        // Who does not read what is shown still gets a verdict.
        let _ = writeln!(self.out, "{}", text.trim_end());
        let _ = self.out.flush();
    }

    /// Shows how far something is: over what was shown before, on a terminal.
    pub fn progress(&mut self, text: &str) {
        if let Device::Terminal { .. } = self.device {
            let _ = self.over(text);
        }
    }

    /// Shows the run: a table on a terminal, a line and the new events elsewhere.
    pub fn show(&mut self, view: &View) {
        if let Device::Terminal { .. } = self.device {
            let _ = self.over(&view.table());
            return;
        }
        for (_, event) in view.events.iter().skip(self.told) {
            let _ = writeln!(self.out, "{event}");
        }
        self.told = view.events.len();
        let _ = writeln!(self.out, "{}", view.headline());
        let _ = self.out.flush();
    }

    /// How often a view is worth showing.
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
        // A line that wraps, or scrolls away, could not be drawn over.
        for line in text.lines().take(usize::from(rows.saturating_sub(1))) {
            let line: String = line.chars().take(usize::from(columns)).collect();
            writeln!(self.out, "{line}")?;
            self.drawn = self.drawn.saturating_add(1);
        }
        self.out.flush()
    }
}
