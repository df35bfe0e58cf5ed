//! The summary of a run, as a table and as JSON.

use crate::judge::{KeyFigures, Verdict};
use crate::mark::Mark;
use crate::runner::Summary;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// A column: its heading, and a function that returns its text.
type Column = (&'static str, fn(&Summary) -> String);

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

fn per_cent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{:.1}%", 100.0 * value))
}

/// Formats the median over the seeds, and the worst value with its seed if there are several.
fn with_worst(of: &Summary, name: &str, greatest: bool) -> String {
    let median = per_cent(of.median(name));
    match of.worst(name, greatest) {
        Some((worst, seed)) if of.seeds.len() > 1 => {
            format!("{median}, {} #{seed}", per_cent(Some(worst)))
        }
        _ => median,
    }
}

const COLUMNS: &[Column] = &[
    ("scenario", |of| of.name.clone()),
    ("verdict", |of| of.verdict().word().to_owned()),
    ("seeds", |of| of.seeds.len().to_string()),
    ("slack", |of| number(of.least("slack"), 2)),
    ("over", |of| number(of.most("excess"), 2)),
    ("kept", |of| with_worst(of, "availability", false)),
    ("used", |of| with_worst(of, "utilisation", false)),
    ("lost", |of| with_worst(of, "loss_against_ideal", true)),
    ("Jain", |of| number(of.median("jain"), 3)),
    ("off", |of| per_cent(of.median("deviation"))),
    ("settled", |of| number(of.median("settled"), 1)),
    ("healed", |of| number(of.most("recovery"), 1)),
    ("msg/s", |of| number(of.median("messages"), 0)),
    ("B/s", |of| number(of.median("bytes"), 0)),
    ("log/s", |of| number(of.median("entries"), 1)),
    ("marks", |of| of.marks.hit_count().to_string()),
    ("faults", |of| number(of.median("faults"), 0)),
];

/// Explains the columns.
pub(super) const LEGEND: &str = "\
slack: tokens below the envelope in the worst window of all seeds; over: tokens above it; kept: part of what one limiter that sees
every request would use that was used, in the worst window without faults; used: part of the limit that was used; lost: loss
against one such limiter; all three of the key that is worst, as the median and as the worst seed with its number; Jain: fairness of the clients' parts; off: worst distance from a max-min share, as a part of
the limit; settled: seconds until within 2 % of the ideal; healed: longest recovery after the last fault, in seconds; msg/s, B/s:
per coordinator node. Medians over the seeds, except slack, over and healed";

/// Returns the headings of all columns but the scenario's name.
pub(super) fn headings() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().skip(1).map(|(heading, _)| *heading)
}

/// Returns the texts of these columns.
pub(super) fn cells(summary: &Summary) -> impl Iterator<Item = String> {
    COLUMNS.iter().skip(1).map(|(_, of)| of(summary))
}

/// Formats the table of all scenarios.
pub(super) fn table(summaries: &[Summary]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(COLUMNS.iter().map(|(heading, _)| *heading));
    for summary in summaries {
        table.add_row(COLUMNS.iter().map(|(_, of)| of(summary)));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Formats the first failures and doubts, one per line.
pub(super) fn troubles(summary: &Summary) -> String {
    const SHOWN: usize = 8;
    let mut lines = Vec::new();
    for seed in &summary.seeds {
        let problem = seed.failures.iter().chain(&seed.doubts);
        lines.extend(
            problem.map(|problem| format!("{} seed {}: {problem}", summary.name, seed.seed)),
        );
    }
    let more = lines.len().saturating_sub(SHOWN);
    lines.truncate(SHOWN);
    if more > 0 {
        lines.push(format!("{}: and {more} more", summary.name));
    }
    lines.extend(
        summary
            .missed
            .iter()
            .map(|missed| format!("{}: {missed}", summary.name)),
    );
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns the summary as JSON, for programs.
pub(super) fn as_json(summary: &Summary) -> Value {
    let seeds = summary.seeds.iter().map(|seed| {
        json!({
            "seed": seed.seed,
            "verdict": seed.verdict.word().to_lowercase(),
            "failures": seed.failures,
            "doubts": seed.doubts,
            "broke": seed.broke,
            "figures": seed.figures,
            "keys": seed.keys.iter().map(KeyFigures::to_json).collect::<Vec<_>>(),
            "events": seed.events,
        })
    });
    let marks = Mark::ALL
        .iter()
        .map(|mark| (mark.name().to_owned(), json!(summary.marks.count(*mark))));
    json!({
        "scenario": summary.name,
        "says": summary.says,
        "verdict": summary.verdict().word().to_lowercase(),
        "missed": summary.missed,
        "marks": marks.collect::<serde_json::Map<_, _>>(),
        "seeds": seeds.collect::<Vec<_>>(),
    })
}

/// Returns the worst verdict of all scenarios.
pub(super) fn worst(summaries: &[Summary]) -> Verdict {
    summaries
        .iter()
        .map(Summary::verdict)
        .max()
        .unwrap_or(Verdict::Pass)
}

#[cfg(test)]
#[path = "../../tests/unit/cli/table.rs"]
mod tests;
