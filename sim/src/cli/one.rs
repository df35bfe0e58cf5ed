//! `judge-one`: judges one seed in a process of its own, for [`crate::subprocess`].

use super::command::{Usage, say};
use crate::judge::{Verdict, judge};
use crate::scenario::Scenario;
use crate::subprocess::written;
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
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let text = std::io::read_to_string(std::io::stdin());
    let text =
        text.map_err(|error| Usage::new(format!("standard input cannot be read: {error}")))?;
    let scenario =
        Scenario::parse(&args.name, &text, args.beside.as_deref()).map_err(Usage::new)?;
    let result = judge(&scenario, args.seed, true);
    say(&written(&result).to_string());
    Ok(result.verdict)
}
