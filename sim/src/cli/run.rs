//! `run`: runs seeds of scenarios and prints their verdicts.

use super::command::{Usage, say, scenario, seeds, warn};
use super::html;
use super::progress::Progress;
use super::table;
use crate::judge::{SeedResult, Verdict};
use crate::library;
use crate::mark::{Mark, Marks};
use crate::runner::{self, Summary};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Scenarios: files that end in .toml, names of the library, PREFIX/* or `all`; NAME@0..256 sets
    /// the seeds of one
    #[arg(required = true, value_name = "FILE|NAME")]
    scenarios: Vec<String>,
    /// Seeds, such as 0..256 (256 not included) or 7; by default those of each scenario
    #[arg(long, value_parser = seeds)]
    seeds: Option<Range<u64>>,
    /// Number of threads; by default one per processor
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Fail if all scenarios together hit fewer than this number of marks, and list the marks that were not hit
    #[arg(long, value_name = "N|all", value_parser = marks)]
    marks: Option<usize>,
    /// Draw all seeds as one HTML file that opens offline, and the worst as files beside it
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads the number of marks that must be hit.
fn marks(text: &str) -> Result<usize, String> {
    let all = Mark::ALL.len();
    let number = match text {
        "all" => Some(all),
        _ => text.parse().ok().filter(|number| *number <= all),
    };
    number.ok_or_else(|| format!("{text:?}: must be a number up to {all}, or all"))
}

/// Prints how many marks were hit. Returns true if at least `least` were.
fn marked(summaries: &[Summary], least: usize) -> bool {
    let mut marks = Marks::default();
    summaries.iter().for_each(|of| marks.add(&of.marks));
    let unhit: Vec<String> = marks
        .unhit()
        .map(|mark| format!("  {}: {}\n", mark.name(), mark.says()))
        .collect();
    let (hit, all) = (marks.hit_count(), Mark::ALL.len());
    let which = match unhit.is_empty() {
        true => String::new(),
        false => format!("; not hit:\n{}", unhit.concat()),
    };
    warn(&format!(
        "{hit} of {all} marks were hit; at least {least} are required{which}"
    ));
    hit >= least
}

/// Name of a scenario, and its seeds if they are given.
pub(super) type Wanted = (String, Option<Range<u64>>);

/// Expands patterns to names of scenarios, with their seeds if they are given.
pub(super) fn named(patterns: &[String]) -> Result<Vec<Wanted>, Usage> {
    let mut names = Vec::new();
    for pattern in patterns {
        let (pattern, own) = match pattern.rsplit_once('@') {
            Some((name, text)) => (name, Some(seeds(text).map_err(Usage)?)),
            None => (pattern.as_str(), None),
        };
        let with = |name: &str| (name.to_owned(), own.clone());
        let prefix = if pattern == "all" {
            Some("")
        } else {
            pattern.strip_suffix('*')
        };
        match prefix {
            Some(prefix) => names.extend(
                library::names()
                    .filter(|name| name.starts_with(prefix))
                    .map(with),
            ),
            None => names.push(with(pattern)),
        }
    }
    Ok(names)
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let names = named(&args.scenarios)?;
    if names.is_empty() {
        return Err(Usage::new(
            "no scenario matches this name; `aliquot-sim list` lists all scenarios",
        ));
    }
    let scenarios = names
        .iter()
        .map(|(name, own)| Ok((scenario(name)?, own.clone())))
        .collect::<Result<Vec<_>, Usage>>()?;
    let usual = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or(usual, NonZeroUsize::get);
    let mut summaries: Vec<Summary> = Vec::new();
    let (mut events, mut wall) = (0, 0.0);
    for (scenario, own) in &scenarios {
        let usual = scenario.run.seeds.0..scenario.run.seeds.1;
        let seeds = own.clone().or(args.seeds.clone()).unwrap_or(usual);
        let progress = Progress::new(&scenario.name, seeds.end - seeds.start);
        let done = |seed: &SeedResult| progress.step(seed.verdict == Verdict::Fail);
        let reached = progress.reached(scenario.run.duration);
        let summary = runner::run_watched(scenario, seeds, jobs, &done, &reached);
        progress.end();
        wall += progress.seconds();
        events += summary.events();
        warn_of(&summary);
        summaries.push(summary);
    }
    if let Some(file) = &args.html {
        let named = names.iter().map(|(name, _)| name.as_str());
        let scenarios = named.zip(scenarios.iter().map(|(scenario, _)| scenario));
        html::write(file, &scenarios.collect::<Vec<_>>(), &summaries)?;
    }
    if args.json {
        let all: Vec<_> = summaries.iter().map(table::as_json).collect();
        say(&serde_json::Value::Array(all).to_string());
    } else {
        say(&format!("{}\n{}", table::table(&summaries), table::LEGEND));
        say(&format!(
            "{} scenarios, {} seeds, {:.1} M events in {wall:.1} s ({:.2} M/s)",
            summaries.len(),
            summaries
                .iter()
                .map(|summary| summary.seeds.len())
                .sum::<usize>(),
            events as f64 / 1e6,
            events as f64 / 1e6 / wall.max(1e-9),
        ));
    }
    let enough = args.marks.is_none_or(|least| marked(&summaries, least));
    Ok(match enough {
        true => table::worst(&summaries),
        false => Verdict::Fail,
    })
}

fn warn_of(summary: &Summary) {
    let troubles = table::troubles(summary);
    if !troubles.is_empty() {
        warn(&troubles);
    }
}
