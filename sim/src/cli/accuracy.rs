//! `accuracy`: measures the published workloads and writes the document about them.

use super::command::{Usage, say, warn};
use super::progress::Progress;
use crate::accuracy;
use crate::judge::Verdict;
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write nothing; fail if the document differs from what would be written
    #[arg(long)]
    check: bool,
    /// File of the document
    #[arg(long, default_value = "docs/accuracy.md")]
    out: PathBuf,
    /// Number of threads; by default one per processor
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
}

pub(super) fn run(args: &Args) -> Result<Verdict, Usage> {
    let path = args.out.display();
    let before = std::fs::read_to_string(&args.out);
    if let (true, Err(error)) = (args.check, &before) {
        return Err(Usage(format!("{path} cannot be read: {error}")));
    }
    let usual = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or(usual, NonZeroUsize::get);
    let progress = Progress::new("accuracy", accuracy::seeds());
    let text = accuracy::measure(jobs, &|| progress.step(false));
    progress.end();
    if !args.check {
        std::fs::write(&args.out, &text)
            .map_err(|error| Usage(format!("{path} cannot be written: {error}")))?;
        say(&text);
        return Ok(Verdict::Pass);
    }
    let before = before.unwrap_or_default();
    if before == text {
        say(&format!("{path} is up to date"));
        return Ok(Verdict::Pass);
    }
    let (mut old, mut new) = (before.lines(), text.lines());
    loop {
        match (old.next(), new.next()) {
            (None, None) => break,
            (is, would) if is == would => {}
            (is, would) => {
                let line = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
                warn(&format!("- {}\n+ {}", line(is), line(would)));
            }
        }
    }
    warn(&format!(
        "{path} is out of date: run `aliquot-sim accuracy`"
    ));
    Ok(Verdict::Fail)
}
