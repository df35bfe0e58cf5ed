//! `trace`: prints a hash of each seed's trace, to compare processes and machines.

use super::command::seeds;
use super::command::{Usage, say, scenario};
use crate::judge::Verdict;
use crate::plan::Plan;
use crate::tier::{self, Observe};
use crate::trace::Trace;
use std::ops::Range;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or the name of a scenario of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// Seeds, such as 0..80 (80 not included) or 7
    #[arg(long, value_parser = seeds)]
    seeds: Range<u64>,
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    for seed in args.seeds.clone() {
        let trace = Trace::default();
        let (plan, tracer) = (Plan::draw(&scenario, seed), Box::new(trace.clone()));
        let observe = Observe {
            tracer: Some(tracer),
            bytes: false,
            reached: None,
        };
        let result = tier::live(plan, observe);
        say(&format!(
            "{} seed {seed}: {} of {} trace events, {} events",
            scenario.name,
            trace.hash(),
            trace.events(),
            result.events,
        ));
    }
    Ok(Verdict::Pass)
}
