//! The command line.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | every seed was judged and passed |
//! | 1 | an invariant, an assertion or another check failed |
//! | 2 | the command line or a scenario is wrong; nothing was run |
//! | 3 | something could not be judged, and nothing failed |

mod accuracy;
mod command;
mod explain;
mod format;
mod html;
mod hunt;
mod list;
mod one;
#[cfg(feature = "network")]
mod plan;
mod progress;
mod replay;
mod report;
mod run;
mod shrink;
mod sweep;
mod table;
#[cfg(feature = "network")]
mod tiers;
mod trace;

use crate::judge::Verdict;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};
use command::{Usage, say, warn};
use std::ffi::OsString;
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
  aliquot-sim sweep mine.toml --set clients.count=10,100 --seeds 0..4
                                                 run it with each of these settings
  aliquot-sim replay mine.toml --seed 7          print events, line by line
  aliquot-sim report mine.toml --seed 7          draw a seed
  aliquot-sim run mine.toml --html all.html      draw all seeds, and the worst by themselves
  aliquot-sim shrink mine.toml --seed 7          find the smallest scenario that still fails
  aliquot-sim explain mine.toml --seed 7         show what led to a breach
  aliquot-sim hunt mine.toml --runs 1000         search for what comes closest to a breach
  aliquot-sim hunt mine.toml --for lost          search for the greatest unused part of a limit
  aliquot-sim plan access.log --refuse 0.1%      find limits that fit the requests in a log
  aliquot-sim tiers calm leader-crash            compare the two tiers

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
    /// Run a scenario with every combination of the values of some settings
    Sweep(sweep::Args),
    /// Print the events of one seed, as JSON lines
    Replay(replay::Args),
    /// Print the hash of each seed's trace, which is the same in every process
    Trace(trace::Args),
    /// Show what led to a breach
    Explain(explain::Args),
    /// Shrink a failing seed: fewer faults, fewer clients, less time
    Shrink(shrink::Args),
    /// Search for the seed and the changes with the least slack, the greatest loss, or the longest recovery
    Hunt(hunt::Args),
    /// Draw a seed, as one HTML file that opens offline
    Report(report::Args),
    /// Choose limits that fit the requests in a log, and write them as budgets
    #[cfg(feature = "network")]
    Plan(plan::Args),
    /// Run scenarios on both tiers, and compare what they use and lose
    #[cfg(feature = "network")]
    Tiers(tiers::Args),
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
        Command::Sweep(args) => sweep::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Shrink(args) => shrink::run(&args),
        Command::Hunt(args) => hunt::run(&args),
        Command::Report(args) => report::run(&args),
        #[cfg(feature = "network")]
        Command::Plan(args) => plan::run(&args),
        #[cfg(feature = "network")]
        Command::Tiers(args) => tiers::run(&args),
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
        Err(Usage(message)) => {
            warn(&message);
            ExitCode::from(2)
        }
    }
}
