//! The summary table, and the same as JSON.

use crate::judge::Verdict;
use crate::mark::Mark;
use crate::runner::Summary;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

/// A column: heading, and what stands there.
type Column = (&'static str, fn(&Summary) -> String);

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

fn per_cent(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{:.1}%", 100.0 * value))
}

const COLUMNS: &[Column] = &[
    ("scenario", |of| of.name.clone()),
    ("verdict", |of| of.verdict().word().to_owned()),
    ("seeds", |of| of.seeds.len().to_string()),
    ("slack", |of| number(of.least("slack"), 2)),
    ("over", |of| number(of.most("excess"), 2)),
    ("used", |of| per_cent(of.median("utilisation"))),
    ("lost", |of| per_cent(of.median("loss_against_ideal"))),
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

/// What the columns mean.
pub(super) const LEGEND: &str = "\
slack: tokens under the envelope in the worst window of all seeds; over: tokens above it; used: of the limit; lost: against one
ideal bucket; Jain, off: fairness of clients' parts, and the worst distance from a max-min share, of the limit; settled: seconds
until within 2 % of the ideal; healed: seconds after the last fault, at most; msg/s, B/s: per coordinator node; medians unless said";

/// The table of all scenarios.
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

/// What did not hold, and what could not be judged: a line each, the first few.
pub(super) fn troubles(summary: &Summary) -> String {
    const SHOWN: usize = 8;
    let mut lines = Vec::new();
    for seed in &summary.seeds {
        let said = seed.failures.iter().chain(&seed.doubts);
        lines.extend(said.map(|said| format!("{} seed {}: {said}", summary.name, seed.seed)));
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

/// Everything, for programs.
pub(super) fn as_json(summary: &Summary) -> Value {
    let seeds = summary.seeds.iter().map(|seed| {
        json!({
            "seed": seed.seed,
            "verdict": seed.verdict.word().to_lowercase(),
            "failures": seed.failures,
            "doubts": seed.doubts,
            "broke": seed.broke,
            "figures": seed.figures,
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

/// The worst verdict of all.
pub(super) fn worst(summaries: &[Summary]) -> Verdict {
    summaries
        .iter()
        .map(Summary::verdict)
        .max()
        .unwrap_or(Verdict::Pass)
}
