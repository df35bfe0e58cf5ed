//! `hunt`: searches for the seed and the changes with the worst figure.

use super::command::{Usage, say, scenario};
use super::progress::Progress;
use crate::hunt::{Best, Hunt, Objective, hunt};
use crate::judge::{Verdict, judge};
use crate::plan::write;
use crate::scenario::Scenario;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or the name of a scenario of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// Figure to search for: the least slack under the envelope, the most that is lost without faults, or the longest
    /// recovery after the last fault
    #[arg(long = "for", value_enum, default_value = "slack")]
    objective: For,
    /// Seed of the search; the same seed gives the same result
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Maximum number of runs to simulate
    #[arg(long, default_value_t = 400)]
    runs: usize,
    /// Number of threads; by default one per processor
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// File for the scenario that was found
    #[arg(long, default_value = "hunted.toml")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum For {
    Lost,
    Recovery,
    Slack,
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let usual = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let how = Hunt {
        objective: match args.objective {
            For::Lost => Objective::Lost,
            For::Recovery => Objective::Recovery,
            For::Slack => Objective::Slack,
        },
        seed: args.seed,
        runs: args.runs,
        jobs: args.jobs.map_or(usual, NonZeroUsize::get),
    };
    let progress = Progress::new(&scenario.name, args.runs as u64);
    let best = hunt(&scenario, how, &|runs, best| {
        progress.reach(runs as u64, &how.objective.format_value(best.value));
    });
    progress.end();
    let best = best.map_err(Usage)?;
    let text = write::plan(&scenario, &best.plan, false);
    let out = args.out.display();
    std::fs::write(&args.out, &text)
        .map_err(|error| Usage(format!("{out} cannot be written: {error}")))?;
    report(
        (args, how.objective),
        &best,
        &replayed(&text, best.plan.seed)?,
    )
}

/// Judges the text that was written, so that the printed result is that of the file.
fn replayed(text: &str, seed: u64) -> Result<crate::judge::SeedResult, Usage> {
    let written = Scenario::parse("hunted", text, None);
    let written = written.map_err(|problems| {
        Usage(format!(
            "the result cannot be written as a scenario: {problems}"
        ))
    })?;
    Ok(judge(&written, seed, false))
}

fn report(
    (args, objective): (&Args, Objective),
    best: &Best,
    again: &crate::judge::SeedResult,
) -> Result<Verdict, Usage> {
    let out = args.out.display();
    let figure = objective.of(again);
    let figure = figure.map_or_else(
        || "no figure".to_owned(),
        |value| objective.format_value(value),
    );
    say(&format!(
        "{out}: seed {}, {} changes, after {} runs; {figure}\n{}aliquot-sim run {out} --seeds {}",
        best.plan.seed,
        best.changes,
        best.runs,
        again
            .failures
            .iter()
            .map(|failure| format!("{failure}\n"))
            .collect::<String>(),
        best.plan.seed,
    ));
    Ok(again.verdict)
}
