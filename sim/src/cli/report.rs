//! `report`: draws a seed.

use super::command::{Usage, say, scenario};
use super::progress::Progress;
use crate::drawing;
use crate::figure::Figures;
use crate::judge::{Ruling, Verdict};
use crate::plan::Plan;
use crate::tier::{self, Observe};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or the name of a scenario of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// The seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File for the report
    #[arg(long, default_value = "report.html")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let plan = Plan::draw(&scenario, args.seed);
    let progress = Progress::new(&scenario.name, 1);
    let observe = Observe {
        reached: Some(progress.of_seed(args.seed, scenario.run.duration)),
        tracer: None,
        bytes: true,
    };
    let result = tier::live(plan.clone(), observe);
    progress.end();
    let html = drawing::html(&scenario, &plan, &result);
    std::fs::write(&args.out, html)
        .map_err(|error| Usage(format!("{} cannot be written: {error}", args.out.display())))?;
    say(&format!("{}", args.out.display()));
    let figures = Figures {
        scenario: &plan.scenario,
        result: &result,
    };
    let ruling = Ruling::of(&scenario.asserts, &figures, plan.heal());
    for reason in ruling.failures.iter().chain(&ruling.doubts) {
        say(reason);
    }
    Ok(ruling.verdict)
}
