//! Display during a run: a table redrawn in place on a terminal, or else occasional lines.

mod screen;

pub use screen::{Device, Screen};

use super::cluster::ClusterStatus;
use super::service::Status;
use aliquot_core::unit::Span;
use std::fmt::Write;

/// State of a run that is shown at one instant.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Time since the start of the load.
    pub elapsed: Span,
    /// Duration of the load.
    pub duration: Span,
    /// Tokens per second of the shared key, or 0 for a replay, which has none.
    pub limit: f64,
    /// Requests per second sent since the previous view.
    pub offered: f64,
    /// Requests per second admitted since the previous view, for the shared key if there is one.
    pub admitted: f64,
    /// State of the cluster.
    pub cluster: ClusterStatus,
    /// State of the services.
    pub rows: Vec<Row>,
    /// Events, with their times.
    pub events: Vec<(Span, String)>,
    /// True if the services ask faces, so that they hold no shares to show.
    pub faces: bool,
}

/// State of one service.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Name of the service.
    pub name: String,
    /// Its latest status, if it answers.
    pub status: Option<Status>,
    /// Admissions per second since the previous view, of all keys.
    pub admitted: f64,
    /// Refusals per second since the previous view, of all keys.
    pub refused: f64,
}

/// Maximum number of events that are shown.
const EVENTS_SHOWN: usize = 6;

/// Width of the bar in characters.
const BAR: usize = 40;

/// Heads of the columns of services with the embedded client.
const HEAD: &[&str] = &[
    "service",
    "admitted/s",
    "refused/s",
    "share/s",
    "demand/s",
    "level",
    "lease",
    "node",
];

/// Heads of the columns of services that ask faces.
const HEAD_FACES: &[&str] = &["service", "admitted/s", "refused/s", "failed calls", "face"];

impl View {
    /// Returns the table, of many lines.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("{}\n{}\n\n", self.headline(), self.nodes());
        let head = if self.faces { HEAD_FACES } else { HEAD };
        let cells = self.rows.iter().map(|row| match self.faces {
            true => row.cells_of_faces(),
            false => row.cells(),
        });
        let head: Vec<String> = head.iter().copied().map(String::from).collect();
        let rows: Vec<Vec<String>> = std::iter::once(head.clone()).chain(cells).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Names are aligned left and numbers right. Writing to a string cannot fail.
                let _ = match index {
                    0 => write!(line, "{cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push('\n');
        let skipped = self.events.len().saturating_sub(EVENTS_SHOWN);
        for (at, event) in self.events.iter().skip(skipped) {
            let _ = writeln!(text, "{:>6.1} s  {event}", secs(*at));
        }
        text
    }

    /// Returns a summary in one line.
    #[must_use]
    pub fn headline(&self) -> String {
        let (elapsed, duration) = (secs(self.elapsed), secs(self.duration));
        let (offered, admitted) = (self.offered, self.admitted);
        if self.limit <= 0.0 {
            return format!(
                "{elapsed:>5.1} of {duration:.0} s  offered {offered:.0}/s  admitted {admitted:.0}/s"
            );
        }
        let bar = bar(admitted / self.limit);
        let limit = self.limit;
        format!(
            "{elapsed:>5.1} of {duration:.0} s  [{bar}] {admitted:.0} of {limit:.0}/s  offered {offered:.0}/s"
        )
    }

    fn nodes(&self) -> String {
        let cluster = &self.cluster;
        let nodes = (1..).zip(&cluster.nodes).map(|(number, node): (usize, _)| {
            let state = match node {
                _ if node.is_some() && cluster.leader == Some(number - 1) => "leads",
                Some(_) => "follows",
                None => "silent",
            };
            let sessions = node.map_or_else(String::new, |many| format!(", {many} sessions"));
            format!("node-{number} {state}{sessions}")
        });
        let nodes: Vec<String> = nodes.collect();
        format!("term {}: {}", cluster.term.get(), nodes.join(" | "))
    }
}

impl Row {
    /// Returns the cells below `HEAD_FACES`.
    fn cells_of_faces(&self) -> Vec<String> {
        let Some(status) = &self.status else {
            return self.silent(HEAD_FACES.len());
        };
        vec![
            self.name.clone(),
            format!("{:.0}", self.admitted),
            format!("{:.0}", self.refused),
            status.held.failed.unwrap_or(0).to_string(),
            status.held.node.clone().unwrap_or_else(|| "-".into()),
        ]
    }

    /// Returns the cells of a service that does not answer.
    fn silent(&self, columns: usize) -> Vec<String> {
        let mut cells = vec![String::new(); columns];
        cells[0] = self.name.clone();
        cells[columns - 1] = "silent".to_owned();
        cells
    }

    /// Returns the cells below `HEAD`.
    fn cells(&self) -> Vec<String> {
        let Some(status) = &self.status else {
            return self.silent(HEAD.len());
        };
        let held = &status.held;
        let number = |number: Option<f64>| number.map_or("-".into(), |n| format!("{n:.1}"));
        let lease = held
            .lease_ms
            .map(|ms| format!("{}.{} s", ms / 1_000, ms % 1_000 / 100));
        vec![
            self.name.clone(),
            format!("{:.0}", self.admitted),
            format!("{:.0}", self.refused),
            number(held.share),
            format!("{:.1}", self.admitted + self.refused),
            number(held.level),
            lease.unwrap_or_else(|| "-".into()),
            held.node.clone().unwrap_or_else(|| "-".into()),
        ]
    }
}

/// Draws a part of 1 as a bar. A value above 1 fills it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped to the bar's few characters"
)]
fn bar(part: f64) -> String {
    let filled = (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    format!(
        "{}{}",
        "#".repeat(filled),
        ".".repeat(BAR.saturating_sub(filled))
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with one digit after the point"
)]
fn secs(span: Span) -> f64 {
    span.nanos() as f64 / 1e9
}

#[cfg(test)]
#[path = "../../tests/unit/demo/table.rs"]
mod tests;
