//! The command line.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | every seed was judged and passed |
//! | 1 | an invariant, an assertion or another check failed |
//! | 2 | the command line or a scenario is wrong; nothing was run |
//! | 3 | something could not be judged, and nothing failed |

mod accuracy;
mod explain;
mod format;
mod hunt;
mod list;
mod one;
mod progress;
mod replay;
mod report;
mod run;
mod shrink;
mod table;
mod trace;

use crate::judge::Verdict;
use crate::library;
use crate::scenario::Scenario;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER_HELP: &str = "\
Examples:
  aliquot-sim list                               list the scenarios of the library
  aliquot-sim run leader-crash --seeds 0..64     run a scenario of the library
  aliquot-sim run mine.toml                      run a scenario of your own
  aliquot-sim replay mine.toml --seed 7          print all events, line by line
  aliquot-sim report mine.toml --seed 7          draw all events
  aliquot-sim shrink mine.toml --seed 7          find the smallest scenario that still fails
  aliquot-sim explain mine.toml --seed 7         show what led to a breach
  aliquot-sim hunt mine.toml --runs 1000         search for what comes closest to a breach

Exit codes:
  0  every seed was judged and passed
  1  an invariant, an assertion or another check failed
  2  the command line or a scenario is wrong; nothing was run
  3  something could not be judged, and nothing failed";

/// Simulate whole fleets of Aliquot, with faults and skewed clocks, and judge them.
#[derive(Debug, Parser)]
#[command(
    name = "aliquot-sim",
    version,
    styles = STYLES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = AFTER_HELP
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run seeds of scenarios and judge them
    Run(run::Args),
    /// Print the events of one seed, as JSON lines
    Replay(replay::Args),
    /// Print the hash of each seed's trace: the same in every process
    Trace(trace::Args),
    /// Show what led to a breach
    Explain(explain::Args),
    /// Shrink a failing seed: fewer faults, fewer clients, less time
    Shrink(shrink::Args),
    /// Search for the seed and the change that leave the least slack
    Hunt(hunt::Args),
    /// Draw a seed, as one HTML file that opens offline
    Report(report::Args),
    /// Run the published workloads and write docs/accuracy.md
    Accuracy(accuracy::Args),
    /// List the scenarios of the library
    List {
        /// Print the text of this scenario instead
        name: Option<String>,
    },
    /// Explain every key of a scenario file
    ExplainFormat,
    /// Judge one seed of a scenario that is read from standard input, and answer as JSON
    #[command(hide = true)]
    JudgeOne(one::Args),
    /// List the marks that an assertion may require
    Marks,
}

/// Reason for which a command ran nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usage(String);

impl Usage {
    fn new(said: impl Display) -> Self {
        Self(said.to_string())
    }
}

/// Parses the arguments, of which the first is the program's name, and runs the command.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // If this fails there is no other place to report it.
            drop(error.print());
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Hunt(args) => hunt::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Accuracy(args) => accuracy::run(&args),
        Command::List { name } => list::run(name.as_deref()),
        Command::ExplainFormat => Ok(say(&format::explained())),
        Command::JudgeOne(args) => one::run(&args),
        Command::Marks => Ok(say(&list::marks())),
    };
    match done {
        Ok(verdict) => ExitCode::from(match verdict {
            Verdict::Pass => 0,
            Verdict::Fail => 1,
            Verdict::Unknown => 3,
        }),
        Err(Usage(said)) => {
            warn(&said);
            ExitCode::from(2)
        }
    }
}

/// Prints to standard output. It is no error if the reader has closed the pipe.
fn say(text: &str) -> Verdict {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
    Verdict::Pass
}

/// Prints to standard error.
fn warn(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", text.trim_end());
}

/// Reads the scenario of that name in the library, or in that file.
fn scenario(name: &str) -> Result<Scenario, Usage> {
    let path = Path::new(name);
    let (named, text, beside) = match library::text(name) {
        Some(text) => (name.to_owned(), text.to_owned(), None),
        None if path
            .extension()
            .is_some_and(|extension| extension == "toml") =>
        {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Usage(format!("{name} cannot be read: {error}")))?;
            let stem = path
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned());
            (stem.unwrap_or_else(|| name.to_owned()), text, path.parent())
        }
        None => {
            let near = aliquot_budgets::nearest(name, library::names());
            let hint = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            return Err(Usage(format!(
                "there is no scenario {name:?}, and a file must end in .toml; `aliquot-sim list` lists all{hint}"
            )));
        }
    };
    Scenario::parse(&named, &text, beside).map_err(|problems| {
        let lines = problems.to_string().replace('\n', "\n  ");
        Usage(format!("{name} is wrong; nothing was run:\n  {lines}"))
    })
}
