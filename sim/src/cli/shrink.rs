//! `shrink`: finds the smallest scenario that still fails.

use super::command::{Usage, say, scenario, warn};
use crate::judge::Verdict;
use crate::shrink::shrink;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file that ends in .toml, or the name of a scenario of the library
    #[arg(value_name = "FILE|NAME")]
    scenario: String,
    /// The seed that fails
    #[arg(long)]
    seed: u64,
    /// File for the smaller scenario
    #[arg(long, default_value = "minimal.toml")]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let scenario = scenario(&args.scenario)?;
    let shrunk = shrink(&scenario, args.seed, &mut |step| warn(step)).map_err(Usage)?;
    std::fs::write(&args.out, &shrunk.text)
        .map_err(|error| Usage(format!("{} cannot be written: {error}", args.out.display())))?;
    let (before, after) = shrunk.duration;
    Ok(say(&format!(
        "{}: {} faults of {}, {} clients of {}, {:.1} s of {:.1} s, after {} runs\n{}\naliquot-sim replay {} --seed {}",
        args.out.display(),
        shrunk.faults.1,
        shrunk.faults.0,
        shrunk.clients.1,
        shrunk.clients.0,
        after as f64 / 1e9,
        before as f64 / 1e9,
        shrunk.runs,
        shrunk.failure,
        args.out.display(),
        args.seed,
    )))
}
