//! Formats a watch as text.

use super::{ComponentStatus, Line, Watch};
use std::fmt;

impl fmt::Display for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lines, components) = (self.lines(), self.components());
        if components.is_empty() || !lines.is_empty() {
            table(f, Line::HEADS, lines.iter().map(Line::cells).collect())?;
        }
        if components.is_empty() {
            return Ok(());
        }
        if !lines.is_empty() {
            writeln!(f)?;
        }
        table(
            f,
            ComponentStatus::HEADS,
            components.iter().map(ComponentStatus::cells).collect(),
        )
    }
}

fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    heads: [&str; N],
    rows: Vec<[String; N]>,
) -> fmt::Result {
    let width = |at: usize| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        cells.max().unwrap_or(0).max(heads[at].len())
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut write = |cells: &[String; N]| {
        let cells = cells.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    write(&heads.map(str::to_owned))?;
    rows.iter().try_for_each(write)
}

impl Line {
    const HEADS: [&str; 10] = [
        "NAME", "KEY", "MODE", "STATE", "RATE", "BURST", "LEVEL", "ADMITTED", "REFUSED", "WAITING",
    ];

    fn cells(&self) -> [String; 10] {
        let held = &self.held;
        [
            self.name.to_string(),
            self.key.to_string(),
            self.mode.to_string(),
            format!("{:?}", held.state),
            held.rate.to_string(),
            held.burst.to_string(),
            held.level.to_string(),
            self.admitted.to_string(),
            self.refused.to_string(),
            self.waiting.to_string(),
        ]
    }
}
