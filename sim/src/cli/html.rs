//! `run --html`: draws all seeds as one page, and the worst of them as pages of their own.

use super::command::Usage;
use super::progress::Progress;
use crate::drawing::{self, Page, Seeds};
use crate::plan::Plan;
use crate::runner::Summary;
use crate::scenario::{Scenario, Tier};
use crate::tier::{self, Observe};
use std::path::Path;
use std::process::Command;

/// Writes the page of all seeds to `file`, and those of the worst seeds beside it. Each scenario has the name by which
/// the command line names it.
pub(super) fn write(
    file: &Path,
    scenarios: &[(&str, &Scenario)],
    summaries: &[Summary],
) -> Result<(), Usage> {
    let mut all = Vec::new();
    for ((name, scenario), summary) in scenarios.iter().zip(summaries) {
        let seeds = drawing::worst(summary);
        let progress = Progress::new(&format!("{name}, drawn"), seeds.len() as u64);
        let mut worst = Vec::new();
        for seed in seeds {
            let own = own_file(file, &scenario.name, seed);
            let html = draw(name, scenario, seed, &file.with_file_name(&own), &progress)?;
            worst.push(Page {
                seed,
                file: own,
                events: drawing::events_of(&html).unwrap_or_default().to_owned(),
            });
            progress.step(false);
        }
        progress.end();
        all.push(Seeds { summary, worst });
    }
    save(file, &drawing::seeds(&all))
}

fn save(file: &Path, html: &str) -> Result<(), Usage> {
    let wrong = |error| Usage(format!("{} cannot be written: {error}", file.display()));
    std::fs::write(file, html).map_err(wrong)
}

/// Returns the name of the page of one seed.
fn own_file(file: &Path, scenario: &str, seed: u64) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    format!("{stem}-{}-{seed}.html", scenario.replace('/', "-"))
}

/// Runs a seed again, and writes its page. Simulations of the network tier need a process each.
fn draw(
    name: &str,
    scenario: &Scenario,
    seed: u64,
    own: &Path,
    progress: &Progress,
) -> Result<String, Usage> {
    if scenario.run.tier == Tier::Network {
        return drawn_elsewhere(name, seed, own);
    }
    let plan = Plan::draw(scenario, seed);
    let observe = Observe {
        reached: Some(progress.of_seed(seed, scenario.run.duration)),
        tracer: None,
        bytes: true,
    };
    let result = tier::live(plan.clone(), observe);
    let html = drawing::html(scenario, &plan, &result);
    save(own, &html)?;
    Ok(html)
}

fn drawn_elsewhere(name: &str, seed: u64, own: &Path) -> Result<String, Usage> {
    let wrong = |error: std::io::Error| Usage(format!("seed {seed} cannot be drawn: {error}"));
    let program = std::env::current_exe().map_err(wrong)?;
    let mut report = Command::new(program);
    report.args(["report", name, "--seed", &seed.to_string(), "--out"]);
    let output = report.arg(own).output().map_err(wrong)?;
    std::fs::read_to_string(own).map_err(|_| {
        let message = String::from_utf8_lossy(&output.stderr);
        Usage(format!("seed {seed} cannot be drawn: {}", message.trim()))
    })
}

#[cfg(test)]
#[path = "../../tests/unit/cli/html.rs"]
mod tests;
