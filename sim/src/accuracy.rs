//! Measures Aliquot on published workloads, and writes `docs/accuracy.md`.
//!
//! Each figure is the worst over the row's seeds. A row that misses its goal is printed as falling short,
//! with the reason, and fails nothing. Figures that must not get worse are asserted by the scenarios.

mod rows;
mod table;
mod text;

use crate::figure::{Figures, Window};
use crate::judge::Asked;
use crate::library;
use crate::plan::Plan;
use crate::scenario::{Scenario, Tier};
use crate::subprocess;
use crate::tier::{self, Observe};
use std::sync::atomic::{AtomicUsize, Ordering};
use table::{Column, Goal, Look, Results, Row, Table, Unit};

/// Iterates over all rows, each with its table.
fn all_rows() -> impl Iterator<Item = (&'static Table, &'static Row)> {
    let of = |table: &'static Table| table.rows.iter().map(move |row| (table, row));
    rows::TABLES.iter().flat_map(of)
}

/// Returns the number of seeds to run, over all rows.
#[must_use]
pub fn seeds() -> u64 {
    all_rows().map(|(table, _)| table.seeds).sum()
}

/// Runs all seeds on `jobs` threads and returns the document. Calls `done` after each seed.
///
/// # Panics
///
/// If a scenario of the library is missing or invalid, or a seed panics.
#[must_use]
pub fn measure(jobs: usize, done: &(dyn Fn() + Sync)) -> String {
    let rows: Vec<(&Table, &Row)> = all_rows().collect();
    // Longest first, so that no thread ends with a long run while the others are idle.
    let mut work: Vec<(usize, u64)> = (0..rows.len())
        .flat_map(|row| (0..rows[row].0.seeds).map(move |seed| (row, seed)))
        .collect();
    let length = |&(row, _): &(usize, u64)| scenario(rows[row].1.scenario).run.duration;
    work.sort_by_key(|item| std::cmp::Reverse(length(item)));
    let next = AtomicUsize::new(0);
    let live = || {
        let mut all = Vec::new();
        while let Some(&(row, seed)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
            all.push((row, figures_of(rows[row].0, rows[row].1, seed)));
            done();
        }
        all
    };
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..jobs.max(1)).map(|_| scope.spawn(live)).collect();
        let mut all = live();
        for thread in threads {
            match thread.join() {
                Ok(more) => all.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    let mut results = Results::new();
    for (row, values) in all {
        let (table, row) = rows[row];
        match results.get_mut(row.scenario) {
            None => drop(results.insert(row.scenario, values)),
            Some(worst) => {
                for ((worst, value), look) in worst.iter_mut().zip(values).zip(table.windows(row)) {
                    *worst = worse(look.goal, *worst, value);
                }
            }
        }
    }
    text::document(&results)
}

fn scenario(name: &str) -> Scenario {
    let text = library::text(name).unwrap_or_else(|| panic!("{name} is not in the library"));
    Scenario::parse(name, text, None).unwrap_or_else(|problems| panic!("{name}: {problems}"))
}

fn figures_of(table: &Table, row: &Row, seed: u64) -> Vec<Option<f64>> {
    let plan = Plan::draw(&scenario(row.scenario), seed);
    let drawn = plan.scenario.clone();
    let observe = Observe {
        tracer: None,
        bytes: true,
        reached: None,
    };
    let result = tier::live(plan, observe);
    let figures = Figures {
        scenario: &drawn,
        result: &result,
    };
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let end = |look: Look| look.to.map_or(drawn.run.duration, nanos);
    let value = |(column, look): (&Column, Look)| {
        let window = Window {
            from: nanos(look.from),
            to: end(look),
            group: None,
            key: None,
        };
        let value = figures.figure(column.name, window)?;
        Some(match column.unit {
            Unit::PerClient => value * drawn.topology.nodes as f64 / drawn.clients_count() as f64,
            _ => value,
        })
    };
    let mut values: Vec<Option<f64>> = table
        .columns
        .iter()
        .zip(table.windows(row))
        .map(value)
        .collect();
    if let (true, Some(column), Some(look)) =
        (table.real, table.columns.first(), table.windows(row).next())
    {
        let asked = Asked {
            name: column.name.to_owned(),
            from: nanos(look.from),
            to: end(look),
        };
        let real = scenario(row.scenario).on(Tier::Network);
        let real = real.map(|real| subprocess::measure(&real, seed, &[asked]));
        values.extend(real.unwrap_or_else(|_| vec![None]));
    }
    values
}

/// Returns the worse of two values with respect to the goal. A missing value is worse than any other.
fn worse(goal: Goal, one: Option<f64>, other: Option<f64>) -> Option<f64> {
    let (one, other) = (one?, other?);
    Some(match goal {
        Goal::AtLeast(_) => one.min(other),
        Goal::AtMost(_) | Goal::Reported => one.max(other),
    })
}

#[cfg(test)]
#[path = "../tests/unit/accuracy.rs"]
mod tests;
