//! `judge-one`: judges one seed in a process of its own, for [`crate::subprocess`].

use super::command::{Usage, say, warn};
use crate::judge::{Asked, Verdict, judge_watched, measure};
use crate::plan::Plan;
use crate::scenario::Scenario;
use crate::subprocess::{REACHED, written};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the scenario
    name: String,
    /// The seed
    #[arg(long)]
    seed: u64,
    /// Folder of the files that the scenario names
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Print the value of this figure, as JSON, instead of the verdict; FROM and TO in nanoseconds
    #[arg(long = "figure", value_name = "NAME:FROM:TO", value_parser = asked)]
    figures: Vec<Asked>,
    /// Print a line on standard error for each second of true time
    #[arg(long)]
    progress: bool,
}

fn asked(text: &str) -> Result<Asked, String> {
    let wrong = || format!("{text:?}: must be NAME:FROM:TO");
    let parts: Vec<&str> = text.split(':').collect();
    let [name, from, to] = parts[..] else {
        return Err(wrong());
    };
    Ok(Asked {
        name: name.to_owned(),
        from: from.parse().map_err(|_| wrong())?,
        to: to.parse().map_err(|_| wrong())?,
    })
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let text = std::io::read_to_string(std::io::stdin());
    let text =
        text.map_err(|error| Usage::new(format!("standard input cannot be read: {error}")))?;
    let scenario =
        Scenario::parse(&args.name, &text, args.beside.as_deref()).map_err(Usage::new)?;
    if !args.figures.is_empty() {
        let values = measure(&scenario, args.seed, &args.figures);
        say(&serde_json::json!(values).to_string());
        return Ok(Verdict::Pass);
    }
    let line = |now: u64| warn(&format!("{REACHED} {now}"));
    let reached = args.progress.then(|| Box::new(line) as Box<dyn Fn(u64)>);
    let plan = Plan::draw(&scenario, args.seed);
    let result = judge_watched(plan, &scenario.asserts, true, reached);
    say(&written(&result).to_string());
    Ok(result.verdict)
}
