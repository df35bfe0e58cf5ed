//! The document as Markdown.

use super::rows::TABLES;
use super::table::{Column, Goal, Look, Results, Row, Table};
use std::fmt::Write;

const PREFACE: &str = "\
# Accuracy on published workloads

`aliquot-sim accuracy` writes this file, and `aliquot-sim accuracy --check` says whether it is up to date. Each row is a scenario of
[`sim/scenarios`](../sim/scenarios), with Aliquot's defaults; each figure is the **worst of its seeds** (0 and 1, or 0 alone of
the long ones). A figure in **bold** misses its goal; the reason is below the table. Published figures are those of the named sources,
measured on their own systems and settings. They show what was published, not what these systems do today.

- *used*: tokens that the fleet admitted, as a part of the tokens that the limit made in the window.
- *over*: number of whole seconds in which more than 1.01 times the limit was admitted. If the excess is 0, the surplus is saved burst.
- *unsaved*: number of these seconds that spent more than saved burst: more than one bucket had saved by then that was empty when the window began.
- *settled*: time after a change until the rate stays within 2 % of what one bucket that sees all requests admits. The rate is that of a second, which slides by 100 ms.
- *lost*: part of the tokens that this bucket would have admitted for the same requests and the fleet did not.
- *excess*: tokens above the envelope `(1 + ρ) · R · t + B` in the worst window of the whole run.
- *real code*: the first figure of the row, measured in the network tier: real nodes and clients run the same file in a simulated network.
- *messages*: messages per coordinator node and second. *log*: entries of the replicated log per second.
";

/// Renders all tables.
#[must_use]
pub(super) fn document(results: &Results) -> String {
    let mut text = PREFACE.to_owned();
    for table in TABLES {
        let _ = write!(text, "\n## {}\n\n{}\n\n", table.heading, table.says);
        rows_of(table, results, &mut text);
    }
    text
}

fn rows_of(table: &Table, results: &Results, text: &mut String) {
    let columns = table.columns.iter().map(|column| column.heading);
    let headings: Vec<&str> = columns.chain(table.real.then_some("real code")).collect();
    let columns = headings.join(" | ");
    let _ = writeln!(text, "| workload | published | {columns} |");
    let _ = writeln!(text, "|---|---|{}", "---|".repeat(headings.len()));
    let mut short = String::new();
    for row in table.rows {
        let values = results.get(row.scenario).map_or(&[][..], Vec::as_slice);
        let (cells, holds) = cells(table, row, values);
        let _ = writeln!(
            text,
            "| `{}`: {} | {} | {} |",
            row.scenario,
            row.says,
            row.published,
            cells.join(" | ")
        );
        if !holds {
            let why = match row.short {
                "" => "not explained yet.",
                why => why,
            };
            let _ = writeln!(short, "- `{}` falls short: {why}", row.scenario);
        } else if !row.short.is_empty() {
            let _ = writeln!(short, "- `{}`: {}", row.scenario, row.short);
        }
    }
    if !short.is_empty() {
        let _ = write!(text, "\n{short}");
    }
}

/// Renders the cells of a row. Returns true as well if all goals are reached.
fn cells(table: &Table, row: &Row, values: &[Option<f64>]) -> (Vec<String>, bool) {
    let mut all = true;
    let windows = table.all_columns().zip(table.windows(row)).zip(values);
    let cell = |((column, look), &value): ((&Column, Look), &Option<f64>)| {
        // The network tier refuses some faults, so that it has no figure of these rows.
        let goal = match value {
            None if table.real => Goal::Reported,
            _ => look.goal,
        };
        let (written, holds) = goal.judge(column.unit, value);
        all &= holds;
        match holds {
            true => written,
            false => format!("**{written}**"),
        }
    };
    let cells = windows.map(cell).collect();
    (cells, all)
}
